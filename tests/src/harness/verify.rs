//! Holds an archive, as the command line shows it, against what was sent.

use serde_json::Value;

use super::command::{json_lines, status};
use super::place::ProgramEnvironment;
use testkit::corpus::Model;
use testkit::corpus::model::ExpectedMessage;

/// Every message is there as [`assert_messages`] wants it, and the quarantine is empty.
///
/// # Panics
/// If it is not so.
pub async fn assert_archive_holds(place: &(impl ProgramEnvironment + ?Sized), model: &Model) {
    assert_messages(place, model).await;
    assert_nothing_quarantined(&status(place).await);
}

/// Every message is there once, in order, with its newest text and its marks; the earlier texts of one edited message
/// per channel are there too.
///
/// # Panics
/// If it is not so.
pub async fn assert_messages(place: &(impl ProgramEnvironment + ?Sized), model: &Model) {
    for (channel, expected) in &model.channels {
        let rows = json_lines(place, &["messages", channel]).await;
        let found: Vec<&str> = rows.iter().map(|row| text(row, "ts")).collect();
        let expected_ts: Vec<&str> = expected.keys().map(String::as_str).collect();
        assert_eq!(found, expected_ts, "the messages of {channel}");
        for (row, (ts, expected)) in rows.iter().zip(expected) {
            assert_row(channel, ts, row, expected);
        }
        if let Some((ts, message)) = expected.iter().find(|(_, message)| !message.replaced.is_empty()) {
            let revisions = json_lines(place, &["revisions", channel, ts]).await;
            let texts: Vec<&str> = revisions.iter().map(|revision| text(revision, "text")).collect();
            assert_eq!(texts, message.replaced, "the revisions of {ts} in {channel}");
        }
    }
}

/// Nothing is quarantined and no queue has dead letters.
///
/// # Panics
/// If something is.
pub fn assert_nothing_quarantined(status: &Value) {
    assert_eq!(status["quarantined"], 0, "{status}");
    let queues = status["queues"].as_array().expect("status lists the queues");
    assert!(!queues.is_empty() && queues.iter().all(|queue| queue["dead"] == 0), "{status}");
}

fn assert_row(channel: &str, ts: &str, row: &Value, expected: &ExpectedMessage) {
    let place = format!("{ts} in {channel}: {row}");
    assert_eq!(text(row, "text"), expected.text, "{place}");
    // Absent means false: nothing is stored for a message that was not deleted.
    assert_eq!(row.get("deleted"), expected.deleted.then_some(&Value::Bool(true)), "{place}");
    assert_eq!(row.get("updated_ts").is_some(), !expected.replaced.is_empty(), "{place}");
    assert_eq!(row.get("thread_ts").and_then(Value::as_str), expected.thread_ts.as_deref(), "{place}");
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_else(|| panic!("no {name} in {row}"))
}
