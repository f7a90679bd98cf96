//! A queue with injected faults.

use std::time::Duration;

use async_trait::async_trait;
use ports::queue::{
    BatchResult, Delivery, Depth, Outgoing, Queue, QueueError, QueueRef, Receipt, ReceiveRequest,
};

use super::plan::{CallFault, PortMethod, REASON};
use super::port::FaultyPort;

/// A queue with injected faults.
pub type FaultyQueue = FaultyPort<dyn Queue>;

impl FaultyQueue {
    /// Makes a batch call: `done` runs it with the remaining entries.
    async fn batch<T, F>(
        &self,
        method: PortMethod,
        mut entries: Vec<T>,
        done: impl FnOnce(Vec<T>) -> F,
    ) -> BatchResult
    where
        F: Future<Output = BatchResult>,
    {
        let entry_count = entries.len();
        let results = match self.schedule.before(method, entry_count).await {
            None => done(entries).await,
            Some(CallFault::Delay(by)) => {
                tokio::time::sleep(by).await;
                done(entries).await
            }
            Some(CallFault::FailBefore) => vec![Err(failed()); entry_count],
            Some(CallFault::FailAfter) => {
                drop(done(entries).await);
                vec![Err(failed()); entry_count]
            }
            Some(CallFault::FailEntry(entry)) if entry < entry_count => {
                entries.remove(entry);
                let mut results = done(entries).await;
                results.insert(entry, Err(failed()));
                results
            }
            Some(CallFault::FailEntry(_)) => done(entries).await,
        };
        self.schedule.after(method).await;
        results
    }
}

fn failed() -> QueueError {
    QueueError::Unavailable(REASON.into())
}

#[async_trait]
impl Queue for FaultyQueue {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        self.batch(PortMethod::Send, messages, |messages| self.inner.send(messages)).await
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        self.call(PortMethod::Receive, QueueError::Unavailable, self.inner.receive(request)).await
    }

    async fn change_visibility(&self, queue: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult {
        let change = |entries: Vec<_>| async move { self.inner.change_visibility(queue, &entries).await };
        self.batch(PortMethod::ChangeVisibility, entries.to_vec(), change).await
    }

    async fn ack(&self, queue: QueueRef, receipts: &[Receipt]) -> BatchResult {
        let ack = |receipts: Vec<_>| async move { self.inner.ack(queue, &receipts).await };
        self.batch(PortMethod::Ack, receipts.to_vec(), ack).await
    }

    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError> {
        self.call(PortMethod::Depth, QueueError::Unavailable, self.inner.depth(queue)).await
    }

    async fn ready(&self) -> Result<(), QueueError> {
        self.call(PortMethod::Ready, QueueError::Unavailable, self.inner.ready()).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ports::clock::{ManualClock, TimestampMs};
    use ports::queue::{DedupId, GroupId, QueueName};

    use super::*;
    use crate::faults::FaultPlan;
    use crate::memory::queue::MemoryQueue;

    const EVENTS: QueueName = QueueName::Events;

    fn messages(bodies: &[&str]) -> Vec<Outgoing> {
        let message = |body: &&str| Outgoing {
            queue: EVENTS,
            group: GroupId::from_parts(&["g"]),
            dedup: DedupId::from_parts(&[body.as_bytes()]),
            body: (*body).to_owned(),
        };
        bodies.iter().map(message).collect()
    }

    /// Sends three messages under a plan. Returns the results and the number of messages in the queue.
    async fn send_three(plan: FaultPlan) -> (BatchResult, u64) {
        let queue =
            FaultyQueue::new(Arc::new(MemoryQueue::new(ManualClock::starting_at(TimestampMs(0)))), plan);
        let results = queue.send(messages(&["1", "2", "3"])).await;
        let depth = queue.depth(EVENTS.into()).await.unwrap();
        (results, depth.waiting)
    }

    #[tokio::test]
    async fn a_call_fails_before_or_after_its_effect_or_in_one_entry() {
        let lost = || Err(failed());
        assert_eq!(send_three(FaultPlan::none()).await, (vec![Ok(()); 3], 3));
        assert_eq!(send_three(FaultPlan::fail_before(1)).await, (vec![lost(); 3], 0));
        assert_eq!(send_three(FaultPlan::fail_after(1)).await, (vec![lost(); 3], 3));
        assert_eq!(send_three(FaultPlan::fail_before(3)).await, (vec![Ok(()); 3], 3));
        let entry = FaultPlan::none().with_rule(PortMethod::Send, 1..=1, CallFault::FailEntry(1));
        assert_eq!(send_three(entry).await, (vec![Ok(()), lost(), Ok(())], 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_call_is_done_later() {
        let began = tokio::time::Instant::now();
        let minute = Duration::from_secs(60);
        let plan = FaultPlan::none().with_rule(None, 1..=1, CallFault::Delay(minute));
        assert_eq!(send_three(plan).await, (vec![Ok(()); 3], 3));
        assert_eq!(began.elapsed(), minute);
    }
}
