//! Many at once: every call is one step.

use std::sync::Arc;

use futures_util::future::join_all;
use ports::claims::{Claim, ClaimAnswer, ClaimsError, Take};

use super::case::{ClaimsCase, LEASE_S, by};

const CLAIMANTS: u64 = 16;
const ROUNDS: u64 = 4;

/// Claims at the same time, each in a task of its own; who claimed it, and what the others were told.
async fn claim_at_once(case: &ClaimsCase, first: u64, take: Take) -> (u64, Vec<ClaimAnswer>) {
    let tasks = (first..first + CLAIMANTS).map(|owner| {
        let claims = Arc::clone(&case.fixture.claims);
        tokio::spawn(async move { (owner, claims.claim(&by(owner), take).await.unwrap()) })
    });
    let answers = join_all(tasks).await.into_iter().map(Result::unwrap);
    let (won, lost): (Vec<_>, Vec<_>) = answers.partition(|(_, answer)| *answer == ClaimAnswer::Claimed);
    let [(winner, _)] = won[..] else { panic!("{won:?} claimed it") };
    (winner, lost.into_iter().map(|(_, answer)| answer).collect())
}

pub(super) async fn one_of_many_claimants_claims(case: ClaimsCase) {
    for round in 0..ROUNDS {
        let (winner, lost) = claim_at_once(&case, round * CLAIMANTS, Take::IfFree).await;
        assert!(lost.iter().all(|answer| *answer == case.held_for(LEASE_S)), "{lost:?}");
        case.release(&by(winner)).await.unwrap();
    }
}

pub(super) async fn one_of_many_takes_over_what_a_dead_one_held(case: ClaimsCase) {
    case.claim(&by(1_000)).await;
    for round in 0..ROUNDS {
        case.pass(LEASE_S);
        let (_, lost) = claim_at_once(&case, round * CLAIMANTS, Take::IfFree).await;
        assert!(lost.iter().all(|answer| *answer == case.held_for(LEASE_S)), "{lost:?}");
    }
}

pub(super) async fn one_of_many_takes_what_was_completed(case: ClaimsCase) {
    case.claim(&by(1_000)).await;
    case.complete(&by(1_000)).await.unwrap();
    for round in 0..ROUNDS {
        let (winner, lost) = claim_at_once(&case, round * CLAIMANTS, Take::EvenCompleted).await;
        assert!(lost.iter().all(|answer| *answer == case.held_for(LEASE_S)), "{lost:?}");
        case.complete(&by(winner)).await.unwrap();
    }
}

pub(super) async fn of_many_owners_one_completes(case: ClaimsCase) {
    case.claim(&by(7)).await;
    let claims: Vec<Claim> = (0..CLAIMANTS).map(by).collect();
    let completed = join_all(claims.iter().map(|claim| case.complete(claim))).await;
    for (owner, completed) in completed.into_iter().enumerate() {
        let expected = if owner == 7 { Ok(()) } else { Err(ClaimsError::NotOwner) };
        assert_eq!(completed, expected, "{owner}");
    }
}
