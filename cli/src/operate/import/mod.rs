//! `annalist import`: reads an export of Slack into the archive.
//!
//! Only this module knows zips and folders; [`workers::import`] knows the contents of an export.

mod folder;
mod progress;
mod zipped;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use ports::archive::Archive;
use ports::clock::SharedClock;
use process::config::backend::{Backend, BackendArgs, BackendKind};
use process::config::slack::SlackArgs;
use process::config::{self, IndexArgs};
use serde::Serialize;
use slack::ids::TeamId;
use workers::archive_version;
use workers::import::{
    ExportEntries, FailedImport, FileTarget, ImportFiles, ImportNotice, ImportOptions, ImportSum,
    ImportTarget, PrivateCounts, Problem, import,
};
use workers::store::PreviewArchive;

use crate::plain;
use crate::progress::ProgressLine;
use crate::read::team;
use folder::FolderExport;
use zipped::ZipExport;

/// `annalist import`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ImportArgs {
    /// The export, as Slack or slackdump made it: a zip, or the folder that was in it
    #[arg(value_name = "EXPORT")]
    export: PathBuf,
    /// Workspace id, if the export does not contain it
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    /// Show what would be imported, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Skip all files
    #[arg(long)]
    no_files: bool,
    /// One problem per line as JSON, and the sum as the last line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    slack: SlackArgs,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    backend: BackendArgs,
}

/// A problem as JSON.
#[derive(Serialize)]
struct PrintedProblem<'p> {
    problem: &'static str,
    path: &'p str,
    detail: &'p str,
}

impl<'p> PrintedProblem<'p> {
    fn new(problem: &'p Problem) -> Self {
        Self { problem: problem.kind.as_str(), path: &problem.path, detail: &problem.detail }
    }
}

/// Imports an export and prints what could not be imported.
pub(crate) async fn run(args: &ImportArgs, clock: SharedClock, out: &mut dyn Write) -> anyhow::Result<()> {
    let name = plain::line(&args.export.display().to_string());
    let (source, found) = match open_export(&args.export) {
        Ok(opened) => opened,
        Err(problem) => {
            if args.json {
                plain::json_line(out, &PrintedProblem::new(&problem))?;
                plain::json_line(out, &ImportSum { skipped: 1, problems: 1, ..ImportSum::default() })?;
            }
            bail!("cannot import {name}: {}", plain::line(&problem.detail));
        }
    };
    let options = ImportOptions { team: args.team.clone(), tokens: tokens(args).await?, now: clock.now() };
    let backend = open_backend(args, clock).await?;
    let target = target(args, backend.as_ref());
    let mut printer = ImportPrinter { out, progress: ProgressLine::begin(), args, failed: None };
    if let Some(problem) = &found {
        printer.print(&ImportNotice::Problem(problem));
    }
    let imported = import(source, &target, &options, &mut |notice| printer.print(&notice)).await;
    let ImportPrinter { progress, failed, .. } = printer;
    drop(progress);
    drop(target);
    if let Some(backend) = backend {
        if !args.dry_run && imported.is_ok() {
            crate::search::index_what_came(&backend, &args.index, &args.backend).await;
        }
        backend.close().await;
    }
    let (mut sum, ended) = match imported {
        Ok(sum) => (sum, Ok(())),
        Err(FailedImport { error, sum }) => (sum, Err(*error)),
    };
    if let Some(problem) = &found {
        sum.problems += 1;
        sum.skipped += problem.skipped;
    }
    let printed = match failed {
        Some(error) => Err(error),
        None if args.json => plain::json_line(out, &sum),
        None if ended.is_ok() => print_sum(args, &sum, out),
        None => Ok(()),
    };
    let printed = printed.and_then(|()| out.flush());
    ended.with_context(|| format!("cannot import {name}"))?;
    printed?;
    if sum.skipped > 0 {
        bail!("{} things in {name} could not be imported: each is a line above", sum.skipped);
    }
    Ok(())
}

/// Opens a zip or a folder. Returns also a problem that does not prevent the import.
fn open_export(path: &Path) -> Result<(Box<dyn ExportEntries>, Option<Problem>), Problem> {
    if path.is_dir() {
        return Ok((Box::new(FolderExport::open(path)?), None));
    }
    let zip = ZipExport::open(path)?;
    let found = zip.problem(path);
    Ok((Box::new(zip), found))
}

/// Returns the workspaces that have tokens; `None` without any token.
async fn tokens(args: &ImportArgs) -> anyhow::Result<Option<Vec<TeamId>>> {
    let api = config::slack::web_api(&args.slack).await?;
    if !api.has_tokens() {
        return Ok(None);
    }
    let teams = api.teams().await.context(
        "Slack does not report the workspace of the bot token: import again later, or without the token",
    )?;
    Ok(Some(teams))
}

/// Opens the archive; `None` if it does not exist yet in a dry run.
async fn open_backend(args: &ImportArgs, clock: SharedClock) -> anyhow::Result<Option<Backend>> {
    let is_folder = args.backend.backend == BackendKind::Embedded;
    if args.dry_run && is_folder && !args.backend.data.data.join(embedded::DATABASE_FILE).exists() {
        return Ok(None);
    }
    let backend = Backend::open(&args.backend, clock).await?;
    backend.work_in_background();
    archive_version::refuse_newer(&*backend.archive()).await?;
    Ok(Some(backend))
}

fn target(args: &ImportArgs, backend: Option<&Backend>) -> ImportTarget {
    match backend {
        Some(backend) if !args.dry_run => {
            let files = if args.no_files {
                ImportFiles::Skipped
            } else {
                ImportFiles::Imported(FileTarget { queue: backend.queue(), files: backend.files() })
            };
            ImportTarget { archive: backend.archive(), files }
        }
        other => {
            let archive: Option<Arc<dyn Archive>> = other.map(Backend::archive);
            let files = if args.no_files { ImportFiles::Skipped } else { ImportFiles::Counted };
            ImportTarget { archive: Arc::new(PreviewArchive::new(archive)), files }
        }
    }
}

/// Prints the notices of an import.
struct ImportPrinter<'p> {
    out: &'p mut dyn Write,
    progress: ProgressLine,
    args: &'p ImportArgs,
    /// The first write error. The import continues despite it.
    failed: Option<io::Error>,
}

impl ImportPrinter<'_> {
    fn print(&mut self, notice: &ImportNotice<'_>) {
        let Self { out, progress, args, failed } = self;
        let printed = match notice {
            ImportNotice::Progress(done) => {
                progress.update(done.read_bytes, done.total_bytes, |elapsed| progress::rate(done, elapsed));
                Ok(())
            }
            ImportNotice::Problem(problem) => progress.suspend(|| print_problem(args, problem, *out)),
            ImportNotice::Private(private) => progress.suspend(|| print_private(args, *private, *out)),
            ImportNotice::Marked(marked) => progress.suspend(|| print_marked(args, *marked, *out)),
        };
        if let Err(error) = printed {
            failed.get_or_insert(error);
        }
    }
}

fn print_problem(args: &ImportArgs, problem: &Problem, out: &mut dyn Write) -> io::Result<()> {
    if args.json {
        plain::json_line(out, &PrintedProblem::new(problem))?;
    } else {
        let (path, detail) = (plain::line(&problem.path), plain::line(&problem.detail));
        writeln!(out, "{:<14} {path}: {detail}", problem.kind.as_str())?;
    }
    out.flush()
}

/// Prints a line for each kind of conversation that is never stored.
fn print_private(args: &ImportArgs, private: PrivateCounts, out: &mut dyn Write) -> io::Result<()> {
    let kinds = [
        (private.channels, "private channel"),
        (private.direct_messages, "direct message"),
        (private.group_messages, "group direct message"),
    ];
    for (count, kind) in kinds.into_iter().filter(|(count, _)| *count > 0 && !args.json) {
        writeln!(out, "{}: never stored", plain::counted(count, kind, &format!("{kind}s")))?;
    }
    Ok(())
}

/// Prints which protection an import would weaken, before it does.
fn print_marked(args: &ImportArgs, marked: u64, out: &mut dyn Write) -> io::Result<()> {
    if marked > 0 && args.dry_run && !args.json {
        writeln!(
            out,
            "{} would be marked as public because the export says so: from then on, new messages there are stored \
             without asking Slack whether the channel is public",
            plain::counted(marked, "channel", "channels")
        )?;
    }
    Ok(())
}

fn print_sum(args: &ImportArgs, sum: &ImportSum, out: &mut dyn Write) -> io::Result<()> {
    let ImportSum { channels, messages, new, updated, unchanged, expired, users, files, .. } = sum;
    let done = if args.dry_run { "Would import" } else { "Imported" };
    write!(
        out,
        "{done} {} of {}: {} new, {} updated, {} unchanged; {}, {}",
        plain::counted(*messages, "message", "messages"),
        plain::counted(*channels, "channel", "channels"),
        plain::grouped(*new),
        plain::grouped(*updated),
        plain::grouped(*unchanged),
        plain::counted(*users, "person", "people"),
        plain::counted(*files, "file", "files")
    )?;
    if *expired > 0 {
        let messages = plain::counted(*expired, "message is", "messages are");
        write!(out, "; {messages} older than the retention rule keeps")?;
    }
    if sum.reactions_cut > 0 {
        let cut = plain::counted(sum.reactions_cut, "message", "messages");
        write!(out, "; the reactions to {cut} are not all in the export")?;
    }
    writeln!(out, ".")?;
    if *files > 0 {
        writeln!(out, "`annalist up` with a bot token fetches the files that the export does not contain.")?;
    }
    if !args.dry_run && *messages > 0 {
        writeln!(out, "See it in a browser: annalist view {}", args.backend.selecting_flag())?;
    }
    Ok(())
}
