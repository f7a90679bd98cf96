//! The bookmarks of a channel.

use ports::archive::{Archive, ArchiveError, Query, key};
use rules::bookmark;
use serde_json::Value;

use crate::joined::ChannelOfTeam;

/// Maximum number of bookmarks that are read, including removed ones: ten times as many as Slack accepts.
const MAX_READ: usize = 1_000;

/// The bookmarks of a channel, sorted by id, each as [`bookmark::project`] returns it.
pub async fn bookmarks(archive: &dyn Archive, location: &ChannelOfTeam) -> Result<Vec<Value>, ArchiveError> {
    let ChannelOfTeam { team, channel } = location;
    let query = Query { limit: MAX_READ, ..Query::partition(key::bookmarks(team, channel)) };
    Ok(archive.query(&query).await?.items.iter().filter_map(bookmark::project).collect())
}
