//! A claims table with injected faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use ports::claims::{Claim, ClaimAnswer, ClaimMode, Claims, ClaimsError};

use super::crash::CrashPoint;
use super::plan::{self, FaultPlan, FaultSchedule, PlanProgress, PortMethod};

/// A claims table whose calls fail as a schedule decides.
pub struct FaultyClaims {
    inner: Arc<dyn Claims>,
    calls: AtomicU64,
    schedule: Arc<dyn FaultSchedule>,
}

impl FaultyClaims {
    /// `inner` with the faults of a plan.
    pub fn new(inner: Arc<dyn Claims>, plan: FaultPlan) -> Self {
        Self::with_schedule(inner, Arc::new(PlanProgress::new(plan)))
    }

    /// `inner` with the faults that a schedule decides call by call.
    pub fn with_schedule(inner: Arc<dyn Claims>, schedule: Arc<dyn FaultSchedule>) -> Self {
        Self { inner, calls: AtomicU64::new(0), schedule }
    }

    /// `inner` as seen by a process that dies at the crash point.
    pub fn with_crash_point(inner: Arc<dyn Claims>, point: Arc<CrashPoint>) -> Self {
        Self::with_schedule(inner, point)
    }

    /// The number of calls, including failed ones.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    async fn call<T>(
        &self,
        method: PortMethod,
        done: impl Future<Output = Result<T, ClaimsError>>,
    ) -> Result<T, ClaimsError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let fault = self.schedule.before(method, 1).await;
        let result = plan::apply_fault(fault, done, ClaimsError::Unavailable).await;
        self.schedule.after(method).await;
        result
    }
}

#[async_trait]
impl Claims for FaultyClaims {
    async fn claim(&self, claim: &Claim, take: ClaimMode) -> Result<ClaimAnswer, ClaimsError> {
        self.call(PortMethod::Claim, self.inner.claim(claim, take)).await
    }

    async fn renew(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.call(PortMethod::Renew, self.inner.renew(claim)).await
    }

    async fn complete(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.call(PortMethod::Complete, self.inner.complete(claim)).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.call(PortMethod::Release, self.inner.release(claim)).await
    }

    async fn ready(&self) -> Result<(), ClaimsError> {
        self.call(PortMethod::Ready, self.inner.ready()).await
    }
}
