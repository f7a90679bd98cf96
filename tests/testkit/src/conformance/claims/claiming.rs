//! Who gets a claim.

use ports::claims::{About, Claim, ClaimAnswer};

use crate::memory::claims::claim_key;

use super::bench::{Bench, LEASE_S, by};

pub(super) async fn a_table_is_ready(bench: Bench) {
    bench.fixture.claims.ready().await.unwrap();
}

pub(super) async fn a_claim_is_held_until_its_lease_ends(bench: Bench) {
    assert_eq!(bench.claim(&by(1)).await, ClaimAnswer::Claimed);
    let held = bench.held_for(LEASE_S);
    assert_eq!(bench.claim(&by(2)).await, held);
    bench.pass(LEASE_S - 1);
    assert_eq!(bench.claim(&by(2)).await, held, "asking does not move it");
    assert_eq!(bench.take(&by(2)).await, held, "what is in progress is not completed");
}

pub(super) async fn an_owner_finds_itself(bench: Bench) {
    assert_eq!(bench.claim(&by(1)).await, ClaimAnswer::Claimed);
    bench.pass(10);
    assert_eq!(bench.claim(&by(1)).await, ClaimAnswer::Claimed);
    assert_eq!(bench.claim(&by(2)).await, bench.held_for(LEASE_S));
}

pub(super) async fn what_is_released_is_free_at_once(bench: Bench) {
    bench.claim(&by(1)).await;
    bench.release(&by(1)).await.unwrap();
    assert_eq!(bench.claim(&by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn claims_of_other_keys_do_not_matter(bench: Bench) {
    let file = |number| Claim { key: claim_key(number), ..by(1) };
    for claim in [by(1), file(1), file(12)] {
        assert_eq!(bench.claim(&claim).await, ClaimAnswer::Claimed);
    }
    bench.complete(&file(1)).await.unwrap();
    bench.release(&by(1)).await.unwrap();
    let second = |number| Claim { owner: by(2).owner, ..file(number) };
    assert_eq!(bench.claim(&second(1)).await, ClaimAnswer::Completed);
    assert_eq!(bench.claim(&second(12)).await, bench.held_for(LEASE_S));
    assert_eq!(bench.claim(&by(2)).await, ClaimAnswer::Claimed);
}

pub(super) async fn what_a_claim_is_about_may_be_unknown(bench: Bench) {
    let about_nothing = |owner| Claim { about: About::default(), ..by(owner) };
    assert_eq!(bench.claim(&about_nothing(1)).await, ClaimAnswer::Claimed);
    bench.renew(&about_nothing(1)).await.unwrap();
    bench.complete(&about_nothing(1)).await.unwrap();
    assert_eq!(bench.claim(&by(2)).await, ClaimAnswer::Completed);
}
