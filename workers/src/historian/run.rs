//! Records whether the last backfill of a workspace ended: if it did not, the next one with the same request
//! continues it, and does not read the same spans again.

use ports::archive::{Archive, ArchiveError, ArchiveExt, Guard, ItemKey, Update};
use slack::ids::{TeamId, Ts};

const STARTED: &str = "started";
const FINISHED: &str = "finished";
const ASKED: &str = "asked";

/// Records that a run with this request begins at this time, by Slack's clock. If the last run had the same
/// request and did not end, returns when that one began.
pub async fn begin(
    archive: &dyn Archive,
    team: &TeamId,
    now: &Ts,
    request: &str,
) -> Result<Option<Ts>, ArchiveError> {
    let row = archive.get(&ItemKey::backfill_run(team)).await?;
    let unfinished = row.as_ref().and_then(|row| {
        let started = row.text(STARTED)?;
        let ended = row.text(FINISHED).is_some_and(|finished| finished >= started);
        (!ended && row.text(ASKED) == Some(request)).then(|| Ts::parse(started).ok()).flatten()
    });
    if unfinished.is_none() {
        let guard = Guard::Greater { register: STARTED.into(), version: now.padded() };
        let set = [(ASKED.to_owned(), request.into())].into_iter().collect();
        archive.write(&Update { guard, set, ..Update::new(ItemKey::backfill_run(team)) }).await?;
    }
    Ok(unfinished)
}

/// Records the end of the run that began at this time, or of the run that continued it.
pub async fn end(archive: &dyn Archive, team: &TeamId, began: &Ts) -> Result<(), ArchiveError> {
    let guard = Guard::Greater { register: FINISHED.into(), version: began.padded() };
    archive.write(&Update { guard, ..Update::new(ItemKey::backfill_run(team)) }).await.map(drop)
}
