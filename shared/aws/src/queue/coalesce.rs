//! Coalesces single sends into batches: one task per queue collects the messages that arrive while other
//! batches are in flight.
//!
//! SQS charges for calls and limits them. Ingest receives events one by one and answers each only after SQS
//! has accepted it, so without this every event would be a call.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::pending::{Pending, SendBatch, SendEntry, WaitingSend};
use ports::queue::{BatchResult, GroupId};

/// How long a batch that is not full waits for more messages while another batch is in flight.
///
/// If no batch is in flight, a message is sent immediately, so a quiet queue has no extra latency. On a busy
/// queue, the senders whose batch just completed return within about this interval with their next message,
/// and a call to SQS takes about as long anyway. A shorter window splits 64 connections into many small
/// calls; a longer one delays every response without saving calls.
const WINDOW: Duration = Duration::from_millis(5);
/// Maximum number of calls in flight per queue. At 10 ms a call they carry 32,000 messages a second, more
/// than one process produces; they limit the backlog of a slow SQS to 32 MiB.
const MAX_IN_FLIGHT: usize = 32;
/// Maximum number of `send` calls that are queued for the task; further callers wait.
const MAX_CALLS: usize = 64;

/// The pending response of one batch.
pub(super) type Sending = Pin<Box<dyn Future<Output = BatchResult> + Send>>;
/// Sends one batch with one call to SQS.
pub(super) type BatchTransport = Box<dyn Fn(Vec<SendEntry>) -> Sending + Send>;

/// Starts the task of one queue. It receives the messages of a call together, so that a cancelled caller has
/// sent all of them or none. It ends when all senders are dropped and all their messages are sent.
pub(super) fn start_dispatcher(transport: BatchTransport) -> mpsc::Sender<Vec<WaitingSend>> {
    let (sender, calls) = mpsc::channel(MAX_CALLS);
    let dispatcher = Dispatcher {
        transport,
        pending: Pending::default(),
        in_flight: JoinSet::new(),
        groups: HashMap::new(),
        open: true,
    };
    tokio::spawn(dispatcher.run(calls));
    sender
}

struct Dispatcher {
    transport: BatchTransport,
    pending: Pending,
    in_flight: JoinSet<()>,
    /// The message groups of each batch in flight. A group is in one batch only: SQS handles concurrent calls
    /// in any order, and a retried call may arrive after its successor.
    groups: HashMap<Id, Vec<GroupId>>,
    /// Whether there are still senders.
    open: bool,
}

impl Dispatcher {
    async fn run(mut self, mut calls: mpsc::Receiver<Vec<WaitingSend>>) {
        loop {
            // Consider messages together that have arrived together.
            while self.pending.has_room() {
                let Ok(call) = calls.try_recv() else { break };
                self.enqueue(call);
            }
            let next_due = self.send_due_batches();
            if !self.open && self.pending.is_empty() && self.in_flight.is_empty() {
                return;
            }
            tokio::select! {
                call = calls.recv(), if self.open && self.pending.has_room() => match call {
                    Some(call) => self.enqueue(call),
                    None => self.open = false,
                },
                Some(ended) = self.in_flight.join_next_with_id() => {
                    // Even if the task panicked: its callers have received an error, and its groups must
                    // continue.
                    let id = ended.map_or_else(|panicked| panicked.id(), |(id, ())| id);
                    self.groups.remove(&id);
                }
                () = sleep_until(next_due.unwrap_or_else(Instant::now)), if next_due.is_some() => {}
            }
        }
    }

    fn enqueue(&mut self, call: Vec<WaitingSend>) {
        call.into_iter().for_each(|waiting| self.pending.push(waiting));
    }

    /// Starts every batch that is due. Returns when the next one is due if it waits only for its window.
    fn send_due_batches(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.pending.drop_overdue(now);
        while self.in_flight.len() < MAX_IN_FLIGHT {
            let busy: HashSet<GroupId> = self.groups.values().flatten().cloned().collect();
            let batch = self.pending.next_batch(&busy)?;
            let due = batch.since + WINDOW;
            let immediately = batch.full || self.in_flight.is_empty() || !self.open;
            if !immediately && due > now {
                return Some(due);
            }
            self.launch(batch);
        }
        None
    }

    fn launch(&mut self, batch: SendBatch) {
        let (entries, answers): (Vec<_>, Vec<_>) = self
            .pending
            .remove_batch(batch)
            .into_iter()
            .map(|waiting| (waiting.entry, waiting.answer))
            .unzip();
        let groups = entries.iter().map(|entry| entry.group.clone()).collect();
        let sending = (self.transport)(entries);
        let task = self.in_flight.spawn(async move {
            for (answer, result) in answers.into_iter().zip(sending.await) {
                // A caller that was cancelled meanwhile only loses the result.
                drop(answer.send(result));
            }
        });
        self.groups.insert(task.id(), groups);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::sync::oneshot;
    use tokio::time::sleep;

    use super::*;
    use ports::queue::QueueError;

    /// Duration of a call in these tests.
    const CALL: Duration = Duration::from_millis(20);

    /// The batches that were sent, and those in flight.
    #[derive(Default)]
    struct BatchCalls {
        sent: Vec<Vec<String>>,
        groups_in_flight: Vec<GroupId>,
        max_calls_in_flight: usize,
        calls_in_flight: usize,
    }

    type Log = Arc<Mutex<BatchCalls>>;

    /// A transport that takes [`CALL`] for each batch and fails the test if a group is in two concurrent
    /// batches.
    fn coalescer() -> (mpsc::Sender<Vec<WaitingSend>>, Log) {
        let log = Log::default();
        let calls = Arc::clone(&log);
        let transport: BatchTransport = Box::new(move |entries: Vec<SendEntry>| {
            let log = Arc::clone(&calls);
            Box::pin(async move {
                let groups: HashSet<GroupId> = entries.iter().map(|entry| entry.group.clone()).collect();
                {
                    let mut calls = log.lock().unwrap();
                    assert!(
                        groups.iter().all(|group| !calls.groups_in_flight.contains(group)),
                        "a group twice"
                    );
                    calls.groups_in_flight.extend(groups.iter().cloned());
                    calls.calls_in_flight += 1;
                    calls.max_calls_in_flight = calls.max_calls_in_flight.max(calls.calls_in_flight);
                    calls.sent.push(entries.iter().map(|entry| entry.body.clone()).collect());
                }
                sleep(CALL).await;
                let mut calls = log.lock().unwrap();
                calls.groups_in_flight.retain(|group| !groups.contains(group));
                calls.calls_in_flight -= 1;
                // A panic while the lock is held would end the test.
                drop(calls);
                assert_ne!(entries[0].body, "panic", "as ordered");
                vec![Ok(()); entries.len()]
            })
        });
        (start_dispatcher(transport), log)
    }

    type SendResult = oneshot::Receiver<Result<(), QueueError>>;

    fn waiting(group: &str, body: &str) -> (WaitingSend, SendResult) {
        let entry = SendEntry {
            group: GroupId::from_parts(&[group]),
            dedup: body.to_owned(),
            body: body.to_owned(),
            escaped: false,
            bytes: body.len(),
        };
        let (answer, answered) = oneshot::channel();
        let since = Instant::now();
        (WaitingSend { entry, since, deadline: since + Duration::from_secs(2), answer }, answered)
    }

    async fn send(sender: &mpsc::Sender<Vec<WaitingSend>>, messages: &[(&str, &str)]) -> Vec<SendResult> {
        let (call, answers) = messages.iter().map(|(group, body)| waiting(group, body)).unzip();
        sender.send(call).await.unwrap();
        answers
    }

    async fn answered(answers: Vec<SendResult>) {
        for answer in answers {
            assert_eq!(answer.await, Ok(Ok(())));
        }
    }

    fn sent(log: &Log) -> Vec<Vec<String>> {
        log.lock().unwrap().sent.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_message_is_sent_immediately() {
        let (sender, log) = coalescer();
        let began = Instant::now();
        answered(send(&sender, &[("g", "1")]).await).await;
        assert_eq!((sent(&log), began.elapsed()), (vec![vec!["1".to_owned()]], CALL));
    }

    #[tokio::test(start_paused = true)]
    async fn messages_that_arrive_meanwhile_wait_for_more_but_not_long() {
        let (sender, log) = coalescer();
        let mut answers = send(&sender, &[("a", "1")]).await;
        sleep(Duration::from_millis(1)).await;
        let began = Instant::now();
        answers.extend(send(&sender, &[("b", "2")]).await);
        sleep(Duration::from_millis(2)).await;
        answers.extend(send(&sender, &[("c", "3")]).await);
        answered(answers).await;
        assert_eq!(sent(&log), [vec!["1"], vec!["2", "3"]]);
        assert_eq!(began.elapsed(), WINDOW + CALL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_keeps_its_order_across_batches_while_other_groups_overtake_it() {
        let (sender, log) = coalescer();
        let bodies: Vec<String> = (0..25).map(|number| format!("{number:02}")).collect();
        let call: Vec<(&str, &str)> = bodies.iter().map(|body| ("g", body.as_str())).collect();
        let mut answers = send(&sender, &call).await;
        answers.extend(send(&sender, &[("other", "other")]).await);
        answered(answers).await;
        let sent = sent(&log);
        // The other group is sent while the first batch is in flight.
        assert_eq!(sent[1], ["other"]);
        let of_group: Vec<String> = sent.concat().into_iter().filter(|body| body != "other").collect();
        assert_eq!(of_group, bodies);
        assert_eq!(sent.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn many_senders_share_full_batches_with_many_groups_and_with_one() {
        for groups in [64, 7, 1] {
            let (sender, log) = coalescer();
            let mut clients = JoinSet::new();
            for client in 0..64 {
                let sender = sender.clone();
                clients.spawn(async move {
                    let group = format!("g{}", client % groups);
                    for number in 0..20 {
                        answered(send(&sender, &[(&group, &format!("{client}-{number}"))]).await).await;
                    }
                });
            }
            clients.join_all().await;
            let calls = log.lock().unwrap();
            assert_eq!(calls.sent.concat().len(), 64 * 20);
            assert!(calls.sent.len() <= 64 * 20 * 15 / 100, "{groups} groups: {} calls", calls.sent.len());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_calls_in_flight_is_bounded() {
        let (sender, log) = coalescer();
        let messages: Vec<String> = (0..800).map(|number| format!("{number}")).collect();
        let call: Vec<(&str, &str)> = messages.iter().map(|text| (text.as_str(), text.as_str())).collect();
        answered(send(&sender, &call).await).await;
        assert_eq!(log.lock().unwrap().max_calls_in_flight, MAX_IN_FLIGHT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_sender_only_loses_the_result() {
        let (sender, log) = coalescer();
        let first = send(&sender, &[("g", "1")]).await;
        drop(send(&sender, &[("g", "2")]).await);
        answered(first).await;
        answered(send(&sender, &[("g", "3")]).await).await;
        assert_eq!(sent(&log).concat(), ["1", "2", "3"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_overdue_message_is_not_sent() {
        let (sender, log) = coalescer();
        let busy = send(&sender, &[("g", "1")]).await;
        sleep(Duration::from_millis(1)).await;
        let (mut overdue, answer) = waiting("g", "2");
        overdue.deadline = Instant::now() + CALL / 2;
        sender.send(vec![overdue]).await.unwrap();
        answered(busy).await;
        assert!(answer.await.is_err());
        assert_eq!(sent(&log), [["1"]]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_one_batch_stops_neither_its_group_nor_the_rest() {
        let (sender, log) = coalescer();
        let mut answers = send(&sender, &[("g", "panic"), ("g", "2")]).await;
        assert!(answers.remove(0).await.is_err());
        answered(send(&sender, &[("g", "3"), ("h", "4")]).await).await;
        assert_eq!(sent(&log), [["panic", "2"], ["3", "4"]]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_sends_the_remaining_messages_and_ends_after_its_senders() {
        let (sender, log) = coalescer();
        let first = send(&sender, &[("g", "1")]).await;
        sleep(Duration::from_millis(1)).await;
        let second = send(&sender, &[("g", "2")]).await;
        drop(sender);
        answered(first).await;
        answered(second).await;
        // The last batch is answered before its task is joined and the dispatcher is dropped.
        sleep(Duration::from_millis(1)).await;
        assert_eq!(Arc::strong_count(&log), 1, "the task has dropped its transport");
        assert_eq!(sent(&log), [["1"], ["2"]]);
    }
}
