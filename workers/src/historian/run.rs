//! Whether the last backfill of a workspace ended: if it did not, the next one that asks for the same goes on with it, and
//! does not read again what that one read.

use ports::archive::{Archive, ArchiveError, ArchiveExt, Guard, ItemKey, Update};
use slack::ids::{TeamId, Ts};

const STARTED: &str = "started";
const FINISHED: &str = "finished";
const ASKED: &str = "asked";

/// Notes that a run begins at this time, by Slack's clock, and asks for this. If the last one asked for the same and did not
/// end, it is when that one began.
pub async fn begin(
    archive: &dyn Archive,
    team: &TeamId,
    now: &Ts,
    asked: &str,
) -> Result<Option<Ts>, ArchiveError> {
    let row = archive.get(&ItemKey::backfill_run(team)).await?;
    let unfinished = row.as_ref().and_then(|row| {
        let started = row.text(STARTED)?;
        let ended = row.text(FINISHED).is_some_and(|finished| finished >= started);
        (!ended && row.text(ASKED) == Some(asked)).then(|| Ts::parse(started).ok()).flatten()
    });
    if unfinished.is_none() {
        let guard = Guard::Greater { register: STARTED.into(), version: now.padded() };
        let set = [(ASKED.to_owned(), asked.into())].into_iter().collect();
        archive.write(&Update { guard, set, ..Update::new(ItemKey::backfill_run(team)) }).await?;
    }
    Ok(unfinished)
}

/// Notes that the run that began at this time, or that this one went on with, ended.
pub async fn end(archive: &dyn Archive, team: &TeamId, began: &Ts) -> Result<(), ArchiveError> {
    let guard = Guard::Greater { register: FINISHED.into(), version: began.padded() };
    archive.write(&Update { guard, ..Update::new(ItemKey::backfill_run(team)) }).await.map(drop)
}
