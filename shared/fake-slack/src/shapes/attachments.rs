//! Attachments: of apps, previews of links, and shared messages.
//! <https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments>

use serde_json::json;

use super::MessageShape;

/// Every kind of attachment.
pub const ATTACHMENTS: &[MessageShape] = &[
    ("an app's attachment", |words| {
        json!({ "id": 1, "color": "36a64f", "fallback": "not shown if there is more", "pretext": words.word(),
            "author_name": words.word(), "title": words.word(), "title_link": "https://example.com/title",
            "text": format!("*{}*", words.word()),
            "fields": [{ "title": words.word(), "value": words.word(), "short": true },
                { "title": null, "value": words.word() }, []],
            "actions": [{ "id": "1", "type": "button", "name": "go", "text": words.word() }],
            "footer": words.word(), "mrkdwn_in": ["text"] })
    }),
    (
        "an attachment that has only a fallback",
        |words| json!({ "id": 1, "fallback": words.word(), "image_url": "https://example.com/i.png" }),
    ),
    ("an attachment of blocks", |words| {
        json!({ "id": 1, "color": "D0D0D0", "fallback": "[no preview available]", "blocks": [
            { "type": "header", "text": words.plain() }, { "type": "section", "fields": [words.mrkdwn()] },
            { "type": "context", "elements": [words.plain()] },
        ] })
    }),
    ("the preview of a link", |words| {
        json!({ "id": 1, "from_url": "https://example.com/page", "original_url": "https://example.com/page",
            "service_name": words.word(), "title": words.word(), "title_link": "https://example.com/page",
            "text": words.word(), "fallback": "Example: a page" })
    }),
    ("a shared message", |words| {
        json!({ "id": 1, "is_msg_unfurl": true, "is_share": true, "channel_id": "C0ELSEWHERE",
            "channel_team": "T0ANNALIST", "ts": "1699999999.000100", "author_id": "U01", "author_name": words.word(),
            "author_subname": "pat", "from_url": "https://example.slack.com/archives/C0ELSEWHERE/p1699999999000100",
            "text": words.word(), "fallback": "[November 14th, 2023] pat: something", "mrkdwn_in": ["text"] })
    }),
    ("a shared message of blocks", |words| {
        json!({ "id": 1, "is_msg_unfurl": true, "is_share": true, "channel_id": "C0ELSEWHERE",
            "ts": "1699999999.000200", "author_name": words.word(), "text": "This content can't be displayed.",
            "from_url": "https://example.slack.com/archives/C0ELSEWHERE/p1699999999000200",
            "message_blocks": [{ "team": "T0ANNALIST", "channel": "C0ELSEWHERE", "ts": "1699999999.000200",
                "message": { "blocks": [
                    { "type": "section", "text": words.mrkdwn() }, words.rich_text(),
                ] } }] })
    }),
];
