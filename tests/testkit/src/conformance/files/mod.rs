//! The files port's contract.

mod case;
mod concurrency;
mod deletion;
mod keys;
mod listing;
mod publishing;
mod reading;

use std::future::ready;
use std::sync::Arc;

use ports::files::Files;

use super::run::{cases, run_paced};
use super::{Keep, SuitePace};
use case::FilesCase;

/// An empty store.
pub struct FilesFixture {
    pub files: Arc<dyn Files>,
    /// Resources that must live as long as the fixture.
    pub keep: Keep,
}

/// How a store prevents a concurrent publish from replacing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// The check and the write are one atomic step.
    Atomic,
    /// The store checks first and writes later, without a lock, so that concurrent publishes may tear a file:
    /// a limitation of an emulator.
    ChecksFirst,
}

/// Runs every case on its own fixture.
///
/// # Panics
/// If a case fails, with the names of all failed cases.
pub async fn suite(creation: Creation, mut fixture: impl FnMut() -> FilesFixture) {
    let mut cases = cases![
        reading::{
            a_store_is_ready,
            an_unwritten_file_does_not_exist,
            an_empty_file_is_a_file,
            bytes_are_returned_for_any_chunk_size,
            many_mebibytes_are_returned,
            a_file_can_be_read_concurrently,
        },
        publishing::{
            a_file_is_invisible_before_it_is_published,
            a_dropped_writer_leaves_nothing,
            a_published_file_is_never_replaced,
            a_file_that_is_being_read_stays_whole,
            a_writer_that_lost_can_be_followed_by_another,
        },
        deletion::{
            a_deleted_file_is_gone,
            a_file_is_deleted_alone,
            a_deleted_file_can_be_written_anew,
        },
        listing::{
            every_published_file_is_listed_once_with_its_length,
            a_list_continues_after_any_key,
        },
        concurrency::{
            files_written_at_once_do_not_mix,
        },
        keys::{
            keys_with_a_common_prefix_are_distinct,
            the_longest_key_is_accepted,
            an_image_is_identified_by_its_url,
        },
    ];
    if creation == Creation::Atomic {
        cases.extend(cases![concurrency::{ one_of_many_publishers_is_new }]);
    }
    run_paced(cases, SuitePace::ONE_BY_ONE, || ready(FilesCase { fixture: fixture() })).await;
}
