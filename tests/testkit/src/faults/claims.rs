//! A claims table with injected faults.

use async_trait::async_trait;
use ports::claims::{Claim, ClaimAnswer, ClaimMode, Claims, ClaimsError};

use super::plan::PortMethod;
use super::port::FaultyPort;

/// A claims table with injected faults.
pub type FaultyClaims = FaultyPort<dyn Claims>;

#[async_trait]
impl Claims for FaultyClaims {
    async fn claim(&self, claim: &Claim, take: ClaimMode) -> Result<ClaimAnswer, ClaimsError> {
        self.call(PortMethod::Claim, ClaimsError::Unavailable, self.inner.claim(claim, take)).await
    }

    async fn renew(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.call(PortMethod::Renew, ClaimsError::Unavailable, self.inner.renew(claim)).await
    }

    async fn complete(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.call(PortMethod::Complete, ClaimsError::Unavailable, self.inner.complete(claim)).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.call(PortMethod::Release, ClaimsError::Unavailable, self.inner.release(claim)).await
    }

    async fn ready(&self) -> Result<(), ClaimsError> {
        self.call(PortMethod::Ready, ClaimsError::Unavailable, self.inner.ready()).await
    }
}
