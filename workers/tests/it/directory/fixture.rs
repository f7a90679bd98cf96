//! A directory sync from a fake Slack into an archive that counts its writes.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Item, Query, key, query_all};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::{Queue, QueueName};
use reader::directory as index;
use rules::project;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId};
use slack_api::{Tokens, WebApi};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S};
use testkit::faults::{FaultPlan, FaultyArchive, RecordedCalls};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;
use workers::channel_indexer::ChannelIndexer;
use workers::directory::{DirectorySync, DirectoryWorker, Joiner, SyncReport};
use workers::runtime::{JobOutcome, Ports, Worker};

use testkit::deliveries::{delivery, receive_visible};

pub(super) const TOKEN: &str = "xoxb-1";

/// Longer than any test takes on a busy machine.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

pub(super) struct DirectoryFixture {
    pub(super) slack: FakeSlack,
    pub(super) archive: Arc<MemoryArchive>,
    calls: Arc<RecordedCalls>,
    pub(super) queue: Arc<MemoryQueue>,
    pub(super) clock: Arc<ManualClock>,
    client: Arc<WebApi>,
    pub(super) sync: DirectorySync,
}

impl DirectoryFixture {
    pub(super) async fn new(workspace: FakeWorkspace) -> Self {
        let slack = FakeSlack::start().await;
        slack.set_workspace(TOKEN, workspace);
        let client = slack.client_in_memory(TOKEN);
        Self::asking(client, slack)
    }

    pub(super) fn with(slack: FakeSlack, tokens: Tokens) -> Self {
        Self::asking(slack.client(tokens), slack)
    }

    fn asking(client: Arc<WebApi>, slack: FakeSlack) -> Self {
        let (archive, calls) = (Arc::new(MemoryArchive::new()), Arc::<RecordedCalls>::default());
        let counted = FaultyArchive::with_schedule(archive.clone(), calls.clone());
        let clock = ManualClock::starting_at(TimestampMs(START_S * 1_000));
        let queue = Arc::new(MemoryQueue::new(clock.clone()));
        let sync = DirectorySync::new(Arc::clone(&client), Arc::new(counted), queue.clone());
        Self { slack, archive, calls, queue, clock, client, sync }
    }

    /// The sync of a process for which writes to the archive fail as planned.
    pub(super) fn failing_sync(&self, plan: FaultPlan) -> DirectorySync {
        let archive = Arc::new(FaultyArchive::new(self.archive.clone(), plan));
        DirectorySync::new(Arc::clone(&self.client), archive, self.queue.clone())
    }

    pub(super) fn ports(&self) -> Ports {
        Ports { queue: self.queue.clone(), archive: self.archive.clone(), clock: self.clock.clone() }
    }

    /// The worker of a process that begins now.
    pub(super) fn worker(&self, joiner: Option<Joiner>) -> DirectoryWorker {
        let sync = DirectorySync::new(Arc::clone(&self.client), self.archive.clone(), self.queue.clone());
        DirectoryWorker::new(self.ports(), sync, joiner)
    }

    /// The worker of a process with another token.
    pub(super) fn with_token(&self, token: &str) -> DirectoryWorker {
        let client = self.slack.client_in_memory(token);
        let sync = DirectorySync::new(client, self.archive.clone(), self.queue.clone());
        DirectoryWorker::new(self.ports(), sync, None)
    }

    /// Lets the worker look for what is due once, and do it. Returns the number of jobs.
    pub(super) async fn work(&self, worker: &DirectoryWorker) -> usize {
        worker.poll().await;
        let jobs = receive_visible(&*self.queue, QueueName::Directory).await;
        let outcomes = worker.handle(&jobs).await;
        assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done), "{outcomes:?}");
        for job in &jobs {
            let receipt = std::slice::from_ref(&job.receipt);
            assert!(self.queue.ack(QueueName::Directory.into(), receipt).await.iter().all(Result::is_ok));
        }
        jobs.len()
    }

    /// The number of updates that the sync has written since the last call.
    pub(super) fn writes(&self) -> usize {
        self.calls.take_writes()
    }

    pub(super) async fn sync(&self) -> SyncReport {
        let report = self.sync.sync(&team("T1")).await;
        assert!(report.failure.is_none(), "{report:?}");
        report
    }

    pub(super) async fn rows(&self, partition: String) -> Vec<Item> {
        query_all(&*self.archive, Query::partition(partition)).await.unwrap()
    }

    pub(super) async fn newest(&self, channel: &str) -> Value {
        let rows = self.rows(key::channels(&team("T1"), &id(channel))).await;
        rows.last().and_then(project::channel).unwrap().into_json()
    }

    pub(super) async fn index_name(&self, channel: &str) -> Option<String> {
        let index = index::read(&*self.archive, &team("T1")).await.unwrap();
        index.name(&id(channel)).map(str::to_owned)
    }

    pub(super) async fn users(&self) -> Vec<Value> {
        self.rows(key::users(&team("T1"))).await.iter().map(project::directory).collect()
    }

    /// Passes a channel event to the channel-indexer.
    pub(super) async fn handle_event(&self, event: Value) {
        let indexer = ChannelIndexer::new(self.archive.clone(), None);
        let job = delivery(&event::envelope("T1", "Ev1", &event));
        assert_eq!(indexer.handle(&[job]).await, [JobOutcome::Done]);
    }

    pub(super) async fn image_jobs(&self) -> usize {
        self.queue.depth(QueueName::Files.into()).await.unwrap().waiting as usize
    }
}

pub(super) fn team(id: &str) -> TeamId {
    TeamId::parse(id).unwrap()
}

pub(super) fn id(channel: &str) -> ChannelId {
    ChannelId::parse(channel).unwrap()
}

pub(super) fn ts(seconds_later: i64) -> String {
    format!("{}.000000", START_S + seconds_later)
}
