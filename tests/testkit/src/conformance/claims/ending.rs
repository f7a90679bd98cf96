//! How a claim ends, and who may end it.

use ports::claims::ClaimAnswer;

use super::bench::{Bench, LEASE_S, NOT_OWNER, TTL_S, by};

pub(super) async fn a_completed_claim_is_done(bench: Bench) {
    bench.claim(&by(1)).await;
    bench.complete(&by(1)).await.unwrap();
    for owner in [1, 2] {
        assert_eq!(bench.claim(&by(owner)).await, ClaimAnswer::Completed);
    }
    // No lease is left that could end.
    bench.pass(LEASE_S + 1);
    assert_eq!(bench.claim(&by(2)).await, ClaimAnswer::Completed);
}

pub(super) async fn a_completed_claim_is_taken_by_who_knows_better(bench: Bench) {
    bench.claim(&by(1)).await;
    bench.complete(&by(1)).await.unwrap();
    assert_eq!(bench.take(&by(2)).await, ClaimAnswer::Claimed);
    assert_eq!(bench.take(&by(3)).await, bench.held_for(LEASE_S), "one at a time all the same");
    assert_eq!(bench.complete(&by(1)).await, NOT_OWNER);
    bench.complete(&by(2)).await.unwrap();
    assert_eq!(bench.claim(&by(3)).await, ClaimAnswer::Completed);
}

pub(super) async fn an_owner_that_took_a_completed_claim_finds_itself(bench: Bench) {
    bench.claim(&by(1)).await;
    bench.complete(&by(1)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(bench.take(&by(2)).await, ClaimAnswer::Claimed);
    }
    assert_eq!(bench.claim(&by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn a_zombie_changes_nothing(bench: Bench) {
    bench.claim(&by(1)).await;
    bench.pass(LEASE_S);
    assert_eq!(bench.claim(&by(2)).await, ClaimAnswer::Claimed);
    assert_eq!(bench.renew(&by(1)).await, NOT_OWNER);
    assert_eq!(bench.complete(&by(1)).await, NOT_OWNER);
    assert_eq!(bench.release(&by(1)).await, NOT_OWNER);
    assert_eq!(bench.claim(&by(3)).await, bench.held_for(LEASE_S));
    bench.complete(&by(2)).await.unwrap();
    for changed in [bench.renew(&by(1)).await, bench.complete(&by(1)).await, bench.release(&by(1)).await] {
        assert_eq!(changed, NOT_OWNER);
    }
    assert_eq!(bench.claim(&by(3)).await, ClaimAnswer::Completed);
}

pub(super) async fn a_claim_that_is_gone_has_no_owner(bench: Bench) {
    assert_eq!(bench.renew(&by(1)).await, NOT_OWNER);
    assert_eq!(bench.complete(&by(1)).await, NOT_OWNER);
    assert_eq!(bench.claim(&by(2)).await, ClaimAnswer::Claimed, "neither has made one");
    bench.release(&by(2)).await.unwrap();
    assert_eq!(bench.complete(&by(2)).await, NOT_OWNER);
    assert_eq!(bench.renew(&by(2)).await, NOT_OWNER);
}

pub(super) async fn completing_twice_is_completing_once(bench: Bench) {
    bench.claim(&by(1)).await;
    for _ in 0..2 {
        bench.complete(&by(1)).await.unwrap();
    }
    assert_eq!(bench.claim(&by(2)).await, ClaimAnswer::Completed);
    bench.pass(TTL_S);
    assert_eq!(bench.claim(&by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn releasing_twice_is_releasing_once(bench: Bench) {
    bench.claim(&by(1)).await;
    for _ in 0..2 {
        bench.release(&by(1)).await.unwrap();
    }
    bench.claim(&by(2)).await;
    assert_eq!(bench.release(&by(1)).await, NOT_OWNER);
    assert_eq!(bench.claim(&by(3)).await, bench.held_for(LEASE_S));
}

pub(super) async fn what_is_completed_is_not_released_or_renewed(bench: Bench) {
    bench.claim(&by(1)).await;
    bench.complete(&by(1)).await.unwrap();
    assert_eq!(bench.renew(&by(1)).await, NOT_OWNER);
    assert_eq!(bench.release(&by(1)).await, NOT_OWNER);
    assert_eq!(bench.claim(&by(2)).await, ClaimAnswer::Completed);
}
