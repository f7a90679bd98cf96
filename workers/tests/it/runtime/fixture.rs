//! A scripted worker, its queue and its archive on virtual time.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::Archive;
use ports::clock::{SharedClock, TimestampMs};
use ports::queue::job::encode_event;
use ports::queue::{DedupId, GroupId, Outgoing, Queue, QueueName};
use testkit::clock::virtual_clock;
use testkit::faults::{FaultPlan, FaultyArchive, FaultyQueue};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use workers::quarantine;
use workers::runtime::{self, Batch, JobOutcome, Ports, RuntimeSettings, Worker};

/// The start of the virtual clock.
pub(super) const START: TimestampMs = TimestampMs(1_700_000_000_000);

/// What the worker does with a job, given the job's name and its number of tries, including this one.
type Script = Box<dyn Fn(&str, u32) -> Act + Send + Sync>;

pub(super) enum Act {
    Finish(JobOutcome),
    Panic,
    /// Returns without an outcome.
    Forget,
    Hang(Duration),
    /// Makes progress for this long: a step every 10 ms.
    Progress(Duration),
    /// Waits for this long; then a step ends the process.
    CrashAfter(Duration),
}

pub(super) struct Scripted {
    script: Script,
    tries: Mutex<HashMap<String, u32>>,
    /// Names of the finished jobs, in order.
    done: Mutex<Vec<String>>,
    /// Names of the jobs in each call.
    pub(super) calls: Mutex<Vec<Vec<String>>>,
    /// Notified when a job crashes its process, which the test then ends.
    pub(super) crashed: Notify,
}

impl Scripted {
    pub(super) fn new(script: impl Fn(&str, u32) -> Act + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            script: Box::new(script),
            tries: Mutex::default(),
            done: Mutex::default(),
            calls: Mutex::default(),
            crashed: Notify::new(),
        })
    }

    pub(super) fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }

    pub(super) fn calls_with(&self, body: &str) -> Vec<Vec<String>> {
        self.calls.lock().unwrap().iter().filter(|call| call.iter().any(|job| job == body)).cloned().collect()
    }
}

#[async_trait]
impl Worker for Scripted {
    fn queue(&self) -> QueueName {
        QueueName::Events
    }

    fn max_batch(&self) -> usize {
        10
    }

    async fn work(&self, batch: &Batch<'_>) {
        let names = batch.jobs().iter().map(|job| name(&job.delivery.body).to_owned());
        self.calls.lock().unwrap().push(names.collect());
        for job in batch.jobs() {
            let name = name(&job.delivery.body);
            let tries = {
                let mut tries = self.tries.lock().unwrap();
                let tries = tries.entry(name.to_owned()).or_default();
                *tries += 1;
                *tries
            };
            let outcome = match (self.script)(name, tries) {
                Act::Finish(outcome) => outcome,
                Act::Panic => panic!("as scripted"),
                Act::Forget => continue,
                Act::Hang(time) => {
                    sleep(time).await;
                    JobOutcome::Done
                }
                Act::Progress(time) => {
                    let began = Instant::now();
                    while began.elapsed() < time {
                        sleep(Duration::from_millis(10)).await;
                    }
                    JobOutcome::Done
                }
                Act::CrashAfter(time) => {
                    sleep(time).await;
                    self.crashed.notify_one();
                    pending().await
                }
            };
            if outcome == JobOutcome::Done {
                self.done.lock().unwrap().push(name.to_owned());
            }
            job.settle(outcome);
        }
    }
}

/// The name of the job with this body: `a1` of `{"v":1,"event":{"event_id":"a1"}}`.
pub(super) fn name(body: &str) -> &str {
    body.split('"').rev().nth(1).unwrap()
}

pub(super) struct RuntimeFixture {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) archive: Arc<dyn Archive>,
    pub(super) clock: SharedClock,
    pub(super) memory: Arc<MemoryArchive>,
    pub(super) memory_queue: Arc<MemoryQueue>,
}

impl RuntimeFixture {
    pub(super) fn new() -> Self {
        Self::faulty(FaultPlan::none(), FaultPlan::none())
    }

    pub(super) fn faulty(queue: FaultPlan, archive: FaultPlan) -> Self {
        let clock = virtual_clock(START);
        let memory = Arc::new(MemoryArchive::new());
        let memory_queue = Arc::new(MemoryQueue::on_virtual_time(Arc::clone(&clock)));
        Self {
            queue: Arc::new(FaultyQueue::new(memory_queue.clone(), queue)),
            archive: Arc::new(FaultyArchive::new(memory.clone(), archive)),
            clock,
            memory,
            memory_queue,
        }
    }

    /// Sends jobs named by their group and a number: `a1` belongs to group `a`.
    pub(super) async fn send(&self, jobs: &[&str]) {
        let messages = jobs.iter().map(|job| Outgoing {
            queue: QueueName::Events,
            group: GroupId::from_parts(&[&job[..1]]),
            dedup: DedupId::from_parts(&[job.as_bytes()]),
            body: encode_event(&format!("{{\"event_id\":\"{job}\"}}")),
        });
        for sent in self.queue.send(messages.collect()).await {
            sent.unwrap();
        }
    }

    pub(super) fn ports(&self) -> Ports {
        Ports { queue: self.queue.clone(), archive: self.archive.clone(), clock: self.clock.clone() }
    }

    pub(super) fn start(&self, worker: &Arc<Scripted>, settings: RuntimeSettings) -> RunningConsumer {
        let (stop, shutdown) = watch::channel(false);
        let worker = Arc::clone(worker) as Arc<dyn Worker>;
        RunningConsumer { stop, task: tokio::spawn(runtime::run(worker, self.ports(), settings, shutdown)) }
    }

    /// Runs until nothing is waiting, backing off or in flight, then stops.
    pub(super) async fn run_until_idle(&self, worker: &Arc<Scripted>) {
        let running = self.start(worker, settings());
        let idle = async {
            while !self.queue.depth(QueueName::Events.into()).await.unwrap().is_empty() {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(3600), idle).await.expect("the queue is empty within an hour");
        running.stop().await;
    }

    /// The number of attempt markers, which jobs that run alone have.
    pub(super) fn marks(&self) -> usize {
        self.memory.items().iter().filter(|item| item.key.item_id.contains("attempts")).count()
    }

    pub(super) async fn quarantined_reasons(&self) -> Vec<String> {
        quarantine::list(&*self.memory).await.unwrap().into_iter().map(|job| job.reason).collect()
    }

    pub(super) async fn quarantined(&self) -> Vec<(String, String)> {
        let listed = quarantine::list(&*self.memory).await.unwrap();
        listed.into_iter().map(|job| (name(&job.payload).to_owned(), job.reason)).collect()
    }
}

pub(super) struct RunningConsumer {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl RunningConsumer {
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        self.task.await.unwrap();
    }

    /// Ends the process in the middle of its work: nothing that it would do next happens.
    pub(super) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

pub(super) fn settings() -> RuntimeSettings {
    RuntimeSettings { seed: 7, ..RuntimeSettings::default() }
}

pub(super) fn done() -> Act {
    Act::Finish(JobOutcome::Done)
}
