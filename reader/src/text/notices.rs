//! Notices: messages that Slack writes in a person's name when something happens.
//!
//! <https://docs.slack.dev/reference/events/message#subtypes>

use serde_json::Value;

use super::blocks::text;
use super::mrkdwn;
use super::spans::{LineBuffer, TextLine, TextSpan};

/// The content of a notice, which follows the author's name.
pub(super) struct NoticeText {
    /// The person who acted, if it is not the message's user.
    pub(super) user: Option<String>,
    /// What the person did; at least one line.
    pub(super) lines: Vec<TextLine>,
}

/// Reads a message as a notice. `None` for speech and for unknown subtypes.
pub(super) fn read(message: &Value, raw: &Value) -> Option<NoticeText> {
    let mut user = None;
    let spans = match text(message, "subtype")? {
        "me_message" => mrkdwn::parse(text(message, "text")?),
        "channel_join" | "group_join" => joined(raw),
        "channel_leave" | "group_leave" => did("left the channel"),
        "channel_archive" | "group_archive" => did("archived the channel"),
        "channel_unarchive" | "group_unarchive" => did("unarchived the channel"),
        "channel_convert_to_private" => did("made the channel private"),
        "channel_convert_to_public" => did("made the channel public"),
        "channel_topic" | "group_topic" => changed_text("topic", message, raw),
        "channel_purpose" | "group_purpose" => changed_text("purpose", message, raw),
        "channel_name" | "group_name" => renamed(message, raw),
        "pinned_item" => did("pinned a message to the channel"),
        "unpinned_item" => did("unpinned a message from the channel"),
        // Slack posts it in Slackbot's name.
        "huddle_thread" | "sh_room_created" => {
            user = text(&raw["room"], "created_by").map(str::to_owned);
            did("started a huddle")
        }
        "app_conversation_join"
        | "app_conversation_leave"
        | "bot_add"
        | "bot_disable"
        | "bot_enable"
        | "bot_remove"
        | "channel_canvas_updated"
        | "channel_posting_permissions"
        | "ekm_access_denied"
        | "joiner_notification"
        | "reminder_add"
        | "tabbed_canvas_updated" => slack_text(message),
        _ => return None,
    };
    let mut lines = LineBuffer::default();
    lines.spans(spans);
    let mut lines = lines.into_lines();
    if lines.is_empty() {
        lines.push(TextLine::default());
    }
    Some(NoticeText { user, lines })
}

fn did(what: &str) -> Vec<TextSpan> {
    vec![TextSpan::text(what)]
}

fn joined(raw: &Value) -> Vec<TextSpan> {
    let mut spans = did("joined the channel");
    if let Some(inviter) = text(raw, "inviter") {
        spans.extend([
            TextSpan::text(", invited by "),
            TextSpan::User { id: inviter.to_owned(), label: None },
        ]);
    }
    spans
}

fn changed_text(what: &str, message: &Value, raw: &Value) -> Vec<TextSpan> {
    match raw[what].as_str() {
        None => slack_text(message),
        Some("") => vec![TextSpan::text(format!("cleared the {what}"))],
        Some(value) => {
            let mut spans = vec![TextSpan::text(format!("set the {what}: "))];
            spans.extend(mrkdwn::parse(value));
            spans
        }
    }
}

fn renamed(message: &Value, raw: &Value) -> Vec<TextSpan> {
    match (text(raw, "old_name"), text(raw, "name")) {
        (Some(old), Some(new)) => vec![TextSpan::text(format!("renamed the channel from #{old} to #{new}"))],
        (_, Some(new)) => vec![TextSpan::text(format!("renamed the channel to #{new}"))],
        (_, None) => slack_text(message),
    }
}

/// Returns Slack's own text without the author's name at its start, which is already shown.
fn slack_text(message: &Value) -> Vec<TextSpan> {
    let mut spans = mrkdwn::parse(text(message, "text").unwrap_or_default());
    let author = text(message, "user").unwrap_or_default();
    if matches!(spans.first(), Some(TextSpan::User { id, .. }) if id == author) {
        spans.remove(0);
        if let Some(TextSpan::Text(rest, _)) = spans.first_mut() {
            *rest = rest.trim_start().to_owned();
        }
    }
    spans
}
