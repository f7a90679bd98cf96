//! `annalist export`: writes the archive in formats that other programs read.
//!
//! An export only reads the archive. [`source`] finds the requested channels and messages, and each format
//! has its own writer, which receives rows as readers see them and keeps one page in memory. A new format is
//! a variant of [`ExportFormat`] and a file here.
//!
//! * [`slack`], [`jsonl`], [`html`], [`markdown`] and [`text`] are the formats.
//! * [`threads`] lists the replies to each message, [`reading_order`] puts messages and replies in reading order,
//!   [`folders`] names files, [`known_names`] caches names of people, [`uploads`] lists files whose bytes are
//!   stored, and [`copied`] names their copies.

mod channel_files;
pub(crate) mod copied;
pub(crate) mod folders;
mod html;
mod jsonl;
mod known_names;
mod markdown;
mod reading_order;
mod slack;
mod source;
mod text;
mod threads;
pub(crate) mod uploads;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ports::archive::ArchiveError;
use ports::files::{Files, FilesError};
use process::config::backend::{Backend, BackendArgs};
use process::config::publish::SiteUrl;
use process::config::slack::SlackArgs;
use process::config::zone::ZoneArgs;
use reader::find;
use slack_api::WebApi;
use workers::directory::SyncError;

use self::slack::{AskedLists, ImportRequest, Importer};
use self::source::ExportSource;
use crate::operate::sync::NO_TOKEN;
use crate::operate::target::{self, TargetFile, TargetFolder, ensure_free};
use crate::plain::{self, grouped};
use crate::progress::ProgressLine;
use crate::read::{ReadError, TimeBound, channel_name, team};
use crate::zone::Zone;
use crate::{UsageError, read};
use ::slack::ids::TeamId;

/// The word for an export in messages about its target.
const NOUN: &str = "export";

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// A zip in Slack's export format, for `annalist import` and other tools that read it
    Slack,
    /// A folder with one JSON object per line: messages, their earlier versions, channels, people, files
    Jsonl,
    /// A folder with a site of pages, as `annalist view` shows them, to read in any browser without a network
    Html,
    /// A folder with a Markdown file per channel, to paste into wikis and for language models
    Markdown,
    /// A folder with a text file per channel, as `annalist messages` prints it
    Text,
}

/// `annalist export`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ExportArgs {
    /// The format
    #[arg(long, value_enum)]
    format: ExportFormat,
    /// What to write: a folder, for `slack` a .zip. It must not exist
    #[arg(long, value_name = "PATH", value_parser = target::path())]
    out: PathBuf,
    /// Only this channel, by name or id; may be given several times
    #[arg(long = "channel", value_name = "CHANNEL", value_parser = channel_name)]
    channels: Vec<String>,
    /// Only messages from this time on: a date, a date and time, or a message's timestamp
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse)]
    since: Option<TimeBound>,
    /// Only messages before this time; a date is its midnight
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse)]
    until: Option<TimeBound>,
    /// Only what this person wrote, with their profile and the bytes of their files: by id or name; only with
    /// --format jsonl
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Leave the bytes of files out
    #[arg(long)]
    no_files: bool,
    /// Include deleted messages with their text
    #[arg(long)]
    include_deleted: bool,
    /// With the format slack: as this importer needs it, to move to another chat
    #[arg(long = "for", value_enum, value_name = "IMPORTER")]
    importer: Option<Importer>,
    /// With --for zulip: the address at which the folder PATH-files will be served while Zulip imports
    #[arg(long, value_name = "URL", requires = "importer", value_parser = SiteUrl::parse)]
    files_url: Option<SiteUrl>,
    /// With --for: the people's e-mail addresses, which the archive does not have: the export asks Slack for them
    #[arg(long, requires = "importer")]
    with_emails: bool,
    /// With --for: all members of each channel, for whom the export asks Slack, not only those who wrote in it
    #[arg(long, requires = "importer")]
    with_members: bool,
    /// With --for: the counts to compare, as one JSON object
    #[arg(long, requires = "importer")]
    json: bool,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    pub(crate) slack: SlackArgs,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

impl ExportArgs {
    /// Whether the export asks Slack for something. All others need neither a token nor the network.
    pub(crate) fn asks_slack(&self) -> bool {
        self.with_emails || self.with_members
    }
}

/// Why an export ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// The requested channels or workspaces could not be found or read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The store of files failed.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// There is no token to ask Slack with.
    #[error("{}", NO_TOKEN)]
    NoToken,
    /// The token does not show e-mail addresses.
    #[error(
        "the app lacks the scope {}: give it the manifest that `annalist manifest --emails` prints, and install it again",
        workers::directory::asked::EMAIL_SCOPE
    )]
    NoEmailScope,
    /// Slack did not answer.
    #[error(transparent)]
    Slack(#[from] SyncError),
    /// The export could not be written, for example because the disk is full.
    #[error("cannot write the export")]
    Output(#[from] io::Error),
}

/// Writes an export and prints its counts. `api` is for an export that asks Slack for something.
pub(crate) async fn run(
    backend: &Backend,
    api: Option<Arc<WebApi>>,
    args: &ExportArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let target_path = plain::line(&args.out.display().to_string());
    let zone = Zone::from_args(&args.zone);
    let range = read::range_between(args.since.as_ref(), args.until.as_ref(), zone.time_zone())
        .map_err(UsageError::new)?;
    let mut request = import_request(args)?;
    if args.user.is_some() && args.format != ExportFormat::Jsonl {
        return Err(UsageError::new("--user is only for --format jsonl").into());
    }
    ensure_free(&args.out)?;
    if let Some(request) = request.as_ref().filter(|request| request.files_url.is_some()) {
        ensure_free(&request.files_folder)?;
    }
    let (archive, files) = (backend.archive(), backend.files());
    let files: Option<&dyn Files> = (!args.no_files).then_some(&*files);
    let source = ExportSource::find(&*archive, files, args, range).await?;
    if request.is_some() && source.teams.len() > 1 {
        let several = "an importer reads one workspace: choose one with --team";
        return Err(UsageError::new(several).into());
    }
    if let (Some(request), Some(api)) = (&mut request, api)
        && let Some(team) = source.teams.first()
    {
        let asked = AskedLists::begin(api, team, (args.with_emails, args.with_members)).await?;
        request.asked = Some(asked);
    }
    let mut progress = ExportProgress::new(source.channels.len());
    let mut counts = None;
    match args.format {
        ExportFormat::Slack => {
            let target = TargetFile::claim(&args.out, NOUN, false)?;
            let file = target.file().try_clone().context("cannot write the export")?;
            counts = slack::write(&source, file, request, &mut progress).await?;
            target.publish()?;
        }
        ExportFormat::Jsonl => {
            let target = TargetFolder::claim(&args.out, NOUN)?;
            let person = match &args.user {
                Some(user) => {
                    let teams = find::requested_teams(&*archive, args.team.as_ref()).await;
                    let teams = teams.map_err(ReadError::from)?;
                    Some(find::find_person(&*archive, user, &teams).await.map_err(ReadError::from)?)
                }
                None => None,
            };
            let files_uri = args.backend.files_uri()?;
            jsonl::write(&source, person.as_ref(), &files_uri, target.partial_path(), &mut progress).await?;
            target.publish()?;
        }
        ExportFormat::Html => {
            let target = TargetFolder::claim(&args.out, NOUN)?;
            html::write(&source, zone.time_zone(), target.partial_path(), &mut progress).await?;
            target.publish()?;
        }
        ExportFormat::Markdown => {
            let target = TargetFolder::claim(&args.out, NOUN)?;
            markdown::write(&source, &zone, target.partial_path(), &mut progress).await?;
            target.publish()?;
        }
        ExportFormat::Text => {
            let target = TargetFolder::claim(&args.out, NOUN)?;
            text::write(&source, &zone, target.partial_path(), &mut progress).await?;
            target.publish()?;
        }
    }
    if let Some(counts) = counts.filter(|_| args.json) {
        writeln!(out, "{}", serde_json::to_string(&counts)?)?;
        return Ok(());
    }
    let ExportProgress { exported, lacking_files, channels, .. } = progress;
    let messages = plain::counted(exported, "message", "messages");
    let channels = plain::counted(channels, "channel", "channels");
    writeln!(out, "Exported {messages} of {channels} to {target_path}.")?;
    if lacking_files > 0 {
        let files_are = plain::counted(lacking_files, "file is", "files are");
        writeln!(out, "{files_are} not in it: the store of files lacks the bytes.")?;
    }
    Ok(())
}

/// Returns what an importer needs, if the export is for one.
fn import_request(args: &ExportArgs) -> Result<Option<ImportRequest>, UsageError> {
    let Some(importer) = args.importer else { return Ok(None) };
    if args.format != ExportFormat::Slack {
        return Err(UsageError::new("--for changes the format slack: give --format slack"));
    }
    if args.files_url.is_some() && importer != Importer::Zulip {
        return Err(UsageError::new("--files-url is for zulip: mattermost reads files from the zip"));
    }
    let files_url = args.files_url.as_ref().map(|url| url.as_str().trim_end_matches('/').to_owned());
    let mut files_folder = args.out.clone().into_os_string();
    files_folder.push("-files");
    Ok(Some(ImportRequest { importer, files_url, files_folder: files_folder.into(), asked: None }))
}

/// Prints the progress of an export on standard error.
pub(crate) struct ExportProgress {
    progress: ProgressLine,
    channels: usize,
    channels_done: usize,
    read: u64,
    exported: u64,
    lacking_files: u64,
}

impl ExportProgress {
    fn new(channels: usize) -> Self {
        let progress = ProgressLine::begin();
        Self { progress, channels, channels_done: 0, read: 0, exported: 0, lacking_files: 0 }
    }

    /// Counts a page of a channel's rows.
    fn read(&mut self, rows: usize) {
        self.read += rows as u64;
        self.print();
    }

    /// Counts a written message, unless it is only context for another one.
    fn count_exported_if(&mut self, is_exported: bool) {
        self.exported += u64::from(is_exported);
    }

    /// Counts a file that the file store lacks.
    fn count_missing_file(&mut self) {
        self.lacking_files += 1;
    }

    /// Counts a written channel.
    fn channel_done(&mut self) {
        self.channels_done += 1;
        self.print();
    }

    fn print(&mut self) {
        let Self { progress, channels, channels_done, read, exported, .. } = self;
        let (done, all) = (*channels_done as u64, *channels as u64);
        progress.update(done, all, |elapsed| line(*exported, *read, (done, all), elapsed));
    }
}

/// Formats the number of written messages, the read rate and the number of finished channels.
fn line(exported: u64, read: u64, (done, channels): (u64, u64), elapsed: Duration) -> String {
    let per_second = (read as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
    format!(
        "{} written, {} read, {} a second; {done} of {} done",
        plain::counted(exported, "message", "messages"),
        plain::counted(read, "row", "rows"),
        grouped(per_second),
        plain::counted(channels, "channel", "channels")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_shows_counts_and_the_read_rate() {
        let progress_line = line(20_000, 50_000, (3, 40), Duration::from_secs(2));
        assert_eq!(
            progress_line,
            "20,000 messages written, 50,000 rows read, 25,000 a second; 3 of 40 channels done"
        );
    }
}
