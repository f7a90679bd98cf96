//! People ask questions during the faults, another bot mentions the app, and the app receives events for its
//! own messages. [`super::answers`] checks the result.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fleet::args::{ResponderMode, ResponderSettings};
use ports::archive::{ArchiveExt, Item, ItemKey};
use ports::queue::Queue;
use processor::{Answer, Processor, ProcessorError, Prompt};
use rules::question::QuestionId;
use rules::question::job::QuestionJob;
use rules::question::rows::{self, AnswerRow, QuestionRow};
use rules::question::state::WorkStage;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, event, ts};
use tokio::task::JoinSet;
use tokio::time::sleep;
use workers::responder::ResponderLimits;

use super::fleet::SimulationState;
use super::operator::wait_until_idle;
use super::sender::SlackSender;
use super::workload::{ExpectedOutcome, PlannedRequest, START_MICROS};
use super::world::{Invariant, World, lock};

/// The channel in which people ask. It has no other events.
pub(super) const CHANNEL: &str = "C0ASKED";

/// The person who asks. The person is never erased, but the questions may be.
pub(super) const ASKER: &str = "U0ASKER";

/// A text in every message that is certainly a question.
pub(super) const QUESTION: &str = "question";

/// A text in every reply that is a question only if the app has already posted in the thread.
pub(super) const REMARK: &str = "remark";

/// Maximum number of replies to the app's own messages.
const MAX_FOLLOW_UPS: u64 = 2;

/// After this number of rounds, the app is answering itself.
const MAX_ROUNDS: usize = 10;

/// The app's user id in events.
pub(super) const APP: &str = "U0ANNALIST";

/// So long that no clock jump makes a question too old.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A fast model that never gives the same answer twice. An answer has one part or several.
struct InventiveProcessor(Arc<World>);

#[async_trait]
impl Processor for InventiveProcessor {
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError> {
        sleep(self.0.random_millis(1..3_000)).await;
        if self.0.has_faults() && self.0.chance_percent(10) {
            return Err(ProcessorError::Transient { reason: "the model is busy".into(), after: None });
        }
        let words = if self.0.chance_percent(30) { 1_000 } else { 1 };
        Ok(Answer::Text(format!(
            "{} {} {}",
            prompt.id,
            self.0.random_below(1_000_000),
            "word ".repeat(words)
        )))
    }
}

/// Returns the responder settings of every process. `enabled`: people ask questions in this run.
pub(super) fn settings(world: &Arc<World>, enabled: bool) -> ResponderSettings {
    if !enabled {
        return ResponderSettings::off();
    }
    let limits = ResponderLimits { max_age: MAX_AGE, per_user_hour: 1_000, ..ResponderLimits::default() };
    let processor: Arc<dyn Processor> = Arc::new(InventiveProcessor(Arc::clone(world)));
    ResponderSettings { mode: ResponderMode::On, processor: Some(processor), limits }
}

/// Returns the events that must be stored before the first question: the channel and the asker.
pub(super) fn openers() -> [String; 2] {
    let clock = ts(START_MICROS);
    let first = event::message(&clock, ASKER, "first");
    [
        event::envelope(TEAM, "EvAskedPerson", &event::user_change(ASKER, "asker", &clock)),
        event::envelope(TEAM, "EvAskedOpener", &event::posted(CHANNEL, &first)),
    ]
}

/// Whether the archive has the asker and the public channel.
pub(super) fn is_known(all: &SimulationState) -> bool {
    let (Ok(team), Ok(user), Ok(channel)) =
        (TeamId::parse(TEAM), UserId::parse(ASKER), ChannelId::parse(CHANNEL))
    else {
        return false;
    };
    [ItemKey::user(&team, &user), ItemKey::public_mark(&team, &channel)]
        .iter()
        .all(|key| all.archive.item(key).is_some())
}

/// Returns the events of the channel: questions as new threads and in one thread, some of which are deleted;
/// replies without a mention; and mentions by another bot.
pub(super) fn plan(world: &World) -> Vec<PlannedRequest> {
    let count = 1 + world.random_below(5);
    let at = |n: u64, micros: i64| {
        ts(START_MICROS + 2_000_000 + i64::try_from(n).unwrap_or_default() * 1_000_000 + micros)
    };
    let root = at(0, 0);
    // A reply comes after the message it replies to.
    let mut at_ms = 0;
    let mut planned = Vec::new();
    for n in 0..count {
        let mut add = |at_ms, name: &str, event: &Value| {
            let body = event::envelope(TEAM, &format!("Ev{name}{n}"), event);
            planned.push(PlannedRequest { at_ms, body, fate: ExpectedOutcome::Accepted });
        };
        let (clock, text) = (at(n, 0), format!("<@{APP}> {QUESTION} {n}?"));
        let is_reply = n > 0 && world.chance_percent(50);
        let message = if is_reply {
            event::reply(&clock, &root, ASKER, &text)
        } else {
            event::message(&clock, ASKER, &text)
        };
        add(at_ms, "Asked", &event::posted(CHANNEL, &message));
        // Only replies are deleted: deleting a root would delete its thread.
        if is_reply && world.chance_percent(30) {
            let deleted = event::deleted(CHANNEL, &message, &at(n, 100_000));
            add(at_ms + world.random_below(30_000), "AskedDeleted", &deleted);
        }
        if world.chance_percent(20) {
            let mut mention =
                event::bot_message(&at(n, 200_000), "B0DEPLOY", "deploy", &format!("<@{APP}> done"));
            mention["thread_ts"] = root.clone().into();
            add(at_ms + world.random_below(30_000), "AskedByBot", &event::posted(CHANNEL, &mention));
        }
        if world.chance_percent(30) {
            let remark = event::reply(&at(n, 300_000), &root, ASKER, &format!("{REMARK} {n}"));
            add(at_ms + world.random_below(30_000), "AskedRemark", &event::posted(CHANNEL, &remark));
        }
        at_ms += world.random_below(25_000);
    }
    planned
}

/// Sends the app the events of its own messages, and replies from people.
pub(super) struct OwnPosts {
    all: Arc<SimulationState>,
    sender: Arc<SlackSender>,
    delivered: usize,
    follow_ups: u64,
}

impl OwnPosts {
    pub(super) fn new(all: &Arc<SimulationState>, sender: &Arc<SlackSender>) -> Self {
        Self { all: Arc::clone(all), sender: Arc::clone(sender), delivered: 0, follow_ups: 0 }
    }

    /// Delivers events while the faults last, with Slack's retries.
    pub(super) async fn deliver_during_faults(&mut self) {
        let mut sending = JoinSet::new();
        while self.all.asks && self.all.world.has_faults() {
            for body in self.new_events() {
                let sender = Arc::clone(&self.sender);
                let planned = vec![PlannedRequest { at_ms: 0, body, fate: ExpectedOutcome::Accepted }];
                sending.spawn(async move { sender.send_all(planned).await });
            }
            sleep(Duration::from_millis(500)).await;
        }
        while sending.join_next().await.is_some() {}
    }

    /// Delivers events after the faults, until the app posts nothing new.
    pub(super) async fn deliver_remaining(&mut self) {
        for _ in 0..MAX_ROUNDS {
            let events = self.new_events();
            if events.is_empty() {
                return;
            }
            for body in events {
                self.sender.deliver_until_accepted(&body).await;
            }
            wait_until_idle(&self.all).await;
        }
        self.all.world.report_violation(Invariant::Bounded, "the app answers itself".into());
    }

    /// Returns the events of the app's new posts, and of replies to them.
    fn new_events(&mut self) -> Vec<String> {
        let world = &self.all.world;
        let posted = self.all.truth.posted_in(CHANNEL);
        let mut bodies = Vec::new();
        for message in posted.iter().skip(self.delivered) {
            let posted = event::posted(CHANNEL, message);
            bodies.push(event::envelope(TEAM, &format!("EvOwn{}", self.delivered), &posted));
            self.delivered += 1;
            if self.follow_ups < MAX_FOLLOW_UPS && world.chance_percent(30) {
                let (Some(root), Some(after)) = (message["thread_ts"].as_str(), micros(message)) else {
                    continue;
                };
                let text = format!("one more {QUESTION}?");
                let reply = event::reply(&ts(after + 500), root, ASKER, &text);
                let name = format!("EvAskedOn{}", self.follow_ups);
                bodies.push(event::envelope(TEAM, &name, &event::posted(CHANNEL, &reply)));
                self.follow_ups += 1;
            }
        }
        bodies
    }
}

fn micros(message: &Value) -> Option<i64> {
    Some(Ts::parse(message["ts"].as_str()?).ok()?.micros())
}

/// A person's last request about a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastRequest {
    /// The person cancelled it.
    Cancelled,
    /// The person asked it again.
    AskedAgain,
}

/// The last request by the name of the question.
pub(super) type LastRequests = Mutex<BTreeMap<String, LastRequest>>;

/// A person cancels questions and asks them again, as `annalist questions` does.
pub(super) async fn cancel_and_ask_again(all: &SimulationState) {
    let world = &all.world;
    if !all.asks || world.chance_percent(60) {
        return;
    }
    for _ in 0..=world.random_below(4) {
        sleep(world.random_millis(1_000..60_000)).await;
        let questions: Vec<QuestionRow> = all.archive.items().iter().filter_map(question).collect();
        let index = usize::try_from(world.random_below(questions.len() as u64)).unwrap_or_default();
        let Some(question) = questions.get(index) else { continue };
        let answer = answer_of(all, &question.id);
        if answer.as_ref().is_some_and(|answer| answer.state.stage == WorkStage::Finished) {
            continue;
        }
        let request = if world.chance_percent(50) { LastRequest::Cancelled } else { LastRequest::AskedAgain };
        world.note("person", || format!("{request:?}: {}", question.id.name()));
        lock(&all.last_requests).insert(question.id.name(), request);
        let (now_s, again) = (world.true_now().seconds(), question.state.next_generation());
        let written = match request {
            LastRequest::AskedAgain => ask_again(all, question).await,
            LastRequest::Cancelled => {
                let failed = again.with_stage(WorkStage::Failed);
                let why = Some("question cancelled");
                let mut updates = vec![rows::question_state_update(&question.id, failed, why, now_s)];
                updates.extend(answer.map(|answer| {
                    rows::answer_state_update(
                        &answer.id,
                        answer.state.with_stage(WorkStage::Failed),
                        why,
                        now_s,
                    )
                }));
                all.archive.write_all(&updates.iter().collect::<Vec<_>>()).await.iter().all(Result::is_ok)
            }
        };
        if !written {
            world.report_violation(Invariant::Archive, "a person's request cannot be written".into());
        }
    }
}

/// Asks a question again. Returns whether that succeeded.
async fn ask_again(all: &SimulationState, question: &QuestionRow) -> bool {
    let again = question.state.next_generation();
    let job = QuestionJob { id: question.id.clone(), content: None, attempt: again.generation };
    let update = rows::question_state_update(&question.id, again, None, all.world.true_now().seconds());
    let written = all.archive.write(&update).await;
    written.is_ok() && all.ledger.send(vec![job.outgoing()]).await.iter().all(Result::is_ok)
}

/// A person asks again each question whose answer Slack refused to accept.
pub(super) async fn ask_refused_again(all: &SimulationState) {
    for question in all.archive.items().iter().filter_map(question) {
        let is_failed =
            answer_of(all, &question.id).is_some_and(|answer| answer.state.stage == WorkStage::Failed);
        let is_cancelled = lock(&all.last_requests).get(&question.id.name()) == Some(&LastRequest::Cancelled);
        if !is_failed || is_cancelled {
            continue;
        }
        all.world.note("person", || format!("asks a refused question again: {}", question.id.name()));
        lock(&all.last_requests).insert(question.id.name(), LastRequest::AskedAgain);
        if !ask_again(all, &question).await {
            all.world.report_violation(Invariant::Archive, "a question cannot be asked again".into());
        }
    }
}

/// Reads a row as a question, if it is one.
pub(super) fn question(row: &Item) -> Option<QuestionRow> {
    QuestionRow::read(row).filter(|_| row.key.item_id.starts_with("question#"))
}

/// Returns the answer to a question, if there is one.
pub(super) fn answer_of(all: &SimulationState, id: &QuestionId) -> Option<AnswerRow> {
    let row = all.archive.item(&ItemKey::answer(&id.team, &id.channel, &id.ts));
    row.as_ref().and_then(AnswerRow::read)
}
