//! Elements of rich text. <https://docs.slack.dev/reference/block-kit/blocks/rich-text-block>

use serde_json::json;

use super::MessageShape;

/// Every kind of element that carries a text of its own. Mentions of people and channels carry only ids.
pub const ELEMENTS: &[MessageShape] = &[
    (
        "text",
        |words| json!({ "type": "text", "text": words.word(), "style": { "bold": true, "unlink": false } }),
    ),
    ("link", |words| json!({ "type": "link", "url": "https://example.com/a?b=c&d", "text": words.word() })),
    (
        "link without a text",
        |words| json!({ "type": "link", "url": format!("https://example.com/{}", words.word()) }),
    ),
    ("emoji", |words| json!({ "type": "emoji", "name": words.word() })),
    ("date", |words| {
        json!({ "type": "date", "timestamp": 1_705_569_650, "format": "{date_num}", "fallback": words.word(),
            "url": "https://example.com/calendar" })
    }),
    ("color", |words| json!({ "type": "color", "value": words.word() })),
    ("team", |words| json!({ "type": "team", "team_id": "T0OTHER0001", "text": words.word() })),
    ("canvas", |words| json!({ "type": "canvas", "file_id": "F0CANVAS01", "text": words.word() })),
    ("file element", |words| json!({ "type": "file", "file_id": "F0ELEMENT1", "text": words.word() })),
    (
        "list_record",
        |words| json!({ "type": "list_record", "record_id": "Rec0LIST1", "list_id": "F0LIST0001", "text": words.word() }),
    ),
    ("workflow_mention", |words| {
        json!({ "type": "workflow_mention", "workflow_id": "Wf0WORKFLOW", "text": words.word(),
            "url": "https://slack.com/shortcuts/Ft1/2" })
    }),
    ("work_object_mention", |words| {
        json!({ "type": "work_object_mention", "entity_id": "En0OBJECT1", "text": words.word(),
            "url": "https://example.com/object" })
    }),
    (
        "salesforce_data_field",
        |words| json!({ "type": "salesforce_data_field", "record_id": "a0B1", "field": "Amount", "text": words.word() }),
    ),
    ("tag", |words| json!({ "type": "tag", "tag_id": "Tg0TAG0001", "text": words.word() })),
    (
        "citation",
        |words| json!({ "type": "citation", "text": words.word(), "url": "https://example.com/cited" }),
    ),
    ("attachment_mention", |words| {
        json!({ "type": "attachment_mention", "attachment_id": "1", "label": words.word(),
            "url": "https://example.com/attached" })
    }),
    ("message_mention", |words| {
        json!({ "type": "message_mention", "channel_id": "C0ELSEWHERE", "message_ts": "1699999999.000100",
            "text": words.word() })
    }),
];

/// Kinds of elements that do not exist.
pub const INVENTED_ELEMENTS: &[MessageShape] = &[
    ("hologram (invented)", |words| json!({ "type": "hologram", "label": words.word() })),
    ("vote (invented)", |words| {
        json!({ "type": "vote", "vote_id": "Vt0VOTE001", "title": { "type": "plain_text", "text": words.word() },
            "description": words.word() })
    }),
    (
        "place (invented)",
        |words| json!({ "type": "place", "name": words.word(), "external_url": "https://example.com/place" }),
    ),
];
