//! Notices: messages that Slack writes in a person's name when something happens.
//!
//! <https://docs.slack.dev/reference/events/message#subtypes>

use jiff::tz::TimeZone;
use rules::view::MessageView;
use serde_json::Value;

use super::blocks::{list, text};
use super::spans::{TextLine, TextSpan};
use super::{formatting, mrkdwn};

/// Maximum number of people in a huddle who are named.
const MAX_NAMED: usize = 50;

/// The content of a notice, which follows the author's name.
pub(super) struct NoticeText {
    /// The person who acted, if it is not the message's user.
    pub(super) user: Option<String>,
    /// What the person did; at least one line.
    pub(super) lines: Vec<TextLine>,
}

/// Reads a message as a notice. `None` for speech and for unknown subtypes.
pub(super) fn read(message: &MessageView, raw: &Value, zone: &TimeZone) -> Option<NoticeText> {
    let mut user = None;
    let subtype = message.subtype()?;
    let spans = match subtype {
        "me_message" => mrkdwn::parse(message.text()?, zone),
        "channel_join" | "group_join" => joined(raw),
        "channel_leave" | "group_leave" => did("left the channel"),
        "channel_archive" | "group_archive" => did("archived the channel"),
        "channel_unarchive" | "group_unarchive" => did("unarchived the channel"),
        "channel_convert_to_private" => did("made the channel private"),
        "channel_convert_to_public" => did("made the channel public"),
        "channel_topic" | "group_topic" => changed_text("topic", message, raw, zone),
        "channel_purpose" | "group_purpose" => changed_text("purpose", message, raw, zone),
        "channel_name" | "group_name" => renamed(message, raw, zone),
        "pinned_item" => did("pinned a message to the channel"),
        "unpinned_item" => did("unpinned a message from the channel"),
        // Slack posts it in Slackbot's name.
        "huddle_thread" | "sh_room_created" => {
            user = text(&raw["room"], "created_by").map(str::to_owned);
            huddle(&raw["room"])
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
        | "tabbed_canvas_updated" => slack_text(message, zone),
        _ => return None,
    };
    let mut lines =
        if subtype == "me_message" { formatting::lines(spans) } else { formatting::unstyled(spans) };
    while lines.len() > 1 && lines.last().is_some_and(TextLine::is_empty) {
        lines.pop();
    }
    Some(NoticeText { user, lines })
}

fn did(what: &str) -> Vec<TextSpan> {
    vec![TextSpan::text(what)]
}

/// Describes a huddle: whether it is running or how long it took, its topic, and who took part.
fn huddle(room: &Value) -> Vec<TextSpan> {
    let moment = |name: &str| room[name].as_i64().filter(|moment| *moment > 0);
    let has_ended = room["has_ended"] == true || moment("date_end").is_some();
    let state = match (moment("date_start"), moment("date_end")) {
        (Some(start), Some(end)) if end >= start => Some(duration(end - start)),
        (_, _) if has_ended => Some("ended".to_owned()),
        (Some(_), _) => Some("running".to_owned()),
        (None, _) => None,
    };
    let mut words = "started a huddle".to_owned();
    if let Some(state) = state {
        words += &format!(" ({state})");
    }
    if let Some(topic) = text(room, "name") {
        words += &format!(": {}", mrkdwn::unescaped(topic));
    }
    let mut spans = vec![TextSpan::text(words)];
    let people = |name: &str| list(&room[name]).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let mut took_part = people("participant_history");
    if took_part.is_empty() {
        took_part = people("participants");
    }
    for (index, person) in took_part.iter().take(MAX_NAMED).enumerate() {
        spans.push(TextSpan::text(if index == 0 { ", with " } else { ", " }));
        spans.push(TextSpan::User { id: (*person).to_owned(), label: None });
    }
    if took_part.len() > MAX_NAMED {
        spans.push(TextSpan::text(format!(" and {} more", took_part.len() - MAX_NAMED)));
    }
    spans
}

fn duration(seconds: i64) -> String {
    match (seconds / 3_600, seconds % 3_600 / 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
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

fn changed_text(what: &str, message: &MessageView, raw: &Value, zone: &TimeZone) -> Vec<TextSpan> {
    match raw[what].as_str() {
        None => slack_text(message, zone),
        Some("") => vec![TextSpan::text(format!("cleared the {what}"))],
        Some(value) => {
            let mut spans = vec![TextSpan::text(format!("set the {what}: "))];
            spans.extend(mrkdwn::parse(value, zone));
            spans
        }
    }
}

fn renamed(message: &MessageView, raw: &Value, zone: &TimeZone) -> Vec<TextSpan> {
    match (text(raw, "old_name"), text(raw, "name")) {
        (Some(old), Some(new)) => vec![TextSpan::text(format!("renamed the channel from #{old} to #{new}"))],
        (_, Some(new)) => vec![TextSpan::text(format!("renamed the channel to #{new}"))],
        (_, None) => slack_text(message, zone),
    }
}

/// Returns Slack's own text without the author's name at its start, which is already shown.
fn slack_text(message: &MessageView, zone: &TimeZone) -> Vec<TextSpan> {
    let mut spans = mrkdwn::parse(message.text().unwrap_or_default(), zone);
    let author = message.user().unwrap_or_default();
    if matches!(spans.first(), Some(TextSpan::User { id, .. }) if id == author) {
        spans.remove(0);
        if let Some(TextSpan::Text(rest, _)) = spans.first_mut() {
            *rest = rest.trim_start().to_owned();
        }
    }
    spans
}
