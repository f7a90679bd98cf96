//! The queue port's contract.

mod batches;
mod case;
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
use ports::clock::{ManualClock, SharedClock};
use ports::queue::{MAX_MESSAGE_BYTES, Queue, QueueName};

use super::run::{cases, run_paced};
use super::{Keep, SuitePace};
use case::QueueCase;

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

/// The queues that the cases use, of which a fixture has to make the dead-letter queues as well.
pub const QUEUES: [QueueName; 4] =
    [QueueName::Events, QueueName::Channels, QueueName::Files, QueueName::Stats];

/// What a deduplication id is unique within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupScope {
    /// The queue.
    Queue,
    /// The message group: what SQS offers to queues of high throughput. An id is made of the event that also decides the
    /// group, so nothing depends on it.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/high-throughput-fifo.html>
    Group,
}

/// When a receipt can do nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReceiptEnd {
    /// When its lease ends: SQS FIFO says that the receipt handle has expired.
    Lease,
    /// When its message is received once more: an emulator's blind spot (ministack 1.5).
    NextReceive,
    /// When its message is acked: an emulator's blind spot (LocalStack 4.5). Until then a receipt of before changes the
    /// lease of now.
    Ack,
}

/// What a message that was given back waits for in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenBackWaits {
    /// For the invisible messages before it: SQS delivers a group up to its first invisible message.
    ForThoseBefore,
    /// For those behind it as well: an emulator's blind spot (ministack 1.5).
    ForAll,
    /// For none of them, and those behind it come with it: an emulator's blind spot (LocalStack 4.5).
    ForNone,
}

/// What a backend may do differently.
#[derive(Debug, Clone, Copy)]
pub struct QueueTraits {
    /// The most messages one receive returns, however many were asked for.
    pub max_receive: usize,
    /// Whether [`Queue::depth`] tells the age of the oldest message. What it counts is exact on every backend, at the
    /// latest after [`Queue::depth_lag`].
    pub tells_age: bool,
    /// The largest body that a message may have.
    pub max_message_bytes: usize,
    /// The smallest step of time that can be told from none: what happens between two steps must take less. A
    /// millisecond if time stands still; if it goes on, ample for a few calls on a busy machine.
    pub moment: Duration,
    /// How long after the end of its lease or of its delay a message may still be held back.
    pub expiry_lag: Duration,
    /// How far the backend's clock may be off the fixture's. Zero where it is the same one.
    pub clock_skew: Duration,
    /// What a deduplication id is unique within.
    pub dedup_scope: DedupScope,
    /// When a receipt can do nothing any more.
    pub receipt_end: ReceiptEnd,
    /// Whether a second ack is told that there is nothing left to ack. SQS does not say that it tells.
    pub ack_twice_is_refused: bool,
    /// What a message that was given back waits for.
    pub given_back_waits: GivenBackWaits,
    /// How the cases are run.
    pub pace: SuitePace,
}

impl QueueTraits {
    /// The contract at its strictest, for a queue on a clock that a test moves.
    pub const STRICTEST: Self = Self {
        max_receive: usize::MAX,
        tells_age: true,
        max_message_bytes: MAX_MESSAGE_BYTES,
        moment: Duration::from_millis(1),
        expiry_lag: Duration::ZERO,
        clock_skew: Duration::ZERO,
        dedup_scope: DedupScope::Queue,
        receipt_end: ReceiptEnd::Lease,
        ack_twice_is_refused: true,
        given_back_waits: GivenBackWaits::ForThoseBefore,
        pace: SuitePace::ONE_BY_ONE,
    };
}

/// Moves a clock that a test moves.
pub fn advance(clock: Arc<ManualClock>) -> Advance {
    Box::new(move |by| {
        let clock = Arc::clone(&clock);
        Box::pin(async move { clock.advance(by) })
    })
}

/// Runs every case on a fixture of its own.
///
/// # Panics
/// With the names of the cases that fail.
pub async fn suite<Making: Future<Output = QueueFixture>>(
    traits: QueueTraits,
    mut fixture: impl FnMut() -> Making,
) {
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
        dedup::{
            a_duplicate_is_accepted_and_not_delivered,
            an_id_is_remembered_after_its_ack,
            an_id_is_forgotten_exactly_when_the_window_has_passed,
            a_duplicate_does_not_prolong_the_window,
            an_id_is_remembered_for_one_queue_only,
            an_id_is_remembered_within_its_scope,
            a_duplicate_within_a_batch_is_dropped,
            a_refused_message_leaves_no_id_behind,
        },
        depth::{
            an_empty_queue_has_no_depth,
            every_message_is_counted_where_it_is,
            a_delayed_message_is_counted_as_delayed,
            a_backing_off_message_is_in_flight_and_an_expired_one_waits,
            the_oldest_message_gives_the_age,
        },
    ];
    let case = || {
        let making = fixture();
        async move { QueueCase::new(making.await, traits) }
    };
    run_paced(cases, traits.pace, case).await;
}
