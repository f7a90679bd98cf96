//! Finds poison: jobs that crash their handler, however they do it.
//!
//! A crash cannot be counted by whoever crashes. So before a job that was received more than once runs, it runs alone
//! and a durable mark is written; a handler that returns, whatever it returns, takes the marks back. Marks that stay
//! are crashes. A first delivery pays nothing, and a job that only waited behind another is never charged.
//!
//! A lease may end early, and then the last mark is that of a handler still at work. So enough marks are not poison yet:
//! the job first waits until whoever had it has stopped and taken its mark back. The verdict itself is a conditional
//! write: it finds the marks as they were, or it is none, and from then on nobody takes a mark back.

use ports::archive::{Archive, ArchiveError, ArchiveExt, Guard, Item, ItemKey, Update, WriteOutcome};
use ports::queue::{MessageId, QueueRef};

const STANDING: &str = "attempts";

/// What is to be done with a job.
pub(super) enum Marked {
    /// It may run; the mark is to be cleared when its handler returns.
    Run(Mark),
    /// It has as many marks as poison has, but the last of them may be of a handler still at work.
    Wait,
    /// It has crashed its handler this often.
    Poison(u32),
}

/// Proof that a mark was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    key: ItemKey,
    number: u32,
}

/// How a job stands that was begun alone and has not come back since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// So many marks; whoever wrote the last may be at work.
    Tried(u32),
    /// So many marks, and nobody is at work.
    Crashed(u32),
    /// So many marks, and a verdict.
    Poison(u32),
}

impl Standing {
    /// What comes next where a job is received again.
    fn next(before: Option<Self>, max_crashes: u32) -> Self {
        match before {
            None => Self::Tried(1),
            Some(Self::Tried(marks)) if marks >= max_crashes => Self::Crashed(marks),
            Some(Self::Crashed(marks)) if marks >= max_crashes => Self::Poison(marks),
            Some(Self::Tried(marks) | Self::Crashed(marks)) => Self::Tried(marks + 1),
            Some(verdict @ Self::Poison(_)) => verdict,
        }
    }

    /// As it is stored.
    fn label(self) -> String {
        match self {
            Self::Tried(marks) => format!("{marks:06}"),
            Self::Crashed(marks) => format!("{marks:06} crashed"),
            Self::Poison(marks) => format!("{marks:06} poison"),
        }
    }

    fn from_label(label: &str) -> Option<Self> {
        match label.split_once(' ') {
            None => Some(Self::Tried(label.parse().ok()?)),
            Some((marks, "crashed")) => Some(Self::Crashed(marks.parse().ok()?)),
            Some((marks, "poison")) => Some(Self::Poison(marks.parse().ok()?)),
            Some(_) => None,
        }
    }

    fn item(self, key: &ItemKey) -> Item {
        let attributes = [(STANDING.to_owned(), self.label().into())].into_iter().collect();
        Item { key: key.clone(), attributes }
    }
}

/// Writes a mark for a job that is about to run alone.
pub(super) async fn mark(
    archive: &dyn Archive,
    queue: QueueRef,
    message: &MessageId,
    max_crashes: u32,
) -> Result<Marked, ArchiveError> {
    let key = key(queue, message);
    let stored = archive.get(&key).await?;
    let before = stored.as_ref().and_then(|item| Standing::from_label(item.text(STANDING)?));
    let after = Standing::next(before, max_crashes);
    if before != Some(after) && !step(archive, &key, before, after).await? {
        // Somebody else runs it: this lease is lost and the heartbeat will say so.
        return Err(ArchiveError::Unavailable("the job is being tried elsewhere".into()));
    }
    Ok(match after {
        Standing::Tried(number) => Marked::Run(Mark { key, number }),
        Standing::Crashed(_) => Marked::Wait,
        Standing::Poison(crashes) => Marked::Poison(crashes),
    })
}

/// The handler crashed and this process did not: nobody has to wait in order to know that it is no longer at work.
pub(super) async fn crashed(archive: &dyn Archive, mark: &Mark) -> Result<(), ArchiveError> {
    let (before, after) = (Standing::Tried(mark.number), Standing::Crashed(mark.number));
    step(archive, &mark.key, Some(before), after).await.map(drop)
}

/// Takes marks back: the handler returned, or was stopped. Those of somebody who came after it stay, and so does a
/// verdict.
pub(super) async fn clear(archive: &dyn Archive, mark: &Mark) -> Result<(), ArchiveError> {
    for standing in [Standing::Tried(mark.number), Standing::Crashed(mark.number)] {
        if archive.delete_unchanged(&standing.item(&mark.key)).await? {
            break;
        }
    }
    Ok(())
}

/// Forgets a job that is in quarantine now.
pub(super) async fn forget(
    archive: &dyn Archive,
    queue: QueueRef,
    message: &MessageId,
) -> Result<(), ArchiveError> {
    if let Some(item) = archive.get(&key(queue, message)).await? {
        archive.delete_unchanged(&item).await?;
    }
    Ok(())
}

fn key(queue: QueueRef, message: &MessageId) -> ItemKey {
    ItemKey::new(format!("meta#attempts#{queue}"), message.to_string())
}

/// One step of a job's standing; says whether it was still where it was read.
async fn step(
    archive: &dyn Archive,
    key: &ItemKey,
    before: Option<Standing>,
    after: Standing,
) -> Result<bool, ArchiveError> {
    let guard = Guard::Unchanged {
        register: STANDING.into(),
        expected: before.map(Standing::label),
        version: after.label(),
    };
    let update = Update { guard, ..Update::new(key.clone()) };
    Ok(archive.write(&update).await? == WriteOutcome::Applied)
}

#[cfg(test)]
mod tests {
    use super::Standing::{self, Crashed, Poison, Tried};

    #[test]
    fn enough_marks_are_poison_once_nobody_is_at_work() {
        let crash_of_the_process =
            [None, Some(Tried(1)), Some(Tried(2)), Some(Tried(3)), Some(Crashed(3)), Some(Poison(3))];
        for pair in crash_of_the_process.windows(2) {
            assert_eq!(Some(Standing::next(pair[0], 3)), pair[1], "{pair:?}");
        }
        // Whoever panicked and lived has said so: the job is tried again at once.
        assert_eq!(Standing::next(Some(Crashed(2)), 3), Tried(3));
        assert_eq!(Standing::next(Some(Poison(3)), 3), Poison(3));
    }

    #[test]
    fn a_standing_is_read_as_it_was_written() {
        for standing in [Tried(1), Crashed(3), Poison(1_000_000)] {
            assert_eq!(Standing::from_label(&standing.label()), Some(standing));
        }
        for other in ["", "x", "000001 ", "000001 done", "poison"] {
            assert_eq!(Standing::from_label(other), None, "{other:?}");
        }
    }
}
