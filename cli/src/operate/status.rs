//! `annalist status`: the state of the queues, and what needs attention.

use std::io::{self, Write};

use ports::archive::Archive;
use ports::clock::{Clock, SystemClock};
use ports::queue::topology::{QUEUES, QueueRole, QueueSpec};
use ports::queue::{Queue, QueueRef};
use ports::workers::WorkerSpec;
use process::config::backend::{Backend, BackendArgs};
use reader::access::{MembershipCounts, PrivateChannels};
use reader::files::{self, MissingFiles};
use serde::Serialize;
use serde_json::Value;
use workers::quarantine;

use super::copy::{self, state::CopyState};
use super::directory_status;
use super::history_status::{self, HistoryLine, ProofLine};
use super::waiting_status::{self, WaitingCheck, WaitingLine};
use crate::plain;

/// `annalist status`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Everything `status --json` has, under the same names.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Status {
    pub(crate) queues: Vec<QueueStatus>,
    /// Jobs in quarantine, about which a person decides.
    pub(crate) quarantined: u64,
    /// Gaps that are open, and gaps that history has not filled yet.
    pub(crate) gaps: u64,
    /// Files that are not stored although Slack may have them; left out if there are no such files.
    #[serde(skip_serializing_if = "MissingFiles::is_empty")]
    pub(crate) files: MissingFiles,
    /// Nothing is waiting, delayed, backing off or in flight on the live queues.
    pub(crate) idle: bool,
    /// The background queues that have jobs.
    pub(crate) busy: Vec<&'static str>,
    /// How far the reading of each workspace's history is; left out if none has begun.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) history: Vec<HistoryLine>,
    /// How far each workspace is compared with Slack; left out before the first night.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) proof: Vec<ProofLine>,
    /// The jobs that wait aside: an entry per workspace, queue and cause.
    pub(crate) waiting: Vec<WaitingLine>,
    /// Workspaces whose events wait because Slack does not answer the existence check; left out if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) existence_check: Vec<WaitingCheck>,
    /// What the last sync found in the directory of each workspace; left out if no workspace is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) directory: Vec<Value>,
    /// How the last copy of the database went; left out if none was ever tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) copy: Option<CopyState>,
    /// The channels that are private now, and the lists of their members.
    pub(crate) memberships: MembershipCounts,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct QueueStatus {
    pub(crate) name: &'static str,
    pub(crate) waiting: u64,
    pub(crate) in_flight: u64,
    pub(crate) oldest_age_s: Option<u64>,
    pub(crate) dead: u64,
    #[serde(skip)]
    pub(crate) role: QueueRole,
    #[serde(skip)]
    pub(crate) worker: &'static str,
}

impl QueueStatus {
    fn has_work(&self) -> bool {
        self.waiting + self.in_flight > 0
    }
}

/// Prints the status of everything.
pub(crate) async fn print(backend: &Backend, args: &StatusArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (queue, archive) = (backend.queue(), backend.archive());
    let mut status = read(&*queue, &*archive).await?;
    if status.idle && !queue.depth_lag().is_zero() {
        let lag = queue.depth_lag();
        if !args.json {
            let lag_s = lag.as_secs();
            writeln!(
                io::stderr(),
                "The queues look empty. Their counts may lag, so they are read again in {lag_s} s."
            )?;
        }
        // By then, the counts include jobs that were in flight during the first read.
        tokio::time::sleep(lag).await;
        status = read(&*queue, &*archive).await?;
    }
    if args.json {
        plain::json_line(out, &status)?
    } else {
        table(&status, out)?;
        directory_status::print(&status.directory, out)?;
    }
    Ok(())
}

/// Reads the status of everything.
pub(crate) async fn read(queue: &dyn Queue, archive: &dyn Archive) -> anyhow::Result<Status> {
    // In the order of the flow, so that a job that moves meanwhile is counted twice rather than not at all.
    let mut queues = Vec::with_capacity(QUEUES.len());
    for spec in &QUEUES {
        queues.push(queue_status(queue, spec).await?);
    }
    let has_work = |role| queues.iter().filter(move |queue| queue.role == role && queue.has_work());
    let (waiting, now) = (reader::waiting::read(archive).await?, SystemClock.now());
    let idle = has_work(QueueRole::Live).next().is_none() && waiting.is_empty();
    let busy = has_work(QueueRole::Background).map(|queue| queue.name).collect();
    Ok(Status {
        queues,
        quarantined: quarantine::count(archive).await?,
        gaps: gaps_left(archive).await?,
        files: files::missing(archive).await?,
        idle,
        busy,
        existence_check: waiting_status::checks(&waiting),
        history: history_status::histories(archive, now).await?,
        proof: history_status::proofs(archive).await?,
        waiting: waiting_status::lines(&waiting, now),
        directory: directory_status::read(archive).await?,
        copy: copy::state::read(archive, now).await?,
        memberships: PrivateChannels::read(archive, now).await?.counts(),
    })
}

/// Returns the number of gaps that still need work.
async fn gaps_left(archive: &dyn Archive) -> anyhow::Result<u64> {
    let gaps = reader::gaps::progress_of_all(archive).await?;
    Ok(gaps.iter().map(|(_, gap)| u64::from(gap.state.needs_work())).sum())
}

async fn queue_status(queue: &dyn Queue, spec: &QueueSpec) -> anyhow::Result<QueueStatus> {
    let depth = queue.depth(spec.name.into()).await?;
    let dead = queue.depth(QueueRef::dead_letters(spec.name)).await?;
    Ok(QueueStatus {
        name: spec.label,
        waiting: depth.waiting + depth.delayed,
        in_flight: depth.in_flight,
        oldest_age_s: depth.oldest_age_s,
        dead: dead.waiting + dead.delayed + dead.in_flight,
        role: spec.role,
        worker: WorkerSpec::for_queue(spec.name).name,
    })
}

fn table(status: &Status, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:<10}{:>9}{:>11}{:>9}{:>6}  worker", "queue", "waiting", "in flight", "oldest", "dead")?;
    for queue in &status.queues {
        let oldest = match queue.oldest_age_s {
            Some(_) if !queue.has_work() => "-".to_owned(),
            Some(age_s) => plain::age(age_s),
            None => "?".to_owned(),
        };
        let QueueStatus { name, waiting, in_flight, dead, worker, .. } = queue;
        writeln!(out, "{name:<10}{waiting:>9}{in_flight:>11}{oldest:>9}{dead:>6}  {worker}")?;
    }
    writeln!(out)?;
    writeln!(
        out,
        "idle         {}",
        match (status.idle, status.quarantined) {
            (true, 0) if status.files.failed == 0 => "yes: everything that came in is stored",
            (true, 0) => "yes: every event that came in is stored, but not every file",
            (true, _) => "yes: every event that came in is stored or quarantined",
            (false, _) => "no",
        }
    )?;
    if !status.busy.is_empty() {
        writeln!(out, "busy         {}: work in the background", status.busy.join(", "))?;
    }
    writeln!(out, "quarantined  {}", status.quarantined)?;
    writeln!(out, "gaps         {}", status.gaps)?;
    for history in &status.history {
        let team = if status.history.len() > 1 { format!("{}: ", history.team_id) } else { String::new() };
        writeln!(out, "history      {team}{}", history.text)?;
    }
    for proof in &status.proof {
        let team = if status.proof.len() > 1 { format!("{}: ", proof.team_id) } else { String::new() };
        writeln!(out, "proof        {team}{}", proof.text())?;
    }
    writeln!(out, "files        {}", file_counts(&status.files))?;
    if let Some(copy) = &status.copy {
        writeln!(out, "copy         {}", plain::line(&copy.text()))?;
    }
    waiting_status::print(&status.waiting, out)?;
    if let Some(unlisted) = unlisted(&status.memberships) {
        writeln!(out, "private      {unlisted}")?;
    }
    for advice in advice(status) {
        writeln!(out, "\n{advice}")?;
    }
    Ok(())
}

/// What is missing of the lists of members, if anything is.
pub(crate) fn unlisted(counts: &MembershipCounts) -> Option<String> {
    let MembershipCounts { private_channels, listed, stale } = *counts;
    let unlisted = private_channels.saturating_sub(listed);
    let channels = plain::counted(private_channels, "private channel", "private channels");
    let old = if stale > 0 { format!(", {stale} of them too old") } else { String::new() };
    (unlisted > 0).then(|| format!("{channels}; no list of members for {unlisted}{old}"))
}

/// `2 failed, 0 pending`.
pub(crate) fn file_counts(files: &MissingFiles) -> String {
    let MissingFiles { failed, pending, is_partial } = files;
    let of_many = if *is_partial { ", of the first 20,000 of a workspace" } else { "" };
    format!("{} failed, {} pending{of_many}", plain::grouped(*failed), plain::grouped(*pending))
}

fn advice(status: &Status) -> Vec<String> {
    let mut advice = Vec::new();
    if status.quarantined > 0 {
        let jobs = plain::counted(status.quarantined, "job", "jobs");
        advice.push(format!("{jobs} could not be stored: `annalist quarantine list` says why."));
    }
    if status.gaps > 0 {
        let gaps = plain::counted(status.gaps, "gap", "gaps");
        advice.push(format!("{gaps}: `annalist gaps` lists when, where and why events may be missing."));
    }
    if status.files.failed > 0 {
        let files = plain::counted(status.files.failed, "file", "files");
        advice.push(format!(
            "{files} could not be fetched: `annalist files` says why, and `annalist files retry` asks Slack again."
        ));
    }
    if status.queues.iter().any(|queue| queue.dead > 0) {
        advice.push(
            "Dead letters move to quarantine by themselves while `annalist up` runs; if they stay, its log says why."
                .to_owned(),
        );
    }
    advice
}

#[cfg(test)]
mod tests {
    use ports::archive::{ArchiveExt, ItemKey, Update};
    use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
    use rules::history::progress::HistoryProgress;
    use rules::history::proof::{ProofCounts, ProvenSpan, VerifiedChannel};
    use rules::public_mark;
    use serde_json::json;
    use slack::ids::{ChannelId, TeamId, Ts};

    use super::*;
    use crate::fixture::CliFixture;

    async fn send(fixture: &CliFixture, queue: QueueName) {
        let message = Outgoing {
            queue,
            group: GroupId::from_parts(&["T1"]),
            dedup: DedupId::from_parts(&[queue.spec().label.as_bytes()]),
            body: "{}".into(),
        };
        fixture.ports.queue.send(vec![message]).await.remove(0).unwrap();
    }

    async fn status(fixture: &CliFixture) -> Status {
        read(&*fixture.ports.queue, fixture.archive()).await.unwrap()
    }

    fn text(status: &Status) -> String {
        let mut out = Vec::new();
        table(status, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[tokio::test]
    async fn json_is_one_object_of_the_documented_shape() {
        let fixture = CliFixture::open().await;
        let names = [
            "events",
            "channels",
            "files",
            "stats",
            "questions",
            "replies",
            "backfill",
            "nightly",
            "directory",
        ];
        let queues: Vec<_> = names
            .iter()
            .map(|name| json!({ "name": name, "waiting": 0, "in_flight": 0, "oldest_age_s": 0, "dead": 0 }))
            .collect();
        let memberships = json!({ "private_channels": 0, "listed": 0, "stale": 0 });
        let expected = json!({ "queues": queues, "quarantined": 0, "gaps": 0, "idle": true, "busy": [], "waiting": [],
            "memberships": memberships });
        assert_eq!(serde_json::to_value(status(&fixture).await).unwrap(), expected);
        fixture.channel("T1", "C1", "1700000001.000000", "secret").await;
        let (ts, made_private) = ("1700000002.000000", "channel_convert_to_private");
        fixture.channel_notice("T1", "C1", ts, made_private, ("purpose", "none")).await;
        let memberships = status(&fixture).await.memberships;
        assert_eq!(memberships, MembershipCounts { private_channels: 1, listed: 0, stale: 0 });
    }

    #[tokio::test]
    async fn json_has_the_counts_of_the_directory_sync() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000000.000000", "general").await;
        assert_eq!(status(&fixture).await.directory, [json!({ "team_id": "T1" })]);
        let team = TeamId::parse("T1").unwrap();
        let row = json!({ "type": "sync", "version": "x", "team_id": "T1", "synced_ts": "1700000000.000000", "all_users": 4 });
        let set = row.as_object().cloned().unwrap();
        fixture
            .archive()
            .write(&Update { set, ..Update::new(ItemKey::directory_sync(&team)) })
            .await
            .unwrap();
        let expected = json!({ "team_id": "T1", "synced_ts": "1700000000.000000", "all_users": 4 });
        assert_eq!(status(&fixture).await.directory, [expected]);
    }

    #[tokio::test]
    async fn the_progress_of_reading_history_is_a_line_and_an_object() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000000.000000", "general").await;
        let now_s = SystemClock.now().seconds();
        let progress = |turn_s: i64, read| HistoryProgress {
            team: TeamId::parse("T1").unwrap(),
            mode: "all".to_owned(),
            channels: 40,
            read,
            unreadable: 1,
            is_restricted: false,
            since: Some(Ts::parse("1756296000.000000").unwrap()),
            turn: Ts::parse(&format!("{turn_s}.000000")).unwrap(),
        };
        for (turn_s, read, state) in
            [(now_s - 7_200, 31, "off"), (now_s, 31, "reading"), (now_s + 1, 39, "refused")]
        {
            for update in progress(turn_s, read).updates(0) {
                fixture.archive().write(&update).await.unwrap();
            }
            let status = status(&fixture).await;
            let expected = json!([{ "team_id": "T1", "mode": "all", "state": state, "channels": 40, "read": read,
                "unreadable": 1, "since": "2025-08-27T12:00:00Z" }]);
            assert_eq!(serde_json::to_value(&status.history).unwrap(), expected);
            let line = format!(
                "history      {read} of 40 channels read, since 2025-08-27; Slack refuses to show 1 channel\n"
            );
            assert!(text(&status).contains(&line), "{}", text(&status));
        }
    }

    #[tokio::test]
    async fn how_far_a_workspace_is_compared_with_slack_is_a_line_and_an_object() {
        let fixture = CliFixture::open().await;
        let (team, ts) = (TeamId::parse("T1").unwrap(), |text: &str| Ts::parse(text).unwrap());
        let midnight = ts("1699920000.000000");
        for (id, is_read) in [("C1", true), ("C2", true), ("C3", false)] {
            fixture.channel("T1", id, "1600000000.000000", &id.to_lowercase()).await;
            let channel = ChannelId::parse(id).unwrap();
            fixture.archive().write(&public_mark::opening(&team, &channel)).await.unwrap();
            let known = VerifiedChannel::new(team.clone(), channel);
            let span = ProvenSpan {
                from: ts("0.000000"),
                through: midnight.clone(),
                at: midnight.clone(),
                is_whole: true,
                is_archived: false,
            };
            let error = (!is_read).then(|| "not_in_channel".to_owned());
            let found = ProofCounts { missing: 2, filled: 2, calls: 3, error, ..ProofCounts::default() };
            fixture.archive().write(&known.count(&midnight, &found)).await.unwrap();
            if is_read {
                fixture.archive().write(&known.prove(&span)).await.unwrap();
            }
        }
        let status = status(&fixture).await;
        let expected = json!([{ "team_id": "T1", "night": "1699920000.000000", "through": "1699920000.000000",
            "channels": 3, "behind": 1, "missing": 6, "filled": 6, "calls": 9 }]);
        assert_eq!(serde_json::to_value(&status.proof).unwrap(), expected);
        let line = "proof        complete up to 2023-11-13, compared with Slack; 1 channel behind; \
                    the last night found 6 missing messages\n";
        assert!(text(&status).contains(line), "{}", text(&status));
    }

    #[tokio::test]
    async fn background_jobs_are_busy_and_only_live_jobs_end_idleness() {
        let fixture = CliFixture::open().await;
        let background = QUEUES.iter().filter(|spec| spec.role == QueueRole::Background);
        let labels: Vec<&str> = background.clone().map(|spec| spec.label).collect();
        for spec in background {
            send(&fixture, spec.name).await;
        }
        let current_status = status(&fixture).await;
        assert_eq!((current_status.idle, &current_status.busy), (true, &labels));
        // A job that the queue delays counts as waiting.
        assert_eq!(current_status.queues.iter().map(|queue| queue.waiting).sum::<u64>(), labels.len() as u64);
        let text = text(&current_status);
        assert!(text.contains(&format!("busy         {}", labels.join(", "))), "{text}");

        send(&fixture, QueueName::Events).await;
        assert!(!status(&fixture).await.idle);
    }

    #[test]
    fn the_status_includes_advice() {
        let dead = QueueStatus {
            name: "events",
            waiting: 1,
            in_flight: 0,
            oldest_age_s: Some(180),
            dead: 2,
            role: QueueRole::Live,
            worker: "message-writer",
        };
        let status = Status {
            history: Vec::new(),
            proof: Vec::new(),
            queues: vec![dead],
            quarantined: 3,
            gaps: 2,
            files: MissingFiles { failed: 5, ..MissingFiles::default() },
            idle: false,
            busy: Vec::new(),
            waiting: Vec::new(),
            existence_check: Vec::new(),
            directory: Vec::new(),
            copy: None,
            memberships: MembershipCounts::default(),
        };
        let shown = text(&status);
        for expected in [
            "2 gaps: `annalist gaps` lists when, where and why events may be missing.",
            "3 jobs could not be stored",
            "5 failed, 0 pending",
            "5 files could not be fetched: `annalist files` says why",
            "annalist quarantine list",
            "Dead letters",
            "3 min",
        ] {
            assert!(shown.contains(expected), "{shown}");
        }
        let idle = Status { queues: Vec::new(), idle: true, ..status };
        assert!(text(&idle).contains("yes: every event that came in is stored or quarantined\n"));
    }
}
