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
    /// Says when leases and rows end. It stands on a whole second.
    pub clock: Arc<ManualClock>,
    /// What must live as long.
    pub keep: Keep,
}

/// Runs every case on a fixture of its own.
///
/// # Panics
/// With the names of the cases that fail.
pub async fn suite<Making: Future<Output = ClaimsFixture>>(mut fixture: impl FnMut() -> Making) {
    let cases = cases![
        claiming::{
            a_table_is_ready,
            a_claim_is_held_until_its_lease_ends,
            an_owner_finds_itself,
            what_is_released_is_free_at_once,
            claims_of_other_keys_do_not_matter,
            what_a_claim_is_about_may_be_unknown,
        },
        ending::{
            a_completed_claim_is_done,
            a_completed_claim_is_taken_by_who_knows_better,
            an_owner_that_took_a_completed_claim_finds_itself,
            a_zombie_changes_nothing,
            a_claim_that_is_gone_has_no_owner,
            completing_twice_is_completing_once,
            releasing_twice_is_releasing_once,
            what_is_completed_is_not_released_or_renewed,
        },
        expiry::{
            a_lease_that_has_ended_is_taken,
            a_renewed_lease_holds,
            a_lease_that_has_ended_is_renewed_if_no_other_process_took_it,
            a_part_of_a_second_counts_as_one,
            what_was_completed_counts_until_its_time_is_over,
            the_time_of_a_row_counts_from_its_completion,
            what_is_renewed_outlives_its_first_time,
            a_row_whose_time_is_over_is_taken_by_many_as_by_one,
        },
        concurrency::{
            one_of_many_claimants_claims,
            one_of_many_takes_over_what_a_dead_one_held,
            one_of_many_takes_what_was_completed,
            of_many_owners_one_completes,
        },
    ];
    run_paced(cases, SuitePace::ONE_BY_ONE, || {
        let making = fixture();
        async { ClaimsCase { fixture: making.await } }
    })
    .await;
}
