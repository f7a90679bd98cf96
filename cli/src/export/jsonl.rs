//! `jsonl`: a file per kind of row, with one JSON object per line, as the read commands print them with
//! `--json`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use ports::archive::{Item, ItemKey, Query, key};
use reader::rows::VisibleRows;
use rules::file::row::{self, Share};
use rules::view::{FileView, MessageView, PersonView, file_id};
use rules::{message, project};
use serde_json::Value;
use slack::ids::{FileId, TeamId, UserId};

use super::channel_files::{self, ExportFile, finish};
use super::source::{ExportSource, ExportedChannel, remove_tokens};
use super::threads::ThreadTable;
use super::uploads::uploads_of;
use super::{ExportError, ExportProgress};
use crate::plain;

/// The folder of the bytes of a person's files.
const FILES: &str = "files";

/// Writes the files into a folder. `files_uri` is the location of the file store. With `person`, only their messages,
/// with the bytes of the files in them, and their profile.
pub(super) async fn write(
    source: &ExportSource<'_>,
    person: Option<&UserId>,
    files_uri: &str,
    folder: &Path,
    progress: &mut ExportProgress,
) -> Result<(), ExportError> {
    let create = |name: &str| channel_files::create(&folder.join(name));
    let mut lines = JsonLines {
        source,
        person,
        files_uri,
        folder,
        messages: create("messages.jsonl")?,
        revisions: create("revisions.jsonl")?,
        files: BTreeSet::new(),
    };
    for channel in &source.channels {
        lines.channel(channel, progress).await?;
        progress.channel_done();
    }
    let JsonLines { messages, revisions, files: files_of_person, .. } = lines;
    finish(messages)?;
    finish(revisions)?;
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
        let is_exported = |view: &PersonView| person.is_none_or(|person| view.id() == Some(person.as_str()));
        copy(source.people(team).await?, is_exported, PersonView::as_json, files_uri, &mut users).await?;
        let locations: Vec<_> = source
            .channels
            .iter()
            .flat_map(|channel| channel.joined.locations())
            .filter(|location| location.team == *team)
            .collect();
        let is_shared = |share: Share| locations.iter().any(|location| location.channel == share.channel);
        let is_exported = |item: &Item| match person {
            Some(_) => files_of_person.contains(&item.key),
            None => row::shares(item).any(is_shared),
        };
        let shown = |item: &Item| is_exported(item).then(|| project::file(item)).flatten();
        copy(
            VisibleRows::all(source.archive, Query::partition(key::files(team)), shown),
            |_| true,
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
    person: Option<&'s UserId>,
    files_uri: &'s str,
    folder: &'s Path,
    messages: ExportFile,
    revisions: ExportFile,
    /// The rows of the files in the messages of the person.
    files: BTreeSet<ItemKey>,
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
                if let Some(person) = self.person {
                    if message.user() != Some(person.as_str()) {
                        continue;
                    }
                    self.files_of(&message, progress).await?;
                }
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

    /// Notes the files of a message, and copies the bytes of those that are stored.
    async fn files_of(
        &mut self,
        message: &MessageView,
        progress: &mut ExportProgress,
    ) -> Result<(), ExportError> {
        let Some(team) = message.as_json()["team_id"].as_str().and_then(|team| TeamId::parse(team).ok())
        else {
            return Ok(());
        };
        let mut new: Vec<FileId> = message.files().iter().filter_map(file_id).collect();
        new.retain(|file| self.files.insert(ItemKey::file(&team, file)));
        let Some(files) = self.source.files else { return Ok(()) };
        for upload in uploads_of(message).into_iter().filter(|upload| new.contains(&upload.file)) {
            let Some(mut reader) = files.open(&upload.key).await? else {
                progress.count_missing_file();
                continue;
            };
            let path = self.folder.join(FILES).join(upload.file.as_str()).join(&upload.name);
            let mut file = channel_files::create(&path)?;
            while let Some(chunk) = reader.next().await? {
                file.write_all(&chunk)?;
            }
            finish(file)?;
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
    is_exported: impl Fn(&V) -> bool,
    as_json: fn(&V) -> &Value,
    files_uri: &str,
    out: &mut ExportFile,
) -> Result<(), ExportError> {
    while let Some(page) = rows.next().await? {
        for row in page.iter().filter(|row| is_exported(row)) {
            plain::json_line(out, &*project::address(as_json(row), files_uri))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "jsonl_tests.rs"]
mod tests;
