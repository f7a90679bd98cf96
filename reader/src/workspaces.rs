//! The workspaces of an archive, with the state of the app in each and when its work is due.

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::figures::message::DAY_MICROS;
use rules::schedule::WorkspaceRow;
use slack::ids::Ts;

use crate::presence;
use crate::range::ts_from_micros;

/// The rows of all workspaces.
///
/// # Errors
/// [`ArchiveError`] if they cannot be read.
pub async fn read(archive: &dyn Archive) -> Result<Vec<WorkspaceRow>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::teams())).await?;
    Ok(rows.iter().filter_map(WorkspaceRow::read).collect())
}

/// When the last event of a workspace arrived, by Slack's clock: the earliest and the latest time possible. On Lambda, where
/// ingest has no runs, only its day is known.
///
/// # Errors
/// [`ArchiveError`] if it cannot be read.
pub async fn last_event(archive: &dyn Archive, row: &WorkspaceRow) -> Result<Option<[Ts; 2]>, ArchiveError> {
    let seen = presence::runs(archive, &row.team).await?.into_iter().map(|run| run.last).max();
    let day = row.app.as_ref().map(|app| app.day.number() * DAY_MICROS);
    let day = day.map(|start| [start, start + DAY_MICROS - 1].map(ts_from_micros));
    Ok(match (seen, day) {
        (Some(seen), Some(day)) if seen < day[0] => Some(day),
        (Some(seen), _) => Some([seen.clone(), seen]),
        (None, day) => day,
    })
}
