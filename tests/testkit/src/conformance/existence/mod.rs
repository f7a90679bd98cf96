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
    /// The time it goes by.
    pub clock: SharedClock,
    /// What must live as long.
    pub keep: Keep,
}

/// Runs every case on a fixture of its own.
///
/// # Panics
/// With the names of the cases that fail.
pub async fn suite<Making: Future<Output = ExistenceFixture>>(fixture: impl FnMut() -> Making) {
    let cases = cases![rows::{
        a_cache_is_ready,
        what_was_never_kept_is_not_there,
        a_row_comes_back_as_it_was_kept,
        rows_come_in_the_order_of_the_keys,
        the_last_row_of_a_key_stays,
        keys_that_begin_alike_are_told_apart,
        hundreds_of_rows_come_back,
        nothing_may_be_asked_and_kept,
        a_row_that_has_expired_does_not_count_whether_it_is_there_or_not,
        of_many_writers_one_stays,
    }];
    run_paced(cases, SuitePace::ONE_BY_ONE, fixture).await;
}
