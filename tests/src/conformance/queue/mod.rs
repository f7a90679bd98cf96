//! The queue port's contract.

mod batches;
mod bench;
mod dead_letters;
mod dedup;
mod delay;
mod depth;
mod long_poll;
mod ordering;
mod receipts;
mod visibility;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use shared::clock::SharedClock;
use shared::queue::Queue;

use super::Keep;
use super::run::{cases, run_all};
use bench::Bench;

/// Moves the backend's time forward: a manual clock does so at once, a real backend has to wait.
pub type Advance = Box<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// An empty queue and its time.
pub struct QueueFixture {
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// The time it lives in.
    pub clock: SharedClock,
    /// Moves that time.
    pub advance: Advance,
    /// What must live as long.
    pub keep: Keep,
}

/// What a backend may do differently.
#[derive(Debug, Clone, Copy)]
pub struct QueueTraits {
    /// The most messages one receive returns, however many were asked for.
    pub max_receive: usize,
    /// Whether [`Queue::depth`] is exact; else it is only asked whether anything is there.
    pub exact_depth: bool,
}

/// Runs every case on a fixture of its own.
///
/// # Panics
/// With the names of the cases that fail.
pub async fn suite(traits: QueueTraits, mut fixture: impl FnMut() -> QueueFixture) {
    let cases = cases![
        ordering::{
            a_group_is_received_in_the_order_it_was_sent,
            a_group_waits_for_its_first_message,
            groups_do_not_wait_for_each_other,
            queues_do_not_wait_for_each_other,
            several_groups_in_one_batch_keep_their_orders,
            a_half_acked_batch_waits_for_its_first_message,
            what_is_sent_meanwhile_comes_behind_what_is_given_back,
            a_thousand_groups_are_received_each_in_order,
        },
        visibility::{
            an_expired_message_is_the_same_one_received_once_more,
            an_expired_batch_is_received_again_in_order,
            no_time_left_gives_a_message_back_at_once,
            more_time_keeps_a_message,
            a_backing_off_head_blocks_its_tail_and_nothing_else,
            a_returned_head_comes_without_its_leased_tail,
            a_message_received_for_no_time_is_there_at_once,
        },
        receipts::{
            a_receipt_is_void_after_the_next_receive,
            a_receipt_is_void_when_its_time_is_over,
            a_receipt_is_void_when_the_message_was_given_back,
            a_receipt_is_void_after_its_ack,
            a_receipt_that_never_was_is_void,
            a_receipt_is_void_on_another_queue,
        },
        dedup::{
            a_duplicate_is_accepted_and_not_delivered,
            an_id_is_remembered_after_its_ack,
            an_id_is_forgotten_exactly_when_the_window_has_passed,
            a_duplicate_does_not_prolong_the_window,
            an_id_is_remembered_for_one_queue_only,
            an_id_is_remembered_across_groups,
            a_duplicate_within_a_batch_is_dropped,
            a_refused_message_leaves_no_id_behind,
        },
        dead_letters::{a_message_received_too_often_becomes_a_dead_letter},
        delay::{
            a_delayed_message_is_held_back_exactly_as_long_as_the_queue_says,
            delays_keep_the_order_of_a_group,
            a_delay_happens_once,
        },
        long_poll::{
            a_send_wakes_a_waiting_receive,
            an_ack_wakes_a_receive_that_waits_for_the_tail,
            a_message_given_back_wakes_a_waiting_receive,
            a_message_becoming_visible_ends_the_wait,
            a_delayed_message_ends_the_wait,
            a_wait_for_nothing_ends_in_time,
            two_waiting_receives_do_not_share_a_message,
            a_dropped_receive_loses_nothing,
            a_receive_dropped_while_waiting_loses_nothing,
        },
        batches::{
            a_queue_is_ready,
            empty_batches_are_fine,
            a_too_large_message_is_refused_and_its_neighbours_are_sent,
            the_largest_message_arrives_whole,
            any_text_arrives_as_it_was_sent,
            a_receive_returns_no_more_than_asked_for,
            an_ack_has_a_result_for_each_receipt,
            a_change_of_visibility_has_a_result_for_each_entry,
            a_message_carries_the_time_of_its_send,
        },
        depth::{
            an_empty_queue_has_no_depth,
            every_message_is_counted_where_it_is,
            a_delayed_message_is_counted_as_delayed,
            a_backing_off_message_is_in_flight_and_an_expired_one_waits,
            the_oldest_message_gives_the_age,
        },
    ];
    run_all(cases, || Bench::new(fixture(), traits)).await;
}
