//! `jsonl`: a file per kind of row, with one JSON object per line, as the read commands print them with
//! `--json`.

use std::path::Path;

use ports::archive::{Item, Query, key};
use reader::rows::VisibleRows;
use rules::file::row::{self, Share};
use rules::view::{FileView, MessageView, PersonView};
use rules::{message, project};
use serde_json::Value;

use super::channel_files::{self, ExportFile, finish};
use super::source::{ExportSource, ExportedChannel, remove_tokens};
use super::threads::ThreadTable;
use super::{ExportError, ExportProgress};
use crate::plain;

/// Writes the files into a folder. `files_uri` is the location of the file store.
pub(super) async fn write(
    source: &ExportSource<'_>,
    files_uri: &str,
    folder: &Path,
    progress: &mut ExportProgress,
) -> Result<(), ExportError> {
    let create = |name: &str| channel_files::create(&folder.join(name));
    let mut lines = JsonLines {
        source,
        files_uri,
        messages: create("messages.jsonl")?,
        revisions: create("revisions.jsonl")?,
    };
    for channel in &source.channels {
        lines.channel(channel, progress).await?;
        progress.channel_done();
    }
    finish(lines.messages)?;
    finish(lines.revisions)?;
    let mut channels = create("channels.jsonl")?;
    for channel in &source.channels {
        let location = channel.joined.current_location();
        if let Some(snapshot) = location.newest(source.archive).await? {
            plain::json_line(&mut channels, &snapshot)?;
        }
    }
    finish(channels)?;
    let (mut users, mut files) = (create("users.jsonl")?, create("files.jsonl")?);
    for team in &source.teams {
        copy(source.people(team).await?, PersonView::as_json, files_uri, &mut users).await?;
        let locations: Vec<_> = source
            .channels
            .iter()
            .flat_map(|channel| channel.joined.locations())
            .filter(|location| location.team == *team)
            .collect();
        let is_exported = |share: Share| locations.iter().any(|location| location.channel == share.channel);
        let shown = |item: &Item| row::shares(item).any(is_exported).then(|| project::file(item)).flatten();
        copy(
            VisibleRows::all(source.archive, Query::partition(key::files(team)), shown),
            FileView::as_json,
            files_uri,
            &mut files,
        )
        .await?;
    }
    finish(users)?;
    Ok(finish(files)?)
}

struct JsonLines<'s, 'a> {
    source: &'s ExportSource<'a>,
    files_uri: &'s str,
    messages: ExportFile,
    revisions: ExportFile,
}

impl JsonLines<'_, '_> {
    async fn channel(
        &mut self,
        channel: &ExportedChannel<'_>,
        progress: &mut ExportProgress,
    ) -> Result<(), ExportError> {
        // Each line is independent, so a deleted message is not exported just because it has replies.
        let no_threads = ThreadTable::default();
        let mut rows = self.source.messages(channel);
        while let Some(page) = rows.next().await? {
            progress.read(page.len());
            for message in page {
                let Some(message) = self.source.shown(message, &no_threads) else { continue };
                plain::json_line(&mut self.messages, &*project::address(message.as_json(), self.files_uri))?;
                progress.count_exported_if(true);
                // Only messages that Slack marks as edited are looked up, because each lookup costs two
                // reads.
                if message.is_edited() || channel.joined.locations().len() > 1 {
                    self.revisions(channel, &message).await?;
                }
            }
        }
        Ok(())
    }

    async fn revisions(
        &mut self,
        channel: &ExportedChannel<'_>,
        edited: &MessageView,
    ) -> Result<(), ExportError> {
        let Some(ts) = edited.written_at() else { return Ok(()) };
        let (current, rows) = (channel.joined.message(&ts).await?, channel.joined.revisions(&ts).await?);
        let replaced = message::versions(&rows, current.as_ref()).replaced;
        for mut revision in replaced.iter().filter_map(|version| project::message(version.row)) {
            remove_tokens(&mut revision);
            plain::json_line(&mut self.revisions, &*project::address(revision.as_json(), self.files_uri))?;
        }
        Ok(())
    }
}

async fn copy<V>(
    mut rows: VisibleRows<'_, V>,
    as_json: fn(&V) -> &Value,
    files_uri: &str,
    out: &mut ExportFile,
) -> Result<(), ExportError> {
    while let Some(page) = rows.next().await? {
        for row in &page {
            plain::json_line(out, &*project::address(as_json(row), files_uri))?;
        }
    }
    Ok(())
}
