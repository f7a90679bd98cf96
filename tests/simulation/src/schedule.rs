//! Schedules the calls of one process: delays them, injects faults, and stops every call after the death of
//! the process.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::world::{FaultKind, World};
use testkit::faults::{CallFault, FaultSchedule, PortMethod};

/// One life of a process.
pub(super) struct Life {
    pub(super) name: String,
    /// Has no permits and is closed on death. It wakes its waiters in order; a `watch` would wake them at
    /// random.
    death: Semaphore,
    /// The process is killed at this call.
    last_step: u64,
    steps: AtomicU64,
}

impl Life {
    pub(super) fn new(name: String, last_step: u64) -> Arc<Self> {
        Arc::new(Self { name, death: Semaphore::new(0), last_step, steps: AtomicU64::new(0) })
    }

    pub(super) fn die(&self) {
        self.death.close();
    }

    fn is_dead(&self) -> bool {
        self.death.is_closed()
    }

    /// Resolves when the process dies.
    pub(super) async fn died(&self) {
        drop(self.death.acquire().await);
    }

    /// Returns if the process is alive; never resolves if it is dead.
    pub(super) async fn pend_if_dead(&self) {
        if self.is_dead() {
            pending::<()>().await;
        }
    }
}

/// Delays and fault injection for the calls of a process.
pub(super) struct Steps {
    pub(super) world: Arc<World>,
    pub(super) life: Arc<Life>,
}

impl Steps {
    /// Yields or sleeps at random, so that every order of calls occurs in some run.
    pub(super) async fn random_delay(&self) {
        let (dice, millis) = {
            let mut random = self.world.random();
            (random.u32(..100), random.u64(1..40))
        };
        match dice {
            0..55 => {}
            55..80 => {
                for _ in 0..dice % 3 + 1 {
                    tokio::task::yield_now().await;
                }
            }
            _ => tokio::time::sleep(Duration::from_millis(millis)).await,
        }
    }

    /// Counts a step of the process, which may be its last.
    pub(super) async fn step(&self) {
        self.life.pend_if_dead().await;
        self.world.count_step();
        if self.life.steps.fetch_add(1, Ordering::Relaxed) + 1 == self.life.last_step
            && self.world.is_enabled(FaultKind::Killed)
        {
            self.world.fault(FaultKind::Killed, &self.life.name, || "in the middle of a call".into());
            self.life.die();
        }
        self.life.pend_if_dead().await;
        self.random_delay().await;
        self.life.pend_if_dead().await;
    }

    fn decide(&self, method: PortMethod, entries: usize) -> Option<(FaultKind, CallFault)> {
        let world = &self.world;
        if matches!(method, PortMethod::Depth | PortMethod::Ready) {
            return None;
        }
        if changes(method) {
            if world.is_in_window(FaultKind::DiskFull) {
                return Some((FaultKind::DiskFull, CallFault::FailBefore));
            }
            if world.is_in_window(FaultKind::DatabaseLocked) {
                return Some((FaultKind::DatabaseLocked, CallFault::FailBefore));
            }
        }
        if world.is_in_window(FaultKind::Throttled) && world.chance_percent(50) {
            return Some((FaultKind::Throttled, CallFault::FailBefore));
        }
        if world.should_inject(FaultKind::FailedCall) {
            return Some((FaultKind::FailedCall, CallFault::FailBefore));
        }
        if world.should_inject(FaultKind::LostAnswer) {
            return Some((FaultKind::LostAnswer, CallFault::FailAfter));
        }
        if entries > 1 && world.should_inject(FaultKind::FailedEntry) {
            let entry = usize::try_from(world.random_below(entries as u64)).unwrap_or_default();
            return Some((FaultKind::FailedEntry, CallFault::FailEntry(entry)));
        }
        if world.should_inject(FaultKind::SlowCall) {
            return Some((FaultKind::SlowCall, CallFault::Delay(self.slowness())));
        }
        None
    }

    /// Returns a random delay: mostly some seconds, sometimes longer than a lease.
    fn slowness(&self) -> Duration {
        if self.world.chance_percent(30) {
            self.world.random_millis(20_000..50_000)
        } else {
            self.world.random_millis(500..5_000)
        }
    }
}

#[async_trait]
impl FaultSchedule for Steps {
    async fn before(&self, method: PortMethod, entries: usize) -> Option<CallFault> {
        self.step().await;
        let Some((kind, fault)) = self.decide(method, entries) else {
            self.world.note(&self.life.name, || format!("{method:?} of {entries}"));
            return None;
        };
        self.world.fault(kind, &self.life.name, || format!("{method:?} of {entries}: {fault:?}"));
        if kind == FaultKind::DatabaseLocked {
            // The process does not notice at once that another process holds the lock.
            tokio::time::sleep(self.world.random_millis(100..3_000)).await;
        }
        Some(fault)
    }

    async fn after(&self, method: PortMethod) {
        self.life.pend_if_dead().await;
        if method != PortMethod::Receive
            && self.world.should_inject(FaultKind::SlowCall)
            && self.world.chance_percent(20)
        {
            let by = self.slowness();
            self.world
                .fault(FaultKind::SlowCall, &self.life.name, || format!("the answer to {method:?}: {by:?}"));
            tokio::time::sleep(by).await;
        }
        self.random_delay().await;
        self.life.pend_if_dead().await;
    }
}

/// Whether a call writes to the disk and needs the database lock, as every method does that is not listed.
fn changes(method: PortMethod) -> bool {
    !matches!(
        method,
        PortMethod::Depth
            | PortMethod::Get
            | PortMethod::Query
            | PortMethod::OpenFile
            | PortMethod::ListFiles
            | PortMethod::ReadFile
            | PortMethod::Ready
    )
}
