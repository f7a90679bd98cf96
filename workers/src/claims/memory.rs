//! Claims in memory: those of this process that are in progress, and all claims while the table is
//! unavailable.
//!
//! They apply to one process only, and are lost when it exits. That is acceptable only if doing the work
//! twice costs something but harms nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ports::claims::{Claim, ClaimAnswer, ClaimKey, ClaimMode, ClaimState, ClaimStatus};
use ports::clock::TimestampMs;

/// Claims of one process.
pub(super) struct ClaimMemory {
    fallback: Duration,
    remembered: usize,
    state: Mutex<FallbackState>,
}

#[derive(Default)]
struct FallbackState {
    /// When the table was found to be unavailable.
    since: Option<TimestampMs>,
    claims: BTreeMap<ClaimKey, ClaimState>,
}

impl ClaimMemory {
    /// A memory that stays in fallback for `fallback` each time, and remembers at most `remembered` claims.
    pub(super) fn new(fallback: Duration, remembered: usize) -> Self {
        Self { fallback, remembered, state: Mutex::default() }
    }

    /// Whether claims are kept in memory for now, without asking the table.
    pub(super) fn is_in_fallback(&self, now: TimestampMs) -> bool {
        // A clock that was set back ends the fallback too: otherwise the fallback would last as long as the
        // clock was set back.
        self.lock().since.is_some_and(|since| since <= now && now < since.plus(self.fallback))
    }

    /// Starts the fallback: from now on the table is not asked.
    pub(super) fn begin_fallback(&self, now: TimestampMs) {
        self.lock().since = Some(now);
    }

    /// Ends the fallback because the table has answered: completed claims are forgotten, since the table's
    /// rows record them from here on. Returns whether a fallback was active.
    pub(super) fn end_fallback(&self) -> bool {
        let mut state = self.lock();
        let was_active = state.since.take().is_some();
        if was_active {
            state.claims.retain(|_, claim_state| claim_state.status == ClaimStatus::InProgress);
        }
        was_active
    }

    pub(super) fn claim(&self, claim: &Claim, take: ClaimMode, now: TimestampMs) -> ClaimAnswer {
        let mut state = self.lock();
        let answer = state
            .claims
            .get(&claim.key)
            .map_or(ClaimAnswer::Claimed, |claim_state| claim_state.answer_to(claim, take, now));
        if answer == ClaimAnswer::Claimed {
            self.remember(&mut state, claim, ClaimState::in_progress(claim, now), now);
        }
        answer
    }

    /// The answer if another owner in this process has the claim.
    pub(super) fn held_by_other(&self, claim: &Claim, now: TimestampMs) -> Option<ClaimAnswer> {
        let state = self.lock();
        let answer = state.claims.get(&claim.key)?.answer_to(claim, ClaimMode::EvenCompleted, now);
        matches!(answer, ClaimAnswer::HeldUntil(_)).then_some(answer)
    }

    /// Records that a claim was granted or renewed.
    pub(super) fn record_claim(&self, claim: &Claim, now: TimestampMs) {
        self.remember(&mut self.lock(), claim, ClaimState::in_progress(claim, now), now);
    }

    /// Records that the work of a claim is done; during a fallback, the memory remembers it in place of the
    /// table.
    pub(super) fn complete(&self, claim: &Claim, now: TimestampMs) {
        let mut state = self.lock();
        if state.since.is_some() {
            let done = ClaimState { status: ClaimStatus::Completed, ..ClaimState::in_progress(claim, now) };
            self.remember(&mut state, claim, done, now);
        } else {
            forget(&mut state, claim);
        }
    }

    /// Records that a claim has ended.
    pub(super) fn release(&self, claim: &Claim) {
        forget(&mut self.lock(), claim);
    }

    fn remember(&self, state: &mut FallbackState, claim: &Claim, claim_state: ClaimState, now: TimestampMs) {
        if state.claims.len() >= self.remembered && !state.claims.contains_key(&claim.key) {
            let is_current = |claim_state: &ClaimState| match claim_state.status {
                ClaimStatus::InProgress => !claim_state.is_lease_over(now),
                ClaimStatus::Completed => claim_state.ttl_s > now.seconds(),
            };
            state.claims.retain(|_, claim_state| is_current(claim_state));
            if state.claims.len() >= self.remembered {
                // Claims in progress matter more than completed ones: repeated work finds its result already
                // there.
                state.claims.retain(|_, claim_state| claim_state.status == ClaimStatus::InProgress);
            }
            if state.claims.len() >= self.remembered {
                return;
            }
        }
        state.claims.insert(claim.key.clone(), claim_state);
    }

    fn lock(&self) -> MutexGuard<'_, FallbackState> {
        // Every change leaves the map in a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().claims.len()
    }
}

fn forget(state: &mut FallbackState, claim: &Claim) {
    if state.claims.get(&claim.key).is_some_and(|claim_state| claim_state.owner == claim.owner) {
        state.claims.remove(&claim.key);
    }
}

#[cfg(test)]
mod tests {
    use ports::claims::{ClaimContext, ClaimOwner};
    use testkit::memory::claims::claim_key;

    use super::*;

    const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

    fn claim(file: usize, number: u64) -> Claim {
        Claim {
            key: claim_key(file),
            owner: ClaimOwner::new("one", number),
            about: ClaimContext::default(),
            lease: Duration::from_secs(30),
            ttl: Duration::from_secs(3600),
        }
    }

    fn memory() -> ClaimMemory {
        ClaimMemory::new(Duration::from_secs(60), 10)
    }

    #[test]
    fn the_memory_is_bounded_and_keeps_claims_in_progress_longest() {
        let memory = memory();
        memory.begin_fallback(NOW);
        for event in 0..10 {
            assert_eq!(memory.claim(&claim(event, 1), ClaimMode::IfFree, NOW), ClaimAnswer::Claimed);
        }
        for event in 0..5 {
            memory.complete(&claim(event, 1), NOW);
        }
        assert_eq!(memory.len(), 10);
        // Completed claims make room.
        assert_eq!(memory.claim(&claim(10, 1), ClaimMode::IfFree, NOW), ClaimAnswer::Claimed);
        assert_eq!(memory.len(), 6);
        assert!(matches!(memory.claim(&claim(9, 2), ClaimMode::IfFree, NOW), ClaimAnswer::HeldUntil(_)));
        for event in 11..1_000 {
            assert_eq!(memory.claim(&claim(event, 1), ClaimMode::IfFree, NOW), ClaimAnswer::Claimed);
        }
        assert_eq!(memory.len(), 10);
        // Expired leases make room too.
        let later = NOW.plus(Duration::from_secs(31));
        assert_eq!(memory.claim(&claim(2_000, 1), ClaimMode::IfFree, later), ClaimAnswer::Claimed);
        assert_eq!(memory.len(), 1);
    }

    #[test]
    fn a_fallback_ends_after_its_period_and_when_the_clock_is_set_back() {
        let memory = memory();
        assert!(!memory.is_in_fallback(NOW));
        memory.begin_fallback(NOW);
        let after = |seconds| NOW.plus(Duration::from_secs(seconds));
        assert!(
            memory.is_in_fallback(NOW)
                && memory.is_in_fallback(after(59))
                && !memory.is_in_fallback(after(60))
        );
        assert!(!memory.is_in_fallback(TimestampMs(0)));
        assert!(memory.end_fallback() && !memory.end_fallback());
        assert!(!memory.is_in_fallback(NOW));
    }

    #[test]
    fn completed_claims_are_forgotten_once_the_table_is_back() {
        let memory = memory();
        memory.begin_fallback(NOW);
        memory.claim(&claim(1, 1), ClaimMode::IfFree, NOW);
        memory.claim(&claim(2, 1), ClaimMode::IfFree, NOW);
        memory.complete(&claim(1, 1), NOW);
        assert_eq!(memory.claim(&claim(1, 2), ClaimMode::IfFree, NOW), ClaimAnswer::Completed);
        memory.end_fallback();
        assert_eq!(memory.len(), 1);
        assert!(
            memory.held_by_other(&claim(2, 2), NOW).is_some()
                && memory.held_by_other(&claim(2, 1), NOW).is_none()
        );
        // Only the owner ends a claim.
        memory.release(&claim(2, 2));
        assert_eq!(memory.len(), 1);
        memory.complete(&claim(2, 1), NOW);
        assert_eq!(memory.len(), 0);
    }
}
