//! Single sends become batches: one task per queue collects what arrives while other batches are under way.
//!
//! SQS charges, and limits, calls. An ingest gets its events one by one and answers each only when SQS has it, so without
//! this every event would be a call.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::pending::{Pending, SendBatch, SendEntry, WaitingSend};
use ports::queue::{BatchResult, GroupId};

/// How long a batch that is not full waits for more, and only while another one is under way.
///
/// With nothing under way a message goes at once, so a quiet queue pays nothing for this. On a busy one, those whose batch
/// was just answered are back within about this time with their next message, and a call to SQS takes as long anyway:
/// shorter, and 64 connections break up into many small calls; longer, and every answer is later without any saving.
const WINDOW: Duration = Duration::from_millis(5);
/// The most calls under way for one queue. At 10 ms a call these carry 32,000 messages a second, more than one process
/// makes; they bound what a slow SQS can pile up to 32 MiB.
const MAX_IN_FLIGHT: usize = 32;
/// Calls of `send` whose messages the task has not taken in yet. Behind these, callers wait in their own line.
const MAX_CALLS: usize = 64;

/// One answer is being waited for.
pub(super) type Sending = Pin<Box<dyn Future<Output = BatchResult> + Send>>;
/// Sends one batch: a call to SQS.
pub(super) type BatchTransport = Box<dyn Fn(Vec<SendEntry>) -> Sending + Send>;

/// Starts the task of one queue. It takes the messages of whole calls, so that a caller who goes away has sent all of
/// them or none. It ends when all senders are gone and what they sent is sent.
pub(super) fn start(transport: BatchTransport) -> mpsc::Sender<Vec<WaitingSend>> {
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
    /// The groups of each batch under way. No second batch has one of them: SQS takes concurrent calls in any order, and
    /// a repeated one may arrive after its successor.
    groups: HashMap<Id, Vec<GroupId>>,
    /// Whether anyone can still send.
    open: bool,
}

impl Dispatcher {
    async fn run(mut self, mut calls: mpsc::Receiver<Vec<WaitingSend>>) {
        loop {
            // What has arrived together is looked at together.
            while self.pending.has_room() {
                let Ok(call) = calls.try_recv() else { break };
                self.take_in(call);
            }
            let look_again = self.send_what_is_due();
            if !self.open && self.pending.is_empty() && self.in_flight.is_empty() {
                return;
            }
            tokio::select! {
                call = calls.recv(), if self.open && self.pending.has_room() => match call {
                    Some(call) => self.take_in(call),
                    None => self.open = false,
                },
                Some(ended) = self.in_flight.join_next_with_id() => {
                    // Also of one that panicked: its callers have been told, and its groups go on.
                    let id = ended.map_or_else(|panicked| panicked.id(), |(id, ())| id);
                    self.groups.remove(&id);
                }
                () = sleep_until(look_again.unwrap_or_else(Instant::now)), if look_again.is_some() => {}
            }
        }
    }

    fn take_in(&mut self, call: Vec<WaitingSend>) {
        call.into_iter().for_each(|waiting| self.pending.push(waiting));
    }

    /// Starts every batch that need not wait. When the next one is due, if that is only a matter of time.
    fn send_what_is_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.pending.drop_overdue(now);
        while self.in_flight.len() < MAX_IN_FLIGHT {
            let busy: HashSet<GroupId> = self.groups.values().flatten().cloned().collect();
            let batch = self.pending.next(&busy)?;
            let due = batch.since + WINDOW;
            let at_once = batch.full || self.in_flight.is_empty() || !self.open;
            if !at_once && due > now {
                return Some(due);
            }
            self.launch(batch);
        }
        None
    }

    fn launch(&mut self, batch: SendBatch) {
        let (entries, answers): (Vec<_>, Vec<_>) =
            self.pending.take(batch).into_iter().map(|waiting| (waiting.entry, waiting.answer)).unzip();
        let groups = entries.iter().map(|entry| entry.group.clone()).collect();
        let sending = (self.transport)(entries);
        let task = self.in_flight.spawn(async move {
            for (answer, result) in answers.into_iter().zip(sending.await) {
                // Who has gone away meanwhile loses the answer only.
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

    /// How long a call takes here.
    const CALL: Duration = Duration::from_millis(20);

    /// What was sent when, and what is under way.
    #[derive(Default)]
    struct BatchCalls {
        sent: Vec<Vec<String>>,
        under_way: Vec<GroupId>,
        most_under_way: usize,
        calls_under_way: usize,
    }

    type Log = Arc<Mutex<BatchCalls>>;

    /// Takes [`CALL`] for each batch and fails the test if a group is in two at once.
    fn coalescer() -> (mpsc::Sender<Vec<WaitingSend>>, Log) {
        let log = Log::default();
        let calls = Arc::clone(&log);
        let transport: BatchTransport = Box::new(move |entries: Vec<SendEntry>| {
            let log = Arc::clone(&calls);
            Box::pin(async move {
                let groups: HashSet<GroupId> = entries.iter().map(|entry| entry.group.clone()).collect();
                {
                    let mut calls = log.lock().unwrap();
                    assert!(groups.iter().all(|group| !calls.under_way.contains(group)), "a group twice");
                    calls.under_way.extend(groups.iter().cloned());
                    calls.calls_under_way += 1;
                    calls.most_under_way = calls.most_under_way.max(calls.calls_under_way);
                    calls.sent.push(entries.iter().map(|entry| entry.body.clone()).collect());
                }
                sleep(CALL).await;
                let mut calls = log.lock().unwrap();
                calls.under_way.retain(|group| !groups.contains(group));
                calls.calls_under_way -= 1;
                // A panic that held the lock would end the test.
                drop(calls);
                assert_ne!(entries[0].body, "panic", "as ordered");
                vec![Ok(()); entries.len()]
            })
        });
        (start(transport), log)
    }

    type SendResult = oneshot::Receiver<Result<(), QueueError>>;

    fn waiting(group: &str, body: &str) -> (WaitingSend, SendResult) {
        let entry = SendEntry {
            group: GroupId::of(&[group]),
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
    async fn a_single_message_goes_at_once() {
        let (sender, log) = coalescer();
        let began = Instant::now();
        answered(send(&sender, &[("g", "1")]).await).await;
        assert_eq!((sent(&log), began.elapsed()), (vec![vec!["1".to_owned()]], CALL));
    }

    #[tokio::test(start_paused = true)]
    async fn what_arrives_meanwhile_waits_for_more_but_not_long() {
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
    async fn a_group_keeps_its_order_also_across_batches_and_while_others_pass() {
        let (sender, log) = coalescer();
        let bodies: Vec<String> = (0..25).map(|number| format!("{number:02}")).collect();
        let call: Vec<(&str, &str)> = bodies.iter().map(|body| ("g", body.as_str())).collect();
        let mut answers = send(&sender, &call).await;
        answers.extend(send(&sender, &[("other", "other")]).await);
        answered(answers).await;
        let sent = sent(&log);
        // The other group is sent while the first batch is under way.
        assert_eq!(sent[1], ["other"]);
        let of_group: Vec<String> = sent.concat().into_iter().filter(|body| body != "other").collect();
        assert_eq!(of_group, bodies);
        assert_eq!(sent.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn many_senders_share_full_batches_whether_their_groups_are_many_or_one() {
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
    async fn calls_under_way_are_bounded() {
        let (sender, log) = coalescer();
        let messages: Vec<String> = (0..800).map(|number| format!("{number}")).collect();
        let call: Vec<(&str, &str)> = messages.iter().map(|text| (text.as_str(), text.as_str())).collect();
        answered(send(&sender, &call).await).await;
        assert_eq!(log.lock().unwrap().most_under_way, MAX_IN_FLIGHT);
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_loses_only_the_answer() {
        let (sender, log) = coalescer();
        let first = send(&sender, &[("g", "1")]).await;
        drop(send(&sender, &[("g", "2")]).await);
        answered(first).await;
        answered(send(&sender, &[("g", "3")]).await).await;
        assert_eq!(sent(&log).concat(), ["1", "2", "3"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waited_too_long_is_not_sent() {
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
    async fn the_task_ends_with_its_senders_and_sends_what_it_has() {
        let (sender, log) = coalescer();
        let first = send(&sender, &[("g", "1")]).await;
        sleep(Duration::from_millis(1)).await;
        let second = send(&sender, &[("g", "2")]).await;
        drop(sender);
        answered(first).await;
        answered(second).await;
        // The last batch is answered before its task is joined and the dispatcher gone.
        sleep(Duration::from_millis(1)).await;
        assert_eq!(Arc::strong_count(&log), 1, "the task holds its transport no longer");
        assert_eq!(sent(&log), [["1"], ["2"]]);
    }
}
