//! Checks the answers at the end of a run: each question has one complete answer, in its thread and in order.
//! A question that was deleted or cancelled may have no answer. The app answers nothing else.

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

use super::fleet::SimulationState;
use super::questions::{ASKER, CHANNEL, LastRequest, QUESTION, REMARK, answer_of, question};
use super::verdict::request;
use super::world::{FaultKind, Invariant, lock};

/// The questions in the accepted events.
#[derive(Default)]
struct ExpectedAnswers {
    /// By the timestamp of the question's message.
    questions: BTreeMap<String, QuestionId>,
    /// Replies that are questions only if the app had already posted in their thread.
    remarks: BTreeMap<String, QuestionId>,
    /// Timestamps of deleted messages.
    deleted: BTreeSet<String>,
}

fn expected_answers(all: &SimulationState) -> ExpectedAnswers {
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
        let message_text = event["text"].as_str().unwrap_or_default();
        let thread_ts = text("thread_ts").unwrap_or_else(|| ts.clone());
        let id = QuestionId { team, channel, ts, thread_ts };
        if message_text.contains(QUESTION) {
            found.questions.insert(id.ts.to_string(), id);
        } else if message_text.contains(REMARK) {
            found.remarks.insert(id.ts.to_string(), id);
        }
    }
    found
}

/// Compares the app's posts with the questions.
pub(super) fn check_answers(all: &SimulationState) {
    let posted = all.truth.posted_in(CHANNEL);
    let ExpectedAnswers { questions, remarks, deleted } = expected_answers(all);
    let mut answers: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for message in &posted {
        answers.entry(question_name(message).to_owned()).or_default().push(message);
    }
    for id in questions.values() {
        let parts = answers.remove(&id.name()).unwrap_or_default();
        check_answer(all, id, &parts, deleted.contains(id.ts.as_str()));
    }
    for id in remarks.values() {
        let parts = answers.remove(&id.name()).unwrap_or_default();
        let row = all.archive.item(&ItemKey::question(&id.team, &id.channel, &id.ts));
        if row.as_ref().and_then(question).is_some() || !parts.is_empty() {
            check_answer(all, id, &parts, deleted.contains(id.ts.as_str()));
        }
    }
    if let Some(name) = answers.keys().next() {
        all.world.report_violation(Invariant::Genuine, format!("{name} was never asked but has an answer"));
    }
    check_order(all, &posted);
}

/// Returns the name of the question that a message of the app answers.
fn question_name(message: &Value) -> &str {
    message["metadata"]["event_payload"]["id"].as_str().unwrap_or_default()
}

/// Checks that a question has one complete answer, in its thread and with its parts in order.
fn check_answer(all: &SimulationState, id: &QuestionId, parts: &[&Value], is_deleted: bool) {
    let facts: ErasureFacts = lock(&all.erasures).iter().collect();
    let broke =
        |invariant, what: String| all.world.report_violation(invariant, format!("{}: {what}", id.name()));
    let numbers: Vec<u64> =
        parts.iter().filter_map(|part| part["metadata"]["event_payload"]["part"].as_u64()).collect();
    if !numbers.iter().copied().eq(0..numbers.len() as u64) {
        broke(Invariant::Doubled, format!("its parts are posted as {numbers:?}"));
    }
    if parts.iter().any(|part| part["thread_ts"] != id.thread_ts.as_str()) {
        broke(Invariant::OutOfOrder, "it is answered in another thread".into());
    }
    let key = ItemKey::message(&id.team, &id.channel, &id.ts);
    // Erasing one message of an answer erases the whole answer.
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
    if is_deleted || lock(&all.last_requests).get(&id.name()) == Some(&LastRequest::Cancelled) {
        // Parts posted before the withdrawal remain.
        let expected_parts = answer.as_ref().map(|answer| outgoing::parts(&answer.text)).unwrap_or_default();
        if !expected_parts.iter().map(String::as_str).take(texts.len()).eq(texts.iter().copied()) {
            broke(Invariant::Doubled, format!("{} parts are not the first ones of its answer", texts.len()));
        }
        let is_over = |stage| matches!(stage, WorkStage::Failed | WorkStage::Finished);
        if !stage.is_some_and(is_over) {
            broke(Invariant::Archive, format!("it was withdrawn but ends as {stage:?}"));
        }
        return;
    }
    let Some(answer) = answer else {
        broke(Invariant::Lost, format!("it has no answer: {question:?}"));
        return;
    };
    let expected_parts = outgoing::parts(&answer.text);
    if texts != expected_parts {
        broke(Invariant::Lost, format!("{} of {} parts are posted", texts.len(), expected_parts.len()));
    }
    let stages = (stage, answer.state.stage);
    if stages != (Some(WorkStage::Finished), WorkStage::Finished) {
        broke(Invariant::Archive, format!("it ends as {stages:?}"));
    }
}

/// Checks that the questions of a thread are answered in the order in which they were accepted, each
/// completely before the next. A question that a person asks again is answered out of order, and so is a
/// replayed job.
fn check_order(all: &SimulationState, posted: &[Value]) {
    if all.world.tally().injected(FaultKind::DeadLetters) > 0 {
        return;
    }
    let mut accepted_names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut out_of_order: BTreeSet<String> = lock(&all.last_requests).keys().cloned().collect();
    for body in all.ledger.accepted(QueueName::Questions) {
        let Ok(Job { payload: Payload::Question(raw), origin, .. }) = Job::decode(&body) else { continue };
        let Ok(QuestionJob { id, attempt: 0, .. }) = QuestionJob::decode(raw) else { continue };
        let names = accepted_names.entry(id.thread_ts.to_string()).or_default();
        if origin.is_some() {
            out_of_order.insert(id.name());
        } else if !names.contains(&id.name()) {
            // A message writer that died before its ack sends the job twice.
            names.push(id.name());
        }
    }
    for body in all.ledger.accepted(QueueName::Replies) {
        if let Ok(Job { payload: Payload::Reply(raw), origin: Some(_), .. }) = Job::decode(&body)
            && let Ok(ReplyJob { id, .. }) = ReplyJob::decode(raw)
        {
            out_of_order.insert(id.name());
        }
    }
    for (thread_ts, expected) in accepted_names {
        let in_thread = posted.iter().filter(|message| message["thread_ts"] == thread_ts.as_str());
        let mut names: Vec<&str> =
            in_thread.map(question_name).filter(|name| !out_of_order.contains(*name)).collect();
        names.dedup();
        let expected: Vec<&str> =
            expected.iter().map(String::as_str).filter(|name| names.contains(name)).collect();
        if names != expected {
            let what = format!("{expected:?} are answered as {names:?}");
            all.world.report_violation(Invariant::OutOfOrder, what);
        }
    }
}
