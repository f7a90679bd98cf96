//! What everything in a simulation shares: the generator, the time, the trace, and the first violation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ports::archive::ItemKey;
use ports::clock::{Clock, TimestampMs};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The moment at which every simulation begins.
const BEGINNING: TimestampMs = TimestampMs(1_700_000_000_000);

/// A run has some thousand calls of ports.
const MAX_STEPS: u64 = 100_000;

/// What goes wrong, for the table at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A call of a port failed and was not done.
    FailedCall,
    /// A call was done and its answer lost.
    LostAnswer,
    /// One entry of a batch failed.
    FailedEntry,
    /// The service had enough for a while.
    Throttled,
    /// A call took longer than any caller waits.
    SlowCall,
    /// The disk was full for a while, seen by one call.
    DiskFull,
    /// Another process held the database for a while, seen by one call.
    DatabaseLocked,
    /// A lease ended early: the message was delivered twice.
    Redelivered,
    /// Groups came in another order.
    Reordered,
    /// The machine's clock jumped.
    ClockJump,
    /// A process was killed.
    Killed,
    /// A process was asked to end.
    Drained,
    /// A connection of Slack's was cut.
    Cut,
    /// Slack's API made no sense.
    GarbageAnswer,
    /// Slack's API could not be reached.
    Unreachable,
    /// Slack's API wanted a pause.
    RateLimited,
    /// Slack's API refused the token.
    TokenRevoked,
    /// A handler panicked.
    Panicked,
    /// A message became a dead letter.
    DeadLetters,
    /// A person wants something to be forgotten.
    Erased,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::FailedCall,
        Self::LostAnswer,
        Self::FailedEntry,
        Self::Throttled,
        Self::SlowCall,
        Self::DiskFull,
        Self::DatabaseLocked,
        Self::Redelivered,
        Self::Reordered,
        Self::ClockJump,
        Self::Killed,
        Self::Drained,
        Self::Cut,
        Self::GarbageAnswer,
        Self::Unreachable,
        Self::RateLimited,
        Self::TokenRevoked,
        Self::Panicked,
        Self::DeadLetters,
        Self::Erased,
    ];

    /// For people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::FailedCall => "failed call",
            Self::LostAnswer => "lost answer",
            Self::FailedEntry => "failed entry of a batch",
            Self::Throttled => "throttled",
            Self::SlowCall => "slow call",
            Self::DiskFull => "disk full",
            Self::DatabaseLocked => "database locked",
            Self::Redelivered => "delivered twice",
            Self::Reordered => "groups reordered",
            Self::ClockJump => "clock jump",
            Self::Killed => "process killed",
            Self::Drained => "process drained",
            Self::Cut => "connection cut",
            Self::GarbageAnswer => "garbage from Slack",
            Self::Unreachable => "Slack unreachable",
            Self::RateLimited => "429 from Slack",
            Self::TokenRevoked => "token refused",
            Self::Panicked => "handler panicked",
            Self::DeadLetters => "dead letter",
            Self::Erased => "something erased",
        }
    }
}

/// What must stay true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// What was acked is on the queue, in the archive, dropped by rule or in quarantine.
    Lost,
    /// Nothing is accounted for twice.
    Doubled,
    /// A group's jobs are done in their order.
    OutOfOrder,
    /// The archive is what the events make of it.
    Archive,
    /// Secrets stay inside.
    Secret,
    /// Everything is bounded and comes to its end.
    Bounded,
    /// Only what Slack signed, and only what is public, is kept.
    Genuine,
    /// What is erased does not come back.
    Erased,
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
        })
    }
}

/// How often each kind of fault was injected, and how much was played.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// By the place of the kind in [`FaultKind::ALL`].
    pub faults: [u64; FaultKind::ALL.len()],
    /// Events that Slack delivered, without its retries.
    pub events: u64,
    /// Events that were answered 200.
    pub acked: u64,
    /// Calls of the ports.
    pub steps: u64,
}

impl FaultCounts {
    /// How often a kind of fault was injected.
    pub fn of(&self, kind: FaultKind) -> u64 {
        self.faults[kind as usize]
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.faults.iter_mut().zip(other.faults).for_each(|(mine, theirs)| *mine += theirs);
        self.events += other.events;
        self.acked += other.acked;
        self.steps += other.steps;
    }
}

/// A time in which something is wrong.
#[derive(Debug, Clone, Copy)]
struct Window {
    kind: FaultKind,
    from: Duration,
    to: Duration,
}

/// What a seed decides for the whole run. Not every run has every kind of fault: with all at once, most would hide
/// behind the loudest.
#[derive(Debug)]
struct Swarm {
    enabled: [bool; FaultKind::ALL.len()],
    /// Calls of a hundred that go wrong.
    rate_percent: u32,
    windows: Vec<Window>,
}

/// Everything that is shared.
pub(super) struct World {
    random: Mutex<fastrand::Rng>,
    swarm: Swarm,
    began: Instant,
    offset_ms: AtomicI64,
    faults_active: AtomicBool,
    tally: Mutex<FaultCounts>,
    trace: Option<Mutex<Vec<String>>>,
    broken: Mutex<Option<(Invariant, String)>>,
    changed: Notify,
    /// Jobs that were in quarantine and are not any more: where they were, and what they were.
    pub(super) left_quarantine: Mutex<BTreeMap<ItemKey, String>>,
}

/// The clock of every machine in the simulation: it runs with tokio's, and jumps.
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
                windows.push(Window { kind, from, to: from + Duration::from_secs(length_s) });
            }
        }
        // Most runs are a bad day; some are a disaster.
        let rate_percent = if random.u32(..4) == 0 { random.u32(10..30) } else { random.u32(1..10) };
        Arc::new(Self {
            swarm: Swarm { enabled, rate_percent, windows },
            random: Mutex::new(random),
            began: Instant::now(),
            offset_ms: AtomicI64::new(0),
            faults_active: AtomicBool::new(true),
            tally: Mutex::default(),
            trace: traced.then(Mutex::default),
            broken: Mutex::default(),
            changed: Notify::new(),
            left_quarantine: Mutex::default(),
        })
    }

    /// What time it is where nothing jumps.
    pub(super) fn true_now(&self) -> TimestampMs {
        BEGINNING.plus(self.began.elapsed())
    }

    /// How far the machines' clocks are from it.
    pub(super) fn offset(&self) -> Duration {
        Duration::from_millis(self.offset_ms.load(Ordering::Relaxed).unsigned_abs())
    }

    /// Lets the machines' clocks be this far from the truth.
    pub(super) fn set_offset_ms(&self, offset_ms: i64) {
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }

    pub(super) fn random(&self) -> MutexGuard<'_, fastrand::Rng> {
        lock(&self.random)
    }

    pub(super) fn below(&self, end: u64) -> u64 {
        self.random().u64(..end.max(1))
    }

    pub(super) fn percent(&self, percent: u32) -> bool {
        self.random().u32(..100) < percent
    }

    pub(super) fn millis(&self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random().u64(range))
    }

    /// Whether this run has this kind of fault, now.
    pub(super) fn has(&self, kind: FaultKind) -> bool {
        self.has_faults() && self.swarm.enabled[kind as usize]
    }

    /// Whether a call goes wrong by this kind of fault.
    pub(super) fn strikes(&self, kind: FaultKind) -> bool {
        self.has(kind) && self.percent(self.swarm.rate_percent)
    }

    /// Whether something is wrong for a while, and this is in it.
    pub(super) fn is_in(&self, kind: FaultKind) -> bool {
        let now = self.began.elapsed();
        self.has_faults()
            && self.swarm.windows.iter().any(|at| at.kind == kind && (at.from..at.to).contains(&now))
    }

    pub(super) fn has_faults(&self) -> bool {
        self.faults_active.load(Ordering::Relaxed)
    }

    /// From now on nothing goes wrong any more.
    pub(super) fn calm_down(&self) {
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

    /// A run that goes round in circles is ended.
    pub(super) fn count_step(&self) {
        let steps = {
            let mut tally = lock(&self.tally);
            tally.steps += 1;
            tally.steps
        };
        if steps == MAX_STEPS {
            self.broke(Invariant::Bounded, format!("{MAX_STEPS} calls, and no end"));
        }
    }

    pub(super) fn tally(&self) -> FaultCounts {
        lock(&self.tally).clone()
    }

    /// A line of the trace, where there is one.
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

    /// Something is not as it must be. The first one counts: what follows may follow from it.
    pub(super) fn broke(&self, invariant: Invariant, what: String) {
        self.note("world", || format!("VIOLATED: {invariant}: {what}"));
        lock(&self.broken).get_or_insert((invariant, what));
        self.changed.notify_waiters();
    }

    pub(super) fn violation(&self) -> Option<(Invariant, String)> {
        lock(&self.broken).clone()
    }

    /// Resolves when something is violated.
    pub(super) async fn broken(&self) {
        loop {
            let changed = self.changed.notified();
            if lock(&self.broken).is_some() {
                return;
            }
            changed.await;
        }
    }

    /// Resolves when the faults are over.
    pub(super) async fn calm(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.has_faults() {
                return;
            }
            changed.await;
        }
    }
}

/// A handler that panics on purpose does so outside every lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
