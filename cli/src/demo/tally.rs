//! Counts the contents of an archive.

use std::collections::HashSet;

use ports::archive::{Archive, ArchiveError, Item, Query, key, newest};
use ports::files::{FileKey, Files};
use reader::directory;
use rules::file::{image, row};
use rules::view::{ChannelView, MessageView};
use rules::{message, project};
use serde_json::Value;
use slack::ids::{FileId, TeamId, Ts};
use workers::quarantine;

use super::week::{ArchiveCounts, BOT, SERVED, TEAM};

/// Counts the contents of the archive and of the file store.
pub(super) async fn count(
    archive: &dyn Archive,
    files: &dyn Files,
    team: &TeamId,
) -> anyhow::Result<ArchiveCounts> {
    let mut tally = ArchiveCounts {
        quarantined: quarantine::count(archive).await?,
        people: all(archive, key::users(team)).await?.iter().filter(|row| row.key.timestamp != BOT).count(),
        gaps: reader::gaps::read(archive, team).await?.len(),
        images: images(archive, key::users(team)).await? + images(archive, key::emoji(team)).await?,
        ..ArchiveCounts::default()
    };
    for row in all(archive, key::files(team)).await? {
        tally.files_deleted += usize::from(row.has_flag("deleted"));
        tally.files_stored += usize::from(is_whole(files, team, &row).await?);
    }
    for (channel, _) in directory::read(archive, team).await?.iter() {
        let newest = newest(archive, key::channels(team, &channel)).await?;
        let state = newest.as_ref().and_then(project::channel);
        // A channel that continues under another id is one channel.
        tally.channels += usize::from(state.as_ref().and_then(ChannelView::next_id).is_none());
        if let Some(state) = state {
            tally.add_channel(&state);
        }
        let mut threads = HashSet::new();
        for item in all(archive, key::messages(team, &channel)).await? {
            let Some(shown) = project::message(&item) else { continue };
            tally.add_message(&shown);
            threads.extend(shown.thread_ts().map(str::to_owned));
            if let Ok(ts) = Ts::parse(&item.key.timestamp) {
                let revisions = all(archive, key::revisions(team, &channel, &ts)).await?;
                tally.revisions += message::versions(&revisions, Some(&item)).replaced.len();
            }
        }
        tally.threads += threads.len();
    }
    Ok(tally)
}

impl ArchiveCounts {
    fn add_channel(&mut self, state: &ChannelView) {
        self.former_names += state.former_names().count();
        self.archived += usize::from(state.is_archived());
        self.deleted_channels += usize::from(state.is_deleted());
        self.private += usize::from(state.is_private());
    }

    fn add_message(&mut self, message: &MessageView) {
        self.messages += 1;
        self.deleted += usize::from(message.is_deleted());
        self.edited += usize::from(message.is_edited());
        self.replies += usize::from(message.replies_to().is_some());
        self.files_shared += message.stored_files().count();
        self.files_skipped += message.file_verdict_count();
        self.files_failed += usize::from(message.has_failed_files());
        self.reactions += message.reactions().iter().map(|name| list(&name["users"]).len()).sum::<usize>();
    }
}

/// Whether the stored copy of a row's file equals the shared file.
async fn is_whole(files: &dyn Files, team: &TeamId, row: &Item) -> anyhow::Result<bool> {
    let id = FileId::parse(&row.key.timestamp)?;
    let folder = format!("/{TEAM}-{id}/");
    let Some((_, _, original)) = SERVED.iter().find(|(path, _, _)| path.contains(&folder)) else {
        return Ok(false);
    };
    for share in row::shares(row) {
        let key = FileKey::shared(team, &share.channel, &share.ts, &id);
        if let Some(mut reader) = files.open(&key).await? {
            let mut bytes = Vec::new();
            while let Some(chunk) = reader.next().await? {
                bytes.extend_from_slice(&chunk);
            }
            return Ok(bytes == *original);
        }
    }
    Ok(false)
}

/// Returns the number of people or emoji whose picture is stored.
async fn images(archive: &dyn Archive, partition: String) -> Result<usize, ArchiveError> {
    let rows = all(archive, partition).await?;
    Ok(rows.iter().filter(|row| image::picture(row).is_some()).count())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

async fn all(archive: &dyn Archive, partition: String) -> Result<Vec<Item>, ArchiveError> {
    ports::archive::query_all(archive, Query::partition(partition)).await
}
