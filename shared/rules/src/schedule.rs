//! The row of a workspace: whether Slack lets the app in, which app sends events, and when work that no event brings is
//! due.
//!
//! The state is a register by the clock of what showed it. Each kind of work has a register with its [`WorkSchedule`]
//! as JSON, changed by compare-and-swap. Its times come from the clock of a process: they only decide when work begins.
//! A row of an earlier version has neither: the app is let in, and all work is due.

use std::time::Duration;

use ports::archive::{Guard, Item, ItemKey, Update};
use ports::clock::TimestampMs;
use ports::queue::job::encode_job;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use slack::catalogue::{EventRule, GapKind};
use slack::envelope::Envelope;
use slack::ids::{AppId, TeamId, Ts};

use crate::figures::rollup::RollupDay;
use crate::gap::revokes_bot;
use crate::{Malformed, SlackEvent, read_job};

const STATE: &str = "state";
const STATE_REASON: &str = "state_reason";
const APP: &str = "app";

/// Events already carry every change; the hourly sync finds missed ones.
const BETWEEN_SYNCS: Duration = Duration::from_secs(3_600);

/// The hash of a workspace moves its due times by up to half of this, so that workspaces that were added together
/// are not due together.
const SPREAD_MS: u64 = 10 * 60 * 1_000;

/// The pauses after failures in a row, long enough not to burden Slack during an incident.
const AFTER_FAILURES: [Duration; 3] =
    [Duration::from_secs(5 * 60), Duration::from_secs(15 * 60), Duration::from_secs(3_600)];

/// The pause after Slack refused the token. A new token is used at once.
const AFTER_REFUSAL: Duration = Duration::from_secs(6 * 3_600);

/// Work whose job was sent this long ago is sent again: the job may be lost.
const SENT_AGAIN_AFTER: Duration = Duration::from_secs(20 * 60);

/// The pause between two looks for what is unread: a gap is filled within minutes of its end.
const BETWEEN_READINGS: Duration = Duration::from_secs(5 * 60);

/// Whether Slack lets the app into a workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AppState {
    #[default]
    Active,
    /// Slack refuses the token.
    TokenFailed,
    Uninstalled,
}

impl AppState {
    const ALL: [Self; 3] = [Self::Active, Self::TokenFailed, Self::Uninstalled];

    /// The state as it is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::TokenFailed => "token_failed",
            Self::Uninstalled => "uninstalled",
        }
    }

    /// The update that records this state, as shown at `clock`.
    #[must_use]
    pub fn update(self, team: &TeamId, clock: &Ts, reason: &str) -> Update {
        let version = format!("{}/{}", clock.padded(), self.as_str());
        let mut update = Update {
            guard: Guard::Greater { register: STATE.into(), version },
            ..Update::mark(ItemKey::team(team))
        };
        if reason.is_empty() {
            update.remove.push(STATE_REASON);
        } else {
            update.set.insert(STATE_REASON.into(), reason.into());
        }
        update
    }

    /// The update that an event about the app itself makes.
    #[must_use]
    pub fn from_event(event: &SlackEvent<'_>) -> Option<Update> {
        let (state, reason) = match event.rule() {
            Some(EventRule::Gap(GapKind::Uninstalled)) => (Self::Uninstalled, "app_uninstalled"),
            Some(EventRule::Gap(GapKind::TokensRevoked)) if revokes_bot(event.raw) => {
                (Self::TokenFailed, "tokens_revoked")
            }
            Some(_) | None => return None,
        };
        Some(state.update(&event.team, &event.clock(), reason))
    }
}

/// The app that sends the events of a workspace, and the day of its last one by Slack's clock. It is written once a day,
/// because the time of the last event would cost a write for each event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppOnDay {
    pub day: RollupDay,
    pub app: AppId,
}

impl AppOnDay {
    /// The app and the day of an event; `None` if Slack does not name the app.
    #[must_use]
    pub fn from_event(envelope: &Envelope<'_>, event: &SlackEvent<'_>) -> Option<Self> {
        Some(Self { day: RollupDay::from_ts(&event.clock())?, app: envelope.app()? })
    }

    /// The update that records it; the latest day wins.
    #[must_use]
    pub fn update(&self, team: &TeamId) -> Update {
        let version = format!("{}/{}", self.day.text(), self.app);
        Update {
            guard: Guard::Greater { register: APP.into(), version },
            ..Update::mark(ItemKey::team(team))
        }
    }

    fn parse(stored: &str) -> Option<Self> {
        let (day, app) = stored.split_once('/')?;
        Some(Self { day: RollupDay::parse(day)?, app: AppId::parse(app).ok()? })
    }
}

/// Work of a workspace that no event brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// Its directory.
    Sync,
    /// What is unread of its history.
    History,
}

impl WorkKind {
    const ALL: [Self; 2] = [Self::Sync, Self::History];

    const fn register(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::History => "history",
        }
    }

    /// Longer than any pause: a due time that is further ahead comes from a wrong clock.
    const fn furthest_ahead(self) -> Duration {
        Duration::from_secs(match self {
            Self::Sync => 7 * 3_600,
            Self::History => 10 * 60,
        })
    }
}

/// When one kind of work is due.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkSchedule {
    pub due_ms: i64,
    /// When its job was sent, until it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_ms: Option<i64>,
    /// Failures in a row.
    pub failures: usize,
    /// The mark of the token that was used last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// How a sync ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncEnd {
    Synced,
    Failed,
    /// Slack refused the token.
    Refused,
}

/// The row of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceRow {
    pub team: TeamId,
    pub state: AppState,
    /// Why it is not active.
    pub state_reason: Option<String>,
    /// `None` before the first event that names its app.
    pub app: Option<AppOnDay>,
    /// The registers as they are stored, in the order of the kinds.
    stored: [Option<String>; WorkKind::ALL.len()],
}

impl WorkspaceRow {
    /// A workspace without a row.
    #[must_use]
    pub fn new(team: TeamId) -> Self {
        Self {
            team,
            state: AppState::Active,
            state_reason: None,
            app: None,
            stored: [const { None }; WorkKind::ALL.len()],
        }
    }

    /// Reads a row; `None` for a row of anything else.
    #[must_use]
    pub fn read(row: &Item) -> Option<Self> {
        let team = TeamId::parse(&row.key.timestamp).ok()?;
        let state = row.text(STATE).and_then(|state| state.split_once('/'));
        let state =
            AppState::ALL.into_iter().find(|known| state.is_some_and(|(_, name)| name == known.as_str()));
        Some(Self {
            team,
            state: state.unwrap_or_default(),
            state_reason: row.text(STATE_REASON).map(str::to_owned),
            app: row.text(APP).and_then(AppOnDay::parse),
            stored: WorkKind::ALL.map(|kind| row.text(kind.register()).map(str::to_owned)),
        })
    }

    /// The schedule of one kind. One that cannot be read is due.
    #[must_use]
    pub fn schedule(&self, kind: WorkKind) -> WorkSchedule {
        let stored = self.stored[kind as usize].as_deref();
        stored.and_then(|stored| serde_json::from_str(stored).ok()).unwrap_or_default()
    }

    /// Whether a job for the work is to be sent: it is due, and none was sent in the last minutes.
    #[must_use]
    pub fn is_to_be_sent(&self, kind: WorkKind, now: TimestampMs, token: &str) -> bool {
        !self.is_sent(kind, now) && self.is_due(kind, now, token)
    }

    /// Whether a job for the work was sent in the last minutes and is not done.
    #[must_use]
    pub fn is_sent(&self, kind: WorkKind, now: TimestampMs) -> bool {
        self.schedule(kind).sent_ms.is_some_and(|sent| {
            (0..i64::try_from(SENT_AGAIN_AFTER.as_millis()).unwrap_or(i64::MAX)).contains(&(now.0 - sent))
        })
    }

    /// Whether the work is due, with the token of this mark.
    #[must_use]
    pub fn is_due(&self, kind: WorkKind, now: TimestampMs, token: &str) -> bool {
        let WorkSchedule { due_ms, token: used, .. } = self.schedule(kind);
        if used.is_some_and(|used| used != token) {
            return true;
        }
        let due = TimestampMs(due_ms);
        self.state != AppState::Uninstalled && (due <= now || due > now.plus(kind.furthest_ahead()))
    }

    /// The update that records that a job for the work is sent now.
    #[must_use]
    pub fn sent(&self, kind: WorkKind, now: TimestampMs) -> Update {
        self.change(kind, &WorkSchedule { sent_ms: Some(now.0), ..self.schedule(kind) })
    }

    /// The update that records how a sync with the token of this mark ended, and when the next one is due.
    #[must_use]
    pub fn synced(&self, end: SyncEnd, now: TimestampMs, token: Option<String>) -> Update {
        let failures = if end == SyncEnd::Failed { self.schedule(WorkKind::Sync).failures + 1 } else { 0 };
        let due = match end {
            SyncEnd::Synced => {
                let early = Duration::from_millis(SPREAD_MS / 2);
                now.plus(BETWEEN_SYNCS - early + Duration::from_millis(hash(&self.team) % SPREAD_MS))
            }
            SyncEnd::Failed => now.plus(AFTER_FAILURES[failures.clamp(1, AFTER_FAILURES.len()) - 1]),
            SyncEnd::Refused => now.plus(AFTER_REFUSAL),
        };
        self.change(WorkKind::Sync, &WorkSchedule { due_ms: due.0, sent_ms: None, failures, token })
    }

    /// The update that records that nothing is left to read of its history, or can be read now.
    #[must_use]
    pub fn has_read(&self, now: TimestampMs) -> Update {
        let due_ms = now.plus(BETWEEN_READINGS).0;
        self.change(WorkKind::History, &WorkSchedule { due_ms, ..WorkSchedule::default() })
    }

    fn change(&self, kind: WorkKind, schedule: &WorkSchedule) -> Update {
        let guard = Guard::Unchanged {
            register: kind.register().into(),
            expected: self.stored[kind as usize].clone(),
            // Numbers and a text always serialise.
            version: serde_json::to_string(schedule).unwrap_or_default(),
        };
        Update { guard, ..Update::mark(ItemKey::team(&self.team)) }
    }
}

fn hash(team: &TeamId) -> u64 {
    let hash = DedupId::from_parts(&[team.as_str().as_bytes()]);
    hash.as_bytes().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// A workspace whose directory is to be synced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncJob {
    pub team: TeamId,
    /// When it was due, in milliseconds since the Unix epoch.
    pub due_ms: i64,
}

impl SyncJob {
    /// The job as a message. One workspace is one group, so that Slack's limits are kept.
    pub fn outgoing(&self) -> Outgoing {
        let Self { team, due_ms } = self;
        let parts = ["sync", team.as_str(), &due_ms.to_string()];
        Outgoing {
            queue: QueueName::Directory,
            group: GroupId::from_parts(&[team.as_str()]),
            dedup: DedupId::from_parts(&parts.map(str::as_bytes)),
            body: encode_job("sync", self),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or malformed.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        read_job("sync", raw)
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::Attributes;
    use ports::queue::job::{Job, Payload};

    use super::*;

    const NOW: TimestampMs = TimestampMs(1_700_000_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    fn team() -> TeamId {
        TeamId::parse("T1").unwrap()
    }

    /// The row after these updates; each must apply.
    fn after(row: &WorkspaceRow, update: &Update) -> WorkspaceRow {
        let mut stored = Attributes::new();
        for (kind, text) in WorkKind::ALL.into_iter().zip(&row.stored) {
            stored.extend(text.as_ref().map(|text| (kind.register().to_owned(), text.as_str().into())));
        }
        if row.state != AppState::Active {
            stored.insert(STATE.into(), format!("{:012}.000000/{}", 1, row.state.as_str()).into());
        }
        let attributes = update.apply(Some(&stored)).expect("the update applies");
        WorkspaceRow::read(&Item { key: update.key.clone(), attributes }).unwrap()
    }

    #[test]
    fn a_row_of_an_earlier_version_is_active_and_due_and_is_sent_once_in_twenty_minutes() {
        let key = ItemKey::team(&team());
        let attributes = Update::mark(key.clone()).apply(None).unwrap();
        let row = WorkspaceRow::read(&Item { key, attributes }).unwrap();
        assert_eq!(row.state, AppState::Active);
        assert!(row.is_to_be_sent(WorkKind::Sync, NOW, "a"));
        let sent = after(&row, &row.sent(WorkKind::Sync, NOW));
        assert!(sent.is_due(WorkKind::Sync, NOW, "a"));
        assert!(!sent.is_to_be_sent(WorkKind::Sync, NOW.plus(19 * MINUTE), "a"));
        assert!(sent.is_to_be_sent(WorkKind::Sync, NOW.plus(20 * MINUTE), "a"));
        // The clock went back.
        assert!(sent.is_to_be_sent(WorkKind::Sync, TimestampMs(NOW.0 - 1), "a"));
        assert!(row.sent(WorkKind::Sync, NOW).apply(Some(&sent_attributes(&sent))).is_none(), "one sends it");
    }

    fn sent_attributes(row: &WorkspaceRow) -> Attributes {
        let text = row.stored[WorkKind::Sync as usize].clone().unwrap();
        Attributes::from_iter([("sync".to_owned(), text.into())])
    }

    #[test]
    fn history_is_due_five_minutes_after_it_was_read_and_changes_no_other_work() {
        let row = WorkspaceRow::new(team());
        let synced = after(&row, &row.synced(SyncEnd::Synced, NOW, Some("a".into())));
        assert!(synced.is_to_be_sent(WorkKind::History, NOW, ""));
        let sent = after(&synced, &synced.sent(WorkKind::History, NOW));
        assert!(sent.is_sent(WorkKind::History, NOW.plus(MINUTE)));
        let read = after(&sent, &sent.has_read(NOW));
        assert!(!read.is_sent(WorkKind::History, NOW) && !read.is_due(WorkKind::History, NOW, ""));
        assert!(read.is_to_be_sent(WorkKind::History, NOW.plus(5 * MINUTE), ""));
        // The clock was an hour ahead when it was read.
        assert!(read.is_due(WorkKind::History, TimestampMs(NOW.0 - 3_600_000), ""));
        assert_eq!(read.schedule(WorkKind::Sync), synced.schedule(WorkKind::Sync));
        let uninstalled = WorkspaceRow { state: AppState::Uninstalled, ..read };
        assert!(!uninstalled.is_due(WorkKind::History, NOW.plus(5 * MINUTE), ""));
    }

    #[test]
    fn a_sync_is_due_after_about_an_hour_and_sooner_after_failures() {
        let row = WorkspaceRow::new(team());
        let synced = after(&row, &row.synced(SyncEnd::Synced, NOW, Some("a".into())));
        assert!(!synced.is_due(WorkKind::Sync, NOW.plus(54 * MINUTE), "a"));
        assert!(synced.is_due(WorkKind::Sync, NOW.plus(66 * MINUTE), "a"));
        assert!(synced.is_due(WorkKind::Sync, NOW, "b"), "a new token is used at once");
        // The clock was wrong when it was synced.
        assert!(synced.is_due(WorkKind::Sync, TimestampMs(NOW.0 - 24 * 3_600_000), "a"));
        let mut failed = row;
        for minutes in [5, 15, 60, 60] {
            failed = after(&failed, &failed.synced(SyncEnd::Failed, NOW, Some("a".into())));
            let due = TimestampMs(failed.schedule(WorkKind::Sync).due_ms);
            assert_eq!(due, NOW.plus(minutes * MINUTE));
        }
        let synced = after(&failed, &failed.synced(SyncEnd::Synced, NOW, Some("a".into())));
        assert_eq!(synced.schedule(WorkKind::Sync).failures, 0);
    }

    #[test]
    fn a_refused_token_waits_for_hours_and_an_uninstalled_app_for_a_new_token() {
        let row = WorkspaceRow::new(team());
        let refused = after(&row, &row.synced(SyncEnd::Refused, NOW, Some("a".into())));
        assert!(!refused.is_due(WorkKind::Sync, NOW.plus(359 * MINUTE), "a"));
        assert!(refused.is_due(WorkKind::Sync, NOW.plus(360 * MINUTE), "a"));
        let uninstalled = WorkspaceRow { state: AppState::Uninstalled, ..refused };
        assert!(!uninstalled.is_due(WorkKind::Sync, NOW.plus(1_000 * MINUTE), "a"));
        assert!(uninstalled.is_due(WorkKind::Sync, NOW, "b"));
    }

    #[test]
    fn due_times_are_spread_over_ten_minutes() {
        let minutes: std::collections::BTreeSet<i64> = (0..500)
            .map(|number| {
                let row = WorkspaceRow::new(TeamId::parse(&format!("T{number}")).unwrap());
                let synced = after(&row, &row.synced(SyncEnd::Synced, NOW, None));
                (synced.schedule(WorkKind::Sync).due_ms - NOW.0) / 60_000
            })
            .collect();
        assert_eq!(minutes, (55..65).collect());
    }

    #[test]
    fn the_newest_state_wins_in_any_order() {
        let clock = |seconds: u32| Ts::parse(&format!("{seconds}.000000")).unwrap();
        let states = [
            AppState::Uninstalled.update(&team(), &clock(9), "app_uninstalled"),
            AppState::TokenFailed.update(&team(), &clock(8), "tokens_revoked"),
            AppState::Active.update(&team(), &clock(10), ""),
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut stored = None;
            for index in order {
                stored = states[index].apply(stored.as_ref()).or(stored);
            }
            let row = Item { key: ItemKey::team(&team()), attributes: stored.unwrap() };
            let row = WorkspaceRow::read(&row).unwrap();
            assert_eq!((row.state, row.state_reason), (AppState::Active, None));
        }
    }

    #[test]
    fn the_app_of_the_latest_day_wins_in_any_order() {
        let seen = |day: i64, app: &str| AppOnDay {
            day: RollupDay::new(day).unwrap(),
            app: AppId::parse(app).unwrap(),
        };
        let all =
            [seen(20_000, "A0OLD"), seen(20_001, "A0FIRST"), seen(20_001, "A0SECOND"), seen(19_999, "A0X")];
        for turn in 0..all.len() {
            let mut stored = None;
            for step in 0..all.len() {
                let update = all[(turn + step * 3) % all.len()].update(&team());
                stored = update.apply(stored.as_ref()).or(stored);
            }
            let row = Item { key: ItemKey::team(&team()), attributes: stored.unwrap() };
            assert_eq!(WorkspaceRow::read(&row).unwrap().app, Some(seen(20_001, "A0SECOND")));
        }
        for odd in ["", "2024-10-04", "2024-10-04/a#", "soon/A0X", "2024-10-04/A0X/A0Y"] {
            assert_eq!(AppOnDay::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_sync_is_a_job_of_its_workspace() {
        let job = SyncJob { team: team(), due_ms: 7 };
        let sent = job.outgoing();
        assert_eq!((sent.group.as_str(), sent.queue), ("T1", QueueName::Directory));
        assert_eq!(sent.body, r#"{"v":1,"sync":{"team":"T1","due_ms":7}}"#);
        let Payload::Sync(raw) = Job::decode(&sent.body).unwrap().payload else { panic!("{sent:?}") };
        assert_eq!(SyncJob::decode(raw), Ok(job));
    }
}
