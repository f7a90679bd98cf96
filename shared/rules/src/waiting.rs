//! The state of the jobs of one queue and workspace that wait aside: what they wait for, and the turns in which
//! they are tried again. It is one row, changed by compare-and-swap; these are its transitions.
//!
//! Nothing knows how to ask whether a cause has ended: the oldest job that waits for it is the question. A turn
//! sends one job back; if it succeeds, the next turn sends ten times as many, and if Slack fails again, one.

use std::collections::BTreeMap;
use std::time::Duration;

use ports::archive::{Guard, Item, ItemKey, Update};
use ports::clock::TimestampMs;
use ports::queue::QueueName;
use ports::queue::job::Trial;
use ports::queue::waiting::{WaitCause, Wake};
use serde::{Deserialize, Serialize};
use slack::ids::TeamId;

/// The attribute of a waiting job's row that names its [`WaitCause`].
pub const CAUSE: &str = "cause";

/// The attribute of a waiting job's row that says for people what it waits for.
pub const REASON: &str = "reason";

/// The register of the row: the number of its last change.
const VERSION: &str = "version";

/// The waits before a trial: so a short interruption ends soon, and a long one costs one trial a minute.
const WAITS: [Duration; 4] =
    [Duration::from_secs(5), Duration::from_secs(15), Duration::from_secs(30), Duration::from_secs(60)];

/// The wait after a turn that succeeded: three thousand jobs take nine turns.
pub const NEXT_TURN: Duration = Duration::from_secs(2);

/// How long the next turn waits for the outcomes of the jobs that were sent back: as long as a call to Slack
/// may take.
const OUTCOMES: Duration = Duration::from_secs(30);

/// A wake that is this late may be lost with its queue; otherwise it only waits behind a backlog.
const OVERDUE: Duration = Duration::from_secs(300);

/// How long rows are looked for after the last one was sent back: twice the interval in which Lambda looks.
const LATE_ROWS: Duration = Duration::from_secs(2 * 3_600);

/// The number of jobs of a turn at most: they are read and sent at once.
pub const MAX_TURN: usize = 500;

/// The number of jobs of a bulk in a turn: nothing is tried, so that it never changes.
pub const BULK_TURN: usize = 100;

/// The jobs that wait for one thing, and their turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseState {
    /// The reason of the last job that was set aside.
    pub reason: String,
    /// When the oldest of the jobs was first sent, in milliseconds since the Unix epoch.
    pub first_ms: i64,
    /// About how many jobs wait: a crash may count a job twice.
    pub jobs: u64,
    /// The number of jobs of the next turn.
    pub size: usize,
    /// The sort key after which the next turn begins; empty for the first job.
    pub after: String,
    /// When the next turn is due.
    pub next_ms: i64,
    /// The turns without a success, one after the other.
    pub failed_turns: usize,
    /// The jobs of the last turn, and of these: the ones that no longer wait for this cause.
    pub sent: usize,
    /// See `sent`.
    pub passed: usize,
    /// The ones that wait for it again.
    pub returned: usize,
}

impl CauseState {
    /// The time until the next turn is due. No turn is planned for later than the longest wait: if it seems to be, the
    /// clock that planned it was ahead, and it is due.
    fn until_due(&self, now: TimestampMs) -> Duration {
        let wait = TimestampMs(self.next_ms).since(now);
        if wait > WAITS[WAITS.len() - 1] { Duration::ZERO } else { wait }
    }
}

/// The row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitState {
    /// The label of the queue.
    pub queue: String,
    #[serde(rename = "team_id")]
    pub team: TeamId,
    /// The number of the latest wake job.
    pub wake: u64,
    /// Whether that job is on the queue, or about to be: it is while any job waits.
    #[serde(default, skip_serializing_if = "is_absent")]
    pub waits: bool,
    /// Whether the latest wake job has been received.
    #[serde(default, skip_serializing_if = "is_absent")]
    pub heard: bool,
    /// Whether the archive did not know the workspace when its first job was set aside.
    #[serde(default, skip_serializing_if = "is_absent")]
    pub stranger: bool,
    /// The number of the last turn.
    pub turn: u64,
    /// When jobs were last sent back; it only grows.
    pub released_ms: i64,
    /// When jobs last stopped waiting.
    pub ended_ms: i64,
    /// Jobs, and their bytes, that were set aside since none waited.
    pub added_jobs: u64,
    /// See `added_jobs`.
    pub added_bytes: u64,
    /// What jobs wait for.
    pub causes: BTreeMap<WaitCause, CauseState>,
    /// The version that was read; `None` if there is no row yet.
    #[serde(skip)]
    version: Option<u64>,
}

/// A job that is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWait {
    pub cause: WaitCause,
    /// Why, for people.
    pub reason: String,
    /// When it was first sent, in milliseconds since the Unix epoch.
    pub sent_at_ms: i64,
    /// Its size.
    pub bytes: usize,
    /// The turn in which it was tried, if it was.
    pub trial: Option<Trial>,
}

impl WaitState {
    /// The state of a workspace none of whose jobs has waited so far.
    pub fn new(queue: QueueName, team: &TeamId) -> Self {
        Self { queue: queue.spec().label.to_owned(), ..Self::empty(team) }
    }

    fn empty(team: &TeamId) -> Self {
        Self {
            queue: String::new(),
            team: team.clone(),
            wake: 0,
            waits: false,
            heard: false,
            stranger: false,
            turn: 0,
            released_ms: 0,
            ended_ms: 0,
            added_jobs: 0,
            added_bytes: 0,
            causes: BTreeMap::new(),
            version: None,
        }
    }

    /// The state in a row; `None` if it cannot be read.
    pub fn read(row: &Item) -> Option<Self> {
        let version = row.text(VERSION)?.parse().ok();
        Some(Self { version: Some(version?), ..Self::deserialize(&row.attributes).ok()? })
    }

    /// The queue, if this version knows it.
    pub fn queue(&self) -> Option<QueueName> {
        QueueName::from_label(&self.queue)
    }

    /// The update that stores this state unless the row has changed since it was read.
    pub fn update(&self) -> Option<Update> {
        let version = self.version.unwrap_or_default() + 1;
        // Texts and numbers always serialise.
        let set = serde_json::to_value(self).ok().and_then(|state| serde_json::from_value(state).ok())?;
        Some(Update {
            guard: Guard::Unchanged {
                register: VERSION.into(),
                expected: self.version.map(|version| version.to_string()),
                version: version.to_string(),
            },
            set,
            // What is absent is false.
            remove: [("waits", self.waits), ("heard", self.heard), ("stranger", self.stranger)]
                .into_iter()
                .filter_map(|(name, is_set)| (!is_set).then_some(name))
                .collect(),
            set_if_absent: [("type".to_owned(), "waiting".into())].into_iter().collect(),
            ..Update::new(ItemKey::waiting(self.queue()?, &self.team))
        })
    }

    /// This state after it was stored.
    #[must_use]
    pub fn stored(&self) -> Self {
        Self { version: Some(self.version.unwrap_or_default() + 1), ..self.clone() }
    }

    /// A state that replaces a row which cannot be read: an older version has a form of its own.
    #[must_use]
    pub fn unread(&self, row: &Item) -> Self {
        let version = row.text(VERSION).and_then(|version| version.parse().ok());
        Self { queue: self.queue.clone(), version, ..Self::empty(&self.team) }
    }

    /// The latest wake job.
    pub fn wake_job(&self) -> Wake {
        Wake { team: self.team.clone(), number: self.wake }
    }

    /// Whether a job that was sent at this time may be younger than one that waits, or that was sent back and is
    /// behind it on the queue.
    pub fn holds(&self, sent_at: TimestampMs) -> bool {
        self.waits || sent_at.0 < self.released_ms
    }

    /// Whether the wake is overdue, so that it may be lost.
    pub fn is_overdue(&self, now: TimestampMs) -> bool {
        self.waits && self.next_ms().saturating_add(millis(OVERDUE)) < now.0
    }

    /// Whether jobs stopped waiting so recently that a process may have written a row since, and have ended.
    pub fn has_just_ended(&self, now: TimestampMs) -> bool {
        !self.waits && now.0 < self.ended_ms.saturating_add(millis(LATE_ROWS))
    }

    /// When the next turn of any cause is due.
    pub fn next_ms(&self) -> i64 {
        self.causes.values().map(|cause| cause.next_ms).min().unwrap_or_default()
    }

    /// The time until the next turn of any cause is due.
    pub fn until_due(&self, now: TimestampMs) -> Duration {
        let waits = self.causes.values().map(|cause| cause.until_due(now));
        waits.min().unwrap_or_default()
    }

    /// Replaces the wake job by another.
    pub fn renew_wake(&mut self) {
        self.wake += 1;
        (self.waits, self.heard) = (true, false);
    }

    /// Adds jobs that are set aside.
    pub fn add(&mut self, jobs: &[NewWait], now: TimestampMs) {
        for job in jobs {
            let is_new = !self.causes.contains_key(&job.cause);
            let cause = self.causes.entry(job.cause).or_default();
            if is_new {
                *cause = CauseState {
                    first_ms: job.sent_at_ms,
                    size: first_size(job.cause),
                    next_ms: if job.cause == WaitCause::Bulk {
                        now.0
                    } else {
                        now.0.saturating_add(millis(WAITS[0]))
                    },
                    ..CauseState::default()
                };
            }
            cause.reason.clone_from(&job.reason);
            cause.first_ms = cause.first_ms.min(job.sent_at_ms);
            cause.jobs = cause.jobs.saturating_add(1);
            if job.trial.is_none() && job.cause != WaitCause::Bulk {
                self.added_jobs = self.added_jobs.saturating_add(1);
                self.added_bytes =
                    self.added_bytes.saturating_add(u64::try_from(job.bytes).unwrap_or(u64::MAX));
            }
            if let Some(trial) = job.trial {
                self.end_trial(trial, job.cause);
            }
        }
    }

    /// Records that a job of a turn now waits for `cause`.
    fn end_trial(&mut self, trial: Trial, cause: WaitCause) {
        if trial.turn == self.turn
            && let Some(of_trial) = self.causes.get_mut(&trial.cause)
        {
            if cause == trial.cause {
                of_trial.returned += 1;
            } else {
                of_trial.passed += 1;
            }
        }
    }

    /// Records that a job of a turn waits no longer.
    pub fn pass(&mut self, trial: Trial) {
        if trial.turn == self.turn
            && let Some(cause) = self.causes.get_mut(&trial.cause)
        {
            cause.passed += 1;
        }
    }

    /// Evaluates the last turn of each cause whose outcomes are known, or have been awaited for long enough:
    /// afterwards, `size` and `next_ms` are those of the next turn. Returns whether all outcomes are known.
    pub fn evaluate(&mut self, now: TimestampMs) -> bool {
        // If the clock of the release was ahead, its time is no reason to wait.
        let is_patient = now.0.abs_diff(self.released_ms) < millis(OUTCOMES).unsigned_abs();
        let mut all_known = true;
        for cause in self.causes.values_mut() {
            if cause.sent == 0 {
                continue;
            }
            if cause.passed + cause.returned < cause.sent && is_patient {
                all_known = false;
                continue;
            }
            if cause.passed == 0 {
                cause.size = 1;
                cause.failed_turns += 1;
                let wait = WAITS[cause.failed_turns.min(WAITS.len() - 1)];
                cause.next_ms = self.released_ms.min(now.0).saturating_add(millis(wait));
            } else {
                // Of several jobs, one may name an entity on which Slack keeps failing.
                if cause.returned == 0 {
                    cause.size = (cause.size * 10).min(MAX_TURN);
                }
                cause.failed_turns = 0;
                cause.next_ms = now.0;
            }
            (cause.sent, cause.passed, cause.returned) = (0, 0, 0);
        }
        all_known
    }

    /// The causes whose next turn is due, each with the number of jobs and the sort key before them.
    pub fn due(&self, now: TimestampMs) -> Vec<(WaitCause, usize, String)> {
        let due = self.causes.iter().filter(|(_, cause)| cause.until_due(now).is_zero());
        due.map(|(kind, cause)| (*kind, cause.size, cause.after.clone())).collect()
    }

    /// Adds a number of jobs of a cause to the next turn; the turn after it begins after `after`.
    pub fn plan(&mut self, kind: WaitCause, jobs: usize, after: String, now: TimestampMs) {
        if let Some(cause) = self.causes.get_mut(&kind) {
            // Nothing follows from the outcome of a job of a bulk.
            cause.sent = if kind == WaitCause::Bulk { 0 } else { jobs };
            cause.after = after;
            cause.jobs = cause.jobs.saturating_sub(u64::try_from(jobs).unwrap_or_default());
            cause.next_ms = now.0.saturating_add(millis(NEXT_TURN));
        }
    }

    /// Puts the next turn of a cause off.
    pub fn put_off(&mut self, cause: WaitCause, until: TimestampMs) {
        self.causes.entry(cause).and_modify(|cause| cause.next_ms = until.0);
    }

    /// Records that no job of a cause can be sent back. Jobs that wait for their order then wait for the next
    /// turn of the others; any other cause has ended.
    pub fn found_none(&mut self, cause: WaitCause, now: TimestampMs) {
        let others = self.causes.iter().filter(|(other, _)| **other != cause).map(|(_, other)| other.next_ms);
        match others.min().filter(|_| cause == WaitCause::Order) {
            Some(next_ms) => {
                let next_ms = next_ms.max(now.0.saturating_add(millis(NEXT_TURN)));
                self.causes.entry(cause).and_modify(|order| order.next_ms = next_ms);
            }
            None => drop(self.causes.remove(&cause)),
        }
    }

    /// Begins the turn that was planned.
    pub fn begin_turn(&mut self, now: TimestampMs) {
        self.turn += 1;
        self.released_ms = self.released_ms.max(now.0);
    }

    /// Records that no job waits.
    pub fn end(&mut self, now: TimestampMs) {
        self.waits = false;
        self.stranger = false;
        self.ended_ms = now.0;
        self.causes.clear();
        (self.added_jobs, self.added_bytes) = (0, 0);
    }
}

/// The number of jobs of the first turn.
fn first_size(cause: WaitCause) -> usize {
    match cause {
        WaitCause::Order => MAX_TURN,
        WaitCause::Bulk => BULK_TURN,
        WaitCause::Token
        | WaitCause::NoToken
        | WaitCause::Scope
        | WaitCause::Slack
        | WaitCause::Redelivered => 1,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde needs")]
fn is_absent(flag: &bool) -> bool {
    !*flag
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: TimestampMs = TimestampMs(1_700_000_000_000);

    fn job(cause: WaitCause, trial: Option<Trial>) -> NewWait {
        NewWait { cause, reason: "down".into(), sent_at_ms: START.0, bytes: 7, trial }
    }

    fn waiting(causes: &[WaitCause]) -> WaitState {
        let mut state = WaitState::new(QueueName::Events, &TeamId::parse("T1").unwrap());
        let jobs: Vec<NewWait> = causes.iter().map(|cause| job(*cause, None)).collect();
        state.add(&jobs, START);
        state
    }

    /// Sends the due jobs of a cause back, as many as are left.
    fn turn(state: &mut WaitState, cause: WaitCause, left: usize, now: TimestampMs) -> (usize, Trial) {
        let size = state.due(now).into_iter().find(|(due, ..)| *due == cause).map_or(0, |(_, size, _)| size);
        state.plan(cause, size.min(left), String::new(), now);
        state.begin_turn(now);
        (size.min(left), Trial { cause, turn: state.turn })
    }

    #[test]
    fn three_thousand_jobs_take_nine_turns_and_about_twenty_seconds() {
        let mut state = waiting(&[WaitCause::Token]);
        let (mut now, mut left, mut turns) = (START.plus(WAITS[0]), 3_000, 0);
        while left > 0 {
            assert!(state.evaluate(now));
            let (sent, trial) = turn(&mut state, WaitCause::Token, left, now);
            (0..sent).for_each(|_| state.pass(trial));
            (left, turns, now) = (left - sent, turns + 1, now.plus(NEXT_TURN));
        }
        assert_eq!(turns, 9);
        assert!(now.since(START.plus(WAITS[0])) <= Duration::from_secs(20));
    }

    #[test]
    fn a_trial_that_fails_is_followed_by_another_after_a_growing_wait_of_a_minute_at_most() {
        let mut state = waiting(&[WaitCause::Token]);
        assert_eq!(state.next_ms(), START.plus(WAITS[0]).0);
        for wait_s in [15, 30, 60, 60] {
            let now = TimestampMs(state.next_ms());
            let (sent, trial) = turn(&mut state, WaitCause::Token, 9, now);
            assert_eq!(sent, 1);
            state.add(&[job(WaitCause::Token, Some(trial))], now);
            assert!(state.evaluate(now.plus(NEXT_TURN)));
            assert_eq!(state.next_ms(), now.plus(Duration::from_secs(wait_s)).0);
        }
    }

    #[test]
    fn a_turn_awaits_its_outcomes_for_as_long_as_a_call_may_take() {
        let mut state = waiting(&[WaitCause::Slack]);
        let now = TimestampMs(state.next_ms());
        let (_, trial) = turn(&mut state, WaitCause::Slack, 9, now);
        // The outcome of an earlier turn says nothing.
        state.pass(Trial { turn: trial.turn - 1, ..trial });
        assert!(!state.evaluate(now.plus(NEXT_TURN)));
        assert!(state.evaluate(now.plus(OUTCOMES)), "without an outcome it counts as failed");
        assert_eq!(state.causes[&WaitCause::Slack].size, 1);
    }

    #[test]
    fn a_clock_that_was_hours_ahead_delays_no_turn() {
        let ahead = START.plus(Duration::from_secs(4 * 3_600));
        let mut state = waiting(&[WaitCause::Slack]);
        state.causes.entry(WaitCause::Slack).and_modify(|cause| cause.next_ms = ahead.0);
        assert_eq!(state.until_due(START), Duration::ZERO, "set aside");
        turn(&mut state, WaitCause::Slack, 9, ahead);
        assert!(state.evaluate(START), "sent back");
        assert_eq!(state.until_due(START), WAITS[1]);
        assert!(state.due(START).is_empty());
        assert_eq!(state.due(START.plus(WAITS[1])).len(), 1);
    }

    #[test]
    fn one_job_that_fails_among_others_does_not_shrink_the_turns() {
        let mut state = waiting(&[WaitCause::Slack]);
        state.causes.entry(WaitCause::Slack).and_modify(|cause| cause.size = 100);
        let now = TimestampMs(state.next_ms());
        let (sent, trial) = turn(&mut state, WaitCause::Slack, 1_000, now);
        (1..sent).for_each(|_| state.pass(trial));
        state.add(&[job(WaitCause::Slack, Some(trial))], now);
        assert!(state.evaluate(now.plus(NEXT_TURN)));
        assert_eq!(state.causes[&WaitCause::Slack].size, 100);
    }

    #[test]
    fn jobs_that_wait_for_their_order_cause_no_turns_of_their_own() {
        let mut state = waiting(&[WaitCause::Token, WaitCause::Order]);
        let minute = START.plus(Duration::from_secs(60));
        state.causes.entry(WaitCause::Token).and_modify(|cause| cause.next_ms = minute.0);
        state.found_none(WaitCause::Order, START.plus(WAITS[0]));
        assert_eq!(state.next_ms(), minute.0);
        state.found_none(WaitCause::Token, minute);
        state.found_none(WaitCause::Order, minute);
        assert!(state.causes.is_empty());
    }

    #[test]
    fn a_state_is_read_as_it_was_stored() {
        let mut state = waiting(&[WaitCause::NoToken]);
        state.renew_wake();
        let update = state.update().unwrap();
        let mut attributes = update.set.clone();
        attributes.insert(VERSION.into(), "1".into());
        let row = Item { key: update.key, attributes };
        assert_eq!(WaitState::read(&row), Some(state.stored()));
        assert!(WaitState::read(&Item { attributes: Default::default(), ..row }).is_none());
    }
}
