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
mod retention_facts;
mod settling;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use ports::archive::Archive;
use ports::clock::ManualClock;

use super::run::{cases, run_paced};
use super::{Keep, SuitePace};
use case::ArchiveCase;

/// An empty archive.
pub struct ArchiveFixture {
    pub archive: Arc<dyn Archive>,
    pub clock: Arc<ManualClock>,
    /// Resources that must live as long as the fixture.
    pub keep: Keep,
}

/// The permitted differences between backends.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveTraits {
    /// How long a query of [`ports::archive::Partition::Parent`] may lag behind the writes.
    pub parent_lag: Duration,
    /// Whether such a query orders items of equal timestamps by their `itemId`. DynamoDB does not specify the
    /// order in its indexes; each item is still found once.
    pub orders_equal_timestamps_of_a_parent: bool,
    /// How long the archive may take to notice a new erasure fact.
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

/// Runs every case on its own fixture.
///
/// # Panics
/// If a case fails, with the names of all failed cases.
pub async fn suite(traits: ArchiveTraits, mut fixture: impl FnMut() -> ArchiveFixture) {
    let cases = cases![
        attributes::{
            an_archive_is_ready,
            an_unwritten_item_does_not_exist,
            a_write_is_seen_by_the_next_get,
            a_register_replaces_and_removes_its_attributes,
            an_attribute_set_if_absent_is_set_once,
            attributes_set_if_absent_need_a_winning_register,
            registers_of_one_item_do_not_touch_each_other,
            every_kind_of_json_value_is_returned,
            items_are_distinguished_by_both_keys,
        },
        guards::{
            always_applies,
            the_greatest_version_stays_in_any_order,
            the_least_version_stays_in_any_order,
            versions_compare_as_text,
            an_unchanged_version_may_be_replaced,
            a_changed_version_is_refused,
            an_absent_register_is_not_any_version,
            a_refused_update_changes_nothing_and_returns_the_stored_item,
            a_refused_update_makes_no_item,
            an_erased_item_refuses_every_update,
            a_repeated_update_changes_nothing,
        },
        queries::{
            items_are_ordered_by_the_text_of_their_timestamps,
            a_descending_query_returns_the_newest_items_first,
            pages_join_without_gap_or_overlap,
            a_page_can_start_after_an_absent_item,
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
            a_write_that_loses_still_sets_absent_attributes,
            each_of_many_writes_is_settled,
            a_write_that_loses_makes_no_item,
        },
        deletion::{
            an_unchanged_item_is_deleted,
            a_changed_item_is_kept,
            an_absent_item_is_not_deleted,
            a_deleted_item_can_be_written_anew,
        },
        erasure::{
            an_erased_item_keeps_no_other_attribute,
            an_absent_item_can_be_erased_in_advance,
            an_erased_item_is_not_found_by_its_parent,
            an_erased_item_stays_in_its_partition,
            a_large_item_is_erased,
            erasing_again_changes_nothing,
            an_erased_item_with_other_attributes_is_cleared,
            one_of_many_erasures_is_the_first,
        },
        erasure_facts::{
            covered_updates_are_not_written,
            updates_that_no_fact_covers_are_written,
            a_fact_that_grows_covers_more,
            a_covered_update_does_not_change_a_stored_item,
            an_item_without_content_is_erased_by_a_covered_update,
            other_updates_of_a_batch_with_a_covered_one_are_written,
            a_fact_is_known_after_many_writes,
        },
        retention_facts::{
            what_has_expired_is_not_written,
            an_item_expires_only_if_a_stored_fact_says_so,
            a_hold_keeps_an_item_until_it_is_released,
            only_the_place_of_a_withheld_message_is_stored,
            nothing_of_a_channel_that_is_out_is_stored,
        },
        hostile::{
            any_text_may_be_a_name_or_a_value,
            any_text_may_be_a_key,
            a_long_text_is_returned_whole,
            an_item_too_large_is_refused_and_nothing_changes,
            an_item_may_have_many_registers,
            deep_nesting_is_returned,
        },
        concurrency::{
            one_writer_wins_each_version,
            the_greatest_of_many_writers_stays,
            the_first_of_many_writers_sets_absent_attributes,
            no_register_of_many_writers_is_lost,
            one_of_many_deleters_deletes,
        },
    ];
    let case = || ready(ArchiveCase { fixture: fixture(), traits });
    run_paced(cases, SuitePace::ONE_BY_ONE, case).await;
}
