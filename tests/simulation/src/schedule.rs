//! The calls of one process: when each is done, what goes wrong with it, and that none is done after its death.

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
    /// Has no permits; closed by death. It wakes those who wait in their order, where a `watch` picks at random.
    death: Semaphore,
    /// It is killed at this call.
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

    /// Resolves when it dies.
    pub(super) async fn died(&self) {
        drop(self.death.acquire().await);
    }

    /// Nothing of a process that is dead goes on.
    pub(super) async fn go_on(&self) {
        if self.is_dead() {
            pending::<()>().await;
        }
    }
}

/// What happens to the calls of a process.
pub(super) struct Steps {
    pub(super) world: Arc<World>,
    pub(super) life: Arc<Life>,
}

impl Steps {
    /// Lets others go first, so that every order of calls comes to pass in some run.
    pub(super) async fn hold_up(&self) {
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

    /// A step of the process: it may be its last.
    pub(super) async fn step(&self) {
        self.life.go_on().await;
        self.world.count_step();
        if self.life.steps.fetch_add(1, Ordering::Relaxed) + 1 == self.life.last_step
            && self.world.has(FaultKind::Killed)
        {
            self.world.fault(FaultKind::Killed, &self.life.name, || "in the middle of a call".into());
            self.life.die();
        }
        self.life.go_on().await;
        self.hold_up().await;
        self.life.go_on().await;
    }

    fn decide(&self, method: PortMethod, entries: usize) -> Option<(FaultKind, CallFault)> {
        let world = &self.world;
        if matches!(method, PortMethod::Depth | PortMethod::Ready) {
            return None;
        }
        if changes(method) {
            if world.is_in(FaultKind::DiskFull) {
                return Some((FaultKind::DiskFull, CallFault::FailBefore));
            }
            if world.is_in(FaultKind::DatabaseLocked) {
                return Some((FaultKind::DatabaseLocked, CallFault::FailBefore));
            }
        }
        if world.is_in(FaultKind::Throttled) && world.percent(50) {
            return Some((FaultKind::Throttled, CallFault::FailBefore));
        }
        if world.strikes(FaultKind::FailedCall) {
            return Some((FaultKind::FailedCall, CallFault::FailBefore));
        }
        if world.strikes(FaultKind::LostAnswer) {
            return Some((FaultKind::LostAnswer, CallFault::FailAfter));
        }
        if entries > 1 && world.strikes(FaultKind::FailedEntry) {
            let entry = usize::try_from(world.below(entries as u64)).unwrap_or_default();
            return Some((FaultKind::FailedEntry, CallFault::FailEntry(entry)));
        }
        if world.strikes(FaultKind::SlowCall) {
            return Some((FaultKind::SlowCall, CallFault::Delay(self.slowness())));
        }
        None
    }

    /// Mostly some seconds; sometimes longer than a lease.
    fn slowness(&self) -> Duration {
        if self.world.percent(30) { self.world.millis(20_000..50_000) } else { self.world.millis(500..5_000) }
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
            // The old owner does not learn at once that another process has it.
            tokio::time::sleep(self.world.millis(100..3_000)).await;
        }
        Some(fault)
    }

    async fn after(&self, method: PortMethod) {
        self.life.go_on().await;
        if method != PortMethod::Receive && self.world.strikes(FaultKind::SlowCall) && self.world.percent(20)
        {
            let by = self.slowness();
            self.world
                .fault(FaultKind::SlowCall, &self.life.name, || format!("the answer to {method:?}: {by:?}"));
            tokio::time::sleep(by).await;
        }
        self.hold_up().await;
        self.life.go_on().await;
    }
}

/// Whether a call needs the disk, and the lock of the database.
fn changes(method: PortMethod) -> bool {
    match method {
        PortMethod::Send
        | PortMethod::Receive
        | PortMethod::ChangeVisibility
        | PortMethod::Ack
        | PortMethod::Write
        | PortMethod::DeleteUnchanged
        | PortMethod::Erase
        | PortMethod::CreateFile
        | PortMethod::WriteFile
        | PortMethod::PublishFile
        | PortMethod::DeleteFile
        | PortMethod::Claim
        | PortMethod::Renew
        | PortMethod::Complete
        | PortMethod::Release => true,
        PortMethod::Depth
        | PortMethod::Get
        | PortMethod::Query
        | PortMethod::OpenFile
        | PortMethod::ReadFile
        | PortMethod::Ready => false,
    }
}
