//! Concurrent calls: every call is atomic.

use std::sync::Arc;

use futures_util::future::join_all;
use ports::claims::{Claim, ClaimAnswer, ClaimMode, ClaimsError};

use super::case::{ClaimsCase, LEASE_S, claim_by};

const CLAIMANTS: u64 = 16;
const ROUNDS: u64 = 4;

/// Claims concurrently, each claimant in its own task. Returns the winner and the answers to the others.
async fn claim_at_once(case: &ClaimsCase, first: u64, take: ClaimMode) -> (u64, Vec<ClaimAnswer>) {
    let tasks = (first..first + CLAIMANTS).map(|owner| {
        let claims = Arc::clone(&case.fixture.claims);
        tokio::spawn(async move { (owner, claims.claim(&claim_by(owner), take).await.unwrap()) })
    });
    let answers = join_all(tasks).await.into_iter().map(Result::unwrap);
    let (won, lost): (Vec<_>, Vec<_>) = answers.partition(|(_, answer)| *answer == ClaimAnswer::Claimed);
    let [(winner, _)] = won[..] else { panic!("{won:?} claimed it") };
    (winner, lost.into_iter().map(|(_, answer)| answer).collect())
}

pub(super) async fn one_of_many_claimants_claims(case: ClaimsCase) {
    for round in 0..ROUNDS {
        let (winner, lost) = claim_at_once(&case, round * CLAIMANTS, ClaimMode::IfFree).await;
        assert!(lost.iter().all(|answer| *answer == case.held_for(LEASE_S)), "{lost:?}");
        case.release(&claim_by(winner)).await.unwrap();
    }
}

pub(super) async fn one_of_many_takes_over_the_claim_of_a_dead_owner(case: ClaimsCase) {
    case.claim(&claim_by(1_000)).await;
    for round in 0..ROUNDS {
        case.advance_s(LEASE_S);
        let (_, lost) = claim_at_once(&case, round * CLAIMANTS, ClaimMode::IfFree).await;
        assert!(lost.iter().all(|answer| *answer == case.held_for(LEASE_S)), "{lost:?}");
    }
}

pub(super) async fn one_of_many_takes_a_completed_claim(case: ClaimsCase) {
    case.claim(&claim_by(1_000)).await;
    case.complete(&claim_by(1_000)).await.unwrap();
    for round in 0..ROUNDS {
        let (winner, lost) = claim_at_once(&case, round * CLAIMANTS, ClaimMode::EvenCompleted).await;
        assert!(lost.iter().all(|answer| *answer == case.held_for(LEASE_S)), "{lost:?}");
        case.complete(&claim_by(winner)).await.unwrap();
    }
}

pub(super) async fn only_the_owner_completes(case: ClaimsCase) {
    case.claim(&claim_by(7)).await;
    let claims: Vec<Claim> = (0..CLAIMANTS).map(claim_by).collect();
    let completed = join_all(claims.iter().map(|claim| case.complete(claim))).await;
    for (owner, completed) in completed.into_iter().enumerate() {
        let expected = if owner == 7 { Ok(()) } else { Err(ClaimsError::NotOwner) };
        assert_eq!(completed, expected, "{owner}");
    }
}
