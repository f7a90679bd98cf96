//! The workspaces of an archive, with the state of the app in each and when its work is due.

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::schedule::WorkspaceRow;
use slack::ids::{TeamId, Ts};

use crate::presence;

/// The rows of all workspaces.
///
/// # Errors
/// [`ArchiveError`] if they cannot be read.
pub async fn read(archive: &dyn Archive) -> Result<Vec<WorkspaceRow>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::teams())).await?;
    Ok(rows.iter().filter_map(WorkspaceRow::read).collect())
}

/// When the last event of a workspace arrived, by Slack's clock.
///
/// # Errors
/// [`ArchiveError`] if it cannot be read.
pub async fn last_event(archive: &dyn Archive, team: &TeamId) -> Result<Option<Ts>, ArchiveError> {
    Ok(presence::runs(archive, team).await?.into_iter().map(|run| run.last).max())
}
