//! The port's contract on a stack.

use std::time::Duration;

use shared::clock::{Clock, SharedClock, SystemClock, TimestampMs};
use tests::conformance::Pace;
use tests::conformance::queue::{self, DedupScope, QUEUES, QueueFixture, QueueTraits};
use tests::harness::stack::{Emulator, Stack};

/// What AWS says about SQS FIFO.
const SQS: QueueTraits = QueueTraits {
    max_receive: 10,
    tells_age: false,
    moment: Duration::from_secs(5),
    clock_skew: Duration::from_secs(1),
    dedup_scope: DedupScope::Group,
    receipts_end_with_the_lease: true,
    ack_twice_is_refused: false,
    a_leased_tail_blocks_the_head: false,
    // Time really passes: the longest case waits six minutes and receives two thousand times.
    pace: Pace { at_once: 16, patience: Duration::from_secs(1800) },
};

/// With the blind spots of what plays SQS.
fn traits(emulator: Emulator) -> QueueTraits {
    match emulator {
        Emulator::Unknown => SQS,
        Emulator::LocalStack => {
            QueueTraits { dedup_scope: DedupScope::Nothing, a_leased_tail_blocks_the_head: true, ..SQS }
        }
        Emulator::Ministack => QueueTraits {
            receipts_end_with_the_lease: false,
            ack_twice_is_refused: true,
            a_leased_tail_blocks_the_head: true,
            // One time for all, and it is moved.
            pace: Pace::ONE_BY_ONE,
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

#[tokio::test(flavor = "multi_thread")]
async fn the_sqs_queue_conforms() {
    let stack = Stack::with_time_of_its_own();
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
