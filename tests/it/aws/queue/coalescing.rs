//! The number of calls that single sends make.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ports::queue::{Queue, QueueName};
use tests::harness::proxy::Proxy;
use tests::harness::stack::Stack;
use tokio::task::JoinSet;

use super::answers::message;

const EVENTS: u32 = 1_000;
/// Connections from Slack to one ingest process.
const CONNECTIONS: u32 = 64;
/// Channels with concurrent messages.
const CHANNELS: u32 = 100;
/// A call with ten messages is charged as one, so full batches would be a hundred calls.
const MOST_CALLS: usize = 150;

async fn send_all(queue: &Arc<dyn Queue>) {
    let next = Arc::new(AtomicU32::new(0));
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (queue, next) = (Arc::clone(queue), Arc::clone(&next));
        connections.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= EVENTS {
                    return;
                }
                let message = message(&format!("C{}", number % CHANNELS), &format!("message {number}"));
                assert_eq!(queue.send(vec![message]).await, [Ok(())]);
            }
        });
    }
    connections.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_single_sends_make_few_calls() {
    assert_few_calls_for_single_sends(Stack::shared()).await;
    if let Some(stack) = Stack::second_emulator() {
        assert_few_calls_for_single_sends(stack).await;
    }
}

async fn assert_few_calls_for_single_sends(stack: &Stack) {
    let proxy = Proxy::in_front_of(stack.endpoint(), 0).await;
    let names = super::provisioned(stack, &[QueueName::Events]).await.names().clone();
    let queue = stack.aws_at(&proxy.endpoint, names).await.queue();
    send_all(&queue).await;

    assert_eq!(queue.depth(QueueName::Events.into()).await.unwrap().waiting, u64::from(EVENTS));
    let calls = proxy.requests()["SendMessageBatch"];
    assert!(calls <= MOST_CALLS, "{calls} calls for {EVENTS} events");
    assert!(calls >= EVENTS as usize / 10, "{calls} calls cannot have carried {EVENTS} events");
    assert!(!proxy.requests().contains_key("SendMessage"));
    assert_eq!(proxy.requests()["GetQueueUrl"], 1);
}
