//! The port's contract on a stack.

use std::time::Duration;

use ports::clock::{Clock, SharedClock, SystemClock, TimestampMs};
use ports::queue::MAX_MESSAGE_BYTES;
use testkit::conformance::SuitePace;
use testkit::conformance::queue::{
    self, DedupScope, QUEUES, QueueFixture, QueueTraits, ReceiptEnd, ReturnedMessageWaits,
};
use tests::harness::stack::{Emulator, Stack};

/// The documented behavior of SQS FIFO.
const SQS: QueueTraits = QueueTraits {
    max_receive: 10,
    reports_age: false,
    max_message_bytes: MAX_MESSAGE_BYTES,
    moment: Duration::from_secs(5),
    expiry_lag: Duration::ZERO,
    clock_skew: Duration::from_secs(1),
    dedup_scope: DedupScope::Group,
    receipt_end: ReceiptEnd::Lease,
    ack_twice_is_refused: false,
    returned_message_waits: ReturnedMessageWaits::ForEarlierMessages,
    // Time really passes: the longest case waits six minutes and receives two thousand times, and most others
    // only wait.
    pace: SuitePace { at_once: 32, time_limit: Duration::from_secs(1800) },
};

/// LocalStack 4.5, whose SQS checks its clock once a second.
const LOCALSTACK: QueueTraits = QueueTraits {
    max_message_bytes: 262_144,
    expiry_lag: Duration::from_secs(3),
    receipt_end: ReceiptEnd::Ack,
    returned_message_waits: ReturnedMessageWaits::ForNone,
    ..SQS
};

/// The behavior of an emulator of SQS. If all cases share one adjustable clock, they run one by one.
fn traits(emulator: Emulator) -> QueueTraits {
    match emulator {
        Emulator::Unknown => SQS,
        Emulator::LocalStack => LOCALSTACK,
        // The harness makes it check whenever its clock is moved.
        Emulator::LocalStackPackage => {
            QueueTraits { expiry_lag: Duration::ZERO, pace: SuitePace::ONE_BY_ONE, ..LOCALSTACK }
        }
        Emulator::Ministack => QueueTraits {
            receipt_end: ReceiptEnd::NextReceive,
            ack_twice_is_refused: true,
            returned_message_waits: ReturnedMessageWaits::ForAll,
            pace: SuitePace::ONE_BY_ONE,
            ..SQS
        },
    }
}

struct StackClock(&'static Stack);

impl Clock for StackClock {
    fn now(&self) -> TimestampMs {
        SystemClock.now().plus(self.0.ahead())
    }
}

async fn conforms(stack: &'static Stack) {
    queue::suite(traits(stack.emulator()), || async {
        QueueFixture {
            queue: super::provisioned(stack, &QUEUES).await.queue(),
            clock: std::sync::Arc::new(StackClock(stack)) as SharedClock,
            advance: Box::new(move |by| Box::pin(stack.advance(by))),
            local_clock: None,
            keep: Box::new(()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sqs_queue_conforms() {
    conforms(Stack::with_own_clock()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sqs_queue_conforms_on_a_second_emulator() {
    if let Some(stack) = Stack::second_emulator() {
        conforms(stack).await;
    }
}
