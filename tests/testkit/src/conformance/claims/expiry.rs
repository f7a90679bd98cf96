//! Leases and rows that expire.

use std::time::Duration;

use futures_util::future::join_all;
use ports::claims::{Claim, ClaimAnswer};
use ports::lease::MAX_LEASE;

use super::case::{ClaimsCase, LEASE_S, NOT_OWNER, TTL_S, claim_by};

pub(super) async fn a_lease_that_has_ended_is_taken(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.advance_s(LEASE_S);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Claimed);
    assert_eq!(case.claim(&claim_by(1)).await, case.held_for(LEASE_S));
}

pub(super) async fn a_renewed_lease_holds(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    for _ in 0..5 {
        case.advance_s(LEASE_S - 1);
        case.renew(&claim_by(1)).await.unwrap();
        assert_eq!(case.claim(&claim_by(2)).await, case.held_for(LEASE_S));
    }
    case.complete(&claim_by(1)).await.unwrap();
}

pub(super) async fn a_lease_that_has_ended_is_renewed_if_no_other_process_took_it(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.advance_s(LEASE_S * 2);
    case.renew(&claim_by(1)).await.unwrap();
    assert_eq!(case.claim(&claim_by(2)).await, case.held_for(LEASE_S));
    case.advance_s(LEASE_S * 2);
    case.complete(&claim_by(1)).await.unwrap();
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Completed);
}

pub(super) async fn a_lease_lasts_no_longer_because_a_clock_was_hours_ahead(case: ClaimsCase) {
    let hours = Duration::from_secs(4 * 3600);
    case.fixture.clock.advance(hours);
    case.claim(&claim_by(1)).await;
    case.fixture.clock.set_back(hours);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Claimed);
    assert_eq!(case.claim(&claim_by(1)).await, case.held_for(LEASE_S));
}

pub(super) async fn no_lease_is_longer_than_the_maximum(case: ClaimsCase) {
    let long = |owner| Claim { lease: MAX_LEASE * 6, ..claim_by(owner) };
    case.fixture.clock.advance(Duration::from_millis(1));
    case.claim(&long(1)).await;
    assert!(matches!(case.claim(&long(2)).await, ClaimAnswer::HeldUntil(_)));
    case.advance_s(MAX_LEASE.as_secs());
    assert_eq!(case.claim(&long(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn a_part_of_a_second_counts_as_one(case: ClaimsCase) {
    case.fixture.clock.advance(Duration::from_millis(1));
    case.claim(&claim_by(1)).await;
    let claimed_at = case.now();
    // The claim is taken until a moment before the lease ends, and free for everyone a second after it.
    case.fixture.clock.advance(Duration::from_millis(LEASE_S * 1000 - 1));
    let ClaimAnswer::HeldUntil(until) = case.claim(&claim_by(2)).await else { panic!("it is held") };
    let lease = until.since(claimed_at);
    assert!((LEASE_S * 1000..=LEASE_S * 1000 + 999).contains(&(lease.as_millis() as u64)), "{lease:?}");
    case.advance_s(1);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn a_completion_counts_until_its_ttl_ends(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.complete(&claim_by(1)).await.unwrap();
    case.advance_s(TTL_S - 1);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Completed);
    case.advance_s(1);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Claimed, "whether or not the row was deleted");
    assert_eq!(case.complete(&claim_by(1)).await, NOT_OWNER);
}

pub(super) async fn the_ttl_of_a_row_starts_at_its_completion(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.advance_s(LEASE_S - 1);
    case.complete(&claim_by(1)).await.unwrap();
    case.advance_s(TTL_S - 1);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Completed);
}

pub(super) async fn a_renewed_claim_outlives_its_first_ttl(case: ClaimsCase) {
    let short = |owner| Claim { ttl: Duration::from_secs(LEASE_S), ..claim_by(owner) };
    case.claim(&short(1)).await;
    for _ in 0..4 {
        case.advance_s(LEASE_S / 2);
        case.renew(&short(1)).await.unwrap();
    }
    case.advance_s(LEASE_S / 2);
    assert_eq!(case.claim(&short(2)).await, case.held_for(LEASE_S / 2));
}

pub(super) async fn an_expired_row_is_claimed_by_one_of_many(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.complete(&claim_by(1)).await.unwrap();
    case.advance_s(TTL_S);
    let claims: Vec<Claim> = (2..10).map(claim_by).collect();
    let answers = join_all(claims.iter().map(|claim| case.claim(claim))).await;
    assert_eq!(answers.iter().filter(|answer| **answer == ClaimAnswer::Claimed).count(), 1, "{answers:?}");
}
