//! Which claimant gets a claim.

use ports::claims::{Claim, ClaimAnswer, ClaimContext};

use crate::memory::claims::claim_key;

use super::case::{ClaimsCase, LEASE_S, claim_by};

pub(super) async fn a_table_is_ready(case: ClaimsCase) {
    case.fixture.claims.ready().await.unwrap();
}

pub(super) async fn a_claim_is_held_until_its_lease_ends(case: ClaimsCase) {
    assert_eq!(case.claim(&claim_by(1)).await, ClaimAnswer::Claimed);
    let held = case.held_for(LEASE_S);
    assert_eq!(case.claim(&claim_by(2)).await, held);
    case.advance_s(LEASE_S - 1);
    assert_eq!(case.claim(&claim_by(2)).await, held, "asking does not move it");
    assert_eq!(case.take(&claim_by(2)).await, held, "work in progress is not completed");
}

pub(super) async fn an_owner_can_claim_again(case: ClaimsCase) {
    assert_eq!(case.claim(&claim_by(1)).await, ClaimAnswer::Claimed);
    case.advance_s(10);
    assert_eq!(case.claim(&claim_by(1)).await, ClaimAnswer::Claimed);
    assert_eq!(case.claim(&claim_by(2)).await, case.held_for(LEASE_S));
}

pub(super) async fn a_released_claim_is_free_at_once(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.release(&claim_by(1)).await.unwrap();
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn claims_of_other_keys_are_independent(case: ClaimsCase) {
    let file = |number| Claim { key: claim_key(number), ..claim_by(1) };
    for claim in [claim_by(1), file(1), file(12)] {
        assert_eq!(case.claim(&claim).await, ClaimAnswer::Claimed);
    }
    case.complete(&file(1)).await.unwrap();
    case.release(&claim_by(1)).await.unwrap();
    let second = |number| Claim { owner: claim_by(2).owner, ..file(number) };
    assert_eq!(case.claim(&second(1)).await, ClaimAnswer::Completed);
    assert_eq!(case.claim(&second(12)).await, case.held_for(LEASE_S));
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn the_subject_of_a_claim_may_be_unknown(case: ClaimsCase) {
    let about_nothing = |owner| Claim { about: ClaimContext::default(), ..claim_by(owner) };
    assert_eq!(case.claim(&about_nothing(1)).await, ClaimAnswer::Claimed);
    case.renew(&about_nothing(1)).await.unwrap();
    case.complete(&about_nothing(1)).await.unwrap();
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Completed);
}
