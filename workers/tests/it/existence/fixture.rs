//! Workers with an existence check that calls a fake Slack.

use std::sync::Arc;

use ports::archive::{Archive, Item};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::waiting::WaitCause;
use serde_json::{Value, json};
use slack_api::{Tokens, WebApi};
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S, channel, one_token, person};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::existence::MemoryExistence;
use testkit::memory::queue::MemoryQueue;
use workers::admission::ExistenceMode;
use workers::admission::{ExistenceCheck, ExistenceParts};
use workers::channel_indexer::ChannelIndexer;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

pub(super) use testkit::deliveries::deliveries as jobs;

pub(super) const TOKEN: &str = "xoxb-1";
pub(super) const CHANNEL: &str = "C0GENERAL";
pub(super) const USER: &str = "U0ADA";
pub(super) const TS: &str = "1700000000.000100";

pub(super) struct ExistenceCheckFixture {
    pub(super) slack: FakeSlack,
    pub(super) api: Arc<WebApi>,
    pub(super) archive: Arc<MemoryArchive>,
    pub(super) table: Arc<MemoryExistence>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) queue: Arc<MemoryQueue>,
    pub(super) check: ExistenceCheck,
    pub(super) writer: MessageWriter,
    pub(super) indexer: ChannelIndexer,
}

/// A workspace with two channels, two people and a bot.
pub(super) fn workspace() -> FakeWorkspace {
    let mut workspace = FakeWorkspace::new(TEAM);
    workspace.channels = vec![channel(CHANNEL, "general"), channel("C0RANDOM", "random")];
    workspace.members = vec![person(USER, "ada"), person("U0BOB", "bob")];
    workspace.bots.insert("B0DEPLOY".into());
    workspace
}

impl ExistenceCheckFixture {
    pub(super) async fn new() -> Self {
        Self::with(None, one_token(TOKEN)).await
    }

    pub(super) async fn with(mode: Option<ExistenceMode>, tokens: Tokens) -> Self {
        let slack = FakeSlack::start().await;
        let api = slack.client(tokens);
        Self::calling(slack, api, mode)
    }

    /// The same without a socket, so that a test can use virtual time: the limit of a batch then ends no call.
    pub(super) fn in_memory() -> Self {
        let slack = FakeSlack::on_virtual_time();
        let api = slack.client_in_memory(TOKEN);
        Self::calling(slack, api, None)
    }

    fn calling(slack: FakeSlack, api: Arc<WebApi>, mode: Option<ExistenceMode>) -> Self {
        slack.set_workspace(TOKEN, workspace());
        let clock = ManualClock::starting_at(TimestampMs(START_S * 1_000));
        let archive = Arc::new(MemoryArchive::new());
        let table = Arc::new(MemoryExistence::new());
        let queue = Arc::new(MemoryQueue::new(clock.clone()));
        let check = ExistenceCheck::new(ExistenceParts {
            api: Arc::clone(&api),
            table: table.clone(),
            archive: archive.clone(),
            clock: clock.clone(),
            mode,
        });
        let rows = || -> Arc<dyn Archive> { archive.clone() };
        let writer = MessageWriter::new(rows(), queue.clone()).checked_by(check.clone());
        let indexer = ChannelIndexer::new(rows(), None).checked_by(check.clone());
        Self { slack, api, archive, table, clock, queue, check, writer, indexer }
    }

    /// Another process on the same archive and the same cache.
    pub(super) fn another(&self) -> MessageWriter {
        let check = ExistenceCheck::new(ExistenceParts {
            api: Arc::clone(&self.api),
            table: self.table.clone(),
            archive: self.archive.clone(),
            clock: self.clock.clone(),
            mode: None,
        });
        MessageWriter::new(self.archive.clone(), self.queue.clone()).checked_by(check)
    }

    pub(super) async fn write(&self, events: &[Value]) -> Vec<JobOutcome> {
        self.writer.handle(&jobs(events)).await
    }

    pub(super) async fn index(&self, events: &[Value]) -> Vec<JobOutcome> {
        self.indexer.handle(&jobs(events)).await
    }

    /// Rows of the archive, without the row of the check's own state.
    pub(super) fn rows(&self) -> Vec<Item> {
        let mut rows = self.archive.items();
        rows.retain(|row| row.key.item_id != "meta#existence");
        rows
    }

    /// The number of calls that look up a single entity.
    pub(super) fn lookup_calls(&self) -> usize {
        ["team.info", "users.info", "bots.info", "conversations.info"]
            .iter()
            .map(|method| self.slack.call_count(method))
            .sum()
    }
}

/// A message in a public channel.
pub(super) fn message(channel: &str, user: &str, ts: &str) -> Value {
    event::posted(channel, &event::message(ts, user, "hello"))
}

/// An event of this kind about a channel.
pub(super) fn channel_event(kind: &str, channel: &str) -> Value {
    json!({ "type": kind, "channel": channel, "user": USER, "event_ts": TS })
}

/// A `channel_created` event.
pub(super) fn created(channel: &str) -> Value {
    json!({ "type": "channel_created", "event_ts": TS,
        "channel": { "id": channel, "name": "new", "creator": USER, "is_private": false } })
}

/// The reason why an event was quarantined.
pub(super) fn reason(outcome: &JobOutcome) -> &str {
    match outcome {
        JobOutcome::Quarantine(reason) => reason,
        JobOutcome::Done | JobOutcome::Retry(_) | JobOutcome::Wait(..) => {
            panic!("{outcome:?} is no quarantine")
        }
    }
}

pub(super) fn waits(outcome: &JobOutcome) -> bool {
    matches!(outcome, JobOutcome::Retry(_) | JobOutcome::Wait(..))
}

/// Why an event is set aside.
pub(super) fn aside(outcome: &JobOutcome) -> (WaitCause, &str) {
    match outcome {
        JobOutcome::Wait(cause, reason) => (*cause, reason),
        JobOutcome::Done | JobOutcome::Retry(_) | JobOutcome::Quarantine(_) => {
            panic!("{outcome:?} is not set aside")
        }
    }
}
