//! Single events, shaped as Slack documents and sends them.
//!
//! A function returns the inner `event`; [`envelope`] wraps it into the body of a request. A *message* is what stands
//! in history and inside `message_changed`; [`posted`] makes of it the event that announces it.

use serde_json::{Value, json};

/// The body of a request that delivers `event`. `event_id` tells deliveries apart.
pub fn envelope(team: &str, event_id: &str, event: &Value) -> String {
    let event_time_s: i64 = event["event_ts"]
        .as_str()
        .and_then(|clock| clock.split('.').next())
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or_default();
    let event_context = format!("4-{event_id}-{team}");
    json!({
        "token": "not-checked-any-more",
        "team_id": team,
        "context_team_id": team,
        "context_enterprise_id": null,
        "api_app_id": "A0ANNALIST",
        "event": event,
        "type": "event_callback",
        "event_id": event_id,
        "event_time": event_time_s,
        "authorizations": [{
            "enterprise_id": null, "team_id": team, "user_id": "U0ANNALIST", "is_bot": true,
            "is_enterprise_install": false,
        }],
        "is_ext_shared_channel": false,
        "event_context": event_context,
    })
    .to_string()
}

/// The event that announces a message in a public channel.
pub fn posted(channel: &str, message: &Value) -> Value {
    with(
        message.clone(),
        [
            ("channel", channel.into()),
            ("channel_type", "channel".into()),
            ("event_ts", message["ts"].clone()),
        ],
    )
}

/// The event of an edit, an unfurl or a tombstone: `after` replaced `before`.
pub fn changed(channel: &str, before: &Value, after: &Value, event_ts: &str) -> Value {
    json!({
        "type": "message", "subtype": "message_changed", "hidden": true, "channel": channel,
        "channel_type": "channel", "ts": event_ts, "event_ts": event_ts, "message": after,
        "previous_message": before,
    })
}

/// The event of a deletion.
pub fn deleted(channel: &str, message: &Value, event_ts: &str) -> Value {
    json!({
        "type": "message", "subtype": "message_deleted", "hidden": true, "channel": channel,
        "channel_type": "channel", "ts": event_ts, "event_ts": event_ts, "deleted_ts": message["ts"],
        "previous_message": message,
    })
}

/// The event that tells a thread's root of a reply.
pub fn replied(channel: &str, root: &Value, reply_ts: &str, event_ts: &str) -> Value {
    let root = with(
        root.clone(),
        [("thread_ts", root["ts"].clone()), ("reply_count", 1.into()), ("latest_reply", reply_ts.into())],
    );
    json!({
        "type": "message", "subtype": "message_replied", "hidden": true, "channel": channel,
        "channel_type": "channel", "ts": event_ts, "event_ts": event_ts, "message": root,
    })
}

/// A reaction that came.
pub fn reaction_added(channel: &str, ts: &str, user: &str, name: &str, event_ts: &str) -> Value {
    reaction("reaction_added", channel, ts, user, name, event_ts)
}

/// A reaction that went.
pub fn reaction_removed(channel: &str, ts: &str, user: &str, name: &str, event_ts: &str) -> Value {
    reaction("reaction_removed", channel, ts, user, name, event_ts)
}

fn reaction(kind: &str, channel: &str, ts: &str, user: &str, name: &str, event_ts: &str) -> Value {
    json!({
        "type": kind, "user": user, "reaction": name, "item_user": user, "event_ts": event_ts,
        "item": { "type": "message", "channel": channel, "ts": ts },
    })
}

/// A public channel that was created.
pub fn channel_created(channel: &str, name: &str, event_ts: &str) -> Value {
    json!({
        "type": "channel_created", "event_ts": event_ts,
        "channel": { "id": channel, "name": name, "is_private": false },
    })
}

/// A custom emoji that came.
pub fn emoji_added(name: &str, url: &str, event_ts: &str) -> Value {
    json!({ "type": "emoji_changed", "subtype": "add", "name": name, "value": url, "event_ts": event_ts })
}

/// `object` with these fields set.
pub fn with<const N: usize>(mut object: Value, fields: [(&str, Value); N]) -> Value {
    if let Value::Object(object) = &mut object {
        object.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    }
    object
}
