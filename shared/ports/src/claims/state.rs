//! How a claim stands, and who may claim next: one rule for every backend.

use super::{Claim, ClaimAnswer, ClaimOwner, Take};
use crate::clock::TimestampMs;

/// How far a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimStatus {
    /// Its owner works on it, or has died over it.
    InProgress,
    /// The work is done.
    Completed,
}

impl ClaimStatus {
    /// As it is stored.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }

    /// What is stored under this label.
    pub fn from_label(label: &str) -> Option<Self> {
        [Self::InProgress, Self::Completed].into_iter().find(|status| status.label() == label)
    }
}

/// What of a row decides about the next claim. Times are whole seconds since the Unix epoch, as DynamoDB takes a `ttl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimState {
    /// How far it is.
    pub status: ClaimStatus,
    /// Whose it is or was.
    pub owner: ClaimOwner,
    /// The second in which the lease ends.
    pub lease_until_s: i64,
    /// The second from which on the row counts for nothing.
    pub ttl_s: i64,
}

impl ClaimState {
    /// A claim that begins now, or is renewed.
    pub fn begun(claim: &Claim, now: TimestampMs) -> Self {
        Self {
            status: ClaimStatus::InProgress,
            owner: claim.owner.clone(),
            lease_until_s: lease_until_s(claim, now),
            ttl_s: ttl_s(claim, now),
        }
    }

    /// The result of a claim if this is its row. Without a row, it is claimed.
    pub fn answer_to(&self, claim: &Claim, take: Take, now: TimestampMs) -> ClaimAnswer {
        let now_s = now.seconds();
        if self.ttl_s <= now_s {
            return ClaimAnswer::Claimed;
        }
        match self.status {
            ClaimStatus::Completed => match take {
                Take::IfFree => ClaimAnswer::Completed,
                Take::EvenCompleted => ClaimAnswer::Claimed,
            },
            // One's own: the answer to an earlier attempt was lost.
            ClaimStatus::InProgress if self.owner == claim.owner || self.lease_until_s <= now_s => {
                ClaimAnswer::Claimed
            }
            ClaimStatus::InProgress => {
                ClaimAnswer::HeldUntil(TimestampMs(self.lease_until_s.saturating_mul(1000)))
            }
        }
    }

    /// Whether it is in progress in these hands.
    pub fn is_worked_on_by(&self, owner: &ClaimOwner) -> bool {
        self.status == ClaimStatus::InProgress && self.owner == *owner
    }
}

/// The second in which a lease that begins now has ended on every clock: rounded up, so that no other owner has it early.
pub fn lease_until_s(claim: &Claim, now: TimestampMs) -> i64 {
    TimestampMs(now.plus(claim.lease).0.saturating_add(999)).seconds()
}

/// The second from which on a row that is written now counts for nothing. Never before its lease ends.
pub fn ttl_s(claim: &Claim, now: TimestampMs) -> i64 {
    now.plus(claim.ttl).seconds().max(lease_until_s(claim, now))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use slack::ids::{FileId, Ts};

    use crate::claims::{About, ClaimKey};

    const NOW: TimestampMs = TimestampMs(1_700_000_000_500);

    fn claim(number: u64) -> Claim {
        Claim {
            key: ClaimKey::of_file(&FileId::parse("F1").unwrap(), &Ts::parse("1.000000").unwrap()),
            owner: ClaimOwner::of("one", number),
            about: About::default(),
            lease: Duration::from_secs(30),
            ttl: Duration::from_secs(3600),
        }
    }

    #[test]
    fn a_lease_is_rounded_up_and_a_row_outlives_it() {
        let standing = ClaimState::begun(&claim(1), NOW);
        assert_eq!((standing.lease_until_s, standing.ttl_s), (1_700_000_031, 1_700_003_600));
        let short = Claim { ttl: Duration::ZERO, ..claim(1) };
        assert_eq!(ClaimState::begun(&short, NOW).ttl_s, 1_700_000_031);
    }

    #[test]
    fn who_may_claim_next() {
        let held = ClaimState::begun(&claim(1), NOW);
        let done = ClaimState { status: ClaimStatus::Completed, ..held.clone() };
        let until = TimestampMs(1_700_000_031_000);
        let (free, even) = (Take::IfFree, Take::EvenCompleted);
        let late = |seconds| NOW.plus(Duration::from_secs(seconds));
        for (standing, by, take, now, expected) in [
            (&held, 2, free, NOW, ClaimAnswer::HeldUntil(until)),
            (&held, 2, even, NOW, ClaimAnswer::HeldUntil(until)),
            (&held, 1, free, NOW, ClaimAnswer::Claimed),
            (&held, 2, free, late(30), ClaimAnswer::HeldUntil(until)),
            (&held, 2, free, late(31), ClaimAnswer::Claimed),
            (&done, 2, free, NOW, ClaimAnswer::Completed),
            (&done, 1, free, NOW, ClaimAnswer::Completed),
            (&done, 2, even, NOW, ClaimAnswer::Claimed),
            (&done, 2, free, late(3599), ClaimAnswer::Completed),
            (&done, 2, free, late(3600), ClaimAnswer::Claimed),
        ] {
            assert_eq!(
                standing.answer_to(&claim(by), take, now),
                expected,
                "{standing:?} {by} {take:?} {now:?}"
            );
        }
    }

    #[test]
    fn every_status_has_a_label_of_its_own() {
        for status in [ClaimStatus::InProgress, ClaimStatus::Completed] {
            assert_eq!(ClaimStatus::from_label(status.label()), Some(status));
        }
        assert_eq!(ClaimStatus::from_label("processed"), None);
    }
}
