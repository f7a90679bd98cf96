//! The claims port's contract.

mod case;
mod claiming;
mod concurrency;
mod ending;
mod expiry;

use std::sync::Arc;

use ports::claims::Claims;
use ports::clock::ManualClock;

use super::run::{cases, run_paced};
use super::{Keep, SuitePace};
use case::ClaimsCase;

/// An empty table.
pub struct ClaimsFixture {
    /// The table.
    pub claims: Arc<dyn Claims>,
    /// The clock of leases and rows. It is at a whole second.
    pub clock: Arc<ManualClock>,
    /// Resources that must live as long as the fixture.
    pub keep: Keep,
}

/// Runs every case on its own fixture.
///
/// # Panics
/// If a case fails, with the names of all failed cases.
pub async fn suite<Making: Future<Output = ClaimsFixture>>(mut fixture: impl FnMut() -> Making) {
    let cases = cases![
        claiming::{
            a_table_is_ready,
            a_claim_is_held_until_its_lease_ends,
            an_owner_can_claim_again,
            a_released_claim_is_free_at_once,
            claims_of_other_keys_are_independent,
            the_subject_of_a_claim_may_be_unknown,
        },
        ending::{
            a_completed_claim_is_done,
            a_completed_claim_can_be_taken_explicitly,
            an_owner_that_took_a_completed_claim_can_claim_again,
            a_zombie_changes_nothing,
            an_absent_claim_has_no_owner,
            completing_twice_is_completing_once,
            releasing_twice_is_releasing_once,
            a_completed_claim_is_not_released_or_renewed,
        },
        expiry::{
            a_lease_that_has_ended_is_taken,
            a_lease_lasts_no_longer_because_a_clock_was_hours_ahead,
            no_lease_is_longer_than_the_maximum,
            a_renewed_lease_holds,
            a_lease_that_has_ended_is_renewed_if_no_other_process_took_it,
            a_part_of_a_second_counts_as_one,
            a_completion_counts_until_its_ttl_ends,
            the_ttl_of_a_row_starts_at_its_completion,
            a_renewed_claim_outlives_its_first_ttl,
            an_expired_row_is_claimed_by_one_of_many,
        },
        concurrency::{
            one_of_many_claimants_claims,
            one_of_many_takes_over_the_claim_of_a_dead_owner,
            one_of_many_takes_a_completed_claim,
            only_the_owner_completes,
        },
    ];
    run_paced(cases, SuitePace::ONE_BY_ONE, || {
        let making = fixture();
        async { ClaimsCase { fixture: making.await } }
    })
    .await;
}
