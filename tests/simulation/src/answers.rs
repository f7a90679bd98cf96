//! What has to become of the questions in the end: each has one answer, whole, in its thread and in its turn; or none, if it was deleted
//! or a person has cancelled it; and nothing else is answered.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{ErasureFacts, ItemKey};
use ports::queue::QueueName;
use ports::queue::job::{Job, Payload};
use rules::outgoing;
use rules::question::QuestionId;
use rules::question::job::{QuestionJob, ReplyJob};
use rules::question::state::WorkStage;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::TEAM;

use super::fleet::Surroundings;
use super::questions::{ASKER, CHANNEL, LastWish, QUESTION, REMARK, answer_of, question};
use super::verdict::request;
use super::world::{FaultKind, Invariant, lock};

/// What the accepted events say of questions.
#[derive(Default)]
struct ExpectedAnswers {
    /// By the time of their messages.
    questions: BTreeMap<String, QuestionId>,
    /// Replies that ask only if the app had spoken in their thread by then.
    remarks: BTreeMap<String, QuestionId>,
    /// The times of messages that were deleted.
    deleted: BTreeSet<String>,
}

fn told(all: &Surroundings) -> ExpectedAnswers {
    let mut found = ExpectedAnswers::default();
    for body in all.ledger.accepted(QueueName::Events) {
        let event = request(&body).unwrap_or_default()["event"].take();
        let text = |name: &str| event[name].as_str().and_then(|ts| Ts::parse(ts).ok());
        let (Ok(team), Ok(channel)) = (TeamId::parse(TEAM), ChannelId::parse(CHANNEL)) else { continue };
        if event["channel"] != CHANNEL {
            continue;
        }
        found.deleted.extend(text("deleted_ts").map(|ts| ts.to_string()));
        let Some(ts) = text("ts").filter(|_| event["user"] == ASKER) else { continue };
        let said = event["text"].as_str().unwrap_or_default();
        let thread_ts = text("thread_ts").unwrap_or_else(|| ts.clone());
        let id = QuestionId { team, channel, ts, thread_ts };
        if said.contains(QUESTION) {
            found.questions.insert(id.ts.to_string(), id);
        } else if said.contains(REMARK) {
            found.remarks.insert(id.ts.to_string(), id);
        }
    }
    found
}

/// Holds what was posted against what was asked.
pub(super) fn judge(all: &Surroundings) {
    let posted = all.truth.posted_in(CHANNEL);
    let ExpectedAnswers { questions, remarks, deleted } = told(all);
    let mut answers: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for message in &posted {
        answers.entry(name_of(message).to_owned()).or_default().push(message);
    }
    for id in questions.values() {
        let parts = answers.remove(&id.name()).unwrap_or_default();
        answered(all, id, &parts, deleted.contains(id.ts.as_str()));
    }
    for id in remarks.values() {
        let parts = answers.remove(&id.name()).unwrap_or_default();
        let row = all.archive.item(&ItemKey::question(&id.team, &id.channel, &id.ts));
        if row.as_ref().and_then(question).is_some() || !parts.is_empty() {
            answered(all, id, &parts, deleted.contains(id.ts.as_str()));
        }
    }
    if let Some(name) = answers.keys().next() {
        all.world.broke(Invariant::Genuine, format!("{name} was never asked, and is answered"));
    }
    in_turn(all, &posted);
}

/// The question that a message of the app answers.
fn name_of(message: &Value) -> &str {
    message["metadata"]["event_payload"]["id"].as_str().unwrap_or_default()
}

/// A question has its answer once, in its thread, whole and in order.
fn answered(all: &Surroundings, id: &QuestionId, parts: &[&Value], is_deleted: bool) {
    let facts: ErasureFacts = lock(&all.erasures).iter().collect();
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
        return;
    }
    let row = all.archive.item(&ItemKey::question(&id.team, &id.channel, &id.ts));
    let question = row.as_ref().and_then(question);
    let stage = question.as_ref().map(|question| question.state.stage);
    let answer = answer_of(all, id);
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    if is_deleted || lock(&all.wishes).get(&id.name()) == Some(&LastWish::Cancelled) {
        // What was posted before stays.
        let wanted = answer.as_ref().map(|answer| outgoing::parts(&answer.text)).unwrap_or_default();
        if !wanted.iter().map(String::as_str).take(texts.len()).eq(texts.iter().copied()) {
            broke(Invariant::Doubled, format!("{} parts are not the first ones of its answer", texts.len()));
        }
        let is_over = |stage| matches!(stage, WorkStage::Failed | WorkStage::Finished);
        if !stage.is_some_and(is_over) {
            broke(Invariant::Archive, format!("it is withdrawn, and ends as {stage:?}"));
        }
        return;
    }
    let Some(answer) = answer else {
        broke(Invariant::Lost, format!("it has no answer: {question:?}"));
        return;
    };
    let wanted = outgoing::parts(&answer.text);
    if texts != wanted {
        broke(Invariant::Lost, format!("{} of {} parts are posted", texts.len(), wanted.len()));
    }
    let stages = (stage, answer.state.stage);
    if stages != (Some(WorkStage::Finished), WorkStage::Finished) {
        broke(Invariant::Archive, format!("it ends as {stages:?}"));
    }
}

/// The questions of a thread are answered in the order in which they were taken on, each whole before the next. What a person asks
/// again comes when they do, and a dead letter or a quarantined job when it is replayed.
fn in_turn(all: &Surroundings, posted: &[Value]) {
    if all.world.tally().of(FaultKind::DeadLetters) > 0 {
        return;
    }
    let mut taken_on: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut out_of_turn: BTreeSet<String> = lock(&all.wishes).keys().cloned().collect();
    for body in all.ledger.accepted(QueueName::Questions) {
        let Ok(Job { payload: Payload::Question(raw), origin, .. }) = Job::decode(&body) else { continue };
        let Ok(QuestionJob { id, attempt: 0, .. }) = QuestionJob::decode(raw) else { continue };
        let names = taken_on.entry(id.thread_ts.to_string()).or_default();
        if origin.is_some() {
            out_of_turn.insert(id.name());
        } else if !names.contains(&id.name()) {
            // A message writer that died before its ack sends the job again.
            names.push(id.name());
        }
    }
    for body in all.ledger.accepted(QueueName::Replies) {
        if let Ok(Job { payload: Payload::Reply(raw), origin: Some(_), .. }) = Job::decode(&body)
            && let Ok(ReplyJob { id, .. }) = ReplyJob::decode(raw)
        {
            out_of_turn.insert(id.name());
        }
    }
    for (thread_ts, expected) in taken_on {
        let in_thread = posted.iter().filter(|message| message["thread_ts"] == thread_ts.as_str());
        let mut names: Vec<&str> =
            in_thread.map(name_of).filter(|name| !out_of_turn.contains(*name)).collect();
        names.dedup();
        let expected: Vec<&str> =
            expected.iter().map(String::as_str).filter(|name| names.contains(name)).collect();
        if names != expected {
            let what = format!("{expected:?} are answered as {names:?}");
            all.world.broke(Invariant::OutOfOrder, what);
        }
    }
}
