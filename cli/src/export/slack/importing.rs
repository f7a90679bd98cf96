//! An export for an importer: the roots of replies, the places of files, and the counts to compare.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;

use reader::rows;
use rules::view::MessageView;
use serde::Serialize;
use serde_json::Value;
use slack::ids::{FileId, SLACKBOT, TeamId, Ts};

use super::asked::AskedLists;
use super::for_importers::{self, FilePlace, ImportedPeople, Importer};
use super::objects;
use crate::export::source::{ExportSource, ExportedChannel};
use crate::export::threads::ThreadTable;
use crate::export::uploads::uploads_of;
use crate::export::{ExportError, channel_files};

/// What an export for an importer was asked to be.
pub(in crate::export) struct ImportRequest {
    pub(in crate::export) importer: Importer,
    /// For Zulip: the address at which the folder of files will be served.
    pub(in crate::export) files_url: Option<String>,
    /// The folder of files, next to the zip.
    pub(in crate::export) files_folder: PathBuf,
    /// What Slack is asked for, because the archive does not have it.
    pub(in crate::export) asked: Option<AskedLists>,
}

/// What an export has, to compare it with what was imported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(in crate::export) struct ImportCounts {
    pub(in crate::export) channels: u64,
    pub(in crate::export) people: u64,
    /// Without placeholders.
    pub(in crate::export) messages: u64,
    /// Roots with replies.
    pub(in crate::export) threads: u64,
    pub(in crate::export) replies: u64,
    /// One for each person and emoji.
    pub(in crate::export) reactions: u64,
    /// Files with bytes.
    pub(in crate::export) files: u64,
    pub(in crate::export) placeholders: u64,
    pub(in crate::export) missing_files: u64,
}

/// An export for an importer that is being written.
pub(super) struct ImporterExport {
    request: ImportRequest,
    people: ImportedPeople,
    /// The users of the roots of the channel, as exported.
    roots: HashMap<Ts, String>,
    /// The people who wrote in the channel.
    writers: BTreeSet<String>,
    /// Files whose bytes are written.
    written: HashSet<FileId>,
    pub(super) counts: ImportCounts,
}

impl ImporterExport {
    pub(super) fn new(request: ImportRequest) -> Self {
        Self {
            request,
            people: ImportedPeople::default(),
            roots: HashMap::new(),
            writers: BTreeSet::new(),
            written: HashSet::new(),
            counts: ImportCounts::default(),
        }
    }

    /// Whether the bytes of files are in the zip.
    pub(super) fn packs_files(&self) -> bool {
        self.request.importer == Importer::Mattermost
    }

    pub(super) fn person(&mut self, person: Value) -> Value {
        self.counts.people += 1;
        let mut person = self.people.person(person);
        let id = person["id"].as_str().unwrap_or_default();
        if let Some(email) = self.request.asked.as_ref().and_then(|asked| asked.email(id)) {
            person["profile"]["email"] = email.into();
        }
        person
    }

    pub(super) fn slackbot(&mut self, team: &TeamId) -> Value {
        self.counts.people += 1;
        self.people.slackbot(team)
    }

    /// Adds the people who wrote in a channel to it, because importers drop guests who are in no channel, and the
    /// members that Slack lists. Returns these members.
    pub(super) async fn end_channel(
        &mut self,
        channel: &ExportedChannel<'_>,
        listed: &mut Value,
    ) -> Result<BTreeSet<String>, ExportError> {
        self.counts.channels += 1;
        self.roots.clear();
        let asked = match &self.request.asked {
            Some(asked) => asked.members(channel.joined.current_location()).await?,
            None => BTreeSet::new(),
        };
        let mut members = std::mem::take(&mut self.writers);
        members.extend(asked.iter().cloned());
        listed["members"] = members.into_iter().collect();
        Ok(asked)
    }

    /// Returns a root for a reply whose root the export lacks, once for each thread. A reply without a root would
    /// be dropped.
    pub(super) async fn missing_root(
        &mut self,
        source: &ExportSource<'_>,
        channel: &ExportedChannel<'_>,
        row: &MessageView,
        threads: &ThreadTable,
    ) -> Result<Option<Value>, ExportError> {
        let Some(root_ts) = row.replies_to().filter(|root_ts| !self.roots.contains_key(root_ts)) else {
            return Ok(None);
        };
        let stored = rows::read_message(&channel.joined, &root_ts).await?;
        let stored = stored.filter(|_| source.range.contains(&root_ts));
        let exported = stored.and_then(|root| source.shown(root, threads));
        let is_missing = exported.is_none();
        let root = exported.unwrap_or_else(|| for_importers::missing_root(&root_ts).into());
        let root_object = objects::message(&root, threads.replies_to(&root_ts));
        let root_object = for_importers::message(self.request.importer, root_object, None, &BTreeMap::new());
        let user = root_object["user"].as_str().unwrap_or(SLACKBOT).to_owned();
        self.roots.insert(root_ts, user);
        self.counts.placeholders += u64::from(is_missing);
        Ok(is_missing.then_some(root_object))
    }

    /// Returns a message as the importer needs it.
    pub(super) async fn message(
        &mut self,
        source: &ExportSource<'_>,
        row: &MessageView,
        message: Value,
    ) -> Result<Value, ExportError> {
        let root_ts = row.replies_to();
        let parent = root_ts.as_ref().and_then(|root_ts| self.roots.get(root_ts)).cloned();
        let files = self.places(source, row, &message).await?;
        let has_replies = message["replies"].is_array();
        let message = for_importers::message(self.request.importer, message, parent.as_deref(), &files);
        let user = message["user"].as_str().map(str::to_owned);
        if let Some(ts) = row.written_at().filter(|_| root_ts.is_none() && has_replies) {
            self.roots.insert(ts, user.clone().unwrap_or_else(|| SLACKBOT.to_owned()));
            self.counts.threads += 1;
        }
        self.writers.extend(user);
        self.counts.messages += 1;
        self.counts.replies += u64::from(root_ts.is_some());
        let users = row.reactions().iter().filter_map(|reaction| reaction["users"].as_array());
        self.counts.reactions += users.map(|users| users.len() as u64).sum::<u64>();
        Ok(message)
    }

    /// Finds the places of a message's files. For Zulip, their bytes are written next to the zip.
    async fn places(
        &mut self,
        source: &ExportSource<'_>,
        row: &MessageView,
        message: &Value,
    ) -> Result<BTreeMap<String, FilePlace>, ExportError> {
        let mut places = BTreeMap::new();
        let text = |file: &Value, name: &str| file[name].as_str().map(str::to_owned);
        for file in message["files"].as_array().into_iter().flatten() {
            let Some(id) = text(file, "id") else { continue };
            let address = match self.request.importer {
                Importer::Zulip => text(file, "permalink").or_else(|| text(file, "url_private")),
                Importer::Mattermost => text(file, "url_private").filter(|_| file["is_external"] == true),
            };
            places.insert(id, address.map_or(FilePlace::Missing, FilePlace::At));
        }
        let with_bytes = self.packs_files() || self.request.files_url.is_some();
        let Some(files) = source.files.filter(|_| with_bytes) else { return Ok(self.counted(places)) };
        for upload in uploads_of(row) {
            let Some(mut reader) = files.open(&upload.key).await? else { continue };
            let (id, name) = (upload.file.to_string(), upload.name);
            let place = match &self.request.files_url {
                None => FilePlace::Packed,
                Some(url) => {
                    if !self.written.contains(&upload.file) {
                        let path = self.request.files_folder.join(&id).join(&name);
                        let mut copy = channel_files::create(&path)?;
                        while let Some(bytes) = reader.next().await? {
                            copy.write_all(&bytes)?;
                        }
                        channel_files::finish(copy)?;
                    }
                    FilePlace::At(format!("{url}/{id}/{}", viewer::public_links::encoded(&name)))
                }
            };
            self.counts.files += u64::from(self.written.insert(upload.file));
            if let Some(known) = places.get_mut(&id) {
                *known = place;
            }
        }
        Ok(self.counted(places))
    }

    fn counted(&mut self, places: BTreeMap<String, FilePlace>) -> BTreeMap<String, FilePlace> {
        self.counts.missing_files +=
            places.values().filter(|place| **place == FilePlace::Missing).count() as u64;
        places
    }
}
