//! Events in the shape Slack sends them.
//!
//! <https://docs.slack.dev/apis/events-api/#events-JSON>

use serde_json::{Value, json};

/// The made-up workspace.
pub(super) const TEAM: &str = "T0DEMO";

/// The body of a request that delivers an event.
pub(super) fn envelope(event_id: &str, event: &Value) -> String {
    let event_time_s: i64 = event["event_ts"]
        .as_str()
        .and_then(|clock| clock.split('.').next())
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or_default();
    json!({
        "type": "event_callback", "team_id": TEAM, "context_team_id": TEAM, "api_app_id": "A0DEMO",
        "event_id": event_id, "event_time": event_time_s, "event": event, "is_ext_shared_channel": false,
        "authorizations": [{ "team_id": TEAM, "user_id": "U0ANNALIST", "is_bot": true }],
    })
    .to_string()
}

/// A message of a person; with `thread_ts` a reply.
pub(super) fn message(ts: &str, user: &str, text: &str, thread_ts: Option<&str>) -> Value {
    let mut message = json!({ "type": "message", "user": user, "text": text, "ts": ts, "team": TEAM });
    if let Some(thread_ts) = thread_ts {
        message["thread_ts"] = thread_ts.into();
    }
    message
}

/// The event that announces a message.
pub(super) fn posted(channel: &str, channel_type: &str, message: &Value) -> Value {
    let mut event = message.clone();
    event["channel"] = channel.into();
    event["channel_type"] = channel_type.into();
    event["event_ts"] = message["ts"].clone();
    event
}

/// The event that replaces a message: an edit or an unfurl.
pub(super) fn changed(channel: &str, before: &Value, after: &Value, event_ts: &str) -> Value {
    let mut event = hidden("message_changed", channel, event_ts);
    event["message"] = after.clone();
    event["previous_message"] = before.clone();
    event
}

/// The event that deletes a message.
pub(super) fn deleted(channel: &str, message: &Value, event_ts: &str) -> Value {
    let mut event = hidden("message_deleted", channel, event_ts);
    event["deleted_ts"] = message["ts"].clone();
    event["previous_message"] = message.clone();
    event
}

/// The event that tells a thread's root of its first reply.
pub(super) fn replied(channel: &str, root: &Value, event_ts: &str) -> Value {
    let mut event = hidden("message_replied", channel, event_ts);
    event["message"] = root.clone();
    event["message"]["thread_ts"] = root["ts"].clone();
    event["message"]["reply_count"] = 1.into();
    event
}

fn hidden(subtype: &str, channel: &str, event_ts: &str) -> Value {
    json!({
        "type": "message", "subtype": subtype, "hidden": true, "channel": channel, "channel_type": "channel",
        "ts": event_ts, "event_ts": event_ts,
    })
}

/// The event of a reaction that came (`reaction_added`) or went (`reaction_removed`).
pub(super) fn reaction(kind: &str, channel: &str, ts: &str, user: &str, name: &str, event_ts: &str) -> Value {
    json!({
        "type": kind, "user": user, "reaction": name, "event_ts": event_ts,
        "item": { "type": "message", "channel": channel, "ts": ts },
    })
}

/// A person's profile as it is now.
pub(super) fn user_change(user: &str, name: &str, event_ts: &str) -> Value {
    let profile = json!({ "real_name": name, "display_name": name });
    let user = json!({ "id": user, "team_id": TEAM, "name": name, "real_name": name, "tz": "Etc/UTC", "profile": profile });
    json!({ "type": "user_change", "user": user, "event_ts": event_ts })
}

/// A new channel.
pub(super) fn channel_created(channel: &str, name: &str, event_ts: &str) -> Value {
    json!({
        "type": "channel_created", "event_ts": event_ts,
        "channel": { "id": channel, "name": name, "creator": "U0ANA", "is_channel": true },
    })
}
