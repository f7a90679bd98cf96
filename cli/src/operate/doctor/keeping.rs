//! Whether events that arrive are kept: queues that drain, an empty quarantine, no gaps, room, rights and a sound database.

use embedded::condition::{FolderCondition, Integrity};
use jiff::Timestamp;
use ports::queue::QueueName;
use ports::queue::topology::QueueRole;
use rules::gap::Reason;
use rules::gap::projection::Gap;
use rules::version::zero;
use slack::ids::ChannelId;

use super::check::{DoctorCheck, counted};
use super::facts::{ArchiveFacts, Facts, Gaps};
use crate::operate::status::{QueueStatus, Status, age};

const BACKLOG: &str = "backlog";
const QUARANTINE: &str = "quarantine";
const GAPS: &str = "gaps";
const DISK: &str = "disk";
const PERMISSIONS: &str = "permissions";
const DATABASE: &str = "database";

const GIB: u64 = 1024 * 1024 * 1024;

/// Below it a disk is full soon, however large it is.
const LEAST_FREE_BYTES: u64 = GIB;

/// Below a twentieth it is full soon as well, where that is not still a lot: pictures and videos come in gigabytes.
const FREE_PARTS: u64 = 20;
const ENOUGH_FREE_BYTES: u64 = 20 * GIB;

/// A row is written within milliseconds; what has waited this long is being tried again and again.
const LONGEST_WAIT_S: u64 = 10 * 60;

/// Files are fetched at 300 a minute, and a first sync may bring a hundred thousand pictures. Work in the background
/// takes as long.
const LONG_WAIT_S: u64 = 6 * 3_600;

pub(super) fn checks(facts: &Facts) -> Vec<DoctorCheck> {
    let mut checks = match &facts.archive {
        Ok(archive_facts) => {
            let mut checks = backlog(archive_facts, &facts.place);
            checks.push(quarantine(&archive_facts.status, &facts.place));
            checks.push(gaps(&archive_facts.gaps, &facts.place));
            checks
        }
        Err(_) => [BACKLOG, QUARANTINE, GAPS]
            .map(|check| DoctorCheck::skipped(check, "there is no archive to look into"))
            .into(),
    };
    match &facts.folder {
        Some(Ok(folder)) => checks.extend([disk(*folder), permissions(*folder, &facts.place)]),
        Some(Err(why)) => checks.push(DoctorCheck::skipped(DISK, why.as_str())),
        None => {}
    }
    if let Ok(ArchiveFacts { integrity: Some(integrity), .. }) = &facts.archive {
        checks.push(database(integrity));
    }
    checks
}

fn backlog(archive_facts: &ArchiveFacts, place: &str) -> Vec<DoctorCheck> {
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
    let stuck = |queue| stuck(queue, later, archive_facts.in_use, place);
    let mut checks: Vec<DoctorCheck> = status.queues.iter().filter_map(stuck).collect();
    checks.extend(status.queues.iter().filter(|queue| queue.dead > 0).map(|queue| {
        DoctorCheck::finding(
            BACKLOG,
            format!("{}: {}", queue.name, counted(queue.dead, "dead letter")),
            "they move to quarantine while the worker of that queue runs; where they stay, its log says why",
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
    place: &str,
) -> Option<DoctorCheck> {
    let (name, worker) = (queue.name, queue.worker);
    let jobs = queue.waiting + queue.in_flight;
    if jobs == 0 {
        return None;
    }
    let finding = |says: String, next: String| Some(DoctorCheck::finding(BACKLOG, says, next));
    if in_use == Some(false) {
        return finding(
            format!("{name}: {} on the queue, and nothing runs that would work on it", counted(jobs, "job")),
            format!("start `annalist up {place}`"),
        );
    }
    let is_background = queue.role == QueueRole::Background;
    let may_take_long = is_background || name == QueueName::Files.spec().label;
    let limit_s = if may_take_long { LONG_WAIT_S } else { LONGEST_WAIT_S };
    if let Some(oldest_s) = queue.oldest_age_s.filter(|oldest_s| *oldest_s > limit_s) {
        return finding(
            format!("{name}: {} on the queue, the oldest for {}", counted(jobs, "job"), age(oldest_s)),
            format!("look into the log of the {worker}: it says what it tries again, and why"),
        );
    }
    let later = later?.queues.iter().find(|later| later.name == name)?;
    if !is_background && queue.waiting > 0 && later.waiting >= queue.waiting {
        return finding(
            format!(
                "{name}: {} on the queue, and a minute later {}",
                counted(queue.waiting, "job"),
                later.waiting
            ),
            format!("see whether a {worker} runs, and what its log says"),
        );
    }
    None
}

fn quarantine(status: &Result<Status, String>, place: &str) -> DoctorCheck {
    match status {
        Err(why) => DoctorCheck::skipped(QUARANTINE, why.as_str()),
        Ok(Status { quarantined: 0, .. }) => DoctorCheck::ok(QUARANTINE, "empty"),
        Ok(Status { quarantined, .. }) => DoctorCheck::finding(
            QUARANTINE,
            format!("{} could not be stored and are in quarantine", counted(*quarantined, "job")),
            format!("`annalist quarantine list {place}` says why; replay or drop them"),
        ),
    }
}

fn gaps(gaps: &Result<Gaps, String>, place: &str) -> DoctorCheck {
    let gaps = match gaps {
        Err(why) => return DoctorCheck::skipped(GAPS, why.as_str()),
        Ok(gaps) => gaps,
    };
    let newest = |newest: &Gap| format!("the newest{}: {}", since(newest), meaning(newest.reason));
    let Some(gap) = &gaps.newest else { return DoctorCheck::ok(GAPS, no_gap_left(gaps, place)) };
    if gaps.open == 0 {
        // Nothing can be set up better: what was missed in the past is no step that is missing now.
        let says = format!(
            "no gap is open; {} in which events may be missing, {}; `annalist gaps {place}` lists them, and \
             `annalist backfill --all {place}` reads them from Slack's history",
            counted(gaps.missing, "time"),
            newest(gap)
        );
        return DoctorCheck::ok(GAPS, says);
    }
    let says = format!("{} since which events are missing, {}", counted(gaps.open, "time"), newest(gap));
    let whole = gap.channel.as_ref().map_or("--all", ChannelId::as_str);
    let next =
        format!("{}; `annalist backfill {whole} {place}` then reads what was missed", remedy(gap.reason));
    DoctorCheck::finding(GAPS, says, next)
}

fn no_gap_left(gaps: &Gaps, place: &str) -> String {
    let Gaps { filled, lost, has_history, .. } = gaps;
    let mut says = match (filled, lost) {
        (0, 0) => "no gaps detected".to_owned(),
        (filled, 0) => format!("no gaps are left: {} filled from history", counted(*filled, "time")),
        (filled, lost) => format!(
            "no gaps are left to fill: {} filled from history, {} lost, as Slack's plan no longer shows what was written",
            counted(*filled, "time"),
            counted(*lost, "time")
        ),
    };
    if !has_history {
        says.push_str(&format!(
            "; `annalist backfill --all {place}` reads what was written before annalist was there"
        ));
    }
    says
}

fn since(gap: &Gap) -> String {
    let from = Timestamp::from_microsecond(gap.from.micros());
    let from = match from {
        Ok(_) if gap.from == zero() => Ok(" from the beginning".to_owned()),
        from => from.map(|from| from.strftime(" from %F %R UTC").to_string()),
    };
    let channel = gap.channel.as_ref().map(|channel| format!(" in {channel}")).unwrap_or_default();
    format!("{}{channel}", from.unwrap_or_default())
}

fn meaning(reason: Reason) -> &'static str {
    match reason {
        Reason::Downtime => "annalist was stopped, or started again",
        Reason::RateLimited => {
            "Slack had more than 30,000 events for an hour and dropped those of that minute"
        }
        Reason::Left => "the app was removed from the channel",
        Reason::Revoked => "the app was uninstalled, or its token revoked",
        Reason::Dropped => "an event was removed from quarantine, or only counted there",
        Reason::Refused => {
            "requests were refused although Slack had signed them: this machine's clock was wrong"
        }
        Reason::HistoryChanged => "Slack changed many messages at once",
    }
}

fn remedy(reason: Reason) -> &'static str {
    match reason {
        Reason::Left => "invite the app again in that channel: /invite @annalist",
        Reason::Revoked => {
            "install the app again at api.slack.com/apps > your app > Install App, if it is not"
        }
        // They have ended when they are known.
        Reason::Downtime
        | Reason::RateLimited
        | Reason::Dropped
        | Reason::Refused
        | Reason::HistoryChanged => "look into Slack for what was written then",
    }
}

fn disk(folder: FolderCondition) -> DoctorCheck {
    let FolderCondition { free_bytes, total_bytes, .. } = folder;
    let percent = u128::from(free_bytes) * 100 / u128::from(total_bytes.max(1));
    let says = format!("{} free, {percent} % of the filesystem", size(free_bytes));
    let little = free_bytes < total_bytes / FREE_PARTS && free_bytes < ENOUGH_FREE_BYTES;
    if free_bytes < LEAST_FREE_BYTES || little {
        let next = "make room, or move the data folder to a larger disk while annalist is stopped: on a full one no event \
                    is taken";
        return DoctorCheck::finding(DISK, says, next);
    }
    DoctorCheck::ok(DISK, says)
}

fn size(bytes: u64) -> String {
    if bytes >= GIB { format!("{} GiB", bytes / GIB) } else { format!("{} MiB", bytes / (1024 * 1024)) }
}

fn permissions(folder: FolderCondition, place: &str) -> DoctorCheck {
    let mode = folder.mode;
    if !folder.lets_others_in() {
        return DoctorCheck::ok(
            PERMISSIONS,
            format!("only their owner may enter the data folder ({mode:04o})"),
        );
    }
    let path = place.strip_prefix("--data ").unwrap_or(place);
    DoctorCheck::finding(
        PERMISSIONS,
        format!("others on this machine may look into the data folder ({mode:04o})"),
        format!("chmod 700 {path}"),
    )
}

fn database(integrity: &Result<Integrity, String>) -> DoctorCheck {
    match integrity {
        Ok(Integrity::Sound) => DoctorCheck::ok(DATABASE, "sound"),
        Ok(Integrity::Unfinished) => DoctorCheck::skipped(
            DATABASE,
            "too large to be looked through now: `sqlite3 annalist.db 'PRAGMA quick_check'` does it in its own time",
        ),
        Ok(Integrity::Damaged(complaint)) => DoctorCheck::finding(
            DATABASE,
            format!("damaged: {complaint}"),
            "stop annalist, copy the data folder away, and put the last good copy in its place; then look for the disk's fault",
        ),
        Ok(Integrity::Altered(name)) => DoctorCheck::finding(
            DATABASE,
            format!(
                "`{name}` is not as this version of annalist makes it: it may keep rows from being written or found"
            ),
            "drop it if you added it yourself; else `annalist backup`, then `annalist restore` into a new folder, which takes \
             rows only",
        ),
        Err(why) => DoctorCheck::skipped(DATABASE, why.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{CheckState, says};
    use super::*;

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
            queues,
            quarantined: 0,
            gaps: 0,
            idle: false,
            busy: Vec::new(),
            existence_check: Vec::new(),
            directory: Vec::new(),
        }
    }

    fn archive_facts(
        queues: Vec<QueueStatus>,
        later: Option<Vec<QueueStatus>>,
        in_use: Option<bool>,
    ) -> ArchiveFacts {
        ArchiveFacts {
            ports: Vec::new(),
            newest: Err(String::new()),
            status: Ok(status(queues)),
            later: later.map(|queues| Ok(status(queues))),
            in_use,
            gaps: Ok(Gaps::default()),
            integrity: None,
        }
    }

    #[test]
    fn a_queue_without_a_worker_or_that_does_not_drain_is_a_finding() {
        let one = |queue: QueueStatus, later: Option<u64>, in_use| {
            let later = later.map(|waiting| vec![self::queue(queue.name, waiting, None)]);
            backlog(&archive_facts(vec![queue], later, in_use), "--data d").remove(0)
        };
        says(&one(queue("events", 0, Some(0)), None, Some(false)), CheckState::Ok, "events 0");
        says(
            &one(queue("events", 5, Some(40)), None, Some(true)),
            CheckState::Ok,
            "events 5 (the oldest 40 s)",
        );
        says(
            &one(queue("events", 5, Some(40)), None, Some(false)),
            CheckState::Finding,
            "start `annalist up --data d`",
        );
        says(&one(queue("events", 5, Some(601)), None, Some(true)), CheckState::Finding, "log of the worker");
        says(&one(queue("files", 5, Some(601)), None, Some(true)), CheckState::Ok, "files 5");
        says(
            &one(queue("files", 5, Some(21_601)), None, Some(true)),
            CheckState::Finding,
            "the oldest for 6 h",
        );
        says(&one(queue("events", 5, None), Some(5), None), CheckState::Finding, "a minute later 5");
        says(&one(queue("events", 5, None), Some(4), None), CheckState::Ok, "events 5");
        says(
            &one(QueueStatus { dead: 2, ..queue("events", 0, None) }, None, None),
            CheckState::Finding,
            "2 dead letters",
        );
    }

    #[test]
    fn quarantined_jobs_are_a_finding() {
        let put_aside = |quarantined| Ok(Status { quarantined, ..status(Vec::new()) });
        says(&quarantine(&put_aside(0), ""), CheckState::Ok, "empty");
        says(
            &quarantine(&put_aside(3), "--data d"),
            CheckState::Finding,
            "`annalist quarantine list --data d`",
        );
        says(&quarantine(&Err("no answer".into()), ""), CheckState::Skipped, "no answer");
    }

    #[test]
    fn a_gap_that_goes_on_is_a_finding_and_one_that_has_ended_is_told() {
        let ts = |text: &str| slack::ids::Ts::parse(text).unwrap();
        let of = |reason, channel: Option<&str>, to: Option<&str>| {
            let newest = Gap {
                from: ts("1700000000.000000"),
                to: to.map(ts),
                channel: channel.map(|channel| channel.parse().unwrap()),
                reason,
                told: None,
            };
            let open = usize::from(to.is_none());
            gaps(&Ok(Gaps { open, missing: 2 - open, newest: Some(newest), ..Gaps::default() }), "--data d")
        };
        let ended = Some("1700000060.000000");
        says(&gaps(&Ok(Gaps::default()), ""), CheckState::Ok, "no gaps");
        says(&of(Reason::Left, Some("C1"), None), CheckState::Finding, "1 time since which");
        says(&of(Reason::Left, Some("C1"), None), CheckState::Finding, "in C1: the app was removed");
        says(&of(Reason::Revoked, None, None), CheckState::Finding, "Install App");
        says(&of(Reason::RateLimited, None, ended), CheckState::Ok, "2 times");
        says(
            &of(Reason::RateLimited, None, ended),
            CheckState::Ok,
            "from 2023-11-14 22:13 UTC: Slack had more than 30,000",
        );
        says(
            &of(Reason::Downtime, None, ended),
            CheckState::Ok,
            "stopped, or started again; `annalist gaps --data d`",
        );
        says(&of(Reason::Dropped, Some("C1"), ended), CheckState::Ok, "quarantine");
        says(&of(Reason::Left, Some("C1"), ended), CheckState::Ok, "no gap is open");
        let changed = Gap {
            from: ts("0.000000"),
            to: ended.map(ts),
            channel: Some("C1".parse().unwrap()),
            reason: Reason::HistoryChanged,
            told: ended.map(ts),
        };
        let changed = Gaps { missing: 1, newest: Some(changed), ..Gaps::default() };
        says(
            &gaps(&Ok(changed), ""),
            CheckState::Ok,
            "from the beginning in C1: Slack changed many messages",
        );
        says(&gaps(&Err("no answer".into()), ""), CheckState::Skipped, "no answer");
    }

    #[test]
    fn how_to_read_what_is_missing_is_told_until_it_was_read() {
        let ok =
            |gaps: Gaps, expected: &str| says(&self::gaps(&Ok(gaps), "--data d"), CheckState::Ok, expected);
        let backfill = "`annalist backfill --all --data d`";
        ok(Gaps::default(), backfill);
        let read = || Gaps { has_history: true, ..Gaps::default() };
        ok(read(), "no gaps detected");
        assert!(!gaps(&Ok(read()), "").says.contains("backfill"));
        ok(Gaps { filled: 2, ..read() }, "2 times filled from history");
        ok(Gaps { filled: 2, lost: 1, ..read() }, "1 time lost");
        let missing =
            Gap { from: zero(), to: Some(zero()), channel: None, reason: Reason::Downtime, told: None };
        ok(Gaps { missing: 1, filled: 2, newest: Some(missing.clone()), ..read() }, backfill);
        let open =
            Gaps { open: 1, newest: Some(Gap { to: None, reason: Reason::Left, ..missing }), ..read() };
        assert!(gaps(&Ok(open), "").next.is_some_and(|next| next.contains("`annalist backfill")));
    }

    #[test]
    fn little_room_is_a_finding_on_small_disks_and_on_large_ones() {
        let of = |free_bytes, total_bytes| disk(FolderCondition { free_bytes, total_bytes, mode: 0o700 });
        says(&of(GIB, 8 * GIB), CheckState::Ok, "1 GiB free, 12 %");
        says(&of(GIB - 1, 8 * GIB), CheckState::Finding, "1023 MiB free");
        says(&of(5 * GIB, 100 * GIB), CheckState::Ok, "5 %");
        says(&of(5 * GIB - 1, 100 * GIB), CheckState::Finding, "make room");
        says(&of(40 * GIB, 4_000 * GIB), CheckState::Ok, "40 GiB free, 1 %");
        says(&of(0, 0), CheckState::Finding, "0 MiB");
    }

    #[test]
    fn others_must_not_look_into_the_folder() {
        let of = |mode| permissions(FolderCondition { free_bytes: 0, total_bytes: 0, mode }, "--data /d");
        says(&of(0o700), CheckState::Ok, "0700");
        for mode in [0o755, 0o710, 0o704] {
            says(&of(mode), CheckState::Finding, "chmod 700 /d");
        }
    }

    #[test]
    fn a_damaged_database_is_a_finding_and_a_large_one_is_not() {
        says(&database(&Ok(Integrity::Sound)), CheckState::Ok, "sound");
        says(&database(&Ok(Integrity::Damaged("page 9".into()))), CheckState::Finding, "page 9");
        says(&database(&Ok(Integrity::Altered("evil".into()))), CheckState::Finding, "`evil` is not as");
        says(&database(&Ok(Integrity::Unfinished)), CheckState::Skipped, "quick_check");
        says(&database(&Err("locked".into())), CheckState::Skipped, "locked");
    }
}
