//! Converts attachments to lines. Apps sent them before blocks existed, and many still do.
//!
//! <https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments>

use serde_json::Value;

use super::blocks::{blocks, list, text, title_link};
use super::mrkdwn;
use super::spans::{LineBuffer, LineKind, TextFrame, TextLine, TextSpan};

/// Adds the content of attachments.
pub(super) fn attachments<'v>(attachments: impl Iterator<Item = &'v Value>, lines: &mut LineBuffer) {
    for (number, attachment) in attachments.enumerate() {
        if lines.is_full() {
            return;
        }
        let mut content_lines = lines.empty_like();
        content(attachment, &mut content_lines);
        if content_lines.is_empty() {
            content_lines = lines.empty_like();
            add_text(text(attachment, "fallback"), &mut content_lines);
        }
        let color = text(attachment, "color").map(str::to_owned);
        let frame = Some(TextFrame { number, color });
        for line in content_lines.into_lines() {
            lines.line(TextLine { frame: frame.clone(), ..line });
        }
    }
}

/// Whether Slack created the attachment as a preview of a link in the text. A shared message is not a
/// preview, because it has its own content.
pub(super) fn is_preview(attachment: &Value) -> bool {
    let has = |name: &str| attachment[name].is_string();
    (has("from_url") || has("original_url")) && attachment["is_share"] != true
}

fn content(attachment: &Value, lines: &mut LineBuffer) {
    if lines.has_formatting() {
        add_context(text(attachment, "service_name"), lines);
    }
    add_text(text(attachment, "pretext"), lines);
    add_text(text(attachment, "author_name"), lines);
    if text(attachment, "title").is_some() {
        lines.spans(title_link(&attachment["title"], &attachment["title_link"]));
    }
    // Blocks contain the same text and more.
    let mut inside = lines.empty_like();
    blocks(&attachment["blocks"], &mut inside);
    if inside.is_empty() {
        add_text(text(attachment, "text"), lines);
    }
    for line in inside.into_lines() {
        lines.line(line);
    }
    for field in list(&attachment["fields"]) {
        let mut spans = text(field, "title").map(mrkdwn::parse).unwrap_or_default();
        let value = text(field, "value").map(mrkdwn::parse).unwrap_or_default();
        if !spans.is_empty() && !value.is_empty() {
            spans.push(TextSpan::text(": "));
        }
        spans.extend(value);
        if !spans.is_empty() {
            lines.spans(spans);
        }
    }
    let mut buttons = Vec::new();
    for action in list(&attachment["actions"]) {
        if let Some(label) = text(action, "text") {
            if !buttons.is_empty() {
                buttons.push(TextSpan::text("  "));
            }
            buttons.push(TextSpan::Control(mrkdwn::unescaped(label)));
        }
    }
    if !buttons.is_empty() {
        lines.spans(buttons);
    }
    if lines.has_formatting() {
        add_context(text(attachment, "footer"), lines);
    }
}

fn add_context(text: Option<&str>, lines: &mut LineBuffer) {
    if let Some(text) = text {
        lines.spans_as(LineKind::Context, mrkdwn::parse(text));
    }
}

fn add_text(text: Option<&str>, lines: &mut LineBuffer) {
    if let Some(text) = text {
        lines.spans(mrkdwn::parse(text));
    }
}
