//! The pinned messages of a channel.

use std::collections::BTreeSet;

use ports::archive::{ArchiveError, Query, key};
use rules::project;
use rules::view::MessageView;
use slack::ids::Ts;

use crate::joined::JoinedChannel;

/// Maximum number of messages that are read, newest first: Slack permits 100 pins in a channel at a time, and
/// most marks are of messages that are still pinned.
const MAX_MARKS: usize = 1_000;

/// Returns the messages of a channel that are pinned now, oldest first. Deleted messages are left out.
pub async fn pinned(channel: &JoinedChannel<'_>) -> Result<Vec<Ts>, ArchiveError> {
    let mut marked: BTreeSet<Ts> = BTreeSet::new();
    for location in channel.locations() {
        let partition = key::pins(&location.team, &location.channel);
        let marks = Query { limit: MAX_MARKS, descending: true, ..Query::partition(partition) };
        let marks = channel.query(&marks).await?.items;
        marked.extend(marks.iter().filter_map(|mark| Ts::parse(&mark.key.timestamp).ok()));
    }
    let marked: Vec<&Ts> = marked.iter().collect();
    let rows = channel.messages(&marked).await?;
    let is_pinned = |row: &MessageView| row.is_pinned() && !row.is_deleted();
    let pinned = marked
        .into_iter()
        .zip(rows)
        .filter(|(_, row)| row.as_ref().and_then(project::message).is_some_and(|row| is_pinned(&row)));
    Ok(pinned.map(|(ts, _)| ts.clone()).collect())
}
