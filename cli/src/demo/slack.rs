//! Events in the shape Slack sends them.
//!
//! <https://docs.slack.dev/apis/events-api/#events-JSON>

use serde_json::{Value, json};

use super::definitions::{File, FileLocation, Person};

/// The made-up workspace.
pub(super) const TEAM: &str = "T0DEMO";

/// The app itself.
pub(super) const BOT: &str = "U0ANNALIST";

/// A channel's id, and its type at the time.
pub(super) type Where<'a> = (&'a str, &'a str);

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
        "authorizations": [{ "team_id": TEAM, "user_id": BOT, "is_bot": true }],
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
pub(super) fn posted((channel, channel_type): Where<'_>, message: &Value) -> Value {
    let mut event = message.clone();
    event["channel"] = channel.into();
    event["channel_type"] = channel_type.into();
    event["event_ts"] = message["ts"].clone();
    event
}

/// The event that replaces a message: an edit or an unfurl.
pub(super) fn changed(at: Where<'_>, before: &Value, after: &Value, event_ts: &str) -> Value {
    let mut event = hidden("message_changed", at, event_ts);
    event["message"] = after.clone();
    event["previous_message"] = before.clone();
    event
}

/// The event that deletes a message.
pub(super) fn deleted(at: Where<'_>, message: &Value, event_ts: &str) -> Value {
    let mut event = hidden("message_deleted", at, event_ts);
    event["deleted_ts"] = message["ts"].clone();
    event["previous_message"] = message.clone();
    event
}

/// The event that tells a thread's root of its first reply.
pub(super) fn replied(at: Where<'_>, root: &Value, event_ts: &str) -> Value {
    let mut event = hidden("message_replied", at, event_ts);
    event["message"] = root.clone();
    event["message"]["thread_ts"] = root["ts"].clone();
    event["message"]["reply_count"] = 1.into();
    event
}

fn hidden(subtype: &str, (channel, channel_type): Where<'_>, event_ts: &str) -> Value {
    json!({
        "type": "message", "subtype": subtype, "hidden": true, "channel": channel, "channel_type": channel_type,
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

/// A person as the directory and their own events show them.
pub(super) fn user(person: &Person, origin: &str) -> Value {
    let Person { id, name, real_name, .. } = person;
    let image = format!("{origin}/avatars/{name}.png");
    let profile =
        json!({ "real_name": real_name, "display_name": name, "image_72": image, "image_512": image });
    json!({
        "id": id, "team_id": TEAM, "name": name, "real_name": real_name, "deleted": false, "is_bot": false,
        "tz": "Etc/UTC", "tz_offset": 0, "profile": profile,
    })
}

/// A person joins.
pub(super) fn team_join(user: &Value, event_ts: &str) -> Value {
    json!({ "type": "team_join", "user": user, "event_ts": event_ts })
}

/// A new custom emoji.
pub(super) fn emoji_added(name: &str, url: &str, event_ts: &str) -> Value {
    json!({ "type": "emoji_changed", "subtype": "add", "name": name, "value": url, "event_ts": event_ts })
}

/// A new channel.
pub(super) fn channel_created(channel: &str, name: &str, event_ts: &str) -> Value {
    json!({
        "type": "channel_created", "event_ts": event_ts,
        "channel": { "id": channel, "name": name, "creator": "U0ANA", "is_channel": true, "is_private": false },
    })
}

/// A channel's new name.
pub(super) fn channel_rename(channel: &str, channel_type: &str, name: &str, event_ts: &str) -> Value {
    let kind = if channel_type == "group" { "group_rename" } else { "channel_rename" };
    json!({ "type": kind, "channel": { "id": channel, "name": name, "is_channel": true }, "event_ts": event_ts })
}

/// Anything else that happens to a channel.
pub(super) fn channel_turn(kind: &str, channel: &str, user: &str, event_ts: &str) -> Value {
    json!({ "type": kind, "channel": channel, "user": user, "event_ts": event_ts })
}

/// A channel goes on under another id.
pub(super) fn channel_id_changed(old: &str, new: &str, event_ts: &str) -> Value {
    json!({ "type": "channel_id_changed", "old_channel_id": old, "new_channel_id": new, "event_ts": event_ts })
}

/// A file as a message carries it.
pub(super) fn file(file: &File, origin: &str) -> Value {
    match file.location {
        FileLocation::AskFirst(_) => json!({ "id": file.id, "file_access": "check_file_info" }),
        FileLocation::Hidden => json!({ "id": file.id, "mode": "hidden_by_limit" }),
        FileLocation::Hosted(_) | FileLocation::BehindLogin | FileLocation::Elsewhere(_) => {
            whole_file(file, origin)
        }
    }
}

/// A file as `files.info` shows it.
pub(super) fn whole_file(file: &File, origin: &str) -> Value {
    let File { id, name, mimetype, location } = file;
    let mut object = json!({
        "id": id, "name": name, "title": name, "mimetype": mimetype, "user": "U0ANA", "mode": "hosted",
        "is_external": false,
    });
    match location {
        FileLocation::Elsewhere(url) => {
            object["mode"] = "external".into();
            object["is_external"] = true.into();
            object["external_type"] = "gdrive".into();
            object["url_private"] = (*url).into();
        }
        FileLocation::Hosted(_)
        | FileLocation::AskFirst(_)
        | FileLocation::BehindLogin
        | FileLocation::Hidden => {
            let url = format!("{origin}/files-pri/{TEAM}-{id}/{name}");
            object["url_private"] = url.as_str().into();
            object["url_private_download"] = url.into();
            object["size"] = bytes(file).map_or(2_048, <[u8]>::len).into();
        }
    }
    object
}

/// What is in a file, where Slack hands it out.
pub(super) fn bytes(file: &File) -> Option<&'static [u8]> {
    match file.location {
        FileLocation::Hosted(bytes) | FileLocation::AskFirst(bytes) => Some(bytes),
        FileLocation::BehindLogin | FileLocation::Elsewhere(_) | FileLocation::Hidden => None,
    }
}

/// A file is deleted.
pub(super) fn file_deleted(file: &str, channel: &str, event_ts: &str) -> Value {
    json!({ "type": "file_deleted", "file_id": file, "channel_ids": [channel], "event_ts": event_ts })
}

/// The body that says that Slack delivered nothing for a minute.
pub(super) fn rate_limited(minute_s: i64) -> String {
    json!({ "type": "app_rate_limited", "team_id": TEAM, "minute_rate_limited": minute_s, "api_app_id": "A0DEMO" })
        .to_string()
}
