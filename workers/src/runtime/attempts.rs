//! Finds poison: jobs that crash their handler, however they do it.
//!
//! A crash cannot be counted by whoever crashes. So before a job that was received more than once runs, it runs alone
//! and a durable mark is written; a handler that returns, whatever it returns, takes the mark back. Marks that stay
//! are crashes. A first delivery pays nothing, and a job that only waited behind another is never charged.

use shared::archive::{Archive, ArchiveError, Guard, Item, ItemKey, Update, WriteOutcome};
use shared::queue::{MessageId, QueueRef};

const COUNT: &str = "attempts";

/// A mark, or that there are enough of them.
pub(super) enum Marked {
    /// The job may run; the mark is to be cleared when its handler returns.
    Run(Mark),
    /// The job has crashed its handler this often.
    Poison(u32),
}

/// Proof that a mark was written.
pub(super) struct Mark(Item);

/// Writes a mark for a job that is about to run alone.
pub(super) async fn mark(
    archive: &dyn Archive,
    queue: QueueRef,
    message: &MessageId,
    max_crashes: u32,
) -> Result<Marked, ArchiveError> {
    let key = ItemKey::new(format!("meta#attempts#{queue}"), message.to_string());
    let stored = archive.get(&key).await?;
    let crashes: u32 = stored.as_ref().and_then(|item| item.text(COUNT)?.parse().ok()).unwrap_or(0);
    if crashes >= max_crashes {
        return Ok(Marked::Poison(crashes));
    }
    let version = format!("{:06}", crashes + 1);
    let update =
        Update { guard: Guard::Greater { register: COUNT.into(), version }, ..Update::new(key.clone()) };
    let Some(attributes) = update.apply(stored.as_ref().map(|item| &item.attributes)) else {
        return Ok(Marked::Poison(crashes));
    };
    match archive.write(&update).await? {
        WriteOutcome::Applied => Ok(Marked::Run(Mark(Item { key, attributes }))),
        // Somebody else runs it: this lease is lost and the heartbeat will say so.
        WriteOutcome::Rejected(_) => {
            Err(ArchiveError::Unavailable("the job is being tried elsewhere".into()))
        }
    }
}

/// Takes a mark back: the handler returned. A failure to do so only makes the job look worse than it is.
pub(super) async fn clear(archive: &dyn Archive, mark: &Mark) -> Result<(), ArchiveError> {
    archive.delete_unchanged(&mark.0).await.map(drop)
}

/// Forgets a job that is in quarantine now.
pub(super) async fn forget(
    archive: &dyn Archive,
    queue: QueueRef,
    message: &MessageId,
) -> Result<(), ArchiveError> {
    let key = ItemKey::new(format!("meta#attempts#{queue}"), message.to_string());
    if let Some(item) = archive.get(&key).await? {
        archive.delete_unchanged(&item).await?;
    }
    Ok(())
}
