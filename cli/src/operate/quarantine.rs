//! `annalist quarantine`: jobs that could not be stored, about which a person decides.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Subcommand};
use jiff::Timestamp;
use ports::archive::Archive;
use ports::clock::{SharedClock, TimestampMs};
use ports::queue::QueueName;
use ports::queue::topology::QUEUES;
use process::config::backend::Backend;
use process::config::backend::BackendArgs;
use process::config::zone::ZoneArgs;
use serde::Serialize;
use serde_json::Value;
use slack::ids::TeamId;
use workers::archive_version;
use workers::quarantine::{self, Loss, QuarantineError, QuarantineFilter, Quarantined, redaction};
use workers::runtime::Ports;

use crate::plain;
use crate::progress::ProgressLine;
use crate::read::team;
use crate::zone::Zone;

/// Maximum length of a reason in a list. The end of a longer one is kept, because it says what to do.
const REASON: usize = 300;

const NOTHING: &str = "Nothing is in quarantine.";
const NO_MATCH: &str = "Nothing matches.";
const CHANGED: &str = "has changed meanwhile: look at it again with `annalist quarantine show`";

/// The jobs that a command is about; together, the options narrow them down.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct QuarantineFilterArgs {
    /// Jobs of this workspace
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    /// Jobs whose reason contains this text, in upper or lower case
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: Option<String>,
    /// Jobs of this queue
    #[arg(long, value_name = "QUEUE", value_parser = queue_parser())]
    queue: Option<QueueName>,
}

fn queue_parser() -> impl TypedValueParser<Value = QueueName> {
    PossibleValuesParser::new(QUEUES.each_ref().map(|spec| spec.label))
        .try_map(|label| QueueName::from_label(&label).ok_or("no queue has this name"))
}

impl From<&QuarantineFilterArgs> for QuarantineFilter {
    fn from(args: &QuarantineFilterArgs) -> Self {
        let QuarantineFilterArgs { team, reason, queue } = args.clone();
        Self { team, reason, queue }
    }
}

/// `annalist quarantine …`.
#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    /// List the jobs
    List {
        #[command(flatten)]
        filter: QuarantineFilterArgs,
        #[command(flatten)]
        backend: BackendArgs,
        /// One JSON object per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        zone: ZoneArgs,
    },
    /// Show a job whole, without the secrets in it
    Show {
        /// The job, as `list` names it
        id: String,
        #[command(flatten)]
        backend: BackendArgs,
        /// One JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        zone: ZoneArgs,
    },
    /// Send jobs back to their queues after the cause is fixed; it may be interrupted and run again
    #[command(group(ArgGroup::new("jobs").required(true).multiple(true).args(["id", "all", "team", "reason", "queue", "waiting"])))]
    Replay {
        /// The job, as `list` names it
        #[arg(conflicts_with_all = ["all", "team", "reason", "queue", "waiting"])]
        id: Option<String>,
        /// Every job there is
        #[arg(long, conflicts_with_all = ["team", "reason", "queue"])]
        all: bool,
        /// Not the jobs in quarantine, but those that wait; by themselves they are tried again within a minute
        #[arg(long)]
        waiting: bool,
        #[command(flatten)]
        filter: QuarantineFilterArgs,
        #[command(flatten)]
        backend: BackendArgs,
    },
    /// Remove jobs for good; if that loses an event, `annalist gaps` shows it
    #[command(group(ArgGroup::new("jobs").required(true).multiple(true).args(["id", "team", "reason", "queue"])))]
    Drop {
        /// The job, as `list` names it
        #[arg(conflicts_with_all = ["team", "reason", "queue"])]
        id: Option<String>,
        #[command(flatten)]
        filter: QuarantineFilterArgs,
        /// Remove them; without it, several jobs are only counted
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        backend: BackendArgs,
    },
}

impl QuarantineCommand {
    pub(crate) fn backend(&self) -> &BackendArgs {
        match self {
            Self::List { backend, .. }
            | Self::Show { backend, .. }
            | Self::Replay { backend, .. }
            | Self::Drop { backend, .. } => backend,
        }
    }
}

pub(crate) async fn run(
    backend: &Backend,
    clock: &SharedClock,
    command: &QuarantineCommand,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let archive = &*backend.archive();
    if matches!(command, QuarantineCommand::Replay { .. } | QuarantineCommand::Drop { .. }) {
        archive_version::refuse_newer(archive).await?;
    }
    match command {
        QuarantineCommand::List { json: true, filter, .. } => {
            let print = async |job: Quarantined| Ok(plain::json_line(out, &QuarantineLine::from(&job))?);
            quarantine::for_each(archive, &filter.into(), print).await
        }
        QuarantineCommand::List { json: false, filter, zone, .. } => {
            list(archive, &filter.into(), &Zone::from_args(zone), out).await
        }
        QuarantineCommand::Show { id, json, zone, .. } => {
            show(&find(archive, id).await?, *json, &Zone::from_args(zone), out)
        }
        QuarantineCommand::Replay { id: Some(id), .. } => {
            let job = find(archive, id).await?;
            let sent = quarantine::replay(&*backend.queue(), archive, &**clock, &job).await;
            sent.with_context(|| format!("{} could not be replayed", job.id))?;
            Ok(writeln!(out, "sent {} back to {}", plain::line(&job.id), job.queue)?)
        }
        QuarantineCommand::Replay { id: None, waiting: true, filter, .. } => {
            let ports =
                Ports { queue: backend.queue(), archive: backend.archive(), clock: Arc::clone(clock) };
            release_waiting(&ports, &filter.into(), out).await
        }
        QuarantineCommand::Replay { id: None, waiting: false, filter, .. } => {
            let queue = backend.queue();
            let replay =
                async |job: &Quarantined| match quarantine::replay(&*queue, archive, &**clock, job).await {
                    Err(error @ QuarantineError::Withheld) => Ok(Some(error.to_string())),
                    sent => Ok(sent
                        .with_context(|| format!("{} could not be replayed", job.id))
                        .map(|()| None)?),
                };
            let filter = filter.into();
            let total = quarantine::count_matching(archive, &filter).await?;
            for_matching(archive, &filter, total, "Sent back", replay, out).await
        }
        QuarantineCommand::Drop { id: Some(id), .. } => {
            drop_one(archive, &find(archive, id).await?, out).await
        }
        QuarantineCommand::Drop { id: None, filter, yes, .. } => {
            let filter = filter.into();
            let total = quarantine::count_matching(archive, &filter).await?;
            if total > 0 && !yes {
                let jobs = plain::counted(total, "job matches", "jobs match");
                bail!("{jobs}: repeat it with --yes to remove what matches for good");
            }
            let discard = async |job: &Quarantined| {
                Ok((!quarantine::discard(archive, job).await?).then(|| format!("it {CHANGED}")))
            };
            for_matching(archive, &filter, total, "Dropped", discard, out).await
        }
    }
}

/// Handles the jobs that match, in the order in which they were first sent. `handle` returns why a job stays,
/// which does not block the others. Each job is handled completely before the next one, so that an
/// interruption loses nothing.
async fn for_matching(
    archive: &dyn Archive,
    filter: &QuarantineFilter,
    total: u64,
    handled: &str,
    mut handle: impl AsyncFnMut(&Quarantined) -> anyhow::Result<Option<String>>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if total == 0 {
        return Ok(writeln!(out, "{NO_MATCH}")?);
    }
    let mut progress = ProgressLine::begin();
    let (mut done, mut staying) = (0, 0);
    let each = async |job: Quarantined| {
        match handle(&job).await? {
            None => done += 1,
            Some(why) => {
                staying += 1;
                progress.suspend(|| writeln!(out, "{} stays: {why}", plain::line(&job.id)))?;
            }
        }
        // Jobs may be added meanwhile.
        let (seen, total) = (done + staying, total.max(done + staying));
        progress
            .update(seen, total, |_| format!("{} of {} jobs", plain::grouped(seen), plain::grouped(total)));
        Ok(())
    };
    let all = quarantine::for_each(archive, filter, each).await;
    drop(progress);
    if staying > 0 {
        writeln!(out, "{}.", plain::counted(staying, "job stays", "jobs stay"))?;
    }
    writeln!(out, "{handled} {}.", plain::counted(done, "job", "jobs"))?;
    all
}

/// Sends waiting jobs back. Each page is sent completely before the next one, so that an interruption loses nothing.
async fn release_waiting(
    ports: &Ports,
    filter: &QuarantineFilter,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut sent = 0;
    let mut progress = ProgressLine::begin();
    let released = quarantine::release_waiting(ports, filter, |count| {
        sent += u64::try_from(count).unwrap_or_default();
        progress.update(sent, sent, |_| format!("{} jobs", plain::grouped(sent)));
    });
    let released = released.await;
    drop(progress);
    match (&released, sent) {
        (Ok(()), 0) => writeln!(out, "{NO_MATCH}")?,
        (Ok(()) | Err(_), _) => writeln!(out, "Sent back {}.", plain::counted(sent, "job", "jobs"))?,
    }
    Ok(released?)
}

async fn drop_one(archive: &dyn Archive, job: &Quarantined, out: &mut dyn Write) -> anyhow::Result<()> {
    let loss = quarantine::loss(archive, job).await?;
    if !quarantine::discard(archive, job).await? {
        bail!("{} {CHANGED}", job.id);
    }
    let gap_note = match loss {
        Some(Loss { channel: Some(channel), .. }) => {
            format!("; `annalist gaps` shows that {channel} lacks it")
        }
        Some(Loss { channel: None, .. }) => "; `annalist gaps` shows that it is missing".to_owned(),
        None if job.is_unreadable() => {
            "; it cannot be read, so `annalist gaps` shows the whole hour in which it came".to_owned()
        }
        None if job.queue == QueueName::Files => {
            "; `annalist files` shows what is missing, and `annalist files retry` asks for it again"
                .to_owned()
        }
        None => String::new(),
    };
    Ok(writeln!(out, "dropped {}{gap_note}", plain::line(&job.id))?)
}

async fn find(archive: &dyn Archive, id: &str) -> anyhow::Result<Quarantined> {
    let unknown =
        || format!("no job {} in quarantine: `annalist quarantine list` shows them", plain::excerpt(id, 80));
    quarantine::find(archive, id).await?.with_context(unknown)
}

#[derive(Serialize)]
struct QuarantineLine<'a> {
    id: &'a str,
    queue: &'static str,
    team_id: Option<TeamId>,
    group: &'a str,
    reason: String,
    attempts: u64,
    first_seen: String,
    last_seen: String,
}

impl<'a> From<&'a Quarantined> for QuarantineLine<'a> {
    fn from(job: &'a Quarantined) -> Self {
        Self {
            id: &job.id,
            queue: job.queue.spec().label,
            team_id: job.team(),
            group: &job.group,
            // A reason may quote the contents of its job.
            reason: redaction::text_without_secrets(&job.reason),
            attempts: job.attempts,
            first_seen: rfc3339(job.first_seen),
            last_seen: rfc3339(job.last_seen),
        }
    }
}

async fn list(
    archive: &dyn Archive,
    filter: &QuarantineFilter,
    zone: &Zone,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut is_empty = true;
    let print = async |job: Quarantined| -> anyhow::Result<()> {
        if std::mem::take(&mut is_empty) {
            writeln!(out, "Times are in {}.", zone.name())?;
        }
        let QuarantineLine { reason, attempts, .. } = QuarantineLine::from(&job);
        let times = plain::counted(attempts, "attempt", "attempts");
        let (first_seen, last_seen) = (in_zone(zone, job.first_seen), in_zone(zone, job.last_seen));
        writeln!(out, "{}\n    in group {}", plain::line(&job.id), plain::line(&job.group))?;
        writeln!(out, "    {times}, first seen {first_seen}, last seen {last_seen}")?;
        Ok(writeln!(out, "    {}", plain::tail(&reason, REASON))?)
    };
    quarantine::for_each(archive, filter, print).await?;
    if is_empty {
        let is_unfiltered = *filter == QuarantineFilter::default();
        return Ok(writeln!(out, "{}", if is_unfiltered { NOTHING } else { NO_MATCH })?);
    }
    writeln!(
        out,
        "\n`annalist quarantine show ID` shows a job, `replay ID` sends it again, `drop ID` removes it."
    )?;
    Ok(())
}

/// A job as `show --json` prints it.
#[derive(Serialize)]
struct ShownJob<'a> {
    #[serde(flatten)]
    listed: QuarantineLine<'a>,
    payload: Value,
}

fn show(job: &Quarantined, json: bool, zone: &Zone, out: &mut dyn Write) -> anyhow::Result<()> {
    let payload = redaction::without_secrets(&job.payload);
    let parsed = serde_json::from_str::<Value>(&payload);
    if json {
        let payload = parsed.unwrap_or_else(|_| payload.into());
        return Ok(plain::json_line(out, &ShownJob { listed: QuarantineLine::from(job), payload })?);
    }
    let QuarantineLine { id, queue, group, reason, attempts, .. } = QuarantineLine::from(job);
    let attempts = attempts.to_string();
    let in_named_zone = |time| format!("{} ({})", in_zone(zone, time), zone.name());
    let (first_seen, last_seen) = (in_named_zone(job.first_seen), in_named_zone(job.last_seen));
    for (name, value) in [
        ("id", id),
        ("queue", queue),
        ("group", group),
        ("reason", &reason),
        ("attempts", &attempts),
        ("first seen", &first_seen),
        ("last seen", &last_seen),
    ] {
        writeln!(out, "{name:<11} {}", plain::line(value))?;
    }
    let pretty = parsed.and_then(|parsed| serde_json::to_string_pretty(&parsed)).unwrap_or(payload);
    writeln!(out)?;
    for line in plain::lines(&pretty) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn in_zone(zone: &Zone, time: TimestampMs) -> String {
    Timestamp::from_millisecond(time.0).map_or_else(|_| time.0.to_string(), |time| zone.moment(time))
}

fn rfc3339(time: TimestampMs) -> String {
    Timestamp::from_millisecond(time.0).map_or_else(|_| time.0.to_string(), |time| format!("{time:.3}"))
}

#[cfg(test)]
#[path = "quarantine_tests.rs"]
mod tests;
