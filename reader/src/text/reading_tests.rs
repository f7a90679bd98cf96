//! Tests of the reading of whole messages.

use serde_json::json;
use testkit::memory::archive::MemoryArchive;

use super::spans::{LineKind, TextStyle};
use super::*;
use crate::names::DisplayNames;

/// Reads a message as an event has it.
pub(super) fn read_message(message: &Value) -> MessageText {
    let mut row = message.clone();
    row["raw_event"] = message.to_string().into();
    read(&row.into(), &TimeZone::UTC)
}

/// Returns the lines of a message as plain text.
pub(super) fn plain(message: &Value) -> Vec<String> {
    let archive = MemoryArchive::new();
    let names = DisplayNames::for_teams(&archive, Vec::new());
    read_message(message).lines.iter().map(|line| flat::line(line, &names)).collect()
}

pub(super) fn blocks_of(blocks: Value) -> Vec<String> {
    plain(&json!({ "text": "a notification", "blocks": blocks }))
}

pub(super) fn section(elements: Value) -> Value {
    json!({ "type": "rich_text", "elements": [{ "type": "rich_text_section", "elements": elements }] })
}

fn inline(element: Value) -> String {
    blocks_of(json!([section(json!([{ "type": "text", "text": "see " }, element]))])).join("\n")
}

#[test]
fn every_kind_of_block_is_read_as_people_see_it() {
    let button = |label: &str| json!({ "type": "button", "text": { "type": "plain_text", "text": label } });
    let plain_text = |text: &str| json!({ "type": "plain_text", "text": text });
    let rich = |text: &str| section(json!([{ "type": "text", "text": text }]));
    let call = |call: Value| json!({ "type": "call", "call": { "v1": call } });
    for (block, expected) in [
        (
            json!({ "type": "video", "title": plain_text("Demo"), "title_url": "https://x.example/v",
                "author_name": "Ana", "provider_name": "Tube", "description": plain_text("how") }),
            "Demo (https://x.example/v)\nAna\nTube\nhow",
        ),
        (
            json!({ "type": "input", "label": plain_text("Name"), "hint": plain_text("your own"),
                "element": { "type": "plain_text_input", "initial_value": "ana" } }),
            "Name\n[ana]\nyour own",
        ),
        (
            json!({ "type": "actions", "elements": [{ "type": "checkboxes",
                "options": [{ "text": plain_text("one"), "description": plain_text("first") }, { "text": plain_text("two") }] },
                { "type": "overflow" }, { "type": "static_select", "initial_option": { "text": plain_text("three") } }] }),
            "[one: first]  [two]  [three]",
        ),
        (
            json!({ "type": "alert", "level": "warning", "text": { "type": "mrkdwn", "text": "*low* disk" } }),
            "warning: *low* disk",
        ),
        (
            json!({ "type": "card", "title": plain_text("T"), "subtitle": plain_text("S"), "body": plain_text("B"),
                "subtext": plain_text("U"), "actions": [button("Go")] }),
            "T\nS\nB\nU\n[Go]",
        ),
        (
            json!({ "type": "carousel", "elements": [{ "type": "card", "title": plain_text("one") },
                { "type": "card", "title": plain_text("two") }] }),
            "one\ntwo",
        ),
        (
            json!({ "type": "container", "title": plain_text("T"), "subtitle": plain_text("S"), "child_blocks": [rich("inside")] }),
            "T\nS\ninside",
        ),
        (
            json!({ "type": "data_table", "caption": "Loss", "rows": [
                [{ "type": "raw_text", "text": "Region" }, { "type": "raw_text", "text": "%" }],
                [rich("eu-west"), { "type": "raw_number", "value": 37 }],
                [{ "type": "action", "element": button("Open") }, { "type": "raw_number", "value": 1, "text": "1 %" }] ] }),
            "Loss\nRegion | %\neu-west | 37\n[Open] | 1 %",
        ),
        (
            json!({ "type": "data_visualization", "title": "Sales", "chart": { "type": "bar",
                "series": [{ "name": "EU", "data": [{ "label": "Jan", "value": 1 }, { "label": "Feb", "value": 2.5 }] },
                    { "name": "US", "data": [{ "label": "Jan", "value": 3 }] }],
                "axis_config": { "categories": ["Jan", "Feb"], "x_label": "Month", "y_label": "Units" } } }),
            "Sales\nUnits\nMonth | EU | US\nJan | 1 | 3\nFeb | 2.5 |",
        ),
        (
            json!({ "type": "data_visualization", "title": "Parts", "chart": { "type": "pie",
                "segments": [{ "label": "a", "value": 1 }, { "label": "b", "value": 2 }] } }),
            "Parts\na | 1\nb | 2",
        ),
        (
            json!({ "type": "plan", "title": "Thinking completed", "tasks": [{ "task_id": "t1", "title": "Fetched",
                "status": "in_progress", "details": rich("why"), "output": rich("what"),
                "sources": [{ "type": "url", "url": "https://x.example", "text": "X" }] }] }),
            "Thinking completed\n• Fetched (in progress)\nwhy\nwhat\nX (https://x.example)",
        ),
        (json!({ "type": "task_card", "title": "Wrote", "status": "complete" }), "• Wrote (complete)"),
        (
            call(json!({ "name": "Standup", "join_url": "https://x.example/j", "has_ended": true })),
            "Standup (https://x.example/j) (ended)",
        ),
        (call(json!({ "join_url": "https://x.example/j" })), "a notification (https://x.example/j)"),
        (
            json!({ "type": "file", "source": "remote", "file_id": "F1",
                "file": { "title": "Budget sheet", "external_url": "https://x.example/b" } }),
            "Budget sheet (https://x.example/b)",
        ),
        (
            json!({ "type": "share_shortcut", "title": "Ask", "url": "https://x.example/s" }),
            "Ask (https://x.example/s)",
        ),
        (json!({ "type": "markdown", "text": "# Title\n**bold** `x`" }), "# Title\n**bold** `x`"),
    ] {
        assert_eq!(blocks_of(json!([block])).join("\n"), expected, "{block}");
    }
}

#[test]
fn every_kind_of_element_of_rich_text_is_read() {
    for (element, expected) in [
        (json!({ "type": "link", "url": "https://x.example", "text": "X" }), "X (https://x.example)"),
        (json!({ "type": "user", "user_id": "U1" }), "@U1"),
        (json!({ "type": "canvas_user_mention", "user_id": "U1" }), "@U1"),
        (json!({ "type": "channel", "channel_id": "C1" }), "#C1"),
        (json!({ "type": "usergroup", "usergroup_id": "S1" }), "@S1"),
        (json!({ "type": "broadcast", "range": "here" }), "@here"),
        (json!({ "type": "emoji", "name": "wave", "skin_tone": 3 }), ":wave::skin-tone-3:"),
        (json!({ "type": "emoji", "name": "handshake::skin-tone-2-3" }), ":handshake::skin-tone-2-3:"),
        (json!({ "type": "color", "value": "#ff0000" }), "#ff0000"),
        (
            json!({ "type": "date", "timestamp": 1_705_569_650, "format": "{date_num} {time}" }),
            "2024-01-18 09:20",
        ),
        (
            json!({ "type": "date", "timestamp": "1705569650", "format": "{date_num}", "fallback": "then" }),
            "then",
        ),
        (
            json!({ "type": "date", "timestamp": 1_705_569_650, "format": "{date_num}", "url": "https://x.example" }),
            "2024-01-18 (https://x.example)",
        ),
        (json!({ "type": "team", "team_id": "T1" }), "[team T1]"),
        (json!({ "type": "canvas", "file_id": "F07A32DC2GG" }), "[canvas F07A32DC2GG]"),
        (
            json!({ "type": "file", "file_id": "F1", "text": "plan", "url": "https://x.example" }),
            "plan (https://x.example)",
        ),
        (json!({ "type": "list_record", "file_id": "F1", "label": "Row 1" }), "Row 1"),
        (
            json!({ "type": "workflow_mention", "text": "Ask", "url": "https://x.example" }),
            "Ask (https://x.example)",
        ),
        (
            json!({ "type": "work_object_mention", "text": "JIRA-1", "url": "https://x.example" }),
            "JIRA-1 (https://x.example)",
        ),
        (
            json!({ "type": "salesforce_data_field", "salesforce_record_id": "006" }),
            "[salesforce_data_field 006]",
        ),
        (json!({ "type": "tag", "text": "urgent", "color": "red" }), "urgent"),
        (
            json!({ "type": "citation", "text": "A page", "url": "https://x.example" }),
            "A page (https://x.example)",
        ),
        (json!({ "type": "attachment_mention", "url": "https://x.example" }), "https://x.example"),
        (
            json!({ "type": "message_mention", "channel_id": "C1", "message_ts": "1700000000.000100", "author_id": "U1" }),
            "message (https://slack.com/archives/C1/p1700000000000100) from @U1",
        ),
        (
            json!({ "type": "canvas_message_unfurl", "root_message_channel": "C1", "root_message_ts": "1700000000.000100" }),
            "message (https://slack.com/archives/C1/p1700000000000100)",
        ),
        (json!({ "type": "of_the_future", "label": "new", "thing": { "value": "word" } }), "new word"),
        (json!({ "type": "of_the_future", "thing_id": "X1" }), "[of_the_future X1]"),
        (json!({ "type": "user", "user_id": null }), "[user]"),
    ] {
        assert_eq!(inline(element.clone()), format!("see {expected}"), "{element}");
    }
}

#[test]
fn labels_and_titles_come_from_other_parts_of_the_message() {
    let elements = json!([{ "type": "channel", "channel_id": "C1" }, { "type": "text", "text": " " },
        { "type": "usergroup", "usergroup_id": "S1" }, { "type": "text", "text": " " },
        { "type": "user", "user_id": "U1" }, { "type": "text", "text": " " }, { "type": "canvas", "file_id": "F1" }]);
    let message = json!({ "text": "ask <#C1|secret-plans> <!subteam^S1|@oncall> <@U1|oldbob> x", "blocks": [section(elements)],
        "files": [{ "id": "F1", "title": "Notes" }] });
    assert_eq!(plain(&message), ["#secret-plans @oncall @oldbob Notes"]);
}

#[test]
fn unknown_content_is_read_by_its_strings() {
    let known = json!({ "type": "header", "text": { "type": "plain_text", "text": "Known" } });
    let unknown = json!({ "type": "of_the_future", "title": "T &amp; U", "style": "primary", "parts": [
        { "type": "mrkdwn", "text": "*part* one" }, { "caption": ["two", "three"] }, known,
        { "type": "button", "text": { "type": "plain_text", "text": "Go" } }], "url": "https://x.example", "value": 7 });
    assert_eq!(
        blocks_of(json!([known, unknown])),
        ["Known", "T & U", "7", "https://x.example", "*part* one", "two", "three", "Known", "[Go]"]
    );
    // What has no strings is no content: the text is shown, and below it what there is besides.
    let silent = json!([{ "type": "of_the_future", "block_id": "b", "thing_id": "X1" }]);
    assert_eq!(blocks_of(silent.clone()), ["a notification", "[of_the_future X1]"]);
    assert_eq!(plain(&json!({ "text": "", "blocks": silent })), ["[of_the_future X1]"]);
    let many = json!([{ "type": "of_the_future", "parts": vec![json!({ "text": "word" }); 500] }]);
    assert_eq!(blocks_of(many).len(), 50);
    let long = json!([{ "type": "of_the_future", "parts": vec![json!({ "text": "é".repeat(3_000) }); 5] }]);
    assert_eq!(blocks_of(long).concat().len(), 8 * 1024);
}

#[test]
fn content_is_read_once_and_the_notification_is_kept_apart() {
    let words = section(json!([{ "type": "text", "text": "hello", "style": { "bold": true } }]));
    let content = read_message(&json!({ "text": "*hello*", "blocks": [words] }));
    assert_eq!((content.lines.len(), content.notification.len()), (1, 1));
    let without_blocks = read_message(&json!({ "text": "hello" }));
    assert_eq!((without_blocks.lines.len(), without_blocks.notification.len()), (1, 0));
    let empty = json!([section(json!([]))]);
    assert_eq!(plain(&json!({ "text": "hello", "blocks": empty })), ["hello"]);
}

#[test]
fn text_that_slack_does_not_format_keeps_its_signs() {
    let signs = "__init__ *args &gt; `x` :tada:";
    let expected = "__init__ *args > `x` :tada:";
    for message in [
        json!({ "text": signs, "mrkdwn": false }),
        json!({ "text": "", "blocks": [{ "type": "section", "text": { "type": "plain_text", "text": signs } }] }),
        json!({ "text": "", "attachments": [{ "text": signs }] }),
    ] {
        assert_eq!(plain(&message), [expected], "{message}");
        let is_styled =
            |span: &TextSpan| matches!(span, TextSpan::Text(_, style) if *style != TextStyle::default());
        assert!(
            !read_message(&message).lines.iter().flat_map(|line| &line.spans).any(is_styled),
            "{message}"
        );
    }
    let quoted = json!({ "text": "&gt; said", "mrkdwn": false });
    assert_eq!(read_message(&quoted).lines[0].kind, LineKind::Plain);
}

#[test]
fn shared_messages_and_previews_are_read_by_their_blocks() {
    let shared = json!({ "is_share": true, "from_url": "https://x.example", "author_name": "Bob", "text": "not this",
        "message_blocks": [{ "message": { "blocks": [section(json!([{ "type": "text", "text": "the invoice" }]))] } }] });
    let address_only = json!({ "from_url": "https://x.example", "service_name": "X" });
    let fields = json!({ "fields": [{ "title": "Env", "value": "*prod*\nnow" }], "mrkdwn_in": ["fields"], "footer": "CI" });
    let message =
        json!({ "text": "fyi", "attachments": [shared, address_only, fields, { "fallback": "only this" }] });
    assert_eq!(plain(&message), ["fyi", "Bob", "the invoice", "Env: *prod*", "now", "CI", "only this"]);
}

#[test]
fn texts_in_files_are_read() {
    let email = json!({ "id": "F1", "mode": "email", "name": "Re: Invoice", "title": "Re: Invoice", "subject": "Re: Invoice",
        "from": [{ "address": "x@example.com", "name": "Xaver" }], "plain_text": "Please pay\nby Friday", "preview": "not this" });
    let snippet = json!({ "id": "F2", "mode": "snippet", "title": "fix.py", "preview": "print('x')", "preview_is_truncated": true });
    let voice = json!({ "id": "F3", "title": "memo", "transcription": { "status": "complete", "preview": { "content": "call me", "has_more": false } } });
    let picture = json!({ "id": "F4", "title": "cat", "alt_txt": "a cat asleep" });
    assert_eq!(
        plain(&json!({ "text": "", "files": [email] })),
        ["From: Xaver <x@example.com>", "Please pay", "by Friday"]
    );
    assert_eq!(
        plain(
            &json!({ "text": "look", "files": [snippet, voice, picture, { "id": "F5", "title": "x" }, null, 7] })
        ),
        [
            "look",
            "fix.py",
            "  print('x')",
            "[and more in the file]",
            "memo",
            "call me",
            "cat",
            "a cat asleep"
        ]
    );
}

#[test]
fn a_huddle_has_its_topic_people_and_duration() {
    let huddle =
        |room: Value| plain(&json!({ "subtype": "huddle_thread", "text": "", "room": room })).join("\n");
    for (room, expected) in [
        (
            json!({ "name": "retro topic", "created_by": "U2", "date_start": 1_687_381_097, "date_end": 1_687_382_537,
                "has_ended": true, "participants": [], "participant_history": ["U1", "U2"] }),
            "started a huddle (24 min): retro topic, with @U1, @U2",
        ),
        (
            json!({ "name": "", "date_start": 1_687_381_097, "date_end": 0, "has_ended": false, "participants": ["U1"] }),
            "started a huddle (running), with @U1",
        ),
        (json!({ "date_start": 1, "date_end": 7_261 }), "started a huddle (2 h 1 min)"),
        (json!({ "has_ended": true }), "started a huddle (ended)"),
        (json!(null), "started a huddle"),
    ] {
        assert_eq!(huddle(room), expected);
    }
}
