//! What an archive holds, counted.

use std::collections::HashSet;

use serde_json::Value;
use shared::archive::{Archive, ArchiveError, Item, Query, key};
use shared::rules::project;
use shared::slack::ids::{ChannelId, TeamId, Ts};
use workers::quarantine;

/// Counts of everything the demo plays.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) channels: usize,
    pub(super) messages: usize,
    /// Messages somebody edited.
    pub(super) edited: usize,
    /// Versions that edits replaced.
    pub(super) revisions: usize,
    pub(super) deleted: usize,
    pub(super) threads: usize,
    pub(super) replies: usize,
    pub(super) reactions: usize,
    pub(super) people: usize,
    pub(super) quarantined: u64,
}

/// Counts what is in the archive.
pub(super) async fn count(archive: &dyn Archive, team: &TeamId) -> Result<Tally, ArchiveError> {
    let mut tally = Tally { quarantined: quarantine::count(archive).await?, ..Tally::default() };
    let marks = all(archive, format!("meta#{team}#public")).await?;
    for channel in marks.iter().filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok()) {
        tally.channels += 1;
        let mut threads = HashSet::new();
        for item in all(archive, key::messages(team, &channel)).await? {
            let Some(message) = project::message(&item) else { continue };
            tally.messages += 1;
            tally.deleted += usize::from(message["deleted"] == true);
            tally.reactions += reactions(&message);
            if let Some(thread_ts) = message["thread_ts"].as_str() {
                tally.replies += usize::from(message["ts"] != thread_ts);
                threads.insert(thread_ts.to_owned());
            }
            if message["updated_ts"].is_string() {
                tally.edited += 1;
            }
            if let Ok(ts) = Ts::parse(&item.key.timestamp) {
                tally.revisions += all(archive, key::revisions(team, &channel, &ts)).await?.len();
            }
        }
        tally.threads += threads.len();
    }
    tally.people = all(archive, key::users(team)).await?.len();
    Ok(tally)
}

async fn all(archive: &dyn Archive, partition: String) -> Result<Vec<Item>, ArchiveError> {
    shared::archive::query_all(archive, Query::partition(partition)).await
}

fn reactions(message: &Value) -> usize {
    let listed = message["reactions"].as_array().map(Vec::as_slice).unwrap_or_default();
    listed.iter().map(|reaction| reaction["users"].as_array().map_or(0, Vec::len)).sum()
}
