//! The state of a claim, and the rule for who may claim next, which every backend shares.

use super::{Claim, ClaimAnswer, ClaimMode, ClaimOwner};
use crate::clock::TimestampMs;
use crate::lease::{self, MAX_LEASE};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimStatus {
    /// Its owner is working on it, or has crashed.
    InProgress,
    /// The work is done.
    Completed,
}

impl ClaimStatus {
    /// The stored label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }

    /// The status with this stored label.
    pub fn from_label(label: &str) -> Option<Self> {
        [Self::InProgress, Self::Completed].into_iter().find(|status| status.label() == label)
    }
}

/// The part of a row that decides about the next claim. Times are whole seconds since the Unix epoch, as
/// DynamoDB requires for a `ttl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimState {
    pub status: ClaimStatus,
    /// The current or last owner.
    pub owner: ClaimOwner,
    /// The second in which the lease ends.
    pub lease_until_s: i64,
    /// The second from which the row is ignored.
    pub ttl_s: i64,
}

impl ClaimState {
    /// The state of a claim that starts or is renewed now.
    pub fn in_progress(claim: &Claim, now: TimestampMs) -> Self {
        Self {
            status: ClaimStatus::InProgress,
            owner: claim.owner.clone(),
            lease_until_s: lease_until_s(claim, now),
            ttl_s: ttl_s(claim, now),
        }
    }

    /// The result of a claim if this is the stored row. Without a row, the result is
    /// [`ClaimAnswer::Claimed`].
    pub fn answer_to(&self, claim: &Claim, take: ClaimMode, now: TimestampMs) -> ClaimAnswer {
        if self.ttl_s <= now.seconds() {
            return ClaimAnswer::Claimed;
        }
        match self.status {
            ClaimStatus::Completed => match take {
                ClaimMode::IfFree => ClaimAnswer::Completed,
                ClaimMode::EvenCompleted => ClaimAnswer::Claimed,
            },
            // The caller already owns it (the response to an earlier attempt was lost), or the lease has
            // ended.
            ClaimStatus::InProgress if self.owner == claim.owner || self.is_lease_over(now) => {
                ClaimAnswer::Claimed
            }
            ClaimStatus::InProgress => ClaimAnswer::HeldUntil(self.lease_until()),
        }
    }

    /// Whether the lease has ended: see [`lease::has_ended`].
    pub fn is_lease_over(&self, now: TimestampMs) -> bool {
        lease::has_ended(self.lease_until(), now)
    }

    fn lease_until(&self) -> TimestampMs {
        TimestampMs(self.lease_until_s.saturating_mul(1000))
    }

    /// Whether this owner has the claim in progress.
    pub fn is_worked_on_by(&self, owner: &ClaimOwner) -> bool {
        self.status == ClaimStatus::InProgress && self.owner == *owner
    }
}

/// The second in which a lease that starts now ends: rounded up, so that no other owner gets it early.
pub fn lease_until_s(claim: &Claim, now: TimestampMs) -> i64 {
    TimestampMs(now.plus(claim.lease).0.saturating_add(999)).seconds().min(now.plus(MAX_LEASE).seconds())
}

/// The second from which a row written now is ignored. Never before its lease ends.
pub fn ttl_s(claim: &Claim, now: TimestampMs) -> i64 {
    now.plus(claim.ttl).seconds().max(lease_until_s(claim, now))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use slack::ids::{FileId, Ts};

    use crate::claims::{ClaimContext, ClaimKey};

    const NOW: TimestampMs = TimestampMs(1_700_000_000_500);

    fn claim(number: u64) -> Claim {
        Claim {
            key: ClaimKey::for_file(&FileId::parse("F1").unwrap(), &Ts::parse("1.000000").unwrap()),
            owner: ClaimOwner::new("one", number),
            about: ClaimContext::default(),
            lease: Duration::from_secs(30),
            ttl: Duration::from_secs(3600),
        }
    }

    #[test]
    fn a_lease_is_rounded_up_and_a_row_outlives_it() {
        let state = ClaimState::in_progress(&claim(1), NOW);
        assert_eq!((state.lease_until_s, state.ttl_s), (1_700_000_031, 1_700_003_600));
        let short = Claim { ttl: Duration::ZERO, ..claim(1) };
        assert_eq!(ClaimState::in_progress(&short, NOW).ttl_s, 1_700_000_031);
    }

    #[test]
    fn the_status_and_the_lease_decide_who_may_claim_next() {
        let in_progress = ClaimState::in_progress(&claim(1), NOW);
        let completed = ClaimState { status: ClaimStatus::Completed, ..in_progress.clone() };
        let until = TimestampMs(1_700_000_031_000);
        let (free, even_completed) = (ClaimMode::IfFree, ClaimMode::EvenCompleted);
        let later = |seconds| NOW.plus(Duration::from_secs(seconds));
        for (state, owner_number, take, now, expected) in [
            (&in_progress, 2, free, NOW, ClaimAnswer::HeldUntil(until)),
            (&in_progress, 2, even_completed, NOW, ClaimAnswer::HeldUntil(until)),
            (&in_progress, 1, free, NOW, ClaimAnswer::Claimed),
            (&in_progress, 2, free, later(30), ClaimAnswer::HeldUntil(until)),
            (&in_progress, 2, free, later(31), ClaimAnswer::Claimed),
            (&completed, 2, free, NOW, ClaimAnswer::Completed),
            (&completed, 1, free, NOW, ClaimAnswer::Completed),
            (&completed, 2, even_completed, NOW, ClaimAnswer::Claimed),
            (&completed, 2, free, later(3599), ClaimAnswer::Completed),
            (&completed, 2, free, later(3600), ClaimAnswer::Claimed),
        ] {
            assert_eq!(
                state.answer_to(&claim(owner_number), take, now),
                expected,
                "{state:?} {owner_number} {take:?} {now:?}"
            );
        }
    }

    #[test]
    fn every_status_has_its_own_label() {
        for status in [ClaimStatus::InProgress, ClaimStatus::Completed] {
            assert_eq!(ClaimStatus::from_label(status.label()), Some(status));
        }
        assert_eq!(ClaimStatus::from_label("processed"), None);
    }
}
