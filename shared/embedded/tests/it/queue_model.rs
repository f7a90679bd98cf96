//! Compares the embedded queue with the queue in memory for random sequences of calls.

use std::sync::Arc;
use std::time::Duration;

use embedded::Database;
use ports::clock::{ManualClock, SharedClock, TimestampMs};
use ports::queue::{
    DEDUPLICATION_WINDOW, DedupId, Delivery, GroupId, Outgoing, Queue, QueueName, QueueRef, Receipt,
    ReceiveRequest,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, contextualize_config};
use testkit::memory::queue::MemoryQueue;
use tokio::runtime::{Builder, Runtime};

/// Enough to find a wrong comparison, a forgotten wake-up or a lost lease, in a run of seconds.
/// `PROPTEST_CASES` sets another number.
const CASES: u32 = 200;

/// One queue without a delay and one with a delay.
const QUEUES: [QueueName; 2] = [QueueName::Events, QueueName::Stats];

#[derive(Debug, Clone)]
enum Action {
    Send(Vec<Send>),
    Receive {
        queue: usize,
        max: usize,
        visibility_timeout: Duration,
    },
    /// Indexes of receipts, counted from the last one received.
    Ack {
        queue: usize,
        receipts: Vec<usize>,
    },
    ChangeVisibility {
        queue: usize,
        entries: Vec<(usize, Duration)>,
    },
    Advance(Duration),
    /// The owner of the last receipts is gone.
    Forget(usize),
}

/// Few ids and few groups, so that they collide.
#[derive(Debug, Clone)]
struct Send {
    queue: usize,
    group: u8,
    id: u8,
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        2 => Just(Duration::ZERO),
        1 => Just(Duration::from_millis(1)),
        2 => Just(Duration::from_secs(5)),
        2 => Just(Duration::from_secs(30)),
        1 => Just(Duration::from_secs(90)),
        1 => (0_u64..100_000).prop_map(Duration::from_millis),
    ]
}

fn time_steps() -> impl Strategy<Value = Duration> {
    let moment = Duration::from_millis(1);
    prop_oneof![
        4 => durations(),
        1 => Just(Duration::from_secs(30) - moment),
        1 => Just(Duration::from_secs(90) - moment),
        1 => Just(DEDUPLICATION_WINDOW - moment),
        1 => Just(DEDUPLICATION_WINDOW),
    ]
}

fn actions() -> impl Strategy<Value = Action> {
    let queue = || 0..QUEUES.len();
    let send = (queue(), 0_u8..3, 0_u8..12).prop_map(|(queue, group, id)| Send { queue, group, id });
    prop_oneof![
        6 => vec(send, 1..5).prop_map(Action::Send),
        6 => (queue(), prop_oneof![4 => 1_usize..6, 1 => Just(1000)], durations())
            .prop_map(|(queue, max, visibility_timeout)| Action::Receive { queue, max, visibility_timeout }),
        4 => (queue(), vec(0_usize..6, 1..4)).prop_map(|(queue, receipts)| Action::Ack { queue, receipts }),
        3 => (queue(), vec((0_usize..6, durations()), 1..4))
            .prop_map(|(queue, entries)| Action::ChangeVisibility { queue, entries }),
        4 => time_steps().prop_map(Action::Advance),
        1 => (1_usize..4).prop_map(Action::Forget),
    ]
}

/// The real queue and its model, and the receipts of both.
struct ModelledQueue {
    clock: Arc<ManualClock>,
    model: Arc<dyn Queue>,
    real: Arc<dyn Queue>,
    /// Per queue, the receipts of the same delivery in the model and in the real queue. Invalid ones stay,
    /// because both must reject them.
    receipts: [Vec<(Receipt, Receipt)>; 2],
    sent: u64,
}

/// The parts of a delivery that must be equal in both backends.
fn essence(delivery: &Delivery) -> (&str, &str, u32, TimestampMs) {
    (&delivery.body, delivery.group.as_str(), delivery.receive_count, delivery.sent_at)
}

/// Sorts deliveries by group: the order of groups is up to the backend, the order within a group is not.
fn by_group(mut deliveries: Vec<Delivery>) -> Vec<Delivery> {
    deliveries.sort_by(|a, b| a.group.cmp(&b.group));
    deliveries
}

impl ModelledQueue {
    async fn act(&mut self, action: &Action) -> Result<(), TestCaseError> {
        match action {
            Action::Send(sends) => {
                let messages: Vec<Outgoing> = sends.iter().map(|send| self.message(send)).collect();
                prop_assert_eq!(self.model.send(messages.clone()).await, self.real.send(messages).await);
            }
            Action::Receive { queue, max, visibility_timeout } => {
                let request = ReceiveRequest {
                    queue: QUEUES[*queue].into(),
                    max: *max,
                    visibility_timeout: *visibility_timeout,
                    wait: Duration::ZERO,
                };
                let model = by_group(self.model.receive(request).await.unwrap());
                let real = by_group(self.real.receive(request).await.unwrap());
                let essences = |deliveries: &[Delivery]| -> Vec<String> {
                    deliveries.iter().map(|delivery| format!("{:?}", essence(delivery))).collect()
                };
                prop_assert_eq!(essences(&model), essences(&real));
                let receipts = model.into_iter().zip(real).map(|(model, real)| (model.receipt, real.receipt));
                self.receipts[*queue].extend(receipts);
            }
            Action::Ack { queue, receipts } => {
                let (model, real): (Vec<_>, Vec<_>) =
                    receipts.iter().filter_map(|number| self.receipt(*queue, *number)).unzip();
                let queue = QUEUES[*queue].into();
                prop_assert_eq!(self.model.ack(queue, &model).await, self.real.ack(queue, &real).await);
            }
            Action::ChangeVisibility { queue, entries } => {
                let pair = |(number, timeout): &(usize, Duration)| {
                    let (model, real) = self.receipt(*queue, *number)?;
                    Some(((model, *timeout), (real, *timeout)))
                };
                let (model, real): (Vec<_>, Vec<_>) = entries.iter().filter_map(pair).unzip();
                let queue = QUEUES[*queue].into();
                prop_assert_eq!(
                    self.model.change_visibility(queue, &model).await,
                    self.real.change_visibility(queue, &real).await
                );
            }
            Action::Advance(by) => self.clock.advance(*by),
            Action::Forget(receipts) => {
                for known in &mut self.receipts {
                    known.truncate(known.len().saturating_sub(*receipts));
                }
            }
        }
        for queue in QUEUES.map(QueueRef::from) {
            prop_assert_eq!(self.model.depth(queue).await, self.real.depth(queue).await, "{}", queue);
        }
        Ok(())
    }

    /// Bodies are unique, so that they show which of two sends with the same id was stored.
    fn message(&mut self, send: &Send) -> Outgoing {
        self.sent += 1;
        Outgoing {
            queue: QUEUES[send.queue],
            group: GroupId::from_parts(&["T1", &format!("C{}", send.group)]),
            dedup: DedupId::from_parts(&[&[send.id]]),
            body: format!("{{\"number\":{}}}", self.sent),
        }
    }

    fn receipt(&self, queue: usize, number_from_last: usize) -> Option<(Receipt, Receipt)> {
        self.receipts[queue].iter().rev().nth(number_from_last).cloned()
    }
}

fn run(runtime: &Runtime, actions: &[Action]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_123));
    let shared_clock = Arc::clone(&clock) as SharedClock;
    let database = Database::open(folder.path(), Arc::clone(&shared_clock)).unwrap();
    let model = Arc::new(MemoryQueue::new(shared_clock));
    let mut pair =
        ModelledQueue { clock, model, real: database.queue(), receipts: [Vec::new(), Vec::new()], sent: 0 };
    runtime.block_on(async {
        for action in actions {
            pair.act(action).await?;
        }
        Ok(())
    })
}

#[test]
fn the_embedded_queue_behaves_like_its_model() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = contextualize_config(Config { failure_persistence: None, ..Config::with_cases(CASES) });
    proptest!(config, |(actions in vec(actions(), 1..40))| {
        run(&runtime, &actions)?;
    });
}
