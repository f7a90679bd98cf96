//! A port with injected faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::crash::CrashPoint;
use super::plan::{self, FaultPlan, FaultSchedule, PlanProgress, PortMethod};

/// A port whose calls fail as a schedule decides.
pub struct FaultyPort<P: ?Sized> {
    pub(super) inner: Arc<P>,
    pub(super) schedule: Arc<dyn FaultSchedule>,
    calls: AtomicU64,
}

impl<P: ?Sized> FaultyPort<P> {
    /// `inner` with the faults of a plan.
    pub fn new(inner: Arc<P>, plan: FaultPlan) -> Self {
        Self::with_schedule(inner, Arc::new(PlanProgress::new(plan)))
    }

    /// `inner` with the faults that a schedule decides call by call.
    pub fn with_schedule(inner: Arc<P>, schedule: Arc<dyn FaultSchedule>) -> Self {
        Self { inner, schedule, calls: AtomicU64::new(0) }
    }

    /// `inner` as seen by a process that dies at the crash point.
    pub fn with_crash_point(inner: Arc<P>, point: Arc<CrashPoint>) -> Self {
        Self::with_schedule(inner, point)
    }

    /// The number of calls that have one result, including failed ones.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Makes a call that has one result.
    pub(super) async fn call<T, E>(
        &self,
        method: PortMethod,
        failed: impl FnOnce(String) -> E,
        done: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        plan::call(&*self.schedule, method, failed, done).await
    }
}
