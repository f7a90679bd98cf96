//! A message as text for people: a line that says when, which and who, then what.

use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::Value;
use shared::slack::ids::Ts;

use super::mrkdwn;
use super::names::Names;
use crate::plain;

/// The text stands so far in from the line above it.
const TEXT_INDENT: usize = 4;

/// So much of a file's name fits its line.
const FILE_NAME: usize = 120;

/// Where a message stands among others.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Columns the whole message is moved to the right.
    pub(super) indent: usize,
    /// What to say about it beside what it says itself.
    pub(super) mark: Option<&'static str>,
    /// One of several versions: it stands at the time of its edit.
    pub(super) is_version: bool,
    /// The thread it belongs to, where that is not seen from around it.
    pub(super) reply_to: Option<String>,
}

/// A message among the others of its channel.
pub(super) fn in_channel(message: &Value) -> Layout {
    let thread_ts = message["thread_ts"].as_str();
    let is_root = thread_ts.is_some() && thread_ts == message["ts"].as_str();
    Layout {
        mark: is_root.then_some("thread"),
        reply_to: thread_ts.filter(|_| !is_root).map(plain::line),
        ..Layout::default()
    }
}

/// A version that an edit replaced.
pub(super) fn as_replaced_version(_: &Value) -> Layout {
    Layout { mark: Some("replaced"), is_version: true, ..Layout::default() }
}

/// A message behind its earlier versions.
pub(super) fn as_current_version(message: &Value) -> Layout {
    let mark = (message["deleted"] != true).then_some("now");
    Layout { mark, is_version: true, ..Layout::default() }
}

/// Prints a message.
pub(super) fn message(
    out: &mut dyn Write,
    message: &Value,
    names: &Names<'_>,
    layout: &Layout,
) -> io::Result<()> {
    let indent = layout.indent;
    writeln!(out, "{:indent$}{}", "", head(message, names, layout))?;
    let indent = indent + TEXT_INDENT;
    for line in body(message, names) {
        if line.is_empty() {
            writeln!(out)?;
        } else {
            writeln!(out, "{:indent$}{line}", "")?;
        }
    }
    Ok(())
}

fn head(message: &Value, names: &Names<'_>, layout: &Layout) -> String {
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    let edited_at: Option<Timestamp> = message["updated_ts"].as_str().and_then(|time| time.parse().ok());
    let time = edited_at.filter(|_| layout.is_version).map_or_else(|| time(text("ts")), in_utc);
    let mut head = format!("{time}  {}  {}", plain::line(text("ts")), author(message, names));
    let edited = (message["updated_ts"].is_string() && !layout.is_version).then_some("edited");
    let deleted = (message["deleted"] == true).then_some("deleted");
    for mark in [edited, deleted, layout.mark].into_iter().flatten() {
        head += &format!(" ({mark})");
    }
    if let Some(thread_ts) = &layout.reply_to {
        head += &format!(" (in thread {thread_ts})");
    }
    head
}

fn author(message: &Value, names: &Names<'_>) -> String {
    let text = |name: &str| message[name].as_str().filter(|text| !text.is_empty());
    let is_bot_message = text("subtype") == Some("bot_message");
    match text("user").filter(|_| !is_bot_message) {
        Some(user) => plain::line(names.of(user)),
        None => text("username").or(text("bot_id")).map_or_else(|| "unknown".to_owned(), plain::line),
    }
}

fn body(message: &Value, names: &Names<'_>) -> Vec<String> {
    let mut lines: Vec<String> = match message["text"].as_str() {
        Some(text) if !text.is_empty() => plain::lines(&mrkdwn::plain(text, names)).collect(),
        Some(_) | None => Vec::new(),
    };
    let list = |name: &str| message[name].as_array().map(Vec::as_slice).unwrap_or_default();
    for file in list("files") {
        let name = ["name", "title", "id"].into_iter().find_map(|name| file[name].as_str());
        let state =
            file_state(message, file).map_or_else(String::new, |state| format!(", {}", plain::line(state)));
        lines.push(format!("[file: {}{state}]", plain::excerpt(name.unwrap_or("unnamed"), FILE_NAME)));
    }
    if lines.is_empty() && message["raw_event"].is_string() {
        lines.push("[no text: --json shows everything]".to_owned());
    }
    let mut reactions = String::new();
    for reaction in list("reactions") {
        let name = plain::line(reaction["name"].as_str().unwrap_or_default());
        let gap = if reactions.is_empty() { "" } else { "  " };
        reactions += &format!("{gap}:{name}: {}", reaction["count"]);
    }
    if !reactions.is_empty() {
        lines.push(reactions);
    }
    lines
}

/// What became of one of a message's files, in a word; `None` while that is not known.
fn file_state<'m>(message: &'m Value, file: &Value) -> Option<&'m str> {
    let id = file["id"].as_str()?;
    let mut held = message["files_s3"].as_array().into_iter().flatten().filter_map(Value::as_str);
    // The last part of a file's key is its id.
    if held.any(|uri| uri.rsplit('/').next() == Some(id)) {
        return Some("held");
    }
    let failed = (message["files_fetch_failed"] == true).then_some("failed");
    message["files_verdict"][id].as_str().or(failed)
}

/// A timestamp in UTC; what lies beyond the year 9999 as it is.
pub(super) fn time(ts: &str) -> String {
    let known = Ts::parse(ts).ok().and_then(|ts| Timestamp::from_microsecond(ts.micros()).ok());
    known.map_or_else(|| plain::line(ts), in_utc)
}

fn in_utc(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::slack::ids::TeamId;

    use super::*;
    use crate::fixture::Fixture;

    async fn rendered(value: &Value, layout: &Layout) -> String {
        let fixture = Fixture::open().await;
        fixture.person("T1", "U1", "ana").await;
        let mut names = Names::new(fixture.archive(), TeamId::parse("T1").unwrap());
        names.learn(std::slice::from_ref(value)).await.unwrap();
        let mut out = Vec::new();
        message(&mut out, value, &names, layout).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[tokio::test]
    async fn a_message_says_when_who_and_what() {
        let value = json!({
            "timestamp": "1795178096.000200", "ts": "1795178096.000200", "user": "U1", "text": "a\nb <@U1>",
            "updated_ts": "2026-11-20T12:40:00.000000Z", "deleted": true, "files": [{ "name": "plan.pdf" }],
            "reactions": [{ "name": "tada", "count": 2, "users": ["U1", "U2"] }, { "name": "eyes", "count": 1 }],
            "thread_ts": "1795178000.000100",
        });
        let text = rendered(&value, &in_channel(&value)).await;
        assert_eq!(
            text,
            "2026-11-20 12:34:56  1795178096.000200  ana (edited) (deleted) (in thread 1795178000.000100)\n    a\n    \
             b @ana\n    [file: plan.pdf]\n    :tada: 2  :eyes: 1\n"
        );
    }

    #[tokio::test]
    async fn a_file_says_whether_it_is_held() {
        let value = json!({ "timestamp": "1.000000", "ts": "1.000000", "user": "U1",
            "files": [{ "id": "F1", "name": "a" }, { "id": "F2", "name": "b" }, { "id": "F3", "name": "c" }, { "name": "d" }],
            "files_s3": ["file:///data/files/slack/T1/C1/1.000000/F1"], "files_verdict": { "F2": "external" } });
        let text = rendered(&value, &in_channel(&value)).await;
        assert!(
            text.ends_with("[file: a, held]\n    [file: b, external]\n    [file: c]\n    [file: d]\n"),
            "{text}"
        );
        let mut failed = value;
        failed["files_fetch_failed"] = true.into();
        assert!(rendered(&failed, &in_channel(&failed)).await.contains("[file: c, failed]"));
    }

    #[tokio::test]
    async fn bots_unknown_people_and_tombstones_have_a_line_too() {
        let bot = json!({ "timestamp": "1.000000", "ts": "1.000000", "subtype": "bot_message", "username": "deploys",
            "bot_id": "B1", "raw_event": "{}" });
        let text = rendered(&bot, &Layout { indent: 4, ..Layout::default() }).await;
        assert_eq!(
            text,
            "    1970-01-01 00:00:01  1.000000  deploys\n        [no text: --json shows everything]\n"
        );
        let stranger = json!({ "timestamp": "1.000000", "ts": "1.000000", "user": "U7", "text": "x" });
        assert!(rendered(&stranger, &Layout::default()).await.contains("  U7\n    x\n"));
        let tombstone = json!({ "timestamp": "1.000000", "ts": "1.000000", "deleted": true });
        let text = rendered(&tombstone, &Layout::default()).await;
        assert_eq!(text, "1970-01-01 00:00:01  1.000000  unknown (deleted)\n");
    }

    #[tokio::test]
    async fn hostile_text_cannot_drive_the_terminal_or_pose_as_another_message() {
        let hostile =
            "x\u{1b}]0;pwned\u{7}\r2020-01-01 00:00:00  ana\n2020-01-01 00:00:00  1.000000  ana\u{9b}2J";
        let value = json!({ "timestamp": hostile, "ts": hostile, "user": hostile, "username": hostile, "text": hostile,
            "files": [{ "name": hostile }], "reactions": [{ "name": hostile, "count": 1 }], "thread_ts": hostile });
        let text = rendered(&value, &in_channel(&value)).await;
        assert!(!text.replace('\n', "").contains(char::is_control), "{text:?}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("    ")), "{text}");
    }

    #[test]
    fn times_beyond_the_calendar_are_shown_as_they_are() {
        assert_eq!(time("999999999999.000000"), "999999999999.000000");
        assert_eq!(time("0.000000"), "1970-01-01 00:00:00");
    }
}
