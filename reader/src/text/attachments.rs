//! Converts attachments to lines. Apps sent them before blocks existed, and many still do. Slack adds them for
//! shared messages and for previews of links.
//!
//! <https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments>

use serde_json::Value;

use super::blocks::{blocks, list, text, title_link};
use super::mrkdwn;
use super::spans::{LineBuffer, LineKind, TextFrame, TextLine, TextSpan, split_lines};

/// Adds the content of attachments, except that of previews without content.
pub(super) fn attachments(attachments: &Value, lines: &mut LineBuffer<'_>) {
    for (number, attachment) in list(attachments).iter().enumerate() {
        if lines.is_full() {
            return;
        }
        if is_preview(attachment) && !has_content(attachment) {
            continue;
        }
        let mut inside = lines.empty_like();
        content(attachment, &mut inside);
        if inside.is_empty() {
            inside = lines.empty_like();
            add_text(attachment, "fallback", &mut inside);
        }
        if inside.is_empty() && text(attachment, "image_url").is_some() {
            inside.spans(vec![TextSpan::Control("image".to_owned())]);
        }
        let color = text(attachment, "color").map(str::to_owned);
        lines.append_framed(inside, &TextFrame { number, color });
    }
}

/// Whether Slack created the attachment as a preview of a link in the text. A shared message is not a
/// preview, because it has its own content.
fn is_preview(attachment: &Value) -> bool {
    let has = |name: &str| attachment[name].is_string();
    (has("from_url") || has("original_url")) && attachment["is_share"] != true
}

/// Whether a preview has anything but an address.
fn has_content(attachment: &Value) -> bool {
    ["title", "text", "pretext"].into_iter().any(|name| text(attachment, name).is_some())
        || ["blocks", "message_blocks", "fields"].into_iter().any(|name| !list(&attachment[name]).is_empty())
}

/// Whether Slack formats a field.
fn is_formatted(attachment: &Value, name: &str) -> bool {
    list(&attachment["mrkdwn_in"]).iter().any(|listed| listed == name)
}

fn content(attachment: &Value, lines: &mut LineBuffer<'_>) {
    add_context(attachment, "service_name", lines);
    add_text(attachment, "pretext", lines);
    add_text(attachment, "author_name", lines);
    if text(attachment, "title").is_some() {
        let title = split_lines(title_link(&attachment["title"], &attachment["title_link"], lines));
        lines.lines(LineKind::Heading, title.into_iter().map(TextLine::plain));
    }
    // Blocks contain the same text and more.
    let mut inside = lines.empty_like();
    blocks(&attachment["blocks"], &mut inside);
    if !inside.has_words() {
        for shared in list(&attachment["message_blocks"]) {
            blocks(&shared["message"]["blocks"], &mut inside);
        }
    }
    if !inside.has_words() {
        add_text(attachment, "text", lines);
    }
    lines.append(inside);
    for field in list(&attachment["fields"]) {
        if lines.is_full() {
            return;
        }
        self::field(field, is_formatted(attachment, "fields"), lines);
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
    add_context(attachment, "footer", lines);
}

/// Adds a field: its title in front of its value.
fn field(field: &Value, is_formatted: bool, lines: &mut LineBuffer<'_>) {
    let mut value = lines.empty_like();
    if let Some(text) = text(field, "value") {
        value.markup(mrkdwn::parse(text, lines.parts.zone), is_formatted);
    }
    let mut value = value.into_lines();
    if let Some(title) = text(field, "title").map(mrkdwn::unescaped) {
        match value.first_mut() {
            Some(first) if first.kind == LineKind::Plain => {
                first.spans.insert(0, TextSpan::text(format!("{title}: ")));
            }
            Some(_) | None => value.insert(0, TextLine::plain(vec![TextSpan::text(title)])),
        }
    }
    lines.lines(LineKind::Plain, value);
}

fn add_context(attachment: &Value, name: &str, lines: &mut LineBuffer<'_>) {
    let Some(text) = text(attachment, name) else { return };
    let mut context = lines.empty_like();
    context.markup(mrkdwn::parse(text, lines.parts.zone), false);
    lines.lines(LineKind::Context, context.into_lines());
}

fn add_text(attachment: &Value, name: &str, lines: &mut LineBuffer<'_>) {
    if let Some(text) = text(attachment, name) {
        lines.markup(mrkdwn::parse(text, lines.parts.zone), is_formatted(attachment, name));
    }
}
