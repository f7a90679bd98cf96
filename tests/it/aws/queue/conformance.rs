//! The port's contract on a stack.

use std::time::Duration;

use ports::clock::{Clock, SharedClock, SystemClock, TimestampMs};
use ports::queue::MAX_MESSAGE_BYTES;
use testkit::conformance::SuitePace;
use testkit::conformance::queue::{
    self, DedupScope, GivenBackWaits, QUEUES, QueueFixture, QueueTraits, ReceiptEnd,
};
use tests::harness::stack::{Emulator, Stack};

/// What AWS says about SQS FIFO.
const SQS: QueueTraits = QueueTraits {
    max_receive: 10,
    tells_age: false,
    max_message_bytes: MAX_MESSAGE_BYTES,
    moment: Duration::from_secs(5),
    expiry_lag: Duration::ZERO,
    clock_skew: Duration::from_secs(1),
    dedup_scope: DedupScope::Group,
    receipt_end: ReceiptEnd::Lease,
    ack_twice_is_refused: false,
    given_back_waits: GivenBackWaits::ForThoseBefore,
    // Time really passes: the longest case waits six minutes and receives two thousand times.
    pace: SuitePace { at_once: 16, time_limit: Duration::from_secs(1800) },
};

/// LocalStack 4.5, whose SQS looks at its clock once a second.
const LOCALSTACK: QueueTraits = QueueTraits {
    max_message_bytes: 262_144,
    expiry_lag: Duration::from_secs(3),
    receipt_end: ReceiptEnd::Ack,
    given_back_waits: GivenBackWaits::ForNone,
    ..SQS
};

/// With the blind spots of what plays SQS. If there is one time for all cases and it is moved, they run one by one.
fn traits(emulator: Emulator) -> QueueTraits {
    match emulator {
        Emulator::Unknown => SQS,
        Emulator::LocalStack => LOCALSTACK,
        // It is told to look whenever its time is moved.
        Emulator::LocalStackPackage => {
            QueueTraits { expiry_lag: Duration::ZERO, pace: SuitePace::ONE_BY_ONE, ..LOCALSTACK }
        }
        Emulator::Ministack => QueueTraits {
            receipt_end: ReceiptEnd::NextReceive,
            ack_twice_is_refused: true,
            given_back_waits: GivenBackWaits::ForAll,
            pace: SuitePace::ONE_BY_ONE,
            ..SQS
        },
    }
}

/// The time a stack lives in.
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
            keep: Box::new(()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sqs_queue_conforms() {
    conforms(Stack::with_time_of_its_own()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sqs_queue_conforms_on_a_second_emulator() {
    if let Some(stack) = Stack::second() {
        conforms(stack).await;
    }
}
