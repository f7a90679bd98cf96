//! Formats a message as text for people: a line with its time, timestamp and author, then its text.

use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::Value;

use reader::files;
use reader::names::DisplayNames;
use reader::numbers::human_size;
use reader::text::{Manner, MessageText, flat};
use rules::view::{MessageView, file_size, is_file_deleted};

use crate::plain;
use crate::zone::Zone;

/// Indentation of the text below the line with the author.
const TEXT_INDENT: usize = 4;

/// Maximum length of a file's name in its line.
const FILE_NAME: usize = 120;

/// The presentation of a message among others.
#[derive(Debug, Default)]
pub(crate) struct MessageLayout {
    /// Indentation of the whole message, in columns.
    pub(crate) indent: usize,
    /// A mark after the author.
    pub(crate) mark: Option<String>,
    /// Whether it is one of several versions, which is shown with the time of its edit.
    pub(crate) is_version: bool,
    /// Whether it is only context: only its beginning is shown, without reactions.
    pub(crate) is_context: bool,
}

/// Maximum number of characters of a message that is only context.
const CONTEXT: usize = 100;

/// Returns the layout of a message in a list that is sorted by time.
pub(super) fn in_channel(message: &MessageView) -> MessageLayout {
    let thread_ts = message.thread_ts();
    let is_root = thread_ts == message.ts();
    let thread =
        |ts: &str| if is_root { "thread".to_owned() } else { format!("in thread {}", plain::line(ts)) };
    MessageLayout { mark: thread_ts.map(thread), ..MessageLayout::default() }
}

/// Returns the layout of a version that an edit replaced.
pub(super) fn as_replaced_version(_: &MessageView) -> MessageLayout {
    MessageLayout { mark: Some("replaced".to_owned()), is_version: true, ..MessageLayout::default() }
}

/// Returns the layout of a current version after the replaced ones.
pub(super) fn as_current_version(message: &MessageView) -> MessageLayout {
    let mark = (!message.is_deleted()).then(|| "now".to_owned());
    MessageLayout { mark, is_version: true, ..MessageLayout::default() }
}

/// The names and the zone with which messages are formatted.
pub(crate) struct Render<'r> {
    pub(crate) names: &'r DisplayNames<'r>,
    pub(crate) zone: &'r Zone,
}

impl Render<'_> {
    pub(crate) fn message(
        &self,
        out: &mut dyn Write,
        message: &MessageView,
        text: &MessageText,
        layout: &MessageLayout,
    ) -> io::Result<()> {
        let indent = layout.indent;
        let (first, lines) = match (text.manner, text.lines.split_first()) {
            (Manner::Notice, Some((first, lines))) => (Some(first), lines),
            (Manner::Notice, None) | (Manner::Speech, _) => (None, text.lines.as_slice()),
        };
        let mut lines: Vec<String> = lines.iter().map(|line| flat::line(line, self.names)).collect();
        lines.extend(shared_files(message));
        if lines.is_empty() && first.is_none() && message.raw_event().is_some() {
            lines.push("[no text: --json shows everything]".to_owned());
        }
        if layout.is_context {
            lines.truncate(1);
            lines.iter_mut().for_each(|line| *line = plain::excerpt(line, CONTEXT));
        } else {
            lines.extend(reactions(message));
        }
        let mut author = self.names.author(&text.author);
        if let Some(first) = first {
            author = format!("* {author} {}", flat::line(first, self.names));
        }
        writeln!(out, "{:indent$}{}{}", "", self.head(message, layout, &author), marks(message, layout))?;
        let indent = indent + TEXT_INDENT;
        for line in lines {
            if line.is_empty() {
                writeln!(out)?;
            } else {
                writeln!(out, "{:indent$}{line}", "")?;
            }
        }
        Ok(())
    }

    fn head(&self, message: &MessageView, layout: &MessageLayout, author: &str) -> String {
        let ts = message.ts().unwrap_or_default();
        let edited_at: Option<Timestamp> = message.updated_ts().and_then(|time| time.parse().ok());
        let edited_at = edited_at.filter(|_| layout.is_version);
        let time = edited_at.map_or_else(|| self.zone.time(ts), |time| self.zone.moment(time));
        format!("{time}  {}  {author}", plain::line(ts))
    }
}

fn marks(message: &MessageView, layout: &MessageLayout) -> String {
    let marks = [
        (message.is_edited() && !layout.is_version, "edited"),
        (message.is_pinned(), "pinned"),
        (message.is_deleted(), "deleted"),
        (message.is_broadcast(), "also in the channel"),
    ];
    marks
        .iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, mark)| *mark)
        .chain(layout.mark.as_deref())
        .map(|mark| format!(" ({mark})"))
        .collect()
}

/// Returns a line for each file of a message.
pub(crate) fn shared_files(message: &MessageView) -> impl Iterator<Item = String> {
    message.files().iter().map(|file| shared_file(message, file))
}

fn shared_file(message: &MessageView, file: &Value) -> String {
    let name = ["name", "title", "id"].into_iter().find_map(|name| file[name].as_str());
    let mut shown = format!("[file: {}", plain::excerpt(name.unwrap_or("unnamed"), FILE_NAME));
    let size = file_size(file).map(human_size);
    let state = files::file_state(message, file);
    let deleted = (is_file_deleted(file) && state != Some("deleted")).then(|| "deleted".to_owned());
    for detail in [size, state.map(plain::line), deleted].into_iter().flatten() {
        shown += &format!(", {detail}");
    }
    shown.push(']');
    shown
}

/// Returns a line with the reactions to a message.
fn reactions(message: &MessageView) -> Option<String> {
    let shown: Vec<String> = message
        .reactions()
        .iter()
        .map(|reaction| {
            let name = plain::line(reaction["name"].as_str().unwrap_or_default());
            format!(":{name}: {}", reaction["count"])
        })
        .collect();
    (!shown.is_empty()).then(|| shown.join("  "))
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use serde_json::json;
    use slack::ids::TeamId;

    use super::*;
    use crate::fixture::{CliFixture, message_args};
    use reader::text;

    async fn rendered(value: &Value, layout: &MessageLayout) -> String {
        let value = &MessageView::from(value.clone());
        let fixture = CliFixture::open().await;
        fixture.person("T1", "U1", "ana").await;
        let mut names = DisplayNames::new(fixture.archive(), TeamId::parse("T1").unwrap());
        let text = text::read(value, &TimeZone::UTC);
        names.learn(std::slice::from_ref(&text)).await.unwrap();
        let (mut out, zone) = (Vec::new(), Zone::from_args(&message_args("C1", "1.000000").read.zone));
        Render { names: &names, zone: &zone }.message(&mut out, value, &text, layout).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Returns a message with this text and this raw event.
    fn with_raw(text: &str, raw: &Value) -> Value {
        json!({ "timestamp": "1.000000", "ts": "1.000000", "user": "U1", "text": text, "raw_event": raw.to_string() })
    }

    async fn body(value: &Value) -> Vec<String> {
        let text = rendered(value, &MessageLayout::default()).await;
        text.lines().skip(1).map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned()).collect()
    }

    async fn head(value: &Value) -> String {
        let text = rendered(value, &MessageLayout::default()).await;
        text.lines().next().unwrap().strip_prefix("1970-01-01 00:00:01  1.000000  ").unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_message_has_its_time_author_text_files_and_reactions() {
        let value = json!({
            "timestamp": "1795178096.000200", "ts": "1795178096.000200", "user": "U1", "text": "a\nb <@U1>",
            "updated_ts": "2026-11-20T12:40:00.000000Z", "deleted": true, "files": [{ "name": "plan.pdf", "size": 1234 }],
            "reactions": [{ "name": "tada", "count": 2, "users": ["U1", "U2"] }, { "name": "eyes", "count": 1 }],
            "thread_ts": "1795178000.000100",
        });
        let text = rendered(&value, &in_channel(&value.clone().into())).await;
        assert_eq!(
            text,
            "2026-11-20 12:34:56  1795178096.000200  ana (edited) (deleted) (in thread 1795178000.000100)\n    a\n    \
             b @ana\n    [file: plan.pdf, 1.2 kB]\n    :tada: 2  :eyes: 1\n"
        );
    }

    #[tokio::test]
    async fn a_file_has_its_state() {
        let value = json!({ "timestamp": "1.000000", "ts": "1.000000", "user": "U1",
            "files": [{ "id": "F1", "name": "a" }, { "id": "F2", "name": "b" }, { "id": "F3", "name": "c" }, { "name": "d" }],
            "files_s3": ["file:///data/files/slack/T1/C1/1.000000/F1"], "files_verdict": { "F2": "external" } });
        let text = rendered(&value, &in_channel(&value.clone().into())).await;
        assert!(
            text.ends_with("[file: a, held]\n    [file: b, external]\n    [file: c]\n    [file: d]\n"),
            "{text}"
        );
        let mut deleted = value.clone();
        deleted["files"][0]["deleted"] = true.into();
        deleted["files"][1]["deleted"] = true.into();
        let text = rendered(&deleted, &in_channel(&deleted.clone().into())).await;
        assert!(text.contains("[file: a, held, deleted]\n    [file: b, deleted]"), "{text}");
        let mut failed = value;
        failed["files_fetch_failed"] = true.into();
        assert!(rendered(&failed, &in_channel(&failed.clone().into())).await.contains("[file: c, failed]"));
    }

    #[tokio::test]
    async fn bots_unknown_people_and_tombstones_are_rendered() {
        let bot = json!({ "timestamp": "1.000000", "ts": "1.000000", "subtype": "bot_message", "username": "deploys",
            "bot_id": "B1", "raw_event": "{}" });
        let text = rendered(&bot, &MessageLayout { indent: 4, ..MessageLayout::default() }).await;
        assert_eq!(
            text,
            "    1970-01-01 00:00:01  1.000000  deploys\n        [no text: --json shows everything]\n"
        );
        let stranger = json!({ "timestamp": "1.000000", "ts": "1.000000", "user": "U7", "text": "x" });
        assert!(rendered(&stranger, &MessageLayout::default()).await.contains("  U7\n    x\n"));
        let tombstone = json!({ "timestamp": "1.000000", "ts": "1.000000", "deleted": true });
        let text = rendered(&tombstone, &MessageLayout::default()).await;
        assert_eq!(text, "1970-01-01 00:00:01  1.000000  unknown (deleted)\n");
    }

    #[tokio::test]
    async fn hostile_text_cannot_drive_the_terminal_or_pose_as_another_message() {
        let hostile =
            "x\u{1b}]0;pwned\u{7}\r2020-01-01 00:00:00  ana\n2020-01-01 00:00:00  1.000000  ana\u{9b}2J";
        let value = json!({ "timestamp": hostile, "ts": hostile, "user": hostile, "username": hostile, "text": hostile,
            "files": [{ "name": hostile }], "reactions": [{ "name": hostile, "count": 1 }], "thread_ts": hostile });
        let text = rendered(&value, &in_channel(&value.clone().into())).await;
        assert!(!text.replace('\n', "").contains(char::is_control), "{text:?}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("    ")), "{text}");
    }

    #[tokio::test]
    async fn blocks_of_apps_are_rendered_as_people_see_them() {
        let blocks = json!({ "blocks": [
            { "type": "header", "text": { "type": "plain_text", "text": "Build &lt;7&gt;" } },
            { "type": "section", "text": { "type": "mrkdwn", "text": "by <@U1>\n*red*" },
                "fields": [{ "type": "mrkdwn", "text": "*Branch*\nmain" }],
                "accessory": { "type": "button", "text": { "type": "plain_text", "text": "Open" } } },
            { "type": "divider" },
            { "type": "context", "elements": [{ "type": "image", "alt_text": "logo" },
                { "type": "mrkdwn", "text": "<https://ci.example/7|run>" }] },
            { "type": "actions", "elements": [{ "type": "button", "text": { "type": "plain_text", "text": "Retry" } },
                { "type": "static_select", "placeholder": { "type": "plain_text", "text": "Assign" } }] },
            { "type": "image", "title": { "type": "plain_text", "text": "graph" }, "alt_text": "x" },
            { "type": "of_the_future", "text": "still text" },
        ] });
        let expected = [
            "Build <7>",
            "by @ana",
            "*red*",
            "*Branch*",
            "main",
            "[Open]",
            "",
            "[image: logo]  run (https://ci.example/7)",
            "[Retry]  [Assign]",
            "[image: graph]",
            "still text",
        ];
        assert_eq!(body(&with_raw("", &blocks)).await, expected);
        assert_eq!(body(&with_raw("This content can't be displayed.", &blocks)).await, expected);
        assert_eq!(body(&with_raw("a notification", &blocks)).await, expected);
    }

    #[tokio::test]
    async fn rich_text_keeps_its_lists_quotations_and_signs() {
        let words = |text: &str| json!({ "type": "text", "text": text });
        let section = |elements: &[Value]| json!({ "type": "rich_text_section", "elements": elements });
        let raw = json!({ "blocks": [{ "type": "rich_text", "elements": [
            section(&[words("a < b & "), json!({ "type": "text", "text": "bold", "style": { "bold": true } }),
                json!({ "type": "user", "user_id": "U1" }), words(" "), json!({ "type": "emoji", "name": "tada" }),
                json!({ "type": "link", "url": "https://example.com", "text": "there" }),
                json!({ "type": "broadcast", "range": "here" }), words("\n")]),
            { "type": "rich_text_list", "style": "bullet", "indent": 0, "elements": [section(&[words("one")])] },
            { "type": "rich_text_list", "style": "ordered", "indent": 1, "offset": 1,
                "elements": [section(&[words("two\nmore")]), section(&[words("three")])] },
            { "type": "rich_text_quote", "elements": [words("said\nbefore")] },
            { "type": "rich_text_preformatted", "elements": [words("if x {\n    y\n}")] },
        ] }] });
        assert_eq!(
            body(&with_raw("", &raw)).await,
            [
                "a < b & *bold*@ana :tada:there (https://example.com)@here",
                "• one",
                "  b. two",
                "     more",
                "  c. three",
                "> said",
                "> before",
                "  if x {",
                "      y",
                "  }"
            ]
        );
    }

    #[tokio::test]
    async fn attachments_are_rendered_below_the_text() {
        let raw = json!({ "attachments": [
            { "pretext": "Deployed", "title": "v7", "title_link": "https://example.com/7", "text": "by <@U1>",
                "fields": [{ "title": "Env", "value": "prod", "short": true }], "fallback": "not this",
                "actions": [{ "type": "button", "text": "Undo" }] },
            { "fallback": "just a <https://example.com|fallback>" },
            { "from_url": "https://example.com", "title": "Example", "text": "of a page" },
            { "blocks": [{ "type": "section", "text": { "type": "mrkdwn", "text": "in a block" } }], "fallback": "no" },
        ] });
        let own = [
            "Deployed",
            "v7 (https://example.com/7)",
            "by @ana",
            "Env: prod",
            "[Undo]",
            "just a fallback (https://example.com)",
        ];
        let expected = [&own[..], &["Example", "of a page", "in a block"]].concat();
        assert_eq!(body(&with_raw("", &raw)).await, expected);
        let expected = [&["red"], &expected[..]].concat();
        assert_eq!(body(&with_raw("red", &raw)).await, expected);
    }

    #[tokio::test]
    async fn hostile_blocks_are_bounded_and_stay_indented() {
        let hostile = "x\u{1b}]0;pwned\u{7}\r\n2020-01-01 00:00:00  1.000000  ana";
        let block = json!({ "type": "section", "text": { "type": "mrkdwn", "text": hostile } });
        let odd = [
            json!(null),
            json!([]),
            json!("text"),
            json!({ "type": "section", "text": 7, "fields": {} }),
            json!({ "type": "rich_text", "elements": [{ "type": "rich_text_list", "indent": u64::MAX, "offset": u64::MAX,
                "elements": [{ "elements": [{ "type": "text", "text": hostile }] }, 1] }] }),
        ];
        let blocks = [vec![block; 5_000], odd.to_vec()].concat();
        let value =
            with_raw("", &json!({ "blocks": blocks, "attachments": [{ "text": hostile, "fields": [1] }] }));
        let text = rendered(&value, &MessageLayout::default()).await;
        assert!(!text.replace('\n', "").contains(char::is_control));
        assert!(text.lines().skip(1).all(|line| line.starts_with("    ")));
        assert!(text.lines().count() < 2_010 && text.contains("[and more: --json shows everything]"));
        let odd =
            with_raw("", &json!({ "blocks": odd, "attachments": [{ "text": hostile, "fields": [1] }] }));
        assert!(body(&odd).await.len() < 10);
        let deep = "[".repeat(100_000);
        let deep = json!({ "timestamp": "1.000000", "ts": "1.000000", "user": "U1", "raw_event": deep });
        assert_eq!(body(&deep).await, ["[no text: --json shows everything]"]);
    }

    #[tokio::test]
    async fn a_lone_surrogate_hides_no_other_text_of_a_message() {
        let raw = r#"{"user_profile":{"name":"eve"},
            "blocks":[{"type":"section","text":{"type":"mrkdwn","text":"plan \ud83d of today"}}]}"#;
        let value = json!({ "timestamp": "1.000000", "ts": "1.000000", "user": "U7", "raw_event": raw });
        assert_eq!(body(&value).await, ["plan \u{fffd} of today"]);
        assert_eq!(head(&value).await, "eve");
    }

    #[tokio::test]
    async fn strangers_and_apps_have_the_name_from_their_event() {
        let from = |user: Option<&str>, raw: Value| {
            let mut value = with_raw("x", &raw);
            value["user"] = user.into();
            value
        };
        let profile = json!({ "user_profile": { "display_name": "", "real_name": "Eve \u{1b}Ext" } });
        assert_eq!(head(&from(Some("U7"), profile.clone())).await, "Eve ␛Ext");
        assert_eq!(head(&from(Some("U1"), profile)).await, "ana");
        let mut bot = from(None, json!({ "bot_profile": { "name": "Deploys" } }));
        bot["bot_id"] = "B1".into();
        assert_eq!(head(&bot).await, "Deploys");
        bot["raw_event"] = "{}".into();
        assert_eq!(head(&bot).await, "B1");
        assert_eq!(head(&from(Some("USLACKBOT"), json!({}))).await, "Slackbot");
    }

    #[tokio::test]
    async fn channel_events_are_rendered_as_notices() {
        let notice = |subtype: &str, text: &str, raw: Value| {
            let mut value = with_raw(text, &raw);
            value["subtype"] = subtype.into();
            value
        };
        for (value, expected) in [
            (notice("channel_join", "<@U1> has joined the channel", json!({})), "* ana joined the channel"),
            (
                notice("channel_join", "", json!({ "inviter": "U7" })),
                "* ana joined the channel, invited by @U7",
            ),
            (notice("channel_leave", "", json!({})), "* ana left the channel"),
            (notice("channel_topic", "", json!({ "topic": "a &lt;b&gt;" })), "* ana set the topic: a <b>"),
            (notice("channel_topic", "", json!({ "topic": "" })), "* ana cleared the topic"),
            (
                notice("channel_name", "", json!({ "old_name": "a", "name": "b" })),
                "* ana renamed the channel from #a to #b",
            ),
            (
                notice("huddle_thread", "A huddle", json!({ "room": { "created_by": "U7" } })),
                "* U7 started a huddle",
            ),
            (notice("pinned_item", "", json!({})), "* ana pinned a message to the channel"),
            (notice("bot_add", "<@U1> added an integration", json!({})), "* ana added an integration"),
            (notice("me_message", "waves at <@U1>", json!({})), "* ana waves at @ana"),
        ] {
            assert_eq!(rendered(&value, &MessageLayout::default()).await.lines().count(), 1);
            assert_eq!(head(&value).await, expected);
        }
        let broadcast = notice("thread_broadcast", "look", json!({}));
        assert_eq!(head(&broadcast).await, "ana (also in the channel)");
        assert_eq!(body(&broadcast).await, ["look"]);
    }
}
