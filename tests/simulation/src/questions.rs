//! People ask questions while everything goes wrong: each gets one answer, whole and in order, and none gets two.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{ErasureFacts, ItemKey};
use ports::queue::QueueName;
use ports::queue::job::Job;
use process::config::responder::{ResponderLimits, ResponderMode, ResponderSettings};
use processor::{Answer, Processor, ProcessorError, Prompt};
use rules::outgoing;
use rules::question::QuestionId;
use rules::question::rows::{AnswerRow, QuestionRow};
use rules::question::state::WorkStage;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, event, ts};

use super::fleet::Surroundings;
use super::workload::{Fate, Planned, START_MICROS};
use super::world::{Invariant, World, lock};

/// Where people ask. Nothing else happens there.
pub(super) const CHANNEL: &str = "C0ASKED";

/// Who asks. This person is never erased, their questions may be.
const ASKER: &str = "U0ASKER";

/// The app, as events name it.
const APP: &str = "U0ANNALIST";

/// No clock that jumps makes a question too old.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A model that is quick and never says the same thing twice, in one message or in two.
struct InventiveProcessor(Arc<World>);

#[async_trait]
impl Processor for InventiveProcessor {
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError> {
        tokio::time::sleep(self.0.millis(1..3_000)).await;
        if self.0.has_faults() && self.0.percent(10) {
            return Err(ProcessorError::Transient { reason: "the model is busy".into(), after: None });
        }
        let words = if self.0.percent(30) { 1_000 } else { 1 };
        Ok(Answer::Text(format!("{} {} {}", prompt.id, self.0.below(1_000_000), "word ".repeat(words))))
    }
}

/// The settings of every process.
pub(super) fn settings(world: &Arc<World>, asked: bool) -> ResponderSettings {
    if !asked {
        return ResponderSettings::off();
    }
    let limits = ResponderLimits { max_age: MAX_AGE, per_user_hour: 1_000, ..ResponderLimits::default() };
    let processor: Arc<dyn Processor> = Arc::new(InventiveProcessor(Arc::clone(world)));
    ResponderSettings { mode: ResponderMode::On, processor: Some(processor), limits }
}

/// What is known before anything is asked: the channel and who asks.
pub(super) fn openers() -> [String; 2] {
    let clock = ts(START_MICROS);
    let first = event::message(&clock, ASKER, "first");
    [
        event::envelope(TEAM, "EvAskedPerson", &event::user_change(ASKER, "asker", &clock)),
        event::envelope(TEAM, "EvAskedOpener", &event::posted(CHANNEL, &first)),
    ]
}

/// Whether it is.
pub(super) fn is_known(all: &Surroundings) -> bool {
    let (Ok(team), Ok(user), Ok(channel)) =
        (TeamId::parse(TEAM), UserId::parse(ASKER), ChannelId::parse(CHANNEL))
    else {
        return false;
    };
    [ItemKey::user(&team, &user), ItemKey::public_mark(&team, &channel)]
        .iter()
        .all(|key| all.archive.item(key).is_some())
}

/// The questions: in threads of their own, and some of them in one thread.
pub(super) fn plan(world: &World) -> Vec<Planned> {
    let count = 1 + world.below(5);
    let root = ts(START_MICROS + 2_000_000);
    // A reply is said after what it replies to.
    let mut at_ms = 0;
    (0..count)
        .map(|n| {
            let clock = ts(START_MICROS + 2_000_000 + i64::try_from(n).unwrap_or_default() * 1_000_000);
            let text = format!("<@{APP}> question {n}?");
            let message = if n > 0 && world.percent(50) {
                event::reply(&clock, &root, ASKER, &text)
            } else {
                event::message(&clock, ASKER, &text)
            };
            let body = event::envelope(TEAM, &format!("EvAsked{n}"), &event::posted(CHANNEL, &message));
            at_ms += world.below(25_000);
            Planned { at_ms, body, fate: Fate::Accepted }
        })
        .collect()
}

/// The questions that were accepted.
fn accepted(all: &Surroundings) -> Vec<QuestionId> {
    let mut questions: BTreeMap<String, QuestionId> = BTreeMap::new();
    for body in all.ledger.accepted(QueueName::Events) {
        let Some(request) =
            Job::decode(&body).ok().and_then(|job| job.event().map(|raw| raw.get().to_owned()))
        else {
            continue;
        };
        let event = serde_json::from_str::<Value>(&request).unwrap_or_default()["event"].take();
        let is_asked = event["channel"] == CHANNEL
            && event["text"].as_str().is_some_and(|text| text.contains("question"));
        let text = |name: &str| event[name].as_str().and_then(|ts| Ts::parse(ts).ok());
        let (Ok(team), Ok(channel)) = (TeamId::parse(TEAM), ChannelId::parse(CHANNEL)) else { continue };
        if let Some(ts) = text("ts").filter(|_| is_asked) {
            let thread_ts = text("thread_ts").unwrap_or_else(|| ts.clone());
            questions.insert(ts.to_string(), QuestionId { team, channel, ts, thread_ts });
        }
    }
    questions.into_values().collect()
}

/// In the end each question has its answer once, in its thread, whole and in order.
pub(super) fn judge(all: &Surroundings) {
    let posted = all.truth.posted_in(CHANNEL);
    let facts: ErasureFacts = lock(&all.erasures).iter().collect();
    let mut answers: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for message in &posted {
        let name = message["metadata"]["event_payload"]["id"].as_str().unwrap_or_default();
        answers.entry(name.to_owned()).or_default().push(message);
    }
    for id in accepted(all) {
        let parts = answers.remove(&id.name()).unwrap_or_default();
        let broke = |invariant, what: String| all.world.broke(invariant, format!("{}: {what}", id.name()));
        let numbers: Vec<u64> =
            parts.iter().filter_map(|part| part["metadata"]["event_payload"]["part"].as_u64()).collect();
        if !numbers.iter().copied().eq(0..numbers.len() as u64) {
            broke(Invariant::Doubled, format!("its parts are posted as {numbers:?}"));
        }
        if parts.iter().any(|part| part["thread_ts"] != id.thread_ts.as_str()) {
            broke(Invariant::OutOfOrder, "it is answered in another thread".into());
        }
        let key = ItemKey::message(&id.team, &id.channel, &id.ts);
        // With a message of the app, the whole answer goes.
        let is_erased = |message: &Value| {
            let ts = message["ts"].as_str().and_then(|ts| Ts::parse(ts).ok());
            ts.is_some_and(|ts| facts.covers_content(&ItemKey::message(&id.team, &id.channel, &ts), None))
        };
        if facts.covers_content(&key, Some(ASKER)) || parts.iter().copied().any(is_erased) {
            continue;
        }
        let row = |key: ItemKey| all.archive.item(&key);
        let question = row(ItemKey::question(&id.team, &id.channel, &id.ts));
        let question = question.as_ref().and_then(QuestionRow::read);
        let answer = row(ItemKey::answer(&id.team, &id.channel, &id.ts));
        let Some(answer) = answer.as_ref().and_then(AnswerRow::read) else {
            broke(Invariant::Lost, format!("it has no answer: {question:?}"));
            continue;
        };
        let wanted = outgoing::parts(&answer.text);
        let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        if texts != wanted {
            broke(Invariant::Lost, format!("{} of {} parts are posted", texts.len(), wanted.len()));
        }
        let stages = (question.map(|question| question.state.stage), answer.state.stage);
        if stages != (Some(WorkStage::Finished), WorkStage::Finished) {
            broke(Invariant::Archive, format!("it ends as {stages:?}"));
        }
    }
    if let Some(name) = answers.keys().next() {
        all.world.broke(Invariant::Genuine, format!("{name} was never asked, and is answered"));
    }
}
