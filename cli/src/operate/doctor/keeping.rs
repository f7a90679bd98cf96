//! Checks whether events that arrive are kept: queues, quarantine, files, history, and what each night does.

use ports::queue::QueueName;
use ports::queue::topology::QueueRole;
use ports::queue::waiting::WaitCause;

use super::check::DoctorCheck;
use super::facts::{ArchiveFacts, Facts};
use super::{gaps, machine};
use crate::operate::history_status::ProofLine;
use crate::operate::status::{QueueStatus, Status, file_counts, unlisted};
use crate::plain::{self, age};

const BACKLOG: &str = "backlog";
const QUARANTINE: &str = "quarantine";
const FILES: &str = "files";
const WAITING: &str = "waiting";
const HISTORY: &str = "history";
const PROOF: &str = "proof";
const COPY: &str = "copy";
const PRIVATE: &str = "private";

/// A row is written within milliseconds, so a job that has waited this long fails repeatedly.
const LONGEST_WAIT_S: u64 = 10 * 60;

/// Files are fetched at 300 a minute, and a first sync may add a hundred thousand pictures. Background work
/// takes as long.
const LONG_WAIT_S: u64 = 6 * 3_600;

pub(super) fn checks(facts: &Facts) -> Vec<DoctorCheck> {
    let mut checks = match &facts.archive {
        Ok(archive_facts) => {
            let mut checks = backlog(archive_facts, &facts.backend_flag);
            checks.push(quarantine(&archive_facts.status, &facts.backend_flag));
            checks.push(gaps::gaps(&archive_facts.gaps, &facts.backend_flag));
            checks.push(files(&archive_facts.status, &facts.backend_flag));
            checks.extend(waiting(&archive_facts.status));
            checks.push(history(&archive_facts.status, &facts.backend_flag));
            checks.extend(proof(&archive_facts.status, &facts.backend_flag));
            checks.extend(copy(&archive_facts.status));
            checks.push(private_channels(&archive_facts.status));
            checks
        }
        Err(_) => [BACKLOG, QUARANTINE, gaps::GAPS, FILES, WAITING, HISTORY, PRIVATE]
            .map(|check| DoctorCheck::skipped(check, "there is no archive to check"))
            .into(),
    };
    checks.extend(machine::checks(facts));
    checks
}

/// Only the members of a private channel see it, so that a list that is missing hides it from them.
fn private_channels(status: &Result<Status, String>) -> DoctorCheck {
    match status {
        Ok(status) => match unlisted(&status.memberships) {
            None => DoctorCheck::ok(PRIVATE, "the members of each are known"),
            Some(unlisted) => DoctorCheck::finding(
                PRIVATE,
                format!("{unlisted}: no reader but admins sees them"),
                "invite the app to them with /invite @annalist; the next sync of the directory lists the members",
            ),
        },
        Err(_) => DoctorCheck::skipped(PRIVATE, "the archive cannot be read"),
    }
}

fn backlog(archive_facts: &ArchiveFacts, backend_flag: &str) -> Vec<DoctorCheck> {
    let status = match &archive_facts.status {
        Ok(status) => status,
        Err(why) => {
            return vec![DoctorCheck::finding(
                BACKLOG,
                why.as_str(),
                "`annalist status` counts the queues again",
            )];
        }
    };
    let later = archive_facts.later.as_ref().and_then(|later| later.as_ref().ok());
    let stuck = |queue| stuck(queue, later, archive_facts.in_use, backend_flag);
    let mut checks: Vec<DoctorCheck> = status.queues.iter().filter_map(stuck).collect();
    checks.extend(status.queues.iter().filter(|queue| queue.dead > 0).map(|queue| {
        DoctorCheck::finding(
            BACKLOG,
            format!("{}: {}", queue.name, plain::counted(queue.dead, "dead letter", "dead letters")),
            "they move to quarantine while the worker of that queue runs; if they stay, its log says why",
        )
    }));
    if checks.is_empty() {
        checks.push(DoctorCheck::ok(BACKLOG, depths(status)));
    }
    checks
}

/// `events 0, channels 0, files 12 (the oldest 40 s)`.
fn depths(status: &Status) -> String {
    let depth = |queue: &QueueStatus| {
        let jobs = queue.waiting + queue.in_flight;
        match queue.oldest_age_s {
            Some(oldest_s) if jobs > 0 => format!("{} {jobs} (the oldest {})", queue.name, age(oldest_s)),
            Some(_) | None => format!("{} {jobs}", queue.name),
        }
    };
    status.queues.iter().map(depth).collect::<Vec<_>>().join(", ")
}

fn stuck(
    queue: &QueueStatus,
    later: Option<&Status>,
    in_use: Option<bool>,
    backend_flag: &str,
) -> Option<DoctorCheck> {
    let (name, worker) = (queue.name, queue.worker);
    let jobs = queue.waiting + queue.in_flight;
    if jobs == 0 {
        return None;
    }
    let finding = |says: String, next: String| Some(DoctorCheck::finding(BACKLOG, says, next));
    if in_use == Some(false) {
        return finding(
            format!(
                "{name}: {} on the queue, and no process runs that would handle them",
                plain::counted(jobs, "job", "jobs")
            ),
            format!("start `annalist up {backend_flag}`"),
        );
    }
    let is_background = queue.role == QueueRole::Background;
    let may_take_long = is_background || name == QueueName::Files.spec().label;
    let limit_s = if may_take_long { LONG_WAIT_S } else { LONGEST_WAIT_S };
    if let Some(oldest_s) = queue.oldest_age_s.filter(|oldest_s| *oldest_s > limit_s) {
        return finding(
            format!(
                "{name}: {} on the queue, the oldest for {}",
                plain::counted(jobs, "job", "jobs"),
                age(oldest_s)
            ),
            format!("check the log of the {worker}: it says what it retries, and why"),
        );
    }
    let later = later?.queues.iter().find(|later| later.name == name)?;
    if !is_background && queue.waiting > 0 && later.waiting >= queue.waiting {
        return finding(
            format!(
                "{name}: {} on the queue, and a minute later {}",
                plain::counted(queue.waiting, "job", "jobs"),
                plain::grouped(later.waiting)
            ),
            format!("see whether a {worker} runs, and what its log says"),
        );
    }
    None
}

/// Files that failed, or that are pending although the queue has no job for them.
fn files(status: &Result<Status, String>, backend_flag: &str) -> DoctorCheck {
    let Ok(status) = status else { return DoctorCheck::skipped(FILES, "they were not counted") };
    let fetches = |queue: &QueueStatus| {
        queue.name == QueueName::Files.spec().label && queue.waiting + queue.in_flight > 0
    };
    let is_fetching = status.queues.iter().any(fetches);
    let counts = file_counts(&status.files);
    if status.files.failed > 0 {
        return DoctorCheck::finding(
            FILES,
            counts,
            format!(
                "`annalist files {backend_flag}` says why, and `annalist files retry {backend_flag}` asks Slack again"
            ),
        );
    }
    if status.files.pending > 0 && !is_fetching {
        let next = format!("set a bot token, and run `annalist files retry {backend_flag}`");
        return DoctorCheck::finding(FILES, counts, next);
    }
    DoctorCheck::ok(FILES, counts)
}

/// Jobs that wait for something outside themselves, with what ends it.
fn waiting(status: &Result<Status, String>) -> Vec<DoctorCheck> {
    let Ok(status) = status else { return vec![DoctorCheck::skipped(WAITING, "the jobs were not counted")] };
    let lines = status.waiting.iter().filter(|line| line.cause != WaitCause::Bulk);
    let findings: Vec<DoctorCheck> =
        lines.map(|line| DoctorCheck::finding(WAITING, line.text(), line.remedy())).collect();
    if findings.is_empty() {
        return vec![DoctorCheck::ok(WAITING, "no job waits for a token, a scope or Slack")];
    }
    findings
}

/// How far the archive is compared with Slack; nothing before the first night.
fn proof(status: &Result<Status, String>, backend_flag: &str) -> Option<DoctorCheck> {
    let proof = status.as_ref().ok().map(|status| &status.proof).filter(|proof| !proof.is_empty())?;
    let (late, missing) =
        proof.iter().fold((0, 0), |(late, missing), line| (late + line.late, missing + line.missing));
    let mut found = Vec::new();
    if late > 0 {
        let channels = plain::counted(late, "channel was", "channels were");
        found.push(format!("{channels} not compared with Slack for days"));
    }
    if missing > 0 {
        let messages = plain::counted(missing, "message that was", "messages that were");
        found.push(format!("the last night found {messages} not archived, and stored them"));
    }
    if found.is_empty() {
        let lines: Vec<String> = proof.iter().map(ProofLine::text).collect();
        return Some(DoctorCheck::ok(PROOF, lines.join("; ")));
    }
    let next = if late > 0 {
        format!(
            "`annalist reconcile --nightly {backend_flag}` compares now and says why a channel cannot be read"
        )
    } else {
        "if it happens again, events do not arrive: see whether ingest can always be reached".to_owned()
    };
    Some(DoctorCheck::finding(PROOF, found.join("; "), next))
}

/// How far the reading of Slack's history is. That it goes on is no finding.
fn history(status: &Result<Status, String>, backend_flag: &str) -> DoctorCheck {
    let lines = match status {
        Err(why) => return DoctorCheck::skipped(HISTORY, why.as_str()),
        Ok(status) if status.history.is_empty() => {
            return DoctorCheck::ok(HISTORY, "`annalist up` has read nothing from before its events");
        }
        Ok(status) => &status.history,
    };
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let says = texts.join("; ");
    if lines.iter().all(|line| line.unreadable == 0) {
        return DoctorCheck::ok(HISTORY, says);
    }
    let next = format!(
        "invite the app to the channels that `annalist coverage {backend_flag}` shows with holes before it joined"
    );
    DoctorCheck::finding(HISTORY, says, next)
}

/// Only if a copy was ever tried.
fn copy(status: &Result<Status, String>) -> Option<DoctorCheck> {
    let copy = status.as_ref().ok()?.copy.as_ref()?;
    if copy.error.is_none() && !copy.is_old {
        return Some(DoctorCheck::ok(COPY, copy.text()));
    }
    let next =
        "annalist copy --to TARGET makes one now and says what fails; `annalist up` tries again every hour";
    Some(DoctorCheck::finding(COPY, copy.text(), next))
}

fn quarantine(status: &Result<Status, String>, backend_flag: &str) -> DoctorCheck {
    match status {
        Err(why) => DoctorCheck::skipped(QUARANTINE, why.as_str()),
        Ok(Status { quarantined: 0, .. }) => DoctorCheck::ok(QUARANTINE, "empty"),
        Ok(Status { quarantined, .. }) => DoctorCheck::finding(
            QUARANTINE,
            format!(
                "{} in quarantine, which could not be stored",
                plain::counted(*quarantined, "job", "jobs")
            ),
            format!("`annalist quarantine list {backend_flag}` says why; replay or drop them"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use ports::clock::TimestampMs;
    use reader::access::MembershipCounts;
    use reader::files::MissingFiles;
    use reader::proof::TeamProof;
    use rules::history::progress::HistoryProgress;
    use rules::history::proof::{DAY_MICROS, ProofCounts, VerifiedChannel, midnight_before};
    use slack::ids::{ChannelId, TeamId, Ts};

    use super::super::check::{CheckState, assert_check};
    use super::super::facts::Gaps;

    use super::*;
    use crate::operate::copy::state::CopyState;
    use crate::operate::history_status::HistoryLine;
    use crate::operate::waiting_status::WaitingLine;

    fn queue(name: &'static str, waiting: u64, oldest_age_s: Option<u64>) -> QueueStatus {
        QueueStatus {
            name,
            waiting,
            in_flight: 0,
            oldest_age_s,
            dead: 0,
            role: QueueRole::Live,
            worker: "worker",
        }
    }

    fn status(queues: Vec<QueueStatus>) -> Status {
        Status {
            history: Vec::new(),
            proof: Vec::new(),
            queues,
            quarantined: 0,
            gaps: 0,
            files: MissingFiles::default(),
            idle: false,
            busy: Vec::new(),
            waiting: Vec::new(),
            existence_check: Vec::new(),
            directory: Vec::new(),
            copy: None,
            memberships: MembershipCounts::default(),
        }
    }

    #[test]
    fn each_cause_for_which_jobs_wait_is_a_finding_with_what_ends_it() {
        let line = |cause| WaitingLine {
            team_id: "T1".to_owned(),
            queue: "events",
            cause,
            jobs: 3,
            more: false,
            since: "2023-11-14T22:13:20Z".to_owned(),
            oldest_s: 7_200,
            next_try: "2023-11-15T00:13:20Z".to_owned(),
            reason: "Slack refused users.info: token_revoked".to_owned(),
        };
        for (cause, remedy) in [
            (WaitCause::Token, "put its new token where the old one is"),
            (WaitCause::NoToken, "SLACK_BOT_TOKENS_FILE"),
            (WaitCause::Scope, "OAuth & Permissions"),
            (WaitCause::Slack, "slack-status.com"),
            (WaitCause::Order, "nothing: they follow"),
            (WaitCause::Redelivered, "the log of the queue's worker"),
        ] {
            let status = Status { waiting: vec![line(cause)], ..status(Vec::new()) };
            let checks = waiting(&Ok(status));
            let [check] = &checks[..] else { panic!("{checks:?}") };
            let said = "T1: 3 jobs of events have waited for 2 h: Slack refused users.info: token_revoked";
            assert_check(check, CheckState::Finding, said);
            assert_check(check, CheckState::Finding, remedy);
        }
        assert_check(&waiting(&Ok(status(Vec::new())))[0], CheckState::Ok, "no job waits");
    }

    #[test]
    fn a_private_channel_without_a_new_list_of_members_is_a_finding() {
        let counts = |private_channels, listed, stale| MembershipCounts { private_channels, listed, stale };
        for (memberships, expected) in [
            (counts(0, 0, 0), "the members of each are known"),
            (counts(3, 3, 0), "the members of each are known"),
            (counts(3, 2, 0), "3 private channels; no list of members for 1: no reader but admins sees them"),
            (
                counts(1, 0, 1),
                "1 private channel; no list of members for 1, 1 of them too old: no reader but admins sees them",
            ),
        ] {
            let check = private_channels(&Ok(Status { memberships, ..status(Vec::new()) }));
            assert_eq!((check.says.as_str(), check.next.is_some()), (expected, expected.contains("no list")));
        }
    }

    #[test]
    fn a_copy_that_fails_or_is_old_needs_attention() {
        let copy_state = |is_old, error: Option<&str>| CopyState {
            to: Some("/mnt/copies".to_owned()),
            at: Some("20261126T030000Z".to_owned()),
            error: error.map(str::to_owned),
            is_old,
        };
        for (state, expected) in [
            (None, None),
            (Some(copy_state(false, None)), Some(CheckState::Ok)),
            (Some(copy_state(false, Some("it is full"))), Some(CheckState::Finding)),
            (Some(copy_state(true, None)), Some(CheckState::Finding)),
        ] {
            let check = copy(&Ok(Status { copy: state.clone(), ..status(Vec::new()) }));
            assert_eq!(check.map(|check| check.state), expected, "{state:?}");
        }
    }

    #[test]
    fn channels_that_slack_refuses_to_show_are_a_finding_and_a_reading_that_goes_on_is_not() {
        let line = |read, unreadable| {
            let progress = HistoryProgress {
                team: TeamId::parse("T1").unwrap(),
                mode: "all".to_owned(),
                channels: 3,
                read,
                unreadable,
                is_restricted: false,
                since: None,
                turn: Ts::parse("1700000000.000000").unwrap(),
            };
            HistoryLine::new(&progress, TimestampMs(1_700_000_000_000))
        };
        for (lines, state, expected) in [
            (vec![], CheckState::Ok, "nothing"),
            (vec![line(2, 0)], CheckState::Ok, "2 of 3 channels read"),
            (vec![line(3, 0), line(2, 1)], CheckState::Finding, "`annalist coverage --data d`"),
        ] {
            let status = Status { history: lines, ..status(Vec::new()) };
            assert_check(&history(&Ok(status), "--data d"), state, expected);
        }
    }

    #[test]
    fn a_proof_that_is_late_or_that_found_something_is_a_finding() {
        let night = Ts::parse("1699920000.000000").unwrap();
        let line = |behind_days: Option<i64>, missing| {
            let since = behind_days.map(|days| VerifiedChannel {
                since: Some(midnight_before(night.micros() - days * DAY_MICROS)),
                ..VerifiedChannel::new(TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap())
            });
            ProofLine::new(TeamProof {
                team: TeamId::parse("T1").unwrap(),
                night: night.clone(),
                through: Some(night.clone()),
                channels: 2,
                behind: since.into_iter().collect(),
                found: ProofCounts { missing, ..ProofCounts::default() },
            })
        };
        let checked = |lines| proof(&Ok(Status { proof: lines, ..status(Vec::new()) }), "--data d");
        assert!(checked(Vec::new()).is_none());
        for (lines, state, expected) in [
            (vec![line(None, 0)], CheckState::Ok, "complete up to 2023-11-13"),
            (vec![line(Some(3), 0)], CheckState::Ok, "1 channel behind"),
            (vec![line(Some(4), 0)], CheckState::Finding, "`annalist reconcile --nightly --data d`"),
            (vec![line(None, 2)], CheckState::Finding, "found 2 messages that were not archived"),
        ] {
            assert_check(&checked(lines).unwrap(), state, expected);
        }
    }

    #[test]
    fn files_that_failed_or_that_nothing_fetches_are_findings() {
        for (failed, pending, waiting, state, expected) in [
            (0, 0, 0, CheckState::Ok, "0 failed, 0 pending"),
            (0, 3, 2, CheckState::Ok, "0 failed, 3 pending"),
            (0, 3, 0, CheckState::Finding, "set a bot token"),
            (1_200, 3, 2, CheckState::Finding, "`annalist files retry --data d`"),
        ] {
            let missing = MissingFiles { failed, pending, is_partial: false };
            let status = Status { files: missing, ..status(vec![queue("files", waiting, None)]) };
            assert_check(&files(&Ok(status), "--data d"), state, expected);
        }
    }

    #[test]
    fn a_queue_without_a_worker_or_that_does_not_drain_is_a_finding() {
        let one = |queue: QueueStatus, later: Option<u64>, in_use| {
            let later = later.map(|waiting| Ok(status(vec![self::queue(queue.name, waiting, None)])));
            let archive_facts = ArchiveFacts {
                ports: Vec::new(),
                newest: Err(String::new()),
                apps: Err(String::new()),
                status: Ok(status(vec![queue])),
                later,
                in_use,
                gaps: Ok(Gaps::default()),
                unnamed: Err(String::new()),
                unmoved: None,
                integrity: None,
            };
            backlog(&archive_facts, "--data d").remove(0)
        };
        let waiting = || queue("events", 5, Some(40));
        let dead = QueueStatus { dead: 2, ..queue("events", 0, None) };
        for (queue, later, in_use, state, expected) in [
            (queue("events", 0, Some(0)), None, Some(false), CheckState::Ok, "events 0"),
            (waiting(), None, Some(true), CheckState::Ok, "events 5 (the oldest 40 s)"),
            (waiting(), None, Some(false), CheckState::Finding, "start `annalist up --data d`"),
            (queue("events", 5, Some(601)), None, Some(true), CheckState::Finding, "log of the worker"),
            (queue("files", 5, Some(601)), None, Some(true), CheckState::Ok, "files 5"),
            (queue("files", 5, Some(21_601)), None, Some(true), CheckState::Finding, "the oldest for 6 h"),
            (queue("events", 5, None), Some(5), None, CheckState::Finding, "a minute later 5"),
            (queue("events", 5, None), Some(4), None, CheckState::Ok, "events 5"),
            (dead, None, None, CheckState::Finding, "2 dead letters"),
        ] {
            assert_check(&one(queue, later, in_use), state, expected);
        }
    }

    #[test]
    fn quarantined_jobs_are_a_finding() {
        let with_quarantined = |quarantined| Ok(Status { quarantined, ..status(Vec::new()) });
        assert_check(&quarantine(&with_quarantined(0), ""), CheckState::Ok, "empty");
        assert_check(
            &quarantine(&with_quarantined(3), "--data d"),
            CheckState::Finding,
            "`annalist quarantine list --data d`",
        );
        assert_check(&quarantine(&Err("no answer".into()), ""), CheckState::Skipped, "no answer");
    }
}
