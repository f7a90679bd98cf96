//! The archive port's contract.

mod attributes;
mod case;
mod concurrency;
mod deletion;
mod erasure;
mod erasure_facts;
mod guards;
mod hostile;
mod parent_index;
mod queries;
mod settling;

use std::sync::Arc;
use std::time::Duration;

use ports::archive::Archive;
use ports::clock::ManualClock;

use super::Keep;
use super::run::{cases, run_all};
use case::ArchiveCase;

/// An empty archive.
pub struct ArchiveFixture {
    /// The archive.
    pub archive: Arc<dyn Archive>,
    /// Its clock.
    pub clock: Arc<ManualClock>,
    /// What must live as long.
    pub keep: Keep,
}

/// What a backend may do differently.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveTraits {
    /// How long a query of [`ports::archive::Partition::Parent`] may lag behind the writes.
    pub parent_lag: Duration,
    /// Whether such a query has items of one timestamp in the order of their `itemId`. DynamoDB does not say in which
    /// order its indexes have them; each is found once all the same.
    pub orders_equal_timestamps_of_a_parent: bool,
    /// How late the archive may learn that something is erased.
    pub erasure_lag: Duration,
}

impl ArchiveTraits {
    /// An archive on this machine: nothing lags.
    pub const LOCAL: Self = Self {
        parent_lag: Duration::ZERO,
        orders_equal_timestamps_of_a_parent: true,
        erasure_lag: Duration::ZERO,
    };
}

/// Runs every case on a fixture of its own.
///
/// # Panics
/// With the names of the cases that fail.
pub async fn suite(traits: ArchiveTraits, mut fixture: impl FnMut() -> ArchiveFixture) {
    let cases = cases![
        attributes::{
            an_archive_is_ready,
            what_was_never_written_is_not_there,
            a_write_is_seen_by_the_next_get,
            a_register_replaces_and_removes_its_attributes,
            what_is_set_if_absent_is_set_once,
            what_is_set_if_absent_comes_with_a_winning_register_only,
            registers_of_one_item_do_not_touch_each_other,
            every_kind_of_json_value_comes_back,
            items_are_told_apart_by_both_keys,
        },
        guards::{
            always_applies,
            the_greatest_version_stays_in_any_order,
            the_least_version_stays_in_any_order,
            versions_compare_as_text,
            an_unchanged_version_may_be_replaced,
            a_changed_version_is_refused,
            an_absent_register_is_not_any_version,
            a_refused_update_changes_nothing_and_shows_what_is_stored,
            a_refused_update_makes_no_item,
            an_erased_item_refuses_every_update,
            a_repeated_update_changes_nothing,
        },
        queries::{
            items_come_in_the_text_order_of_their_timestamps,
            items_come_newest_first_when_asked,
            pages_join_without_gap_or_overlap,
            a_page_starts_behind_an_item_that_is_gone,
            a_query_ends_before_its_bound_in_both_directions,
            a_bound_and_a_start_hold_together,
            a_partition_is_not_its_prefix,
            an_empty_partition_has_one_empty_page,
            a_query_shows_items_as_they_are_now,
        },
        parent_index::{
            only_items_with_the_parent_are_found,
            an_item_that_gains_a_parent_is_found,
            an_item_that_loses_its_parent_is_not_found,
            items_with_one_timestamp_are_each_found_once,
            a_parent_is_paged_in_both_directions,
            a_parent_ends_before_its_bound_in_both_directions,
            a_parent_is_not_its_prefix,
        },
        settling::{
            a_write_that_loses_brings_what_is_set_if_absent,
            many_writes_settle_each,
            a_write_that_loses_makes_no_item,
        },
        deletion::{
            an_unchanged_item_is_deleted,
            a_changed_item_is_kept,
            an_absent_item_is_not_deleted,
            a_deleted_item_can_be_written_anew,
        },
        erasure::{
            nothing_is_left_of_an_erased_item,
            an_absent_item_is_erased_before_it_comes,
            an_erased_item_is_not_found_by_its_parent,
            an_erased_item_stays_in_its_place,
            a_large_item_is_erased,
            erasing_again_changes_nothing,
            an_item_that_says_more_than_erased_is_erased,
            one_of_many_erasures_is_the_first,
        },
        erasure_facts::{
            nothing_that_a_fact_covers_is_written,
            what_a_fact_does_not_cover_is_written,
            a_fact_that_grows_covers_more,
            a_covered_update_writes_nothing_to_what_is_there,
            what_had_no_content_is_erased_by_a_covered_update,
            what_comes_with_a_covered_update_is_written,
            a_fact_is_known_after_many_writes,
        },
        hostile::{
            any_text_may_be_a_name_or_a_value,
            any_text_may_be_a_key,
            long_text_comes_back_whole,
            an_item_too_large_is_refused_and_nothing_changes,
            deep_nesting_comes_back,
        },
        concurrency::{
            one_writer_wins_each_version,
            the_greatest_of_many_writers_stays,
            the_first_of_many_writers_stays_where_it_is_set_if_absent,
            no_register_of_many_writers_is_lost,
            one_of_many_deleters_deletes,
        },
    ];
    run_all(cases, || ArchiveCase::new(fixture(), traits)).await;
}
