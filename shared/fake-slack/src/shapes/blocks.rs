//! Blocks. <https://docs.slack.dev/reference/block-kit/blocks>

use serde_json::{Value, json};

use super::{Markers, MessageShape};

/// Every kind of block in a message, and rich text with each of its parts.
pub const BLOCKS: &[MessageShape] = &[
    ("section", |words| {
        json!({ "type": "section", "block_id": "b", "text": words.mrkdwn(), "fields": [words.mrkdwn(), words.plain()],
            "accessory": words.button() })
    }),
    ("header", |words| json!({ "type": "header", "text": words.plain() })),
    ("context", |words| {
        json!({ "type": "context", "elements": [
            words.mrkdwn(), words.plain(),
            { "type": "image", "image_url": "https://example.com/i.png", "alt_text": words.word() },
        ] })
    }),
    ("actions", |words| {
        json!({ "type": "actions", "elements": [
            words.button(),
            { "type": "static_select", "action_id": "s", "placeholder": words.plain(), "options": [] },
        ] })
    }),
    ("context_actions", |words| {
        json!({ "type": "context_actions", "elements": [
            { "type": "icon_button", "icon": "trash", "action_id": "t", "text": words.plain() },
        ] })
    }),
    ("image", |words| {
        json!({ "type": "image", "image_url": "https://example.com/i.png", "alt_text": "a picture",
            "title": words.plain() })
    }),
    ("video", |words| {
        json!({ "type": "video", "title": words.plain(), "title_url": "https://example.com/v", "alt_text": "a film",
            "video_url": "https://example.com/embed", "thumbnail_url": "https://example.com/t.png",
            "description": words.plain(), "author_name": words.word(), "provider_name": words.word() })
    }),
    ("input", |words| {
        json!({ "type": "input", "label": words.plain(), "hint": words.plain(),
            "element": { "type": "plain_text_input", "action_id": "i", "placeholder": words.plain() } })
    }),
    ("markdown", |words| {
        json!({ "type": "markdown", "text": format!("# {}\n\n**{}** and `{}`\n\n- {}", words.word(), words.word(),
            words.word(), words.word()) })
    }),
    ("table", |words| {
        json!({ "type": "table", "rows": [
            [raw_text(words), raw_text(words)], [raw_text(words), words.rich_text()],
        ] })
    }),
    ("rich_text", |words| {
        let part = |kind: &str, words: &mut Markers| json!({ "type": kind, "elements": [{ "type": "text", "text": words.word() }] });
        json!({ "type": "rich_text", "elements": [
            part("rich_text_section", words), part("rich_text_quote", words), part("rich_text_preformatted", words),
            { "type": "rich_text_list", "style": "ordered", "indent": 0, "elements": [
                part("rich_text_section", words), part("rich_text_section", words),
            ] },
            { "type": "rich_text_list", "style": "bullet", "indent": 1, "elements": [
                part("rich_text_section", words),
            ] },
        ] })
    }),
    ("alert", |words| json!({ "type": "alert", "level": "warning", "text": words.mrkdwn() })),
    ("card", card),
    ("carousel", |words| json!({ "type": "carousel", "elements": [card(words), card(words)] })),
    ("container", |words| {
        json!({ "type": "container", "title": words.plain(), "subtitle": words.mrkdwn(), "is_collapsible": true,
            "default_collapsed": true, "child_blocks": [
                { "type": "section", "text": words.mrkdwn() }, { "type": "divider" }, words.rich_text(),
            ] })
    }),
    ("data_table", |words| {
        json!({ "type": "data_table", "caption": words.word(), "page_size": 5, "rows": [
            [raw_text(words), raw_text(words)],
            [words.rich_text(), { "type": "raw_number", "value": 17, "text": words.word() }],
            [raw_text(words), words.button()],
        ] })
    }),
    ("data_visualization", |words| {
        let point = |value: u32, words: &mut Markers| json!({ "label": words.word(), "value": value });
        json!({ "type": "data_visualization", "title": words.word(), "chart": {
            "type": "line",
            "series": [{ "name": words.word(), "data": [point(3, words), point(5, words)] }],
            "axis_config": { "categories": [], "x_label": words.word(), "y_label": words.word() },
        } })
    }),
    ("data_visualization, a pie", |words| {
        let part = |value: u32, words: &mut Markers| json!({ "label": words.word(), "value": value });
        json!({ "type": "data_visualization", "title": words.word(),
            "chart": { "type": "pie", "segments": [part(60, words), part(40, words)] } })
    }),
    (
        "plan",
        |words| json!({ "type": "plan", "plan_id": "p1", "title": words.word(), "tasks": [task(words), task(words)] }),
    ),
    ("task_card", task),
    ("call", |words| {
        json!({ "type": "call", "call_id": "R0CALL", "api_decoration_available": false, "call": {
            "media_backend_type": "platform_call",
            "v1": { "id": "R0CALL", "app_id": "A0CALLS", "name": words.word(), "date_start": 1_700_000_000,
                "date_end": 1_700_000_600, "has_ended": true, "join_url": "https://example.com/join",
                "active_participants": [], "all_participants": [] },
        } })
    }),
    ("file", |words| {
        json!({ "type": "file", "source": "remote", "external_id": "ABCD1", "file_id": "F0REMOTE1", "file": {
            "id": "F0REMOTE1", "mode": "external", "is_external": true, "title": words.word(),
            "external_url": "https://example.com/remote", "url_private": "https://example.com/remote",
        } })
    }),
    ("share_shortcut", |words| {
        json!({ "type": "share_shortcut", "function_trigger_id": "Ft0SHARE1", "app_id": "A0SHARE1",
            "title": words.word(), "url": "https://slack.com/shortcuts/Ft0SHARE1/0" })
    }),
];

/// Kinds of blocks that do not exist.
pub const INVENTED_BLOCKS: &[MessageShape] = &[
    ("poll_board (invented)", |words| {
        json!({ "type": "poll_board", "title": words.plain(), "subtitle": words.word(),
            "choices": [{ "label": words.word(), "votes": 3 }, { "label": words.plain(), "votes": null }] })
    }),
    ("accordion (invented)", |words| {
        json!({ "type": "accordion", "panels": [{ "name": words.word(), "blocks": [
            { "type": "section", "text": words.mrkdwn() }, { "type": "header", "text": words.plain() },
            words.rich_text(),
        ] }] })
    }),
    ("forecast (invented)", |words| {
        json!({ "type": "forecast", "body": { "now": { "caption": words.word(), "description": words.plain() } },
            "fallback": words.word(), "days": [[{ "value": words.word() }], null, 17, "noise"] })
    }),
];

fn raw_text(words: &mut Markers) -> Value {
    json!({ "type": "raw_text", "text": words.word() })
}

fn card(words: &mut Markers) -> Value {
    json!({ "type": "card", "title": words.mrkdwn(), "subtitle": words.mrkdwn(), "body": words.mrkdwn(),
        "icon": { "type": "image", "image_url": "https://example.com/c.png", "alt_text": "an icon" },
        "actions": [words.button(), words.button()] })
}

fn task(words: &mut Markers) -> Value {
    json!({ "type": "task_card", "task_id": "t1", "title": words.word(), "status": "complete",
        "details": words.rich_text(), "output": words.rich_text(),
        "sources": [{ "type": "url", "url": "https://example.com/source", "text": words.word() }] })
}
