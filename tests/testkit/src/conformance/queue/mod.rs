//! The queue port's contract.

mod batches;
mod case;
mod clock;
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
    pub queue: Arc<dyn Queue>,
    /// The queue's clock.
    pub clock: SharedClock,
    /// Moves the clock forward.
    pub advance: Advance,
    /// The clock itself, if it is the queue's only one. A service keeps its own time, which is never set back.
    pub local_clock: Option<Arc<ManualClock>>,
    /// Resources that must live as long as the fixture.
    pub keep: Keep,
}

/// The queues that the cases use. A fixture must create their dead-letter queues as well.
pub const QUEUES: [QueueName; 4] =
    [QueueName::Events, QueueName::Channels, QueueName::Files, QueueName::Stats];

/// The scope of a deduplication id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupScope {
    Queue,
    /// The message group, as in SQS's high-throughput queues. Both the id and the group are derived from the
    /// event, so no code depends on the difference.
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/high-throughput-fifo.html>
    Group,
}

/// When a receipt becomes void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReceiptEnd {
    /// When its lease ends: SQS FIFO reports that the receipt handle has expired.
    Lease,
    /// When its message is received once more: a limitation of an emulator (ministack 1.5).
    NextReceive,
    /// When its message is acked: a limitation of an emulator (LocalStack 4.5). Until then an old receipt
    /// changes the current lease.
    Ack,
}

/// The messages of its group that a returned message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnedMessageWaits {
    /// The invisible messages before it: SQS delivers a group up to its first invisible message.
    ForEarlierMessages,
    /// Also the messages behind it: a limitation of an emulator (ministack 1.5).
    ForAll,
    /// No message, and the messages behind it are delivered with it: a limitation of an emulator (LocalStack
    /// 4.5).
    ForNone,
}

/// The permitted differences between backends.
#[derive(Debug, Clone, Copy)]
pub struct QueueTraits {
    /// The maximum number of messages that one receive returns, even if it asks for more.
    pub max_receive: usize,
    /// Whether [`Queue::depth`] reports the age of the oldest message. Its counts are exact on every backend,
    /// at the latest after [`Queue::depth_lag`].
    pub reports_age: bool,
    /// The largest body that a message may have.
    pub max_message_bytes: usize,
    /// The smallest step of time that the backend can distinguish: the calls between two steps must take
    /// less. A millisecond if the clock is manual; on a real clock, enough for a few calls on a busy machine.
    pub moment: Duration,
    /// How long a message may stay invisible after the end of its lease or of its delay.
    pub expiry_lag: Duration,
    /// The maximum difference between the backend's clock and the fixture's. Zero if they are the same.
    pub clock_skew: Duration,
    /// The scope of a deduplication id.
    pub dedup_scope: DedupScope,
    /// When a receipt becomes void.
    pub receipt_end: ReceiptEnd,
    /// Whether a second ack is an error. SQS does not document that it is.
    pub ack_twice_is_refused: bool,
    /// The messages that a returned message waits for.
    pub returned_message_waits: ReturnedMessageWaits,
    /// How the cases are run.
    pub pace: SuitePace,
}

impl QueueTraits {
    /// The contract at its strictest, for a queue on a clock that a test moves.
    pub const STRICTEST: Self = Self {
        max_receive: usize::MAX,
        reports_age: true,
        max_message_bytes: MAX_MESSAGE_BYTES,
        moment: Duration::from_millis(1),
        expiry_lag: Duration::ZERO,
        clock_skew: Duration::ZERO,
        dedup_scope: DedupScope::Queue,
        receipt_end: ReceiptEnd::Lease,
        ack_twice_is_refused: true,
        returned_message_waits: ReturnedMessageWaits::ForEarlierMessages,
        pace: SuitePace::ONE_BY_ONE,
    };
}

/// An [`Advance`] that moves a manual clock.
pub fn advance(clock: Arc<ManualClock>) -> Advance {
    Box::new(move |by| {
        let clock = Arc::clone(&clock);
        Box::pin(async move { clock.advance(by) })
    })
}

/// Runs every case on its own fixture.
///
/// # Panics
/// If a case fails, with the names of all failed cases.
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
            a_message_sent_meanwhile_comes_behind_returned_messages,
            a_thousand_groups_are_each_received_in_order,
        },
        visibility::{
            an_expired_message_is_received_again_with_the_same_id,
            an_expired_batch_is_received_again_in_order,
            a_zero_visibility_timeout_returns_a_message_at_once,
            a_longer_visibility_timeout_keeps_a_message_invisible,
            a_backing_off_head_blocks_its_tail_and_nothing_else,
            a_returned_head_comes_without_its_leased_tail,
            a_message_received_with_a_zero_timeout_is_visible_at_once,
        },
        receipts::{
            a_receipt_is_void_after_the_next_receive,
            a_receipt_is_void_when_its_lease_ends,
            a_receipt_is_void_after_its_message_was_returned,
            a_receipt_is_void_after_its_ack,
            a_made_up_receipt_is_void,
            a_receipt_is_void_on_another_queue,
        },
        dead_letters::{a_message_received_too_often_becomes_a_dead_letter},
        clock::{
            a_lease_lasts_no_longer_because_a_clock_was_hours_ahead,
            a_lease_outlives_a_small_step_back_of_the_clock,
            a_message_of_a_clock_that_was_ahead_does_not_wait_for_it,
            an_id_is_remembered_after_a_small_step_back_and_forgotten_after_hours,
            no_lease_is_longer_than_the_maximum,
        },
        delay::{
            a_delayed_message_is_invisible_for_exactly_the_queues_delay,
            delays_keep_the_order_of_a_group,
            a_delay_applies_only_once,
        },
        long_poll::{
            a_send_wakes_a_waiting_receive,
            an_ack_wakes_a_receive_that_waits_for_the_tail,
            a_returned_message_wakes_a_waiting_receive,
            a_message_becoming_visible_ends_the_wait,
            a_delayed_message_ends_the_wait,
            a_wait_without_messages_ends_in_time,
            two_waiting_receives_do_not_share_a_message,
            a_dropped_receive_loses_nothing,
            a_receive_dropped_while_waiting_loses_nothing,
        },
        batches::{
            a_queue_is_ready,
            empty_batches_are_accepted,
            a_too_large_message_is_refused_and_its_neighbours_are_sent,
            the_largest_message_arrives_whole,
            any_text_arrives_as_it_was_sent,
            a_receive_returns_no_more_than_requested,
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
            every_message_is_counted_by_its_state,
            a_delayed_message_is_counted_as_delayed,
            a_backing_off_message_is_in_flight_and_an_expired_one_waits,
            the_age_is_that_of_the_oldest_message,
        },
    ];
    let case = || {
        let making = fixture();
        async move { QueueCase { fixture: making.await, traits } }
    };
    run_paced(cases, traits.pace, case).await;
}
