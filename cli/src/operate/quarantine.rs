//! `annalist quarantine`: jobs that could not be stored, about which a person decides.

use std::io::Write;

use anyhow::{Context, bail};
use clap::{ArgGroup, Subcommand};
use jiff::Timestamp;
use ports::archive::Archive;
use ports::clock::{Clock, TimestampMs};
use ports::queue::QueueName;
use process::config::backend::Backend;
use process::config::backend::BackendArgs;
use process::config::zone::ZoneArgs;
use serde::Serialize;
use serde_json::Value;
use workers::quarantine::{self, Loss, QuarantineError, Quarantined, redaction};

use crate::plain;
use crate::zone::Zone;

/// Maximum length of a reason in a list. The end of a longer one is kept, because it says what to do.
const REASON: usize = 300;

const NOTHING: &str = "Nothing is in quarantine.";

/// `annalist quarantine …`.
#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    /// List the jobs
    List {
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
    /// Send a job back to its queue, once what was wrong is mended
    #[command(group(ArgGroup::new("jobs").required(true).args(["id", "all"])))]
    Replay {
        /// The job, as `list` names it
        id: Option<String>,
        /// Every job there is
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        backend: BackendArgs,
    },
    /// Remove a job for good; if that loses an event, `annalist gaps` shows it
    Drop {
        /// The job, as `list` names it
        id: String,
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
    clock: &dyn Clock,
    command: &QuarantineCommand,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let archive = &*backend.archive();
    match command {
        QuarantineCommand::List { json: true, .. } => {
            let print = async |job: Quarantined| Ok(plain::json_line(out, &QuarantineLine::from(&job))?);
            quarantine::for_each(archive, print).await
        }
        QuarantineCommand::List { json: false, zone, .. } => list(archive, &Zone::from_args(zone), out).await,
        QuarantineCommand::Show { id, json, zone, .. } => {
            show(&find(archive, id).await?, *json, &Zone::from_args(zone), out)
        }
        QuarantineCommand::Replay { id: Some(id), .. } => {
            let job = find(archive, id).await?;
            replay(backend, clock, &job, out).await
        }
        QuarantineCommand::Replay { id: None, .. } => {
            let (queue, mut is_empty) = (backend.queue(), true);
            let replay = async |job: Quarantined| {
                is_empty = false;
                match quarantine::replay(&*queue, archive, clock, &job).await {
                    // A job that cannot be sent does not block the others.
                    Err(error @ QuarantineError::Withheld) => {
                        Ok(writeln!(out, "{} stays: {error}", plain::line(&job.id))?)
                    }
                    sent => print_sent_back(&job, sent, out),
                }
            };
            quarantine::for_each(archive, replay).await?;
            if is_empty {
                writeln!(out, "{NOTHING}")?;
            }
            Ok(())
        }
        QuarantineCommand::Drop { id, .. } => {
            let job = find(archive, id).await?;
            let loss = quarantine::loss(archive, &job).await?;
            if !quarantine::discard(archive, &job).await? {
                bail!("{} has changed meanwhile: look at it again with `annalist quarantine show`", job.id);
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
    }
}

async fn find(archive: &dyn Archive, id: &str) -> anyhow::Result<Quarantined> {
    let unknown =
        || format!("no job {} in quarantine: `annalist quarantine list` shows them", plain::excerpt(id, 80));
    quarantine::find(archive, id).await?.with_context(unknown)
}

async fn replay(
    backend: &Backend,
    clock: &dyn Clock,
    job: &Quarantined,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    print_sent_back(job, quarantine::replay(&*backend.queue(), &*backend.archive(), clock, job).await, out)
}

fn print_sent_back(
    job: &Quarantined,
    sent: Result<(), QuarantineError>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    sent.with_context(|| format!("{} could not be replayed", job.id))?;
    Ok(writeln!(out, "sent {} back to {}", plain::line(&job.id), job.queue)?)
}

#[derive(Serialize)]
struct QuarantineLine<'a> {
    id: &'a str,
    queue: &'static str,
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
            group: &job.group,
            // A reason may quote the contents of its job.
            reason: redaction::text_without_secrets(&job.reason),
            attempts: job.attempts,
            first_seen: rfc3339(job.first_seen),
            last_seen: rfc3339(job.last_seen),
        }
    }
}

async fn list(archive: &dyn Archive, zone: &Zone, out: &mut dyn Write) -> anyhow::Result<()> {
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
    quarantine::for_each(archive, print).await?;
    if is_empty {
        return Ok(writeln!(out, "{NOTHING}")?);
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
