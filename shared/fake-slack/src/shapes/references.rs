//! Elements of rich text that carry only an id, in messages that name the object elsewhere, or whose object has no name.
//! <https://docs.slack.dev/reference/block-kit/blocks/rich-text-block>

use serde_json::{Value, json};

use super::{MessageShape, rich_text};

/// Every kind of element with only an id, as the content of a message. What names the object, or otherwise the id, has
/// the marker.
pub const REFERENCES: &[MessageShape] = &[
    ("user without a name", |words| {
        let text = format!("ask <@U0LABELLED|{}>", words.word());
        json!({ "text": text, "blocks": [rich_text(&[json!({ "type": "user", "user_id": "U0LABELLED" })])] })
    }),
    ("canvas_user_mention without a name", |words| {
        let text = format!("ask <@U0LABELLED|{}>", words.word());
        let element = json!({ "type": "canvas_user_mention", "user_id": "U0LABELLED" });
        json!({ "text": text, "blocks": [rich_text(&[element])] })
    }),
    ("channel without a name", |words| {
        let text = format!("see <#C0LABELLED|{}>", words.word());
        json!({ "text": text, "blocks": [rich_text(&[json!({ "type": "channel", "channel_id": "C0LABELLED" })])] })
    }),
    ("usergroup without a name", |words| {
        let text = format!("ask <!subteam^S0LABELLED|@{}>", words.word());
        let element = json!({ "type": "usergroup", "usergroup_id": "S0LABELLED" });
        json!({ "text": text, "blocks": [rich_text(&[element])] })
    }),
    ("broadcast", |words| only(json!({ "type": "broadcast", "range": words.word() }))),
    ("date without a fallback", |words| {
        let format = format!("{} {{date_num}}", words.word());
        only(json!({ "type": "date", "timestamp": 1_705_569_650, "format": format }))
    }),
    ("canvas of the message's file", |words| {
        let file = json!({ "id": "F0TITLED01", "title": words.word(), "mode": "external", "name": "plan" });
        let element = json!({ "type": "canvas", "file_id": "F0TITLED01" });
        json!({ "blocks": [rich_text(&[element])], "files": [file] })
    }),
    ("team id", |words| only(json!({ "type": "team", "team_id": words.word() }))),
    ("canvas id", |words| only(json!({ "type": "canvas", "file_id": words.word() }))),
    ("file id", |words| only(json!({ "type": "file", "file_id": words.word() }))),
    ("list_record id", |words| only(json!({ "type": "list_record", "record_id": words.word() }))),
    ("workflow id", |words| only(json!({ "type": "workflow_mention", "workflow_id": words.word() }))),
    ("work object id", |words| only(json!({ "type": "work_object_mention", "entity_id": words.word() }))),
    ("salesforce record id", |words| {
        only(json!({ "type": "salesforce_data_field", "salesforce_record_id": words.word() }))
    }),
    ("tag id", |words| only(json!({ "type": "tag", "tag_id": words.word() }))),
    ("attachment address", |words| {
        let url = format!("https://example.com/{}", words.word());
        only(json!({ "type": "attachment_mention", "attachment_id": "1", "url": url }))
    }),
    ("citation address", |words| {
        only(json!({ "type": "citation", "url": format!("https://example.com/{}", words.word()) }))
    }),
    ("id of an invented kind", |words| only(json!({ "type": "hologram", "hologram_id": words.word() }))),
];

fn only(element: Value) -> Value {
    json!({ "blocks": [rich_text(&[element])] })
}
