//! `slack`: a zip in the format of Slack's own exports, for `annalist import` and other programs that read
//! such exports.
//!
//! * [`objects`] converts rows to Slack's objects; [`zipped`] packs them. [`for_importers`] changes what the importers
//!   of other chats do not understand, [`importing`] finds what they need, and
//!   [`asked`] asks Slack for it.
//!
//! `channels.json` lists the channels that are public now, `groups.json` the others. Each channel has a
//! folder with a file per day in UTC. The bytes of files are below `__uploads/`, as in archives of slackdump.
//! If there are several workspaces, each has its own lists and folders below `teams/`, as in the export of an
//! organisation.

mod asked;
mod for_importers;
#[cfg(test)]
mod importer_tests;
mod importing;
mod objects;
mod zipped;

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::Write;

use jiff::Timestamp;
use jiff::civil::{self, Date};
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;
use slack::ids::{FileId, SLACKBOT, TeamId, Ts};

pub(super) use self::asked::AskedLists;
pub(super) use self::for_importers::Importer;
use self::importing::ImporterExport;
pub(super) use self::importing::{ImportCounts, ImportRequest};
use self::zipped::{EntryPacking, ZipManner, ZipSink};
use super::source::{ExportSource, ExportedChannel};
use super::uploads::{SharedUpload, uploads_of};
use super::{ExportError, ExportProgress};

/// The folder in which slackdump stores the bytes of files and `annalist import` finds them.
const UPLOADS: &str = "__uploads";

/// An upper bound for days, later than any message, with valid days after it.
const LAST_DAY: Date = civil::date(9000, 1, 1);

/// Writes the zip. For an importer, returns what it can compare.
pub(super) async fn write(
    source: &ExportSource<'_>,
    file: File,
    request: Option<ImportRequest>,
    progress: &mut ExportProgress,
) -> Result<Option<ImportCounts>, ExportError> {
    let manner = ZipManner { without_utf8_flag: request.is_some(), bounds_ratio: request.is_some() };
    let importing = request.map(ImporterExport::new);
    let mut export =
        SlackExport { source, sink: ZipSink::new(file, manner), uploaded: HashSet::new(), importing };
    for team in &source.teams {
        export.team(team, progress).await?;
    }
    export.sink.finish()?;
    Ok(export.importing.map(|importing| importing.counts))
}

struct SlackExport<'s, 'a> {
    source: &'s ExportSource<'a>,
    sink: ZipSink,
    /// Files whose bytes are in the zip.
    uploaded: HashSet<FileId>,
    /// What an importer needs besides.
    importing: Option<ImporterExport>,
}

impl SlackExport<'_, '_> {
    async fn team(&mut self, team: &TeamId, progress: &mut ExportProgress) -> Result<(), ExportError> {
        let prefix =
            self.source.folder_of_team(team).map(|team| format!("teams/{team}/")).unwrap_or_default();
        let mut authors = BTreeSet::new();
        let (mut public, mut private) = (Vec::new(), Vec::new());
        for channel in
            self.source.channels.iter().filter(|channel| channel.joined.current_location().team == *team)
        {
            let mut listed =
                objects::channel(&channel.joined.current_location().channel, &channel.folder, &channel.facts);
            if self.importing.is_some() {
                // Importers list the folder of every channel.
                self.sink.folder(format!("{prefix}{}/", channel.folder))?;
            }
            self.days(&prefix, channel, &mut authors, progress).await?;
            if let Some(importing) = &mut self.importing {
                authors.extend(importing.end_channel(channel, &mut listed).await?);
            }
            if channel.facts.is_private { &mut private } else { &mut public }.push(listed);
            progress.channel_done();
        }
        self.list(&format!("{prefix}channels.json"), public).await?;
        if !private.is_empty() {
            self.list(&format!("{prefix}groups.json"), private).await?;
        }
        self.list::<Value>(&format!("{prefix}integration_logs.json"), Vec::new()).await?;
        self.people(&prefix, team, authors).await
    }

    async fn list<T: Serialize>(&mut self, name: &str, elements: Vec<T>) -> Result<(), ExportError> {
        self.sink.entry(name.to_owned(), EntryPacking::Deflated)?;
        let mut list = JsonList::begin(&mut self.sink)?;
        elements.iter().try_for_each(|element| list.add(element))?;
        Ok(list.end()?)
    }

    /// Writes the people, and the authors of whom the archive only has the id.
    async fn people(
        &mut self,
        prefix: &str,
        team: &TeamId,
        mut authors: BTreeSet<String>,
    ) -> Result<(), ExportError> {
        self.sink.entry(format!("{prefix}users.json"), EntryPacking::Deflated)?;
        let mut list = JsonList::begin(&mut self.sink)?;
        let mut rows = self.source.people(team).await?;
        while let Some(page) = rows.next().await? {
            for row in &page {
                let person = objects::person(row, team);
                authors.remove(person["id"].as_str().unwrap_or_default());
                list.add(&person_for(&mut self.importing, person))?;
            }
        }
        // Programs that read exports know Slack's own user, except importers.
        authors.remove(SLACKBOT);
        if let Some(importing) = &mut self.importing {
            list.add(&importing.slackbot(team))?;
        }
        for author in authors {
            list.add(&person_for(&mut self.importing, objects::unknown_person(&author, team)))?;
        }
        Ok(list.end()?)
    }

    /// Writes a JSON file for each day, and the files that were shared on that day.
    async fn days(
        &mut self,
        prefix: &str,
        channel: &ExportedChannel<'_>,
        authors: &mut BTreeSet<String>,
        progress: &mut ExportProgress,
    ) -> Result<(), ExportError> {
        let threads = self.source.threads(channel, progress).await?;
        let mut rows = self.source.messages(channel);
        let (mut days, mut uploads) = (Days::default(), Vec::new());
        while let Some(page) = rows.next().await? {
            progress.read(page.len());
            for row in page {
                let Some(row) = self.source.shown(row, &threads) else { continue };
                let Some(ts) = row.written_at() else { continue };
                let mut message = objects::message(&row, threads.replies_to(&ts));
                let mut placeholder = None;
                if let Some(importing) = &mut self.importing {
                    placeholder = importing.missing_root(self.source, channel, &row, &threads).await?;
                    message = importing.message(self.source, &row, message).await?;
                }
                match days.next(&ts) {
                    None => self.sink.write_all(b",\n")?,
                    Some(file) => {
                        if days.files.len() > 1 {
                            self.end_day(&mut uploads, progress).await?;
                        }
                        let name = format!("{prefix}{}/{file}.json", channel.folder);
                        self.sink.entry(name, EntryPacking::Deflated)?;
                        self.sink.write_all(b"[\n")?;
                    }
                }
                if let Some(placeholder) = placeholder {
                    serde_json::to_writer(&mut self.sink, &placeholder).map_err(std::io::Error::from)?;
                    self.sink.write_all(b",\n")?;
                }
                serde_json::to_writer(&mut self.sink, &message).map_err(std::io::Error::from)?;
                progress.count_exported_if(true);
                // The row also has the author of a file's comment.
                let author = row.user().or(message["user"].as_str());
                if let Some(author) = author.filter(|author| !authors.contains(*author)) {
                    authors.insert(author.to_owned());
                }
                let packs = self.importing.as_ref().is_none_or(ImporterExport::packs_files);
                let has_bytes = self.source.files.is_some() && packs;
                uploads.extend(has_bytes.then(|| uploads_of(&row)).into_iter().flatten());
            }
        }
        if days.day.is_some() {
            self.end_day(&mut uploads, progress).await?;
        }
        Ok(())
    }

    /// Ends the JSON file of a day and writes the day's uploads.
    async fn end_day(
        &mut self,
        uploads: &mut Vec<SharedUpload>,
        progress: &mut ExportProgress,
    ) -> Result<(), ExportError> {
        self.sink.write_all(b"\n]\n")?;
        for SharedUpload { file, name, key } in uploads.drain(..) {
            let Some(files) = self.source.files.filter(|_| !self.uploaded.contains(&file)) else { continue };
            let Some(mut reader) = files.open(&key).await? else {
                progress.count_missing_file();
                continue;
            };
            self.sink.entry(format!("{UPLOADS}/{file}/{name}"), EntryPacking::Stored)?;
            while let Some(chunk) = reader.next().await? {
                self.sink.write_all(&chunk)?;
            }
            self.uploaded.insert(file);
        }
        Ok(())
    }
}

fn person_for(importing: &mut Option<ImporterExport>, person: Value) -> Value {
    match importing {
        Some(importing) => importing.person(person),
        None => person,
    }
}

/// The days of a channel that have a JSON file.
#[derive(Debug, Default)]
struct Days {
    day: Option<Date>,
    files: BTreeSet<Date>,
}

impl Days {
    /// Returns the date of the file that begins with a message of this time; `None` if the message belongs to
    /// the current file.
    fn next(&mut self, ts: &Ts) -> Option<Date> {
        // A time outside the calendar counts as the last day.
        let time = Timestamp::from_microsecond(ts.micros()).ok();
        let day = time.map_or(LAST_DAY, |time| time.to_zoned(TimeZone::UTC).date()).min(LAST_DAY);
        if self.day.replace(day) == Some(day) {
            return None;
        }
        // Days are in order, unless a timestamp is not spelt as Slack spells it. A zip must not contain a
        // file twice.
        let mut file = day;
        while !self.files.insert(file) {
            file = file.tomorrow().ok()?;
        }
        Some(file)
    }
}

/// Writes a list of JSON values, one element after another.
struct JsonList<'s> {
    out: &'s mut dyn Write,
    is_empty: bool,
}

impl<'s> JsonList<'s> {
    fn begin(out: &'s mut dyn Write) -> std::io::Result<Self> {
        out.write_all(b"[")?;
        Ok(Self { out, is_empty: true })
    }

    fn add(&mut self, element: &impl Serialize) -> std::io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.is_empty) { b"\n" } else { b",\n" })?;
        Ok(serde_json::to_writer(&mut *self.out, element)?)
    }

    fn end(self) -> std::io::Result<()> {
        self.out.write_all(if self.is_empty { b"]\n" } else { b"\n]\n" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_date_names_at_most_one_file() {
        let mut days = Days::default();
        let mut next = |ts: &str| days.next(&Ts::parse(ts).unwrap()).map(|day| day.to_string());
        assert_eq!(next("1700000000.000100").as_deref(), Some("2023-11-14"));
        assert_eq!(next("1700000001.000100"), None);
        assert_eq!(next("1700086400.000100").as_deref(), Some("2023-11-15"));
        assert_eq!(next("1700000000.000200").as_deref(), Some("2023-11-16"));
        assert_eq!(next("999999999999.000000").as_deref(), Some("9000-01-01"));
    }
}
