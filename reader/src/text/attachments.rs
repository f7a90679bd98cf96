//! Slack's attachments as lines: what apps sent before there were blocks, and many still do.
//!
//! <https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments>

use serde_json::Value;

use super::blocks::{blocks, linked, list, text};
use super::mrkdwn;
use super::spans::{LineBuffer, LineKind, TextFrame, TextLine, TextSpan};

/// Adds what attachments say.
pub(super) fn attachments<'v>(attachments: impl Iterator<Item = &'v Value>, lines: &mut LineBuffer) {
    for (number, attachment) in attachments.enumerate() {
        if lines.is_full() {
            return;
        }
        let mut said = lines.for_part();
        content(attachment, &mut said);
        if said.is_empty() {
            said = lines.for_part();
            say(text(attachment, "fallback"), &mut said);
        }
        let color = text(attachment, "color").map(str::to_owned);
        let frame = Some(TextFrame { number, color });
        for line in said.into_lines() {
            lines.line(TextLine { frame: frame.clone(), ..line });
        }
    }
}

/// Whether Slack made it of a link in the text, which says where it leads by itself. A shared message is more than its
/// link.
pub(super) fn is_preview(attachment: &Value) -> bool {
    let has = |name: &str| attachment[name].is_string();
    (has("from_url") || has("original_url")) && attachment["is_share"] != true
}

fn content(attachment: &Value, lines: &mut LineBuffer) {
    if lines.has_looks() {
        beside(text(attachment, "service_name"), lines);
    }
    say(text(attachment, "pretext"), lines);
    say(text(attachment, "author_name"), lines);
    if text(attachment, "title").is_some() {
        lines.spans(linked(&attachment["title"], &attachment["title_link"]));
    }
    // Blocks say the same and more.
    let mut inside = lines.for_part();
    blocks(&attachment["blocks"], &mut inside);
    if inside.is_empty() {
        say(text(attachment, "text"), lines);
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
    if lines.has_looks() {
        beside(text(attachment, "footer"), lines);
    }
}

fn beside(text: Option<&str>, lines: &mut LineBuffer) {
    if let Some(text) = text {
        lines.spans_as(LineKind::Context, mrkdwn::parse(text));
    }
}

fn say(text: Option<&str>, lines: &mut LineBuffer) {
    if let Some(text) = text {
        lines.spans(mrkdwn::parse(text));
    }
}
