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

/// An empty archive and its change feed.
pub struct ChangesFixture {
    pub archive: Arc<dyn Archive>,
    pub changes: Arc<dyn Changes>,
    /// The clock of both.
    pub clock: Arc<ManualClock>,
    /// Resources that must live as long as the fixture.
    pub keep: Keep,
}

/// The permitted differences between backends.
#[derive(Debug, Clone, Copy)]
pub struct ChangesTraits {
    /// Whether the feed returns the messages themselves, each change once, and counts the remaining ones.
    /// Otherwise it returns spans, and repeats them for some hours.
    pub by_row: bool,
    /// The number of random histories, and of steps in each.
    pub histories: (u64, usize),
    /// The pace of the cases.
    pub pace: SuitePace,
}

impl ChangesTraits {
    /// A backend on this machine.
    pub const LOCAL: Self = Self { by_row: true, histories: (16, 100), pace: SuitePace::ONE_BY_ONE };
}

/// Runs every case on its own fixture.
///
/// # Panics
/// If a case fails, with the names of all failed cases.
pub async fn suite<Making: Future<Output = ChangesFixture>>(
    traits: ChangesTraits,
    mut fixture: impl FnMut() -> Making,
) {
    let cases = cases![
        following::{
            an_empty_archive_has_no_changes,
            a_written_message_is_found,
            a_rewritten_message_is_found_again,
            an_erased_message_is_removed,
            only_messages_are_followed,
            a_batch_is_no_longer_than_its_limit,
            the_remaining_changes_are_counted,
            changed_spans_are_reported,
            short_lived_rows_hide_no_message,
        },
        cursors::{
            a_cursor_survives_being_stored,
            a_cursor_of_another_archive_requires_a_rebuild,
            a_lost_batch_is_returned_again,
            two_followers_are_independent,
        },
        interleaving::{
            a_follower_ends_equal_to_the_archive,
            a_follower_during_concurrent_writes_ends_equal_to_the_archive,
        },
    ];
    run_paced(cases, traits.pace, || {
        let making = fixture();
        async move { ChangesCase::begin(making.await, traits).await }
    })
    .await;
}
