//! The end of a claim, and which owners may end it.

use ports::claims::ClaimAnswer;

use super::case::{ClaimsCase, LEASE_S, NOT_OWNER, TTL_S, claim_by};

pub(super) async fn a_completed_claim_is_done(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.complete(&claim_by(1)).await.unwrap();
    for owner in [1, 2] {
        assert_eq!(case.claim(&claim_by(owner)).await, ClaimAnswer::Completed);
    }
    // No lease is left that could end.
    case.advance_s(LEASE_S + 1);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Completed);
}

pub(super) async fn a_completed_claim_can_be_taken_explicitly(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.complete(&claim_by(1)).await.unwrap();
    assert_eq!(case.take(&claim_by(2)).await, ClaimAnswer::Claimed);
    assert_eq!(case.take(&claim_by(3)).await, case.held_for(LEASE_S), "still only one owner");
    assert_eq!(case.complete(&claim_by(1)).await, NOT_OWNER);
    case.complete(&claim_by(2)).await.unwrap();
    assert_eq!(case.claim(&claim_by(3)).await, ClaimAnswer::Completed);
}

pub(super) async fn an_owner_that_took_a_completed_claim_can_claim_again(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.complete(&claim_by(1)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(case.take(&claim_by(2)).await, ClaimAnswer::Claimed);
    }
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn a_zombie_changes_nothing(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.advance_s(LEASE_S);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Claimed);
    assert_eq!(case.renew(&claim_by(1)).await, NOT_OWNER);
    assert_eq!(case.complete(&claim_by(1)).await, NOT_OWNER);
    assert_eq!(case.release(&claim_by(1)).await, NOT_OWNER);
    assert_eq!(case.claim(&claim_by(3)).await, case.held_for(LEASE_S));
    case.complete(&claim_by(2)).await.unwrap();
    for changed in
        [case.renew(&claim_by(1)).await, case.complete(&claim_by(1)).await, case.release(&claim_by(1)).await]
    {
        assert_eq!(changed, NOT_OWNER);
    }
    assert_eq!(case.claim(&claim_by(3)).await, ClaimAnswer::Completed);
}

pub(super) async fn an_absent_claim_has_no_owner(case: ClaimsCase) {
    assert_eq!(case.renew(&claim_by(1)).await, NOT_OWNER);
    assert_eq!(case.complete(&claim_by(1)).await, NOT_OWNER);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Claimed, "neither call has made a claim");
    case.release(&claim_by(2)).await.unwrap();
    assert_eq!(case.complete(&claim_by(2)).await, NOT_OWNER);
    assert_eq!(case.renew(&claim_by(2)).await, NOT_OWNER);
}

pub(super) async fn completing_twice_is_completing_once(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    for _ in 0..2 {
        case.complete(&claim_by(1)).await.unwrap();
    }
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Completed);
    case.advance_s(TTL_S);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn releasing_twice_is_releasing_once(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    for _ in 0..2 {
        case.release(&claim_by(1)).await.unwrap();
    }
    case.claim(&claim_by(2)).await;
    assert_eq!(case.release(&claim_by(1)).await, NOT_OWNER);
    assert_eq!(case.claim(&claim_by(3)).await, case.held_for(LEASE_S));
}

pub(super) async fn a_completed_claim_is_not_released_or_renewed(case: ClaimsCase) {
    case.claim(&claim_by(1)).await;
    case.complete(&claim_by(1)).await.unwrap();
    assert_eq!(case.renew(&claim_by(1)).await, NOT_OWNER);
    assert_eq!(case.release(&claim_by(1)).await, NOT_OWNER);
    assert_eq!(case.claim(&claim_by(2)).await, ClaimAnswer::Completed);
}
