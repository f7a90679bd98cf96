//! A workspace whose questions are answered: a message-writer, responders and posters on shared ports, and a
//! fake Slack.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::erasure::{ErasureFact, ErasureScope};
use ports::archive::{Archive, ArchiveExt, Item, ItemKey, Update};
use ports::claims::Claims;
use ports::clock::{SharedClock, TimestampMs};
use ports::queue::{Delivery, Queue, QueueName, ReceiveRequest};
use processor::{Answer, Processor, ProcessorError, Prompt};
use rules::question::QuestionId;
use rules::question::rows::{AnswerRow, QuestionRow};
use rules::question::state::{TrackedKind, WorkStage, WorkState};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use slack_api::WebApi;
use testkit::clock::virtual_clock;
use testkit::corpus::{TEAM, event};
use testkit::deliveries::delivery;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S, channel};
use testkit::faults::{CrashPoint, FaultyArchive, FaultyClaims, FaultyQueue};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::files::MemoryFiles;
use testkit::memory::queue::MemoryQueue;
use tokio::time::{Instant, advance};
use workers::claims::{self, Claimant};
use workers::eraser::EraserMode;
use workers::message_writer::MessageWriter;
use workers::poster::Poster;
use workers::responder::Responder;
use workers::responder::ResponderLimits;
use workers::runtime::{JobOutcome, Ports, Worker};

use crate::eraser;

pub(super) const TOKEN: &str = "xoxb-1";
pub(super) const APP: &str = "U0ANNALIST";

/// The method that posts a message.
pub(super) const POST: &str = "chat.postMessage";

/// The maximum virtual time until the queues are drained.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(4 * 3_600);

/// Returns the planned answers, and then "an answer".
#[derive(Default)]
pub(super) struct ScriptedProcessor {
    pub(super) answers: Mutex<VecDeque<Result<Answer, ProcessorError>>>,
    pub(super) prompts: Mutex<Vec<Prompt>>,
}

#[async_trait]
impl Processor for ScriptedProcessor {
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError> {
        self.prompts.lock().unwrap().push(prompt.clone());
        let planned = self.answers.lock().unwrap().pop_front();
        planned.unwrap_or_else(|| Ok(Answer::Text("an answer".into())))
    }
}

impl ScriptedProcessor {
    pub(super) fn call_count(&self) -> usize {
        self.prompts.lock().unwrap().len()
    }

    pub(super) fn next(&self, answer: Result<Answer, ProcessorError>) {
        self.answers.lock().unwrap().push_back(answer);
    }
}

pub(super) struct ResponderFixture {
    pub(super) slack: FakeSlack,
    pub(super) archive: Arc<MemoryArchive>,
    pub(super) queue: Arc<MemoryQueue>,
    pub(super) claims: Arc<MemoryClaims>,
    pub(super) clock: SharedClock,
    pub(super) processor: Arc<ScriptedProcessor>,
    pub(super) limits: ResponderLimits,
    pub(super) quarantined: Mutex<Vec<String>>,
}

/// A process that answers questions.
pub(super) struct Answering {
    responder: Responder,
    poster: Poster,
}

impl ResponderFixture {
    pub(super) async fn new() -> Self {
        let clock = virtual_clock(TimestampMs(START_S * 1_000));
        let slack = FakeSlack::on_virtual_time();
        let channels = ["C01", "C02"].map(|id| channel(id, &id.to_lowercase())).into();
        let workspace = FakeWorkspace { channels, bot_user: APP.into(), ..FakeWorkspace::new(TEAM) };
        slack.set_workspace(TOKEN, workspace);
        let fixture = Self {
            slack,
            archive: Arc::new(MemoryArchive::new()),
            queue: Arc::new(MemoryQueue::new(Arc::clone(&clock))),
            claims: Arc::new(MemoryClaims::new(Arc::clone(&clock))),
            clock,
            processor: Arc::default(),
            limits: ResponderLimits::default(),
            quarantined: Mutex::default(),
        };
        for user in ["U1", "U2"] {
            fixture.add_person(json!({ "id": user, "name": user.to_lowercase(), "team_id": TEAM })).await;
        }
        fixture
    }

    /// Adds a person, as Slack shows them.
    pub(super) async fn add_person(&self, user: Value) {
        let changed = json!({ "type": "user_change", "user": user, "event_ts": self.ts(0) });
        self.apply_event(&changed).await;
    }

    /// A timestamp `n` microseconds after the start.
    pub(super) fn ts(&self, n: u32) -> String {
        format!("{START_S}.{n:06}")
    }

    /// A timestamp `elapsed_s` seconds and `n` microseconds after the start.
    pub(super) fn later(&self, elapsed_s: i64, n: u32) -> String {
        format!("{}.{n:06}", START_S + elapsed_s)
    }

    /// Applies an event to the fake Slack and passes it to the message-writer.
    pub(super) async fn apply_event(&self, payload: &Value) {
        self.slack.change_workspace(TOKEN, |workspace| workspace.apply_event(payload));
        // The app's posts get later timestamps than the event.
        advance(Duration::from_secs(1)).await;
        self.write_event(payload).await;
    }

    /// Passes an event to the message-writer.
    pub(super) async fn write_event(&self, payload: &Value) {
        let writer = MessageWriter::new(self.archive.clone(), self.queue.clone())
            .timed_by(Arc::clone(&self.clock))
            .asking(self.limits.max_age);
        let job = delivery(&event::envelope(TEAM, "Ev1", payload));
        let job = Delivery { sent_at: TimestampMs(i64::MAX), ..job };
        assert_eq!(writer.handle(&[job]).await, [JobOutcome::Done], "{payload}");
    }

    /// A person asks in a channel.
    pub(super) async fn ask(&self, channel: &str, n: u32, text: &str) -> QuestionId {
        let message = event::message(&self.ts(n), "U1", &format!("<@{APP}> {text}"));
        self.apply_event(&event::posted(channel, &message)).await;
        self.id(channel, n)
    }

    pub(super) fn id(&self, channel: &str, n: u32) -> QuestionId {
        let ts = Ts::parse(&self.ts(n)).unwrap();
        QuestionId {
            team: TeamId::parse(TEAM).unwrap(),
            channel: ChannelId::parse(channel).unwrap(),
            thread_ts: ts.clone(),
            ts,
        }
    }

    pub(super) fn process(&self, name: &str) -> Answering {
        self.dying(name, &CrashPoint::never())
    }

    /// A process that dies at the point.
    pub(super) fn dying(&self, name: &str, point: &Arc<CrashPoint>) -> Answering {
        let ports = Ports {
            queue: Arc::new(FaultyQueue::with_crash_point(self.queue.clone(), Arc::clone(point))),
            archive: Arc::new(FaultyArchive::with_crash_point(self.archive.clone(), Arc::clone(point))),
            clock: self.clock.clone(),
        };
        let claimant = || {
            let claims = FaultyClaims::with_crash_point(self.claims.clone(), Arc::clone(point));
            self.claimant(Arc::new(claims), name)
        };
        let web = self.slack.client_with_crash_point(TOKEN, point);
        Answering {
            responder: Responder::new(ports.clone(), claimant(), self.processor.clone(), self.limits),
            poster: Poster::new(ports, claimant(), web, self.limits),
        }
    }

    pub(super) fn claimant(&self, claims: Arc<dyn Claims>, name: &str) -> Claimant {
        Claimant::new(claims, Arc::clone(&self.clock), name, claims::ClaimSettings::default())
    }

    /// A separate poster on these ports.
    pub(super) fn poster(
        &self,
        archive: Arc<dyn Archive>,
        claims: Arc<dyn Claims>,
        web: Arc<WebApi>,
    ) -> Poster {
        let ports = Ports { queue: self.queue.clone(), archive, clock: self.clock.clone() };
        Poster::new(ports, self.claimant(claims, "late"), web, self.limits)
    }

    /// A client of the fake Slack.
    pub(super) fn client(&self) -> Arc<WebApi> {
        self.slack.client_with_crash_point(TOKEN, &CrashPoint::never())
    }

    /// Erases a scope.
    pub(super) async fn erase(&self, scope: ErasureScope) {
        let until = Ts::parse("1800000000.000000").unwrap();
        let fact = ErasureFact { team: TeamId::parse(TEAM).unwrap(), scope, until };
        eraser::erase(&*self.archive, &MemoryFiles::new(), &[fact], EraserMode::Act).await.unwrap();
    }

    /// Runs a process until its queues are drained or it has crashed.
    pub(super) async fn run(&self, process: &Answering, point: &CrashPoint) {
        let began = Instant::now();
        let workers: [&dyn Worker; 2] = [&process.responder, &process.poster];
        while !self.is_idle().await && !point.has_crashed() {
            let mut is_waiting = true;
            for worker in workers {
                for job in self.receive(worker.queue()).await {
                    is_waiting = false;
                    let outcome = worker.handle(std::slice::from_ref(&job)).await.remove(0);
                    if point.has_crashed() {
                        return;
                    }
                    self.settle(worker.queue(), &job, outcome).await;
                }
            }
            if is_waiting {
                advance(Duration::from_secs(1)).await;
            }
            assert!(began.elapsed() < DRAIN_TIMEOUT, "jobs are left: {:?}", self.quarantined.lock().unwrap());
        }
    }

    /// Lets one process answer everything.
    pub(super) async fn answer_all(&self) {
        self.run(&self.process("one"), &CrashPoint::never()).await;
    }

    /// Runs only the responder of a process, so that nothing is posted yet.
    pub(super) async fn answer_without_posting(&self, process: &Answering) {
        let jobs = self.receive(process.responder.queue()).await;
        assert_eq!(process.responder.handle(&jobs).await, [JobOutcome::Done]);
    }

    /// Lets each worker of a process handle the jobs that it can receive now.
    pub(super) async fn handle_received(&self, process: &Answering) {
        let workers: [&dyn Worker; 2] = [&process.responder, &process.poster];
        for worker in workers {
            let jobs = self.receive(worker.queue()).await;
            worker.handle(&jobs).await;
        }
    }

    pub(super) async fn poll(&self, process: &Answering) {
        process.responder.poll().await;
    }

    /// Stores the state with which a person restarts a question or an answer, which the poll finds.
    pub(super) async fn restart(&self, state: &Update) {
        self.write(state).await;
        self.poll(&self.process("one")).await;
        self.answer_all().await;
    }

    pub(super) async fn receive(&self, queue: QueueName) -> Vec<Delivery> {
        let visibility_timeout = Duration::from_secs(30);
        let request =
            ReceiveRequest { queue: queue.into(), max: 10, visibility_timeout, wait: Duration::ZERO };
        self.queue.receive(request).await.unwrap()
    }

    pub(super) async fn settle(&self, queue: QueueName, job: &Delivery, outcome: JobOutcome) {
        match outcome {
            JobOutcome::Done => {}
            JobOutcome::Quarantine(reason) => self.quarantined.lock().unwrap().push(reason),
            // The runtime tries it again about as soon.
            JobOutcome::Wait(..) => {
                let entry = [(job.receipt.clone(), Duration::from_secs(5))];
                self.queue.change_visibility(queue.into(), &entry).await;
                return;
            }
            JobOutcome::Retry(retry) => {
                let after = retry.after.unwrap_or(Duration::from_secs(1));
                self.queue.change_visibility(queue.into(), &[(job.receipt.clone(), after)]).await;
                return;
            }
        }
        self.queue.ack(queue.into(), std::slice::from_ref(&job.receipt)).await;
    }

    async fn is_idle(&self) -> bool {
        for queue in [QueueName::Questions, QueueName::Replies] {
            if !self.queue.depth(queue.into()).await.unwrap().is_empty() {
                return false;
            }
        }
        true
    }

    /// When the app tried to post, in milliseconds.
    pub(super) fn post_times_ms(&self) -> Vec<i64> {
        self.slack.calls().iter().filter(|call| call.method == POST).map(|call| call.at_ms).collect()
    }

    /// The event of the app's first post in a channel.
    pub(super) fn own_post(&self, channel: &str) -> Value {
        let post = self.slack.change_workspace(TOKEN, |workspace| workspace.posted_in(channel)).remove(0);
        let (channel, event_ts) = (Value::from(channel), post["ts"].clone());
        event::with_fields(
            post,
            [("channel", channel), ("channel_type", "channel".into()), ("event_ts", event_ts)],
        )
    }

    /// Texts of the app's posts in a channel, in order.
    pub(super) fn posted(&self, channel: &str) -> Vec<String> {
        let posted = self.slack.change_workspace(TOKEN, |workspace| workspace.posted_in(channel));
        posted.iter().map(|message| message["text"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) async fn row(&self, key: ItemKey) -> Option<Item> {
        self.archive.get(&key).await.unwrap()
    }

    /// The stages of a question and of its answer.
    pub(super) async fn states(&self, id: &QuestionId) -> (&'static str, &'static str) {
        let question = self.row(ItemKey::question(&id.team, &id.channel, &id.ts)).await;
        let question = question.as_ref().and_then(QuestionRow::read);
        let answer = self.row(ItemKey::answer(&id.team, &id.channel, &id.ts)).await;
        let answer = answer.as_ref().and_then(AnswerRow::read);
        (
            question.map_or("", |question| TrackedKind::Question.label(question.state.stage)),
            answer.map_or("", |answer| TrackedKind::Answer.label(answer.state.stage)),
        )
    }

    pub(super) async fn write(&self, update: &Update) {
        self.archive.write(update).await.unwrap();
    }
}

/// The state of a question or an answer that a person has restarted.
pub(super) fn restarted(generation: u32) -> WorkState {
    WorkState { generation, stage: WorkStage::Pending }
}

impl Answering {
    /// Both workers of the process.
    pub(super) fn workers(&self) -> (&Responder, &Poster) {
        (&self.responder, &self.poster)
    }
}
