//! Stores messages of history. Most messages of a page that is fetched again are already in the archive: they
//! are read first, and only changes are written. A conditional write that fails costs more than a read, and
//! on one machine a disk sync.

use std::borrow::Cow;
use std::collections::HashSet;

use ports::archive::item::EXPIRED;
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Update, WriteOutcome};
use rules::Change;
use rules::history::HistoryMessage;
use rules::message::{VersionPlan, plan, stored_version};
use rules::visibility::VisibilityEvidence;

use super::versions;
use crate::admission::marks::note_visibility;

/// The result of storing a message of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredAs {
    /// The archive already had it or a newer version, or it is erased.
    Unchanged,
    /// It has expired: a retention rule has removed it, or would.
    Expired,
    /// The archive had it, and a version, a reaction or its thread was added.
    Updated,
    /// It was not in the archive.
    New,
}

/// The pending writes of a message.
struct HistoryStep<'m> {
    message: &'m HistoryMessage,
    is_new: bool,
    has_expired: bool,
    revisions: Vec<Update>,
    row: Option<Cow<'m, Update>>,
}

/// Stores messages of history; returns one result per message, in their order. It may be repeated, even after
/// a crash between any two writes: revisions are written before the rows that no longer contain their
/// content.
pub async fn store_history(
    archive: &dyn Archive,
    messages: &[HistoryMessage],
) -> Vec<Result<StoredAs, ArchiveError>> {
    // Before the messages: what was written after a conversion must not be taken for public.
    let conversions: Vec<VisibilityEvidence> =
        messages.iter().filter_map(|message| message.visibility.clone()).collect();
    if let Err(error) = note_visibility(archive, &conversions).await {
        return vec![Err(error); messages.len()];
    }
    let mut outcomes: Vec<Option<Result<StoredAs, ArchiveError>>> = vec![None; messages.len()];
    let mut waiting: Vec<usize> = (0..messages.len()).collect();
    // A message that is listed twice is planned again once its first copy is written.
    while !waiting.is_empty() {
        let mut keys: HashSet<&ItemKey> = HashSet::with_capacity(waiting.len());
        let (round, later) =
            waiting.into_iter().partition(|index| keys.insert(messages[*index].change.key()));
        let round: Vec<usize> = round;
        let of_round: Vec<&HistoryMessage> = round.iter().map(|index| &messages[*index]).collect();
        for (index, outcome) in round.iter().zip(store_distinct(archive, &of_round).await) {
            outcomes[*index] = Some(outcome);
        }
        waiting = later;
    }
    let lost = || Err(ArchiveError::Unavailable("a write was not answered".into()));
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(lost)).collect()
}

async fn store_distinct(
    archive: &dyn Archive,
    messages: &[&HistoryMessage],
) -> Vec<Result<StoredAs, ArchiveError>> {
    let keys: Vec<&ItemKey> = messages.iter().map(|message| message.change.key()).collect();
    let stored = match archive.get_all(&keys).await {
        Ok(stored) => stored,
        Err(error) => return vec![Err(error); messages.len()],
    };
    let mut steps: Vec<HistoryStep<'_>> =
        messages.iter().zip(&stored).map(|(message, stored)| step(message, stored.as_ref())).collect();
    if let Err(error) = skip_stored_revisions(archive, &mut steps).await {
        return vec![Err(error); messages.len()];
    }
    let writes: Vec<_> = steps.iter().map(|step| (&step.revisions[..], step.row.as_deref())).collect();
    let mut outcomes = Vec::with_capacity(steps.len());
    for (step, written) in steps.iter().zip(versions::write_rows_after_revisions(archive, &writes).await) {
        outcomes.push(match written {
            Err(error) => Err(error),
            Ok(None) if step.has_expired => Ok(StoredAs::Expired),
            Ok(None) if step.revisions.is_empty() => Ok(StoredAs::Unchanged),
            Ok(None) => Ok(StoredAs::Updated),
            Ok(Some(outcome)) => finish_row(archive, step, outcome).await,
        });
    }
    store_pins(archive, messages, &stored, &mut outcomes).await;
    outcomes
}

/// Stores the pins that the archive lacks. Few messages are pinned, so that most pages write nothing here.
async fn store_pins(
    archive: &dyn Archive,
    messages: &[&HistoryMessage],
    stored: &[Option<Item>],
    outcomes: &mut [Result<StoredAs, ArchiveError>],
) {
    let is_missing = |pin: &[Update], stored: Option<&Item>| {
        pin.first().is_some_and(|register| changes_something(register, stored))
    };
    let missing: Vec<usize> = (0..messages.len())
        .filter(|index| is_missing(&messages[*index].pin, stored[*index].as_ref()))
        .collect();
    if missing.is_empty() {
        return;
    }
    // The mark comes first: once the register is stored, a repetition finds nothing to write.
    let writes: Vec<_> = missing.iter().map(|index| &messages[*index].pin).collect();
    let writes: Vec<_> = writes.iter().map(|pin| (pin.get(1..).unwrap_or_default(), pin.first())).collect();
    let written = versions::write_rows_after_revisions(archive, &writes).await;
    for (index, written) in missing.into_iter().zip(written) {
        if let (Err(error), Ok(_)) = (written, &outcomes[index]) {
            outcomes[index] = Err(error);
        }
    }
}

async fn finish_row(
    archive: &dyn Archive,
    step: &HistoryStep<'_>,
    outcome: WriteOutcome,
) -> Result<StoredAs, ArchiveError> {
    match (outcome, &step.message.change) {
        (WriteOutcome::Applied, _) if step.is_new => Ok(StoredAs::New),
        (WriteOutcome::Applied, _) => Ok(StoredAs::Updated),
        (WriteOutcome::Rejected(now), _) if now.has_flag(EXPIRED) => Ok(StoredAs::Expired),
        (WriteOutcome::Rejected(now), _) if now.is_erased() => Ok(StoredAs::Unchanged),
        // Another process wrote in between.
        (WriteOutcome::Rejected(now), Change::Content(content)) => {
            let has_content = stored_version(&now).is_some();
            versions::write_planned(archive, content, Some(now)).await?;
            Ok(if has_content || !step.is_new { StoredAs::Updated } else { StoredAs::New })
        }
        (WriteOutcome::Rejected(_), Change::Register(_)) => Ok(StoredAs::Unchanged),
    }
}

fn step<'m>(message: &'m HistoryMessage, stored: Option<&Item>) -> HistoryStep<'m> {
    let is_new = stored.is_none_or(|stored| {
        !stored.is_erased() && !stored.has_flag("deleted") && stored_version(stored).is_none()
    });
    let (revisions, row) = match (&message.change, stored) {
        (Change::Content(content), None) => (Vec::new(), Some(Cow::Borrowed(content.if_absent()))),
        // The most common case when a page is fetched again: a comparison is not needed.
        (Change::Content(content), Some(stored))
            if stored_version(stored).as_ref() == Some(content.version()) =>
        {
            (Vec::new(), content.if_absent().left_out(stored).map(Cow::Owned))
        }
        (Change::Content(content), Some(stored)) => {
            let VersionPlan { keep, row, .. } = plan(content, Some(stored));
            (keep, row.or_else(|| content.if_absent().left_out(stored)).map(Cow::Owned))
        }
        (Change::Register(update), None) => (Vec::new(), Some(Cow::Borrowed(update))),
        (Change::Register(update), Some(stored)) => (Vec::new(), update.left_out(stored).map(Cow::Owned)),
    };
    let has_expired = stored.is_some_and(|stored| stored.has_flag(EXPIRED));
    HistoryStep { message, is_new, has_expired, revisions, row }
}

/// Removes the revisions that are already stored from the steps.
async fn skip_stored_revisions(
    archive: &dyn Archive,
    steps: &mut [HistoryStep<'_>],
) -> Result<(), ArchiveError> {
    let keys: Vec<&ItemKey> =
        steps.iter().flat_map(|step| &step.revisions).map(|revision| &revision.key).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let mut stored = archive.get_all(&keys).await?.into_iter();
    for step in steps {
        step.revisions.retain(|revision| changes_something(revision, stored.next().flatten().as_ref()));
    }
    Ok(())
}

/// Whether an update would change what is stored.
fn changes_something(update: &Update, stored: Option<&Item>) -> bool {
    match update.apply(stored.map(|stored| &stored.attributes)) {
        Some(after) => stored.is_none_or(|stored| stored.attributes != after),
        None => stored.is_some_and(|stored| update.left_out(stored).is_some()),
    }
}
