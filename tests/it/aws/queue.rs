//! The queue port on SQS.

pub(super) mod answers;
mod calls;
mod coalescing;
mod conformance;
mod faults;

use aws::Aws;
use aws::provision::Parts;
use ports::queue::QueueName;
use tests::harness::stack::Stack;

/// An account with these queues, each with its dead-letter queue.
async fn provisioned(stack: &Stack, queues: &[QueueName]) -> Aws {
    stack.provisioned(Parts { queues, tables: false, bucket: false }).await
}
