//! Claims in memory: those of this process that are in progress, and all of them while the table is unavailable.
//!
//! They hold within one process and no further, and are gone with it. That is right only if doing a thing twice costs
//! something and harms nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ports::claims::{Claim, ClaimAnswer, ClaimKey, ClaimState, ClaimStatus, Take};
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
    /// Carries on for `fallback` each time, and remembers at most `remembered` claims.
    pub(super) fn new(fallback: Duration, remembered: usize) -> Self {
        Self { fallback, remembered, state: Mutex::default() }
    }

    /// Whether the table is left alone for now.
    pub(super) fn carries_on(&self, now: TimestampMs) -> bool {
        // A clock that was set back ends it too: it would go on for as long as the clock was set back.
        self.lock().since.is_some_and(|since| since <= now && now < since.plus(self.fallback))
    }

    /// From now on the table is left alone.
    pub(super) fn begin_fallback(&self, now: TimestampMs) {
        self.lock().since = Some(now);
    }

    /// The table has answered: what was completed meanwhile is for its rows to know. Says whether it was missed.
    pub(super) fn end_fallback(&self) -> bool {
        let mut state = self.lock();
        let missed = state.since.take().is_some();
        if missed {
            state.claims.retain(|_, standing| standing.status == ClaimStatus::InProgress);
        }
        missed
    }

    /// Claims here.
    pub(super) fn claim(&self, claim: &Claim, take: Take, now: TimestampMs) -> ClaimAnswer {
        let mut state = self.lock();
        let answer = state
            .claims
            .get(&claim.key)
            .map_or(ClaimAnswer::Claimed, |standing| standing.answer_to(claim, take, now));
        if answer == ClaimAnswer::Claimed {
            self.remember(&mut state, claim, ClaimState::begun(claim, now), now);
        }
        answer
    }

    /// Who else of this process is at it.
    pub(super) fn held(&self, claim: &Claim, now: TimestampMs) -> Option<ClaimAnswer> {
        let state = self.lock();
        let answer = state.claims.get(&claim.key)?.answer_to(claim, Take::EvenCompleted, now);
        matches!(answer, ClaimAnswer::HeldUntil(_)).then_some(answer)
    }

    /// A claim was granted or renewed.
    pub(super) fn note(&self, claim: &Claim, now: TimestampMs) {
        self.remember(&mut self.lock(), claim, ClaimState::begun(claim, now), now);
    }

    /// The work of a claim is done; it is remembered while the table cannot.
    pub(super) fn complete(&self, claim: &Claim, now: TimestampMs) {
        let mut state = self.lock();
        if state.since.is_some() {
            let done = ClaimState { status: ClaimStatus::Completed, ..ClaimState::begun(claim, now) };
            self.remember(&mut state, claim, done, now);
        } else {
            forget(&mut state, claim);
        }
    }

    /// A claim has ended.
    pub(super) fn release(&self, claim: &Claim) {
        forget(&mut self.lock(), claim);
    }

    fn remember(&self, state: &mut FallbackState, claim: &Claim, standing: ClaimState, now: TimestampMs) {
        if state.claims.len() >= self.remembered && !state.claims.contains_key(&claim.key) {
            let now_s = now.seconds();
            let counts = |standing: &ClaimState| match standing.status {
                ClaimStatus::InProgress => standing.lease_until_s > now_s,
                ClaimStatus::Completed => standing.ttl_s > now_s,
            };
            state.claims.retain(|_, standing| counts(standing));
            if state.claims.len() >= self.remembered {
                // What is in progress matters more than what was done: the work itself knows that.
                state.claims.retain(|_, standing| standing.status == ClaimStatus::InProgress);
            }
            if state.claims.len() >= self.remembered {
                return;
            }
        }
        state.claims.insert(claim.key.clone(), standing);
    }

    fn lock(&self) -> MutexGuard<'_, FallbackState> {
        // Each change leaves a whole map.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().claims.len()
    }
}

fn forget(state: &mut FallbackState, claim: &Claim) {
    if state.claims.get(&claim.key).is_some_and(|standing| standing.owner == claim.owner) {
        state.claims.remove(&claim.key);
    }
}

#[cfg(test)]
mod tests {
    use ports::claims::{About, ClaimOwner};
    use testkit::memory::claims::claim_key;

    use super::*;

    const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

    fn claim(file: usize, number: u64) -> Claim {
        Claim {
            key: claim_key(file),
            owner: ClaimOwner::of("one", number),
            about: About::default(),
            lease: Duration::from_secs(30),
            ttl: Duration::from_secs(3600),
        }
    }

    fn memory() -> ClaimMemory {
        ClaimMemory::new(Duration::from_secs(60), 10)
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_in_progress_stays_longest() {
        let memory = memory();
        memory.begin_fallback(NOW);
        for event in 0..10 {
            assert_eq!(memory.claim(&claim(event, 1), Take::IfFree, NOW), ClaimAnswer::Claimed);
        }
        for event in 0..5 {
            memory.complete(&claim(event, 1), NOW);
        }
        assert_eq!(memory.len(), 10);
        // Room is made of what was done.
        assert_eq!(memory.claim(&claim(10, 1), Take::IfFree, NOW), ClaimAnswer::Claimed);
        assert_eq!(memory.len(), 6);
        assert!(matches!(memory.claim(&claim(9, 2), Take::IfFree, NOW), ClaimAnswer::HeldUntil(_)));
        for event in 11..1_000 {
            assert_eq!(memory.claim(&claim(event, 1), Take::IfFree, NOW), ClaimAnswer::Claimed);
        }
        assert_eq!(memory.len(), 10);
        // And of leases that have ended.
        let later = NOW.plus(Duration::from_secs(31));
        assert_eq!(memory.claim(&claim(2_000, 1), Take::IfFree, later), ClaimAnswer::Claimed);
        assert_eq!(memory.len(), 1);
    }

    #[test]
    fn the_table_is_left_alone_for_a_while_and_not_because_a_clock_was_set_back() {
        let memory = memory();
        assert!(!memory.carries_on(NOW));
        memory.begin_fallback(NOW);
        let after = |seconds| NOW.plus(Duration::from_secs(seconds));
        assert!(memory.carries_on(NOW) && memory.carries_on(after(59)) && !memory.carries_on(after(60)));
        assert!(!memory.carries_on(TimestampMs(0)));
        assert!(memory.end_fallback() && !memory.end_fallback());
        assert!(!memory.carries_on(NOW));
    }

    #[test]
    fn what_was_done_is_forgotten_once_the_table_is_back() {
        let memory = memory();
        memory.begin_fallback(NOW);
        memory.claim(&claim(1, 1), Take::IfFree, NOW);
        memory.claim(&claim(2, 1), Take::IfFree, NOW);
        memory.complete(&claim(1, 1), NOW);
        assert_eq!(memory.claim(&claim(1, 2), Take::IfFree, NOW), ClaimAnswer::Completed);
        memory.end_fallback();
        assert_eq!(memory.len(), 1);
        assert!(memory.held(&claim(2, 2), NOW).is_some() && memory.held(&claim(2, 1), NOW).is_none());
        // Only its owner ends a claim.
        memory.release(&claim(2, 2));
        assert_eq!(memory.len(), 1);
        memory.complete(&claim(2, 1), NOW);
        assert_eq!(memory.len(), 0);
    }
}
