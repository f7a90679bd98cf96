//! `annalist publish`: puts chosen channels on the web as a folder of plain pages, which a run brings up to date.
//!
//! * [`settings`] and [`channels`]: what is published. [`state`]: what the pages were made from. [`dirty`] marks
//!   what changed since the last run.
//! * [`run`] renders what is marked: [`month`] the messages, which [`timeline`] reads, without the days that are [`kept`],
//!   and [`site`] the rest;
//!   [`tags`] are the names that they show, and [`copies`] the files.
//!   [`write`](mod@write) replaces the files, and [`upload`](mod@upload) copies them to a bucket.
//! * [`search_parts`]: the search, which Pagefind makes of the pages.
//! * [`check`] looks for what is wrong with a site. [`error`]: why one could not be made. [`opt_outs`]: the only part that writes to the archive.

mod channels;
mod check;
mod copies;
mod dirty;
mod error;
mod kept;
mod month;
mod opt_outs;
#[cfg(test)]
mod publish_tests;
mod run;
mod search_parts;
mod settings;
mod site;
mod state;
mod tags;
mod threads;
mod timeline;
mod upload;
mod write;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ports::clock::SystemClock;
use process::config::backend::{Backend, BackendArgs, BackendError};
use process::config::bucket::FilesPlaceError;
use process::config::publish::{PublicNaming, PublicSearch, PublicSiteArgs, SiteUrl};
use process::config::zone::ZoneArgs;
use serde_json::json;
use slack::ids::TeamId;
use tokio::sync::watch;

use self::check::SiteProblem;
pub(crate) use self::error::PublishError;
use self::opt_outs::SiteOptOutCommand;
use self::run::{PublishRun, RunOutcome};
use self::settings::SiteSettings;
use self::state::SiteState;
use self::upload::UploadCounts;
use crate::UsageError;
use crate::blocking::on_archive;
use crate::failure;
use crate::plain;
use crate::read::{channel_name, team};

/// What to do if no channel is named.
const NOTHING_NAMED: &str =
    "nothing is published unless it is named: give --channel, --channels-file or --all-public";

/// The shortest time between two turns: each of them reads all names.
const SHORTEST_TURN: Duration = Duration::from_secs(10);

/// `annalist publish`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "Only the named channels are published, and only while they are public. Run it again to bring the site up to date:\n  \
    annalist publish --out /var/www/chat --url https://chat.example.org --channel '#general' --data /var/lib/annalist\n  \
    annalist publish opt-out @ana --data /var/lib/annalist"
)]
pub(crate) struct PublishCommand {
    #[command(subcommand)]
    wish: Option<SiteOptOutCommand>,
    #[command(flatten)]
    publish: PublishArgs,
}

/// The arguments of a run. `--files` is that of the site, so the bucket of the archive's files has another flag here.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("files_in", |arg| arg.long("files-in")))]
pub(crate) struct PublishArgs {
    #[command(flatten)]
    site: PublicSiteArgs,
    /// Publish this channel, by name or id; may be given several times
    #[arg(long = "channel", value_name = "CHANNEL", value_parser = channel_name)]
    channels: Vec<String>,
    /// Publish every public channel
    #[arg(long)]
    all_public: bool,
    /// Channels that are shared with another organisation too
    #[arg(long)]
    include_shared: bool,
    /// The pictures of people; only with --names display
    #[arg(long)]
    avatars: bool,
    /// Hide a message if its author gives it this reaction
    #[arg(long, value_name = "NAME")]
    opt_out_emoji: Option<String>,
    /// Ask search engines not to list the site, for a trial
    #[arg(long)]
    no_index: bool,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Look for what is wrong with the site, and change nothing
    #[arg(long, conflicts_with = "dry_run")]
    check: bool,
    /// Keep running until stopped, and publish what is new at each turn
    #[arg(long, conflicts_with_all = ["dry_run", "check"])]
    follow: bool,
    /// With --follow: the time between two turns, such as 90s, 15m, 1h or 1d
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = turn)]
    every: Duration,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    backend: BackendArgs,
}

/// Runs the command, or changes a wish.
pub(crate) fn command(command: &PublishCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    match &command.wish {
        Some(wish) => on_archive(wish.backend(), async |backend| {
            opt_outs::run(&*backend.archive(), &SystemClock, wish, out).await
        }),
        None => {
            let args = &command.publish;
            if args.channels.is_empty() && args.site.channels_file.is_none() && !args.all_public {
                return Err(UsageError::new(NOTHING_NAMED).into());
            }
            on_archive(&args.backend, async |backend| run(backend, &command.publish, out).await)
                .map_err(with_own_flag)
        }
    }
}

/// Names the flag of a run in the error of an archive whose files are elsewhere: every other command calls it `--files`.
fn with_own_flag(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(BackendError::Files(FilesPlaceError::Elsewhere(place))) => {
            PublishError::FilesElsewhere(place.clone()).into()
        }
        Some(_) | None => error,
    }
}

async fn run(backend: &Backend, args: &PublishArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    // Without a subcommand, both are required.
    let (Some(folder), Some(url)) = (&args.site.out, &args.site.url) else {
        return Err(UsageError::new("give --out and --url").into());
    };
    if args.avatars && args.site.names == PublicNaming::Pseudonym {
        return Err(
            UsageError::new("--avatars shows who people are: leave it out with --names pseudonym").into()
        );
    }
    if args.check {
        return check_site(backend, args, folder, url, out).await;
    }
    let mut shutdown = process::shutdown::on_signal()?;
    while !*shutdown.borrow() {
        let turn = publish(backend, args, folder, url, &shutdown).await;
        match turn {
            Ok(outcome) if outcome.is_interrupted => break,
            Ok(outcome) => {
                print(args, folder, &outcome, out)?;
                if let Some(failure) = outcome.search.and_then(|search| search.failure) {
                    let error = PublishError::Search(failure).into();
                    if !args.follow {
                        return Err(error);
                    }
                    let _reported = failure::report_error(&error);
                }
            }
            // The next turn may find the disk or the archive well again.
            Err(error) if args.follow => drop(failure::report_error(&error.into())),
            Err(error) => return Err(error.into()),
        }
        if !args.follow {
            return Ok(());
        }
        out.flush()?;
        // A failed wait means that the process is ending.
        drop(tokio::time::timeout(args.every, shutdown.wait_for(|is_ending| *is_ending)).await);
    }
    writeln!(out, "Stopped: the next run completes the site.")?;
    Ok(())
}

/// Brings the site up to date once.
async fn publish(
    backend: &Backend,
    args: &PublishArgs,
    folder: &Path,
    url: &SiteUrl,
    shutdown: &watch::Receiver<bool>,
) -> Result<RunOutcome, PublishError> {
    let search_program = search_parts::find(&args.site).await?;
    let settings = SiteSettings { search_program, ..SiteSettings::read(args, url)? };
    let (archive, files) = (backend.archive(), backend.files());
    // A folder that does not exist yet stays missing in a dry run.
    let state =
        if args.dry_run && !folder.exists() { SiteState::in_memory()? } else { SiteState::open(folder)? };
    if args.dry_run {
        state.try_out()?;
    }
    let written = (!args.dry_run).then(|| folder.to_owned());
    let mut run =
        PublishRun::begin((&*archive, &*files), settings, args.team.as_ref(), state, written).await?;
    let outcome = run.finish_site(&*backend.changes(), shutdown).await;
    if args.dry_run {
        run.state.undo()?;
        return outcome;
    }
    let mut outcome = outcome?;
    if let Some(target) = args.site.upload.as_ref().filter(|_| !outcome.is_interrupted) {
        let uploaded = upload::to_bucket(&mut run.state, folder, target, shutdown).await?;
        outcome.is_interrupted = uploaded.is_interrupted;
        outcome.uploaded = Some(uploaded);
    }
    Ok(outcome)
}

/// Prints what is wrong with the site. The command fails if there is something.
async fn check_site(
    backend: &Backend,
    args: &PublishArgs,
    folder: &Path,
    url: &SiteUrl,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let settings = SiteSettings::read(args, url)?;
    if !folder.is_dir() {
        return Err(PublishError::NoSite(folder.to_owned()).into());
    }
    let (archive, files, state) = (backend.archive(), backend.files(), SiteState::open(folder)?);
    let run = PublishRun::begin((&*archive, &*files), settings, args.team.as_ref(), state, None).await?;
    let unshown = run.unshown_names().await?;
    let (checked, problems) = check::check(&run.state, folder, url.as_str(), url.path(), &unshown)?;
    if args.json {
        let problems: Vec<_> = problems.iter().map(SiteProblem::to_json).collect();
        writeln!(out, "{}", json!({ "checked": checked, "problems": problems }))?;
    } else {
        for SiteProblem { path, problem, detail } in &problems {
            writeln!(out, "{problem}: {}: {}", plain::line(path), plain::line(detail))?;
        }
        if problems.is_empty() {
            writeln!(out, "{}: nothing is wrong.", plain::counted(checked, "file", "files"))?;
        }
    }
    out.flush()?;
    if problems.is_empty() {
        return Ok(());
    }
    let problems = plain::counted(problems.len() as u64, "problem", "problems");
    anyhow::bail!("the site has {problems}: publish it again, or choose an empty folder")
}

/// Reads the time between two turns.
fn turn(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "use a time such as 90s, 15m, 1h or 1d, of at least 10 seconds";
    let split = text.len().saturating_sub(1);
    let (number, unit) = text.split_at_checked(split).ok_or(EXPECTED)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(EXPECTED),
    };
    let number: u32 = number.parse().map_err(|_| EXPECTED)?;
    let turn = Duration::from_secs(u64::from(number) * seconds);
    (turn >= SHORTEST_TURN).then_some(turn).ok_or(EXPECTED)
}

/// What a run did for the search, in a word.
fn search_outcome(args: &PublishArgs, outcome: &RunOutcome) -> &'static str {
    match &outcome.search {
        None if args.site.search == PublicSearch::Off => "off",
        None => "missing",
        Some(search) if search.failure.is_some() => "failed",
        Some(search) if search.has_changed => "built",
        Some(_) => "unchanged",
    }
}

fn print(args: &PublishArgs, folder: &Path, outcome: &RunOutcome, out: &mut dyn Write) -> anyhow::Result<()> {
    let RunOutcome { channels, people_hidden, files, refused, counts, .. } = outcome;
    let (written, deleted) = (counts.written.len() as u64, counts.deleted.len() as u64);
    if args.json {
        let refused: Vec<_> = refused
            .iter()
            .map(|refused| json!({ "channel": refused.channel, "reason": refused.reason.as_str() }))
            .collect();
        let mut summary = json!({ "channels": channels, "people_hidden": people_hidden, "files": files,
            "written": written, "deleted": deleted, "unchanged": files.saturating_sub(written), "refused": refused,
            "search": search_outcome(args, outcome), "dry_run": args.dry_run });
        if let Some(UploadCounts { uploaded, removed, .. }) = outcome.uploaded {
            summary["uploaded"] = json!({ "written": uploaded, "deleted": removed });
        }
        if args.dry_run {
            summary["would_write"] = json!(counts.written);
            summary["would_delete"] = json!(counts.deleted);
        }
        writeln!(out, "{summary}")?;
        return Ok(());
    }
    for refused in refused {
        writeln!(
            out,
            "{} is not published: it is {}.",
            plain::line(&refused.channel),
            refused.reason.as_str().replace('_', " ")
        )?;
    }
    if search_outcome(args, outcome) == "missing" {
        writeln!(out, "The site has no search: install Pagefind, or name it with --pagefind.")?;
    }
    if args.dry_run {
        for (verb, paths) in [("write", &counts.written), ("delete", &counts.deleted)] {
            for path in paths {
                writeln!(out, "would {verb} {}", plain::line(path))?;
            }
        }
        return Ok(());
    }
    let folder = plain::line(&folder.display().to_string());
    let channels = plain::counted(*channels, "channel", "channels");
    let files = plain::counted(*files, "file", "files");
    let (written, deleted) = (plain::grouped(written), plain::grouped(deleted));
    writeln!(out, "{folder} has {channels} in {files}: {written} written, {deleted} deleted.")?;
    if let (Some(target), Some(UploadCounts { uploaded, removed, .. })) =
        (&args.site.upload, outcome.uploaded)
    {
        let (uploaded, removed) = (plain::grouped(uploaded), plain::grouped(removed));
        writeln!(out, "{target}: {uploaded} written, {removed} deleted.")?;
    }
    Ok(())
}
