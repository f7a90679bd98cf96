//! The claims port on one map.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ports::claims::{Claim, ClaimAnswer, ClaimKey, ClaimMode, ClaimOwner, Claims, ClaimsError};
use ports::clock::{SharedClock, TimestampMs};
use ports::lease::{MAX_LEASE, has_ended};
use slack::ids::{FileId, Ts};

/// The claim key of the file with this number in a message.
///
/// # Panics
/// Never: an id made of a number has Slack's shape.
#[expect(clippy::unwrap_used, reason = "ids of numbers have Slack's shape")]
pub fn claim_key(file: usize) -> ClaimKey {
    ClaimKey::for_file(&FileId::parse(&format!("F{file}")).unwrap(), &Ts::parse("1.000000").unwrap())
}

/// Claims that live as long as the process.
pub struct MemoryClaims {
    clock: SharedClock,
    rows: Mutex<BTreeMap<ClaimKey, MemoryClaim>>,
}

/// The row of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryClaim {
    /// The claim's owner.
    pub owner: ClaimOwner,
    /// Whether the work is done.
    pub completed: bool,
    lease_until: TimestampMs,
    forgotten_at: TimestampMs,
}

impl MemoryClaims {
    /// No claims.
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, rows: Mutex::default() }
    }

    /// All rows, including expired ones.
    pub fn rows(&self) -> BTreeMap<ClaimKey, MemoryClaim> {
        self.lock().clone()
    }

    fn begun(&self, claim: &Claim) -> MemoryClaim {
        let now = self.clock.now();
        let (lease_until, forgotten_at) =
            (now.plus(claim.lease.min(MAX_LEASE)), now.plus(claim.lease.max(claim.ttl)));
        MemoryClaim { owner: claim.owner.clone(), completed: false, lease_until, forgotten_at }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClaimKey, MemoryClaim>> {
        // Every change is one insert or remove, so a panic elsewhere leaves a whole map.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Claims for MemoryClaims {
    async fn claim(&self, claim: &Claim, take: ClaimMode) -> Result<ClaimAnswer, ClaimsError> {
        let (mut rows, now) = (self.lock(), self.clock.now());
        if let Some(row) = rows.get(&claim.key).filter(|row| now < row.forgotten_at) {
            if row.completed && take == ClaimMode::IfFree {
                return Ok(ClaimAnswer::Completed);
            }
            if !row.completed && row.owner != claim.owner && !has_ended(row.lease_until, now) {
                return Ok(ClaimAnswer::HeldUntil(row.lease_until));
            }
        }
        rows.insert(claim.key.clone(), self.begun(claim));
        Ok(ClaimAnswer::Claimed)
    }

    async fn renew(&self, claim: &Claim) -> Result<(), ClaimsError> {
        match self.lock().get_mut(&claim.key) {
            Some(row) if row.owner == claim.owner && !row.completed => {
                *row = self.begun(claim);
                Ok(())
            }
            Some(_) | None => Err(ClaimsError::NotOwner),
        }
    }

    async fn complete(&self, claim: &Claim) -> Result<(), ClaimsError> {
        match self.lock().get_mut(&claim.key) {
            Some(row) if row.owner == claim.owner => {
                *row = MemoryClaim { completed: true, ..self.begun(claim) };
                Ok(())
            }
            Some(_) | None => Err(ClaimsError::NotOwner),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<(), ClaimsError> {
        let mut rows = self.lock();
        match rows.get(&claim.key) {
            None => Ok(()),
            Some(row) if row.owner == claim.owner && !row.completed => {
                rows.remove(&claim.key);
                Ok(())
            }
            Some(_) => Err(ClaimsError::NotOwner),
        }
    }

    async fn ready(&self) -> Result<(), ClaimsError> {
        Ok(())
    }
}
