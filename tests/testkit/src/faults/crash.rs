//! A process that dies between two steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use super::plan::{CallFault, FaultSchedule, PortMethod};

/// The step after which every call of a process fails. All ports of the process share it, so it counts their
/// steps together.
#[derive(Debug)]
pub struct CrashPoint {
    after: u64,
    steps: AtomicU64,
}

impl CrashPoint {
    /// A crash after `steps` steps.
    pub fn after(steps: u64) -> Arc<Self> {
        Arc::new(Self { after: steps, steps: AtomicU64::new(0) })
    }

    /// No crash: only the steps are counted, so that a second run can crash after each of them.
    pub fn never() -> Arc<Self> {
        Self::after(u64::MAX)
    }

    /// The number of completed steps.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst).min(self.after)
    }

    /// Whether the process has attempted a step after the crash.
    pub fn has_crashed(&self) -> bool {
        self.steps.load(Ordering::SeqCst) > self.after
    }

    pub(crate) fn step(&self) -> Result<(), String> {
        let before = self.steps.fetch_add(1, Ordering::SeqCst);
        if before < self.after { Ok(()) } else { Err(format!("the process died after step {}", self.after)) }
    }
}

#[async_trait]
impl FaultSchedule for CrashPoint {
    async fn before(&self, _: PortMethod, _: usize) -> Option<CallFault> {
        self.step().err().map(|_| CallFault::FailBefore)
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::{ArchiveExt, ItemKey, Update};
    use ports::clock::{ManualClock, TimestampMs};
    use ports::queue::{Queue, QueueName};

    use super::*;
    use crate::faults::{FaultyArchive, FaultyQueue};
    use crate::memory::archive::MemoryArchive;
    use crate::memory::queue::MemoryQueue;

    #[tokio::test]
    async fn a_process_that_never_crashes_has_no_fault() {
        let never = CrashPoint::never();
        assert_eq!(never.before(PortMethod::Ready, 1).await, None);
        assert!(!never.has_crashed());
    }

    #[tokio::test]
    async fn every_call_fails_after_the_crash_on_either_port() {
        let point = CrashPoint::after(2);
        let memory = Arc::new(MemoryArchive::new());
        let archive = FaultyArchive::with_crash_point(memory.clone(), Arc::clone(&point));
        let queue = MemoryQueue::new(ManualClock::starting_at(TimestampMs(0)));
        let queue = FaultyQueue::with_crash_point(Arc::new(queue), Arc::clone(&point));

        archive.write(&Update::new(ItemKey::new("a", "1"))).await.unwrap();
        queue.ready().await.unwrap();
        assert!(!point.has_crashed());
        assert!(archive.write(&Update::new(ItemKey::new("a", "2"))).await.is_err());
        assert!(queue.depth(QueueName::Events.into()).await.is_err());
        assert!(point.has_crashed());
        assert_eq!((point.steps(), memory.items().len()), (2, 1));
    }
}
