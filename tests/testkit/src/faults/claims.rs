//! A table of claims that follows a plan, and one that dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use ports::claims::{Claim, ClaimAnswer, Claims, ClaimsError, Take};

use super::crash::CrashPoint;
use super::plan::{self, FaultPlan, FaultSchedule, PlanProgress, PortMethod};

/// A table some of whose calls go wrong.
pub struct FaultyClaims {
    inner: Arc<dyn Claims>,
    calls: AtomicU64,
    schedule: Arc<dyn FaultSchedule>,
}

impl FaultyClaims {
    /// `inner`, but for what the plan says.
    pub fn new(inner: Arc<dyn Claims>, plan: FaultPlan) -> Self {
        Self::on(inner, Arc::new(PlanProgress::new(plan)))
    }

    /// `inner`, but for what is decided call by call.
    pub fn on(inner: Arc<dyn Claims>, schedule: Arc<dyn FaultSchedule>) -> Self {
        Self { inner, calls: AtomicU64::new(0), schedule }
    }

    /// `inner` as a process sees it that dies at the crash point.
    pub fn until(inner: Arc<dyn Claims>, point: Arc<CrashPoint>) -> Self {
        Self::on(inner, point)
    }

    /// How many calls were made, failed ones included.
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
        let result = plan::meet(fault, done, ClaimsError::Unavailable).await;
        self.schedule.after(method).await;
        result
    }
}

#[async_trait]
impl Claims for FaultyClaims {
    async fn claim(&self, claim: &Claim, take: Take) -> Result<ClaimAnswer, ClaimsError> {
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
