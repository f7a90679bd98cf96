//! The existence port's contract.

mod rows;

use std::sync::Arc;

use ports::clock::SharedClock;
use ports::existence::Existence;

use super::Keep;
use super::run::{SuitePace, cases, run_paced};

/// An empty cache.
pub struct ExistenceFixture {
    /// The cache.
    pub existence: Arc<dyn Existence>,
    /// The clock of the cache.
    pub clock: SharedClock,
    /// Resources that must live as long as the fixture.
    pub keep: Keep,
}

/// Runs every case on its own fixture.
///
/// # Panics
/// If a case fails, with the names of all failed cases.
pub async fn suite<Making: Future<Output = ExistenceFixture>>(fixture: impl FnMut() -> Making) {
    let cases = cases![rows::{
        a_cache_is_ready,
        an_unknown_key_has_no_row,
        a_row_is_returned_as_it_was_stored,
        rows_come_in_the_order_of_the_keys,
        the_last_row_of_a_key_stays,
        keys_with_a_common_prefix_are_distinct,
        hundreds_of_rows_come_back,
        empty_batches_are_accepted,
        an_expired_row_does_not_count_even_if_it_is_still_stored,
        one_of_many_writers_wins,
    }];
    run_paced(cases, SuitePace::ONE_BY_ONE, fixture).await;
}
