//! The archive is a function of the set of events: any order, any duplication, any crash and redelivery
//! produce the same rows.

mod bookmarks;
mod canvases;
pub(crate) mod channels;
mod history;
mod joined;
pub(crate) mod messages;

use std::sync::Arc;
use std::sync::Mutex;

use async_trait::async_trait;
use ports::archive::{Archive, Item};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::Queue;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use testkit::faults::{CallFault, FaultSchedule, FaultyArchive, PortMethod};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;

/// An archive whose every row can be listed.
#[async_trait]
pub(crate) trait ListableArchive {
    fn archive(&self) -> Arc<dyn Archive>;

    /// Every row.
    async fn items(&self) -> Vec<Item>;
}

#[async_trait]
impl ListableArchive for Arc<MemoryArchive> {
    fn archive(&self) -> Arc<dyn Archive> {
        Arc::clone(self) as Arc<dyn Archive>
    }

    async fn items(&self) -> Vec<Item> {
        MemoryArchive::items(self)
    }
}

/// Inputs of the archive, and one order, batching and crash pattern in which they may reach it.
#[derive(Debug, Clone)]
struct DisorderedInputs<T> {
    inputs: Vec<T>,
    /// Indexes into `inputs`, each at least once.
    order: Vec<usize>,
    batch: usize,
    /// The number of archive steps after which each successive process crashes.
    lives: Vec<u64>,
    /// Decides how the jobs of one batch interleave.
    interleaving: u64,
}

/// Any order of these inputs, in which some occur again, with any batches and crashes.
fn disordered<T: Clone + std::fmt::Debug>(
    inputs: impl Strategy<Value = Vec<T>>,
) -> impl Strategy<Value = DisorderedInputs<T>> {
    inputs.prop_flat_map(|inputs| {
        let again = prop::collection::vec(0..inputs.len(), 0..6);
        let all: Vec<usize> = (0..inputs.len()).collect();
        let order =
            again.prop_map(move |again| all.iter().copied().chain(again).collect::<Vec<_>>()).prop_shuffle();
        let lives = prop::collection::vec(0..40u64, 0..6);
        (Just(inputs), order, 1..8usize, lives, any::<u64>()).prop_map(
            |(inputs, order, batch, lives, interleaving)| DisorderedInputs {
                inputs,
                order,
                batch,
                lives,
                interleaving,
            },
        )
    })
}

/// Runs `cases` cases of a property, one after the other.
pub(crate) fn check_property<T: std::fmt::Debug>(
    cases: u32,
    strategy: &impl Strategy<Value = T>,
    case: impl AsyncFn(T) -> TestCaseResult,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(strategy, |value| runtime.block_on(case(value))).unwrap();
}

/// Yields before each step a random number of times, so that the jobs of a batch overtake each other.
struct Interleaved(Mutex<fastrand::Rng>);

impl Interleaved {
    fn interleave(inner: Arc<dyn Archive>, seed: u64) -> Arc<dyn Archive> {
        let schedule = Self(Mutex::new(fastrand::Rng::with_seed(seed)));
        Arc::new(FaultyArchive::with_schedule(inner, Arc::new(schedule)))
    }

    async fn yield_sometimes(&self) {
        let times = self.0.lock().unwrap().u8(0..4);
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl FaultSchedule for Interleaved {
    async fn before(&self, method: PortMethod, _: usize) -> Option<CallFault> {
        if matches!(method, PortMethod::Write | PortMethod::Get | PortMethod::Query) {
            self.yield_sometimes().await;
        }
        None
    }

    /// A row may be outdated by the time the caller receives it.
    async fn after(&self, method: PortMethod) {
        if matches!(method, PortMethod::Get | PortMethod::Query) {
            self.yield_sometimes().await;
        }
    }
}

/// A queue for follow-up jobs.
pub(crate) fn queue() -> Arc<dyn Queue> {
    Arc::new(MemoryQueue::new(ManualClock::starting_at(TimestampMs(0))))
}

/// The rows that are missing in `others`, so that a counterexample is short.
pub(crate) fn only_in(rows: &[Item], others: &[Item]) -> Vec<String> {
    rows.iter().filter(|row| !others.contains(row)).map(|row| row.to_json().to_string()).collect()
}
