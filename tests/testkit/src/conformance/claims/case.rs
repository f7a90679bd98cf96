//! What the cases work with.

use std::time::Duration;

use ports::claims::{About, Claim, ClaimAnswer, ClaimKey, ClaimOwner, ClaimsError, Take};
use ports::clock::{Clock, TimestampMs};
use slack::ids::{ChannelId, FileId, Ts, UserId};

use super::ClaimsFixture;

pub(super) const LEASE_S: u64 = 30;
pub(super) const TTL_S: u64 = 3600;

/// A fixture and the calls on it.
pub(super) struct ClaimsCase {
    pub(super) fixture: ClaimsFixture,
}

/// The claim of this owner that most cases are about.
pub(super) fn by(owner: u64) -> Claim {
    let (file, ts) = (FileId::parse("F01").unwrap(), Ts::parse("1700000000.000100").unwrap());
    Claim {
        key: ClaimKey::of_file(&file, &ts),
        owner: ClaimOwner::of("instance", owner),
        about: About {
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
        self.fixture.claims.claim(claim, Take::IfFree).await.unwrap()
    }

    pub(super) async fn take(&self, claim: &Claim) -> ClaimAnswer {
        self.fixture.claims.claim(claim, Take::EvenCompleted).await.unwrap()
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
    pub(super) fn pass(&self, seconds: u64) {
        self.fixture.clock.advance(Duration::from_secs(seconds));
    }

    /// What is held for so long from now on.
    pub(super) fn held_for(&self, seconds: u64) -> ClaimAnswer {
        ClaimAnswer::HeldUntil(self.fixture.clock.now().plus(Duration::from_secs(seconds)))
    }

    pub(super) fn now(&self) -> TimestampMs {
        self.fixture.clock.now()
    }
}

/// What a zombie is told.
pub(super) const NOT_OWNER: Result<(), ClaimsError> = Err(ClaimsError::NotOwner);
