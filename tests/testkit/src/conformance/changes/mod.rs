//! The changes port's contract.

mod case;
mod cursors;
mod following;
mod interleaving;

use std::sync::Arc;

use ports::archive::Archive;
use ports::changes::Changes;
use ports::clock::ManualClock;

use super::run::{cases, run_paced};
use super::{Keep, SuitePace};
use case::ChangesCase;

/// An empty archive and what changes in it.
pub struct ChangesFixture {
    /// The archive.
    pub archive: Arc<dyn Archive>,
    /// Its changes.
    pub changes: Arc<dyn Changes>,
    /// The time of both.
    pub clock: Arc<ManualClock>,
    /// What must live as long.
    pub keep: Keep,
}

/// What a backend may do differently.
#[derive(Debug, Clone, Copy)]
pub struct ChangesTraits {
    /// Whether it answers the messages themselves, each change once, and counts what is left. Otherwise it answers spans, which
    /// come again for some hours.
    pub by_row: bool,
    /// Histories that are played at random, and steps in each.
    pub histories: (u64, usize),
    /// How fast the cases are run.
    pub pace: SuitePace,
}

impl ChangesTraits {
    /// On this machine.
    pub const LOCAL: Self = Self { by_row: true, histories: (16, 100), pace: SuitePace::ONE_BY_ONE };
}

/// Runs every case on a fixture of its own.
///
/// # Panics
/// With the names of the cases that fail.
pub async fn suite<Making: Future<Output = ChangesFixture>>(
    traits: ChangesTraits,
    mut fixture: impl FnMut() -> Making,
) {
    let cases = cases![
        following::{
            nothing_has_changed_in_an_empty_archive,
            what_was_written_is_found,
            what_is_written_again_is_found_again,
            what_was_erased_is_removed,
            messages_alone_are_followed,
            a_batch_is_no_longer_than_its_limit,
            what_is_left_is_counted,
            where_something_was_written_is_known,
            what_passes_hides_no_message,
        },
        cursors::{
            a_cursor_survives_being_stored,
            a_cursor_that_is_not_of_the_archive_means_to_rebuild,
            a_lost_batch_comes_again,
            two_followers_do_not_know_of_each_other,
        },
        interleaving::{
            a_follower_ends_equal_to_the_archive,
            a_follower_beside_many_writers_ends_equal_to_the_archive,
        },
    ];
    run_paced(cases, traits.pace, || {
        let making = fixture();
        async move { ChangesCase::begin(making.await, traits).await }
    })
    .await;
}
