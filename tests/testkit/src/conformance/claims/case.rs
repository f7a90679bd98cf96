//! The helpers of the cases.

use std::time::Duration;

use ports::claims::{Claim, ClaimAnswer, ClaimContext, ClaimKey, ClaimMode, ClaimOwner, ClaimsError};
use ports::clock::{Clock, TimestampMs};
use slack::ids::{ChannelId, FileId, Ts, UserId};

use super::ClaimsFixture;

pub(super) const LEASE_S: u64 = 30;
pub(super) const TTL_S: u64 = 3600;

/// A fixture and the calls on it.
pub(super) struct ClaimsCase {
    pub(super) fixture: ClaimsFixture,
}

/// This owner's claim of the key that most cases use.
pub(super) fn claim_by(owner: u64) -> Claim {
    let (file, ts) = (FileId::parse("F01").unwrap(), Ts::parse("1700000000.000100").unwrap());
    Claim {
        key: ClaimKey::for_file(&file, &ts),
        owner: ClaimOwner::new("instance", owner),
        about: ClaimContext {
            file_id: Some(file),
            channel_id: ChannelId::parse("C01").ok(),
            user_id: UserId::parse("U01").ok(),
        },
        lease: Duration::from_secs(LEASE_S),
        ttl: Duration::from_secs(TTL_S),
    }
}

impl ClaimsCase {
    pub(super) async fn claim(&self, claim: &Claim) -> ClaimAnswer {
        self.fixture.claims.claim(claim, ClaimMode::IfFree).await.unwrap()
    }

    pub(super) async fn take(&self, claim: &Claim) -> ClaimAnswer {
        self.fixture.claims.claim(claim, ClaimMode::EvenCompleted).await.unwrap()
    }

    pub(super) async fn renew(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.fixture.claims.renew(claim).await
    }

    pub(super) async fn complete(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.fixture.claims.complete(claim).await
    }

    pub(super) async fn release(&self, claim: &Claim) -> Result<(), ClaimsError> {
        self.fixture.claims.release(claim).await
    }

    /// Lets seconds pass.
    pub(super) fn advance_s(&self, seconds: u64) {
        self.fixture.clock.advance(Duration::from_secs(seconds));
    }

    /// The answer to a claim that is held for this time from now on.
    pub(super) fn held_for(&self, seconds: u64) -> ClaimAnswer {
        ClaimAnswer::HeldUntil(self.fixture.clock.now().plus(Duration::from_secs(seconds)))
    }

    pub(super) fn now(&self) -> TimestampMs {
        self.fixture.clock.now()
    }
}

/// The result for a zombie.
pub(super) const NOT_OWNER: Result<(), ClaimsError> = Err(ClaimsError::NotOwner);
