//! The lines of `annalist status` and `annalist doctor` about jobs that wait aside.

use std::io::{self, Write};

use jiff::Timestamp;
use ports::clock::TimestampMs;
use ports::queue::QueueName;
use ports::queue::waiting::WaitCause;
use reader::waiting::WaitingJobs;
use serde::Serialize;

use crate::plain;

/// The jobs of a workspace and queue that wait for the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WaitingLine {
    pub(crate) team_id: String,
    pub(crate) queue: &'static str,
    pub(crate) cause: WaitCause,
    /// How many were counted.
    pub(crate) jobs: u64,
    /// Whether there are more.
    pub(crate) more: bool,
    /// When the oldest of them was sent.
    pub(crate) since: String,
    /// How long ago that was.
    pub(crate) oldest_s: u64,
    /// When the next of them is tried again.
    pub(crate) next_try: String,
    pub(crate) reason: String,
}

/// A workspace whose events wait because Slack cannot be asked about them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WaitingCheck {
    pub(crate) team_id: String,
    pub(crate) since: String,
    pub(crate) until: String,
    pub(crate) reason: String,
}

/// An entry for each workspace, queue and cause.
pub(crate) fn lines(waiting: &[WaitingJobs], now: TimestampMs) -> Vec<WaitingLine> {
    let line = |jobs: &WaitingJobs| WaitingLine {
        team_id: jobs.team.to_string(),
        queue: jobs.queue.spec().label,
        cause: jobs.cause,
        jobs: jobs.jobs,
        more: jobs.has_more,
        since: at(jobs.since),
        oldest_s: now.since(jobs.since).as_secs(),
        next_try: at(jobs.next_try),
        reason: jobs.reason.clone(),
    };
    waiting.iter().map(line).collect()
}

/// The workspaces whose events wait for the existence check.
pub(crate) fn checks(waiting: &[WaitingJobs]) -> Vec<WaitingCheck> {
    let mut checks: Vec<WaitingCheck> = Vec::new();
    for jobs in waiting {
        let is_event = matches!(jobs.queue, QueueName::Events | QueueName::Channels);
        let is_of_slack = match jobs.cause {
            WaitCause::Token | WaitCause::NoToken | WaitCause::Scope | WaitCause::Slack => true,
            WaitCause::Order | WaitCause::Redelivered | WaitCause::Bulk => false,
        };
        if is_event && is_of_slack && checks.iter().all(|check| check.team_id != jobs.team.as_str()) {
            checks.push(WaitingCheck {
                team_id: jobs.team.to_string(),
                since: at(jobs.since),
                until: at(jobs.next_try),
                reason: jobs.reason.clone(),
            });
        }
    }
    checks
}

fn at(time: TimestampMs) -> String {
    Timestamp::from_second(time.seconds()).map_or_else(|_| "?".to_owned(), |at| at.to_string())
}

impl WaitingLine {
    /// `T1: 3 jobs of events have waited for 2 h: Slack refused users.info: token_revoked`.
    pub(crate) fn text(&self) -> String {
        let Self { team_id, queue, jobs, more, oldest_s, reason, .. } = self;
        let more = if *more { " or more" } else { "" };
        let have = if *jobs == 1 { "has" } else { "have" };
        let jobs = plain::counted(*jobs, "job", "jobs");
        let age = plain::age(*oldest_s);
        plain::line(&format!("{team_id}: {jobs}{more} of {queue} {have} waited for {age}: {reason}"))
    }

    /// What a person does about it; the jobs then go on by themselves.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.cause {
            WaitCause::Token => {
                "install the app in this workspace again, and put its new token where the old one is: it is read again by itself"
            }
            WaitCause::NoToken => {
                "add the token of this workspace to SLACK_BOT_TOKENS_FILE; if it is not yours, change the signing secret: its jobs are quarantined after ANNALIST_WAIT_DAYS (30 if it is not set)"
            }
            WaitCause::Scope => {
                "add the scope at api.slack.com/apps > your app > OAuth & Permissions, and install the app again"
            }
            WaitCause::Slack => {
                "nothing: it is tried again every minute; https://slack-status.com says whether Slack has a problem"
            }
            WaitCause::Order => "nothing: they follow the older jobs of their workspace",
            WaitCause::Bulk => "nothing: they follow while their queue has little to do",
            WaitCause::Redelivered => "the log of the queue's worker says why it was received so often",
        }
    }
}

pub(crate) fn print(waiting: &[WaitingLine], out: &mut dyn Write) -> io::Result<()> {
    for line in waiting {
        writeln!(out, "waiting      {}", line.text())?;
    }
    Ok(())
}
