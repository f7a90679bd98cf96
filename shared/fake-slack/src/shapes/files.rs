//! Files that carry a text themselves. Their titles are shown with their names.
//! <https://docs.slack.dev/reference/objects/file-object>

use serde_json::json;

use super::MessageShape;

/// Every kind of file with a text.
pub const FILES: &[MessageShape] = &[
    ("an email", |words| {
        let sender = words.word();
        json!({ "id": "F0EMAIL001", "mode": "email", "filetype": "email", "name": "mail", "mimetype": "text/html",
            "title": "mail", "subject": words.word(), "size": 900,
            "from": [{ "address": "pat@example.com", "name": sender, "original": format!("{sender} <pat@example.com>") }],
            "plain_text": words.word(), "url_private": "https://files.slack.com/files-pri/T1-F0EMAIL001/mail" })
    }),
    ("a snippet", |words| {
        json!({ "id": "F0SNIPPET1", "mode": "snippet", "filetype": "python", "name": "fix.py", "title": "fix.py",
            "mimetype": "text/plain", "size": 20, "lines": 1, "preview": format!("print('{}')", words.word()),
            "url_private": "https://files.slack.com/files-pri/T1-F0SNIPPET1/fix.py" })
    }),
    ("a voice message", |words| {
        json!({ "id": "F0VOICE001", "mode": "hosted", "filetype": "m4a", "subtype": "slack_audio", "name": "clip.m4a",
            "title": "clip", "mimetype": "audio/mp4", "size": 12, "duration_ms": 1_500,
            "transcription": { "status": "complete", "locale": "en-US",
                "preview": { "content": words.word(), "has_more": true } },
            "url_private": "https://files.slack.com/files-tmb/T1-F0VOICE001/clip.m4a" })
    }),
    ("a picture with a description", |words| {
        json!({ "id": "F0PICTURE1", "mode": "hosted", "filetype": "png", "name": "chart.png", "title": "chart",
            "mimetype": "image/png", "size": 12, "alt_txt": words.word(),
            "url_private": "https://files.slack.com/files-pri/T1-F0PICTURE1/chart.png" })
    }),
];
