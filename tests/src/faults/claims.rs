//! A table of claims that follows a plan, and one that dies.

use std::sync::Arc;

use async_trait::async_trait;
use shared::claims::{Answer, Claim, Claims, ClaimsError, Take};

use super::crash::CrashPoint;
use super::plan::{Fault, Method, Plan, Progress, REASON};

/// What happens at each call.
enum Steps {
    Planned(Progress),
    Until(Arc<CrashPoint>),
}

/// A table some of whose calls go wrong.
pub struct FaultyClaims {
    inner: Arc<dyn Claims>,
    steps: Steps,
}

impl FaultyClaims {
    /// `inner`, but for what the plan says.
    #[must_use]
    pub fn new(inner: Arc<dyn Claims>, plan: Plan) -> Self {
        Self { inner, steps: Steps::Planned(Progress::new(plan)) }
    }

    /// `inner`, until the crash.
    #[must_use]
    pub fn until(inner: Arc<dyn Claims>, point: Arc<CrashPoint>) -> Self {
        Self { inner, steps: Steps::Until(point) }
    }

    /// How many calls were made, failed ones included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        match &self.steps {
            Steps::Planned(progress) => progress.calls(),
            Steps::Until(point) => point.steps(),
        }
    }

    async fn call<T>(
        &self,
        method: Method,
        done: impl Future<Output = Result<T, ClaimsError>>,
    ) -> Result<T, ClaimsError> {
        let fault = match &self.steps {
            Steps::Planned(progress) => progress.next(method),
            Steps::Until(point) => {
                point.step().map_err(ClaimsError::Unavailable)?;
                None
            }
        };
        let failed = || Err(ClaimsError::Unavailable(REASON.into()));
        match fault {
            None => done.await,
            Some(Fault::Delay(by)) => {
                tokio::time::sleep(by).await;
                done.await
            }
            Some(Fault::FailBefore | Fault::FailEntry(_)) => failed(),
            Some(Fault::FailAfter) => {
                drop(done.await);
                failed()
            }
        }
    }
}

#[async_trait]
impl Claims for FaultyClaims {
    async fn claim(&self, claim: &Claim, take: Take) -> Result<Answer, ClaimsError> {
        self.call(Method::Claim, self.inner.claim(claim, take)).await
    }

    async fn renew(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.call(Method::Renew, self.inner.renew(claim)).await
    }

    async fn complete(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.call(Method::Complete, self.inner.complete(claim)).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.call(Method::Release, self.inner.release(claim)).await
    }

    async fn ready(&self) -> Result<(), ClaimsError> {
        self.call(Method::Ready, self.inner.ready()).await
    }
}
