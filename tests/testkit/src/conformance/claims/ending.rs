//! How a claim ends, and who may end it.

use ports::claims::ClaimAnswer;

use super::case::{ClaimsCase, LEASE_S, NOT_OWNER, TTL_S, by};

pub(super) async fn a_completed_claim_is_done(case: ClaimsCase) {
    case.claim(&by(1)).await;
    case.complete(&by(1)).await.unwrap();
    for owner in [1, 2] {
        assert_eq!(case.claim(&by(owner)).await, ClaimAnswer::Completed);
    }
    // No lease is left that could end.
    case.pass(LEASE_S + 1);
    assert_eq!(case.claim(&by(2)).await, ClaimAnswer::Completed);
}

pub(super) async fn a_completed_claim_is_taken_by_who_knows_better(case: ClaimsCase) {
    case.claim(&by(1)).await;
    case.complete(&by(1)).await.unwrap();
    assert_eq!(case.take(&by(2)).await, ClaimAnswer::Claimed);
    assert_eq!(case.take(&by(3)).await, case.held_for(LEASE_S), "one at a time all the same");
    assert_eq!(case.complete(&by(1)).await, NOT_OWNER);
    case.complete(&by(2)).await.unwrap();
    assert_eq!(case.claim(&by(3)).await, ClaimAnswer::Completed);
}

pub(super) async fn an_owner_that_took_a_completed_claim_finds_itself(case: ClaimsCase) {
    case.claim(&by(1)).await;
    case.complete(&by(1)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(case.take(&by(2)).await, ClaimAnswer::Claimed);
    }
    assert_eq!(case.claim(&by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn a_zombie_changes_nothing(case: ClaimsCase) {
    case.claim(&by(1)).await;
    case.pass(LEASE_S);
    assert_eq!(case.claim(&by(2)).await, ClaimAnswer::Claimed);
    assert_eq!(case.renew(&by(1)).await, NOT_OWNER);
    assert_eq!(case.complete(&by(1)).await, NOT_OWNER);
    assert_eq!(case.release(&by(1)).await, NOT_OWNER);
    assert_eq!(case.claim(&by(3)).await, case.held_for(LEASE_S));
    case.complete(&by(2)).await.unwrap();
    for changed in [case.renew(&by(1)).await, case.complete(&by(1)).await, case.release(&by(1)).await] {
        assert_eq!(changed, NOT_OWNER);
    }
    assert_eq!(case.claim(&by(3)).await, ClaimAnswer::Completed);
}

pub(super) async fn a_claim_that_is_gone_has_no_owner(case: ClaimsCase) {
    assert_eq!(case.renew(&by(1)).await, NOT_OWNER);
    assert_eq!(case.complete(&by(1)).await, NOT_OWNER);
    assert_eq!(case.claim(&by(2)).await, ClaimAnswer::Claimed, "neither has made one");
    case.release(&by(2)).await.unwrap();
    assert_eq!(case.complete(&by(2)).await, NOT_OWNER);
    assert_eq!(case.renew(&by(2)).await, NOT_OWNER);
}

pub(super) async fn completing_twice_is_completing_once(case: ClaimsCase) {
    case.claim(&by(1)).await;
    for _ in 0..2 {
        case.complete(&by(1)).await.unwrap();
    }
    assert_eq!(case.claim(&by(2)).await, ClaimAnswer::Completed);
    case.pass(TTL_S);
    assert_eq!(case.claim(&by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn releasing_twice_is_releasing_once(case: ClaimsCase) {
    case.claim(&by(1)).await;
    for _ in 0..2 {
        case.release(&by(1)).await.unwrap();
    }
    case.claim(&by(2)).await;
    assert_eq!(case.release(&by(1)).await, NOT_OWNER);
    assert_eq!(case.claim(&by(3)).await, case.held_for(LEASE_S));
}

pub(super) async fn what_is_completed_is_not_released_or_renewed(case: ClaimsCase) {
    case.claim(&by(1)).await;
    case.complete(&by(1)).await.unwrap();
    assert_eq!(case.renew(&by(1)).await, NOT_OWNER);
    assert_eq!(case.release(&by(1)).await, NOT_OWNER);
    assert_eq!(case.claim(&by(2)).await, ClaimAnswer::Completed);
}
