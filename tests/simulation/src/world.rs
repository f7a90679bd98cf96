//! The shared state of a simulation: the generator, the time, the trace and the first violation.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ports::archive::ItemKey;
use ports::clock::{Clock, TimestampMs};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The time at which every simulation begins.
const BEGINNING: TimestampMs = TimestampMs(1_700_000_000_000);

/// Far more calls of ports than a normal run has, which is some thousands.
const MAX_STEPS: u64 = 100_000;

/// A kind of fault, and a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A call of a port failed and was not done.
    FailedCall,
    /// A call was done and its answer lost.
    LostAnswer,
    /// One entry of a batch failed.
    FailedEntry,
    /// The service throttled calls for a while.
    Throttled,
    /// A call was delayed, sometimes longer than a lease.
    SlowCall,
    /// A call failed because the disk was full for a while.
    DiskFull,
    /// A call failed because another process locked the database for a while.
    DatabaseLocked,
    /// A lease ended early: the message was delivered twice.
    Redelivered,
    /// Groups were delivered in another order.
    Reordered,
    /// The machine's clock jumped.
    ClockJump,
    /// A process was killed.
    Killed,
    /// A process was asked to end.
    Drained,
    /// A connection from Slack was cut.
    Cut,
    /// Slack asked to replace a connection of Socket Mode.
    Refreshed,
    /// A connection of Socket Mode died, and neither side noticed.
    WentDead,
    /// Slack's API returned garbage.
    GarbageAnswer,
    /// Slack's API could not be reached.
    Unreachable,
    /// Slack's API returned 429 with a pause.
    RateLimited,
    /// Slack's API refused a call for a while although the caller made no mistake.
    Refused,
    /// A page of Slack's API repeated entries of the page before it, or skipped one.
    MovedPage,
    /// Slack's API refused the token.
    TokenRevoked,
    /// A handler panicked.
    Panicked,
    /// A message became a dead letter.
    DeadLetters,
    /// A person erased something.
    Erased,
}

impl FaultKind {
    /// All kinds, with their row labels in the table.
    pub const ALL: [(Self, &'static str); 24] = [
        (Self::FailedCall, "failed call"),
        (Self::LostAnswer, "lost answer"),
        (Self::FailedEntry, "failed entry of a batch"),
        (Self::Throttled, "throttled"),
        (Self::SlowCall, "slow call"),
        (Self::DiskFull, "disk full"),
        (Self::DatabaseLocked, "database locked"),
        (Self::Redelivered, "delivered twice"),
        (Self::Reordered, "groups reordered"),
        (Self::ClockJump, "clock jump"),
        (Self::Killed, "process killed"),
        (Self::Drained, "process drained"),
        (Self::Cut, "connection cut"),
        (Self::Refreshed, "connection refreshed"),
        (Self::WentDead, "connection dead"),
        (Self::GarbageAnswer, "garbage from Slack"),
        (Self::Unreachable, "Slack unreachable"),
        (Self::RateLimited, "429 from Slack"),
        (Self::Refused, "call refused"),
        (Self::MovedPage, "page moved"),
        (Self::TokenRevoked, "token refused"),
        (Self::Panicked, "handler panicked"),
        (Self::DeadLetters, "dead letter"),
        (Self::Erased, "something erased"),
    ];

    fn label(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("?", |(_, label)| label)
    }
}

/// A condition that must always hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// Every acked event is on the queue, in the archive, dropped by a rule, or in quarantine.
    Lost,
    /// No event has its effect twice.
    Doubled,
    /// The jobs of a group are handled in order.
    OutOfOrder,
    /// The archive matches the events.
    Archive,
    /// No secret goes to another host or into the archive.
    Secret,
    /// Batches, calls and durations stay within their limits.
    Bounded,
    /// Only public events that Slack signed are stored.
    Genuine,
    /// Erased data does not come back.
    Erased,
    /// A time without a connection is a gap, and no other time is one.
    Gaps,
    /// Workspaces that fail do not delay the others.
    Fair,
}

/// An outage of Slack that lasts for days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    TokenRefused,
    /// It answers nothing.
    Silent,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "nothing is lost",
            Self::Doubled => "nothing is doubled",
            Self::OutOfOrder => "groups keep their order",
            Self::Archive => "the archive is a function of the events",
            Self::Secret => "secrets stay inside",
            Self::Bounded => "everything is bounded",
            Self::Genuine => "only genuine public events are kept",
            Self::Erased => "what is erased stays so",
            Self::Gaps => "a gap is where events may be missing",
            Self::Fair => "no workspace waits for another",
        })
    }
}

/// The number of injected faults, events and calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// By the index of the kind in [`FaultKind::ALL`].
    pub faults: [u64; FaultKind::ALL.len()],
    /// Events that Slack sent, not counting retries.
    pub events: u64,
    /// Events that were answered 200.
    pub acked: u64,
    /// Calls of the ports.
    pub steps: u64,
    /// Outages of Slack, and those of them that lasted for days.
    pub outages: u64,
    pub long_outages: u64,
    /// Refusals with a code that not every method has.
    pub own_refusals: u64,
    /// Refusals after which a channel's history is asked for again a day later.
    pub hidden_histories: u64,
}

impl FaultCounts {
    /// Returns how often a kind of fault was injected.
    pub fn injected(&self, kind: FaultKind) -> u64 {
        self.faults[kind as usize]
    }

    pub fn add(&mut self, other: &Self) {
        self.faults.iter_mut().zip(other.faults).for_each(|(mine, theirs)| *mine += theirs);
        self.events += other.events;
        self.acked += other.acked;
        self.steps += other.steps;
        self.outages += other.outages;
        self.long_outages += other.long_outages;
        self.own_refusals += other.own_refusals;
        self.hidden_histories += other.hidden_histories;
    }
}

/// The fault settings of a run. Not every run has every kind of fault: with all kinds at once, the most
/// disruptive would hide the others.
#[derive(Debug)]
struct Swarm {
    enabled: [bool; FaultKind::ALL.len()],
    /// The percentage of calls that fail.
    rate_percent: u32,
    /// When the kinds of fault that last for a while are active.
    windows: Vec<(FaultKind, Range<Duration>)>,
}

/// The shared state of a simulation.
pub(super) struct World {
    random: Mutex<fastrand::Rng>,
    swarm: Swarm,
    began: Instant,
    /// Time that passed at once, in milliseconds.
    skipped_ms: AtomicI64,
    offset_ms: AtomicI64,
    faults_active: AtomicBool,
    outage: Mutex<Option<Outage>>,
    had_outage: AtomicBool,
    tally: Mutex<FaultCounts>,
    trace: Option<Mutex<Vec<String>>>,
    first_violation: Mutex<Option<(Invariant, String)>>,
    changed: Notify,
    /// Key and payload of the jobs that have left quarantine.
    pub(super) left_quarantine: Mutex<BTreeMap<ItemKey, String>>,
}

/// The clock of every machine in the simulation. It follows tokio's virtual clock, and jumps.
pub(super) struct JumpyClock(pub(super) Arc<World>);

impl Clock for JumpyClock {
    fn now(&self) -> TimestampMs {
        TimestampMs(self.0.true_now().0 + self.0.offset_ms.load(Ordering::Relaxed))
    }
}

impl World {
    pub(super) fn new(seed: u64, traced: bool) -> Arc<Self> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut enabled = [false; FaultKind::ALL.len()];
        for kind in &mut enabled {
            *kind = random.u32(..100) < 60;
        }
        let mut windows = Vec::new();
        for kind in
            [FaultKind::Throttled, FaultKind::DiskFull, FaultKind::DatabaseLocked, FaultKind::TokenRevoked]
        {
            let (from_s, length_s) = (random.u64(..300), random.u64(2..90));
            if enabled[kind as usize] {
                let from = Duration::from_secs(from_s);
                windows.push((kind, from..from + Duration::from_secs(length_s)));
            }
        }
        // Most runs have few faults; some have many.
        let rate_percent = if random.u32(..4) == 0 { random.u32(10..30) } else { random.u32(1..10) };
        Arc::new(Self {
            swarm: Swarm { enabled, rate_percent, windows },
            random: Mutex::new(random),
            began: Instant::now(),
            skipped_ms: AtomicI64::new(0),
            offset_ms: AtomicI64::new(0),
            faults_active: AtomicBool::new(true),
            outage: Mutex::default(),
            had_outage: AtomicBool::new(false),
            tally: Mutex::default(),
            trace: traced.then(Mutex::default),
            first_violation: Mutex::default(),
            changed: Notify::new(),
            left_quarantine: Mutex::default(),
        })
    }

    /// The time at which every simulation begins.
    pub(super) fn beginning() -> TimestampMs {
        BEGINNING
    }

    /// Returns the true time, without clock jumps.
    pub(super) fn true_now(&self) -> TimestampMs {
        let skipped_ms = self.skipped_ms.load(Ordering::Relaxed);
        TimestampMs(BEGINNING.plus(self.began.elapsed()).0 + skipped_ms)
    }

    /// Lets time pass at once, in which nothing happens.
    pub(super) fn skip(&self, time: Duration) {
        let time_ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.skipped_ms.fetch_add(time_ms, Ordering::Relaxed);
    }

    /// Returns the absolute offset of the machines' clocks from the true time.
    pub(super) fn offset(&self) -> Duration {
        Duration::from_millis(self.offset_ms.load(Ordering::Relaxed).unsigned_abs())
    }

    /// Sets the offset of the machines' clocks from the true time.
    pub(super) fn set_offset_ms(&self, offset_ms: i64) {
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }

    pub(super) fn random(&self) -> MutexGuard<'_, fastrand::Rng> {
        lock(&self.random)
    }

    pub(super) fn random_below(&self, end: u64) -> u64 {
        self.random().u64(..end.max(1))
    }

    pub(super) fn chance_percent(&self, percent: u32) -> bool {
        self.random().u32(..100) < percent
    }

    pub(super) fn random_millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.random().u64(range))
    }

    /// Whether this kind of fault is enabled in this run and the faults are not over.
    pub(super) fn is_enabled(&self, kind: FaultKind) -> bool {
        self.has_faults() && self.swarm.enabled[kind as usize]
    }

    /// Decides at random whether a call fails with this kind of fault.
    pub(super) fn should_inject(&self, kind: FaultKind) -> bool {
        self.is_enabled(kind) && self.chance_percent(self.swarm.rate_percent)
    }

    /// Decides at random whether a page moves. Slack's pages move at any time, also without faults.
    pub(super) fn should_move_page(&self) -> bool {
        self.swarm.enabled[FaultKind::MovedPage as usize] && self.chance_percent(20)
    }

    /// Whether the current time is in a window of this kind of fault.
    pub(super) fn is_in_window(&self, kind: FaultKind) -> bool {
        let now = self.began.elapsed();
        let mut windows = self.swarm.windows.iter();
        self.has_faults() && windows.any(|(active, window)| *active == kind && window.contains(&now))
    }

    pub(super) fn has_faults(&self) -> bool {
        self.faults_active.load(Ordering::Relaxed)
    }

    /// Begins or ends an outage of Slack, which outlasts the faults.
    pub(super) fn set_outage(&self, outage: Option<Outage>) {
        *lock(&self.outage) = outage;
        self.had_outage.fetch_or(outage.is_some(), Ordering::Relaxed);
        self.note("world", || format!("outage: {outage:?}"));
    }

    /// The outage that Slack has now.
    pub(super) fn outage(&self) -> Option<Outage> {
        *lock(&self.outage)
    }

    /// Ends all faults.
    pub(super) fn stop_faults(&self) {
        self.faults_active.store(false, Ordering::Relaxed);
        self.set_offset_ms(0);
        self.note("world", || "the faults are over".into());
        self.changed.notify_waiters();
    }

    /// Counts a fault and writes it into the trace.
    pub(super) fn fault(&self, kind: FaultKind, who: &str, what: impl FnOnce() -> String) {
        lock(&self.tally).faults[kind as usize] += 1;
        self.note(who, || format!("! {}: {}", kind.label(), what()));
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut FaultCounts)) {
        count(&mut lock(&self.tally));
    }

    /// Counts a call, and ends a run that loops.
    pub(super) fn count_step(&self) {
        let steps = {
            let mut tally = lock(&self.tally);
            tally.steps += 1;
            tally.steps
        };
        // Days of an outage take more calls.
        let max = MAX_STEPS * if self.had_outage.load(Ordering::Relaxed) { 20 } else { 1 };
        if steps == max {
            self.report_violation(Invariant::Bounded, format!("{max} calls, and no end"));
        }
    }

    pub(super) fn tally(&self) -> FaultCounts {
        lock(&self.tally).clone()
    }

    /// Adds a line to the trace, if the run is traced.
    pub(super) fn note(&self, who: &str, what: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            let at = self.began.elapsed();
            let line = format!("{:>6}.{:03} {who:<9} {}", at.as_secs(), at.subsec_millis(), what());
            lock(trace).push(line);
        }
    }

    pub(super) fn take_trace(&self) -> Vec<String> {
        self.trace.as_ref().map(|trace| std::mem::take(&mut *lock(trace))).unwrap_or_default()
    }

    /// Records a violation. Only the first one is kept: later ones may be its consequences.
    pub(super) fn report_violation(&self, invariant: Invariant, what: String) {
        self.note("world", || format!("VIOLATED: {invariant}: {what}"));
        lock(&self.first_violation).get_or_insert((invariant, what));
        self.changed.notify_waiters();
    }

    pub(super) fn violation(&self) -> Option<(Invariant, String)> {
        lock(&self.first_violation).clone()
    }

    /// Resolves at the first violation.
    pub(super) async fn wait_for_violation(&self) {
        self.wait_until(|| lock(&self.first_violation).is_some()).await;
    }

    /// Resolves when the faults are over.
    pub(super) async fn wait_until_calm(&self) {
        self.wait_until(|| !self.has_faults()).await;
    }

    async fn wait_until(&self, holds: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            if holds() {
                return;
            }
            changed.await;
        }
    }
}

/// Locks a mutex. A poisoned lock is fine: intended panics happen outside every lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
