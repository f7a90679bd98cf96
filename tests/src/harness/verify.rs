//! Compares an archive, as the command line shows it, with the sent events.

use serde_json::Value;

use super::command::{json_lines, status};
use super::environment::ProgramEnvironment;
use testkit::corpus::Model;
use testkit::corpus::model::ExpectedMessage;

/// Asserts [`assert_messages`], and that the quarantine is empty.
///
/// # Panics
/// If an assertion fails.
pub async fn assert_archive_holds(environment: &(impl ProgramEnvironment + ?Sized), model: &Model) {
    assert_messages(environment, model).await;
    assert_nothing_quarantined(&status(environment).await);
}

/// Asserts that the archive contains every message once, in order, with its newest text and its flags, and
/// the revisions of one edited message per channel.
///
/// # Panics
/// If an assertion fails.
pub async fn assert_messages(environment: &(impl ProgramEnvironment + ?Sized), model: &Model) {
    for (channel, expected) in &model.channels {
        let rows = json_lines(environment, &["messages", channel]).await;
        let found: Vec<&str> = rows.iter().map(|row| text(row, "ts")).collect();
        let expected_ts: Vec<&str> = expected.keys().map(String::as_str).collect();
        assert_eq!(found, expected_ts, "the messages of {channel}");
        for (row, (ts, expected)) in rows.iter().zip(expected) {
            assert_row(channel, ts, row, expected);
        }
        if let Some((ts, message)) = expected.iter().find(|(_, message)| !message.replaced.is_empty()) {
            let revisions = json_lines(environment, &["revisions", channel, ts]).await;
            let texts: Vec<&str> = revisions.iter().map(|revision| text(revision, "text")).collect();
            assert_eq!(texts, message.replaced, "the revisions of {ts} in {channel}");
        }
    }
}

/// Asserts that no job is quarantined and no queue has dead letters.
///
/// # Panics
/// If there is one.
pub fn assert_nothing_quarantined(status: &Value) {
    assert_eq!(status["quarantined"], 0, "{status}");
    let queues = status["queues"].as_array().expect("status lists the queues");
    assert!(!queues.is_empty() && queues.iter().all(|queue| queue["dead"] == 0), "{status}");
}

fn assert_row(channel: &str, ts: &str, row: &Value, expected: &ExpectedMessage) {
    let context = format!("{ts} in {channel}: {row}");
    assert_eq!(text(row, "text"), expected.text, "{context}");
    // Absent means false: nothing is stored for a message that was not deleted.
    assert_eq!(row.get("deleted"), expected.deleted.then_some(&Value::Bool(true)), "{context}");
    assert_eq!(row.get("updated_ts").is_some(), !expected.replaced.is_empty(), "{context}");
    assert_eq!(row.get("thread_ts").and_then(Value::as_str), expected.thread_ts.as_deref(), "{context}");
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_else(|| panic!("no {name} in {row}"))
}
