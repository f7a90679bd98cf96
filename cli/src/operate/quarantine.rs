//! `annalist quarantine`: jobs that could not be stored, for a person to judge.

use std::io::Write;

use anyhow::{Context, bail};
use clap::{ArgGroup, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use shared::archive::Archive;
use shared::clock::{Clock, TimestampMs};
use shared::config::backend::Backend;
use shared::config::backend::BackendArgs;
use workers::quarantine::{self, Quarantined};

use crate::plain;

/// So much of a reason fits a list.
const REASON: usize = 100;

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
    },
    /// Show a job whole
    Show {
        /// The job, as `list` names it
        id: String,
        #[command(flatten)]
        backend: BackendArgs,
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
    /// Remove a job for good
    Drop {
        /// The job, as `list` names it
        id: String,
        #[command(flatten)]
        backend: BackendArgs,
    },
}

impl QuarantineCommand {
    /// Where the archive is.
    pub(crate) fn backend(&self) -> &BackendArgs {
        match self {
            Self::List { backend, .. }
            | Self::Show { backend, .. }
            | Self::Replay { backend, .. }
            | Self::Drop { backend, .. } => backend,
        }
    }
}

/// Runs a command.
pub(crate) async fn run(
    backend: &Backend,
    clock: &dyn Clock,
    command: &QuarantineCommand,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let archive = &*backend.archive();
    match command {
        QuarantineCommand::List { json, .. } => list(archive, *json, out).await,
        QuarantineCommand::Show { id, .. } => show(&find(archive, id).await?, out),
        QuarantineCommand::Replay { id: Some(id), .. } => {
            let job = find(archive, id).await?;
            replay(backend, clock, &job, out).await
        }
        QuarantineCommand::Replay { id: None, .. } => {
            let jobs = quarantine::list(archive).await?;
            for job in &jobs {
                replay(backend, clock, job, out).await?;
            }
            if jobs.is_empty() {
                writeln!(out, "{NOTHING}")?;
            }
            Ok(())
        }
        QuarantineCommand::Drop { id, .. } => {
            let job = find(archive, id).await?;
            if !quarantine::discard(archive, &job).await? {
                bail!("{} has changed meanwhile: look at it again with `annalist quarantine show`", job.id);
            }
            Ok(writeln!(out, "dropped {}", plain::line(&job.id))?)
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
    quarantine::replay(&*backend.queue(), &*backend.archive(), clock, job)
        .await
        .with_context(|| format!("{} could not be replayed", job.id))?;
    Ok(writeln!(out, "sent {} back to {}", plain::line(&job.id), job.queue)?)
}

#[derive(Serialize)]
struct Listed<'a> {
    id: &'a str,
    queue: &'static str,
    group: &'a str,
    reason: &'a str,
    attempts: u64,
    first_seen: String,
    last_seen: String,
}

impl<'a> From<&'a Quarantined> for Listed<'a> {
    fn from(job: &'a Quarantined) -> Self {
        Self {
            id: &job.id,
            queue: job.queue.spec().label,
            group: &job.group,
            reason: &job.reason,
            attempts: job.attempts,
            first_seen: rfc3339(job.first_seen),
            last_seen: rfc3339(job.last_seen),
        }
    }
}

async fn list(archive: &dyn Archive, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let jobs = quarantine::list(archive).await?;
    for job in &jobs {
        if json {
            plain::json_line(out, &Listed::from(job))?;
        } else {
            let since = rfc3339(job.first_seen);
            writeln!(out, "{}\n    {} in group {}", plain::line(&job.id), since, plain::line(&job.group))?;
            writeln!(out, "    {}", plain::excerpt(&job.reason, REASON))?;
        }
    }
    if !json {
        match jobs.first() {
            None => writeln!(out, "{NOTHING}")?,
            Some(_) => writeln!(
                out,
                "\n`annalist quarantine show ID` shows a job, `replay ID` sends it again, `drop ID` removes it."
            )?,
        }
    }
    Ok(())
}

fn show(job: &Quarantined, out: &mut dyn Write) -> anyhow::Result<()> {
    let Listed { id, queue, group, reason, attempts, first_seen, last_seen } = Listed::from(job);
    let attempts = attempts.to_string();
    for (name, value) in [
        ("id", id),
        ("queue", queue),
        ("group", group),
        ("reason", reason),
        ("attempts", &attempts),
        ("first seen", &first_seen),
        ("last seen", &last_seen),
    ] {
        writeln!(out, "{name:<11} {}", plain::line(value))?;
    }
    let pretty = serde_json::from_str::<Value>(&job.payload)
        .and_then(|payload| serde_json::to_string_pretty(&payload))
        .unwrap_or_else(|_| job.payload.clone());
    writeln!(out)?;
    for line in plain::lines(&pretty) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn rfc3339(time: TimestampMs) -> String {
    Timestamp::from_millisecond(time.0).map_or_else(|_| time.0.to_string(), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use shared::queue::{Delivery, GroupId, MessageId, QueueName, Receipt};

    use super::*;
    use crate::fixture::Fixture;

    async fn put(fixture: &Fixture, message_id: &str) -> String {
        let delivery = Delivery {
            message_id: MessageId(message_id.into()),
            group: GroupId::of(&["invalid"]),
            body: "{\"v\":1,\"event\":{\"team_id\":\"t#\\u001b[2J\"}}".into(),
            receive_count: 2,
            sent_at: TimestampMs(1_795_178_096_789),
            receipt: Receipt("1".into()),
        };
        let reason = "the \u{1b}[31mteam id";
        quarantine::put(&fixture.ports, QueueName::Events.into(), &delivery, reason).await.unwrap();
        format!("events-1795178096789-{message_id}")
    }

    async fn printed(fixture: &Fixture, command: &QuarantineCommand) -> anyhow::Result<String> {
        let mut out = Vec::new();
        run(&fixture.backend, &*fixture.ports.clock, command, &mut out).await?;
        Ok(String::from_utf8(out)?)
    }

    #[tokio::test]
    async fn a_listed_job_has_the_documented_fields() {
        let fixture = Fixture::open().await;
        let id = put(&fixture, "m1").await;
        let list = |json| QuarantineCommand::List { backend: fixture.data(), json };
        let json: Value = serde_json::from_str(&printed(&fixture, &list(true)).await.unwrap()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "id": id, "queue": "events", "group": "invalid", "reason": "the \u{1b}[31mteam id", "attempts": 2,
                "first_seen": "2026-11-20T12:34:56.789Z", "last_seen": "2026-11-20T12:34:56.000Z",
            })
        );
        let text = printed(&fixture, &list(false)).await.unwrap();
        assert!(text.contains(&id) && !text.contains('\u{1b}'), "{text:?}");
    }

    #[tokio::test]
    async fn show_replay_and_drop_take_a_known_id_and_refuse_others() {
        let fixture = Fixture::open().await;
        let (shown, replayed, dropped) =
            (put(&fixture, "m1").await, put(&fixture, "m2").await, put(&fixture, "m3").await);
        let data = || fixture.data();
        let show = QuarantineCommand::Show { id: shown, backend: data() };
        let text = printed(&fixture, &show).await.unwrap();
        assert!(text.contains("\"team_id\"") && !text.contains('\u{1b}'), "{text:?}");

        let replay = QuarantineCommand::Replay { id: Some(replayed), all: false, backend: data() };
        printed(&fixture, &replay).await.unwrap();
        assert_eq!(fixture.ports.queue.depth(QueueName::Events.into()).await.unwrap().waiting, 1);
        let drop = QuarantineCommand::Drop { id: dropped, backend: data() };
        printed(&fixture, &drop).await.unwrap();
        assert_eq!(quarantine::count(fixture.archive()).await.unwrap(), 1);

        // What is gone is unknown, like what never was.
        for command in
            [&replay, &drop, &QuarantineCommand::Show { id: "\u{1b}".repeat(999), backend: data() }]
        {
            let error = printed(&fixture, command).await.unwrap_err().to_string();
            assert!(
                error.starts_with("no job ") && error.len() < 500 && !error.contains('\u{1b}'),
                "{error:?}"
            );
        }
        let all = QuarantineCommand::Replay { id: None, all: true, backend: data() };
        printed(&fixture, &all).await.unwrap();
        assert_eq!(quarantine::count(fixture.archive()).await.unwrap(), 0);
    }
}
