//! The files port's contract.

mod case;
mod concurrency;
mod deletion;
mod keys;
mod publishing;
mod reading;

use std::sync::Arc;

use ports::files::Files;

use super::Keep;
use super::run::{cases, run_all};
use case::FilesCase;

/// An empty store.
pub struct FilesFixture {
    /// The store.
    pub files: Arc<dyn Files>,
    /// What must live as long.
    pub keep: Keep,
}

/// How a store keeps a file from being replaced by one that is published at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// The look and the write are one step.
    Atomic,
    /// It looks for the file first and writes later, without a lock, so that a file that many publish at once may be torn: an
    /// emulator's blind spot.
    LooksFirst,
}

/// Runs every case on a fixture of its own.
///
/// # Panics
/// With the names of the cases that fail.
pub async fn suite(creation: Creation, mut fixture: impl FnMut() -> FilesFixture) {
    let mut cases = cases![
        reading::{
            a_store_is_ready,
            what_was_never_written_is_not_there,
            an_empty_file_is_a_file,
            bytes_come_back_whatever_the_chunks,
            many_mebibytes_come_back,
            a_file_is_read_by_many_at_once,
        },
        publishing::{
            nothing_is_visible_before_it_is_published,
            a_dropped_writer_leaves_nothing,
            what_is_there_is_never_replaced,
            a_file_that_is_being_read_stays_whole,
            a_writer_that_lost_can_be_followed_by_another,
        },
        deletion::{
            a_deleted_file_is_gone,
            a_file_is_deleted_alone,
            a_deleted_file_can_be_written_anew,
        },
        concurrency::{
            files_written_at_once_do_not_mix,
        },
        keys::{
            keys_that_begin_alike_are_told_apart,
            the_longest_key_is_a_key,
            an_image_is_known_by_its_url,
        },
    ];
    if creation == Creation::Atomic {
        cases.extend(cases![concurrency::{ one_of_many_publishers_is_new }]);
    }
    run_all(cases, || FilesCase { fixture: fixture() }).await;
}
