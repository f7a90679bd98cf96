//! Events in the shapes that Slack sends.
//!
//! <https://docs.slack.dev/apis/events-api/#events-JSON>

use fake_slack::event;
use serde_json::{Value, json};

use super::definitions::{DemoFile, DemoPerson, FileLocation};

/// The id of the made-up workspace.
pub(super) const TEAM: &str = "T0DEMO";

/// The app's bot user.
pub(super) const BOT: &str = "U0ANNALIST";

/// A message by a person, or a reply if `thread_ts` is given.
pub(super) fn message(ts: &str, user: &str, text: &str, thread_ts: Option<&str>) -> Value {
    let mut message = json!({ "type": "message", "user": user, "text": text, "ts": ts, "team": TEAM });
    if let Some(thread_ts) = thread_ts {
        message["thread_ts"] = thread_ts.into();
    }
    message
}

/// Adds the channel's type to an event.
pub(super) fn with_channel_type(channel_type: &str, event: Value) -> Value {
    event::with_fields(event, [("channel_type", channel_type.into())])
}

/// A person as the directory and `team_join` contain them.
pub(super) fn user(person: &DemoPerson, origin: &str) -> Value {
    let DemoPerson { id, name, real_name, .. } = person;
    let image = format!("{origin}/avatars/{name}.png");
    let profile =
        json!({ "real_name": real_name, "display_name": name, "image_72": image, "image_512": image });
    json!({
        "id": id, "team_id": TEAM, "name": name, "real_name": real_name, "deleted": false, "is_bot": false,
        "tz": "Etc/UTC", "tz_offset": 0, "profile": profile,
    })
}

/// A `team_join` event.
pub(super) fn team_join(user: &Value, event_ts: &str) -> Value {
    json!({ "type": "team_join", "user": user, "event_ts": event_ts })
}

/// A `channel_created` event.
pub(super) fn channel_created(channel: &str, name: &str, event_ts: &str) -> Value {
    json!({
        "type": "channel_created", "event_ts": event_ts,
        "channel": { "id": channel, "name": name, "creator": "U0ANA", "is_channel": true, "is_private": false },
    })
}

/// A `channel_rename` event, or `group_rename` for a private channel.
pub(super) fn channel_rename(channel: &str, channel_type: &str, name: &str, event_ts: &str) -> Value {
    let kind = if channel_type == "group" { "group_rename" } else { "channel_rename" };
    json!({ "type": kind, "channel": { "id": channel, "name": name, "is_channel": true }, "event_ts": event_ts })
}

/// An event of another type about a channel.
pub(super) fn channel_event(kind: &str, channel: &str, user: &str, event_ts: &str) -> Value {
    json!({ "type": kind, "channel": channel, "user": user, "event_ts": event_ts })
}

/// A `channel_id_changed` event.
pub(super) fn channel_id_changed(old: &str, new: &str, event_ts: &str) -> Value {
    json!({ "type": "channel_id_changed", "old_channel_id": old, "new_channel_id": new, "event_ts": event_ts })
}

/// A file as a message contains it.
pub(super) fn file(file: &DemoFile, origin: &str) -> Value {
    match file.location {
        FileLocation::AskFirst(_) => json!({ "id": file.id, "file_access": "check_file_info" }),
        FileLocation::Hidden => json!({ "id": file.id, "mode": "hidden_by_limit" }),
        FileLocation::Hosted(_) | FileLocation::BehindLogin | FileLocation::Elsewhere(_) => {
            file_info(file, origin)
        }
    }
}

/// A file as `files.info` returns it.
pub(super) fn file_info(file: &DemoFile, origin: &str) -> Value {
    let DemoFile { id, name, mimetype, location } = file;
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
            object["size"] = hosted_bytes(file).map_or(2_048, <[u8]>::len).into();
        }
    }
    object
}

/// The contents of a file, if Slack serves them.
pub(super) fn hosted_bytes(file: &DemoFile) -> Option<&'static [u8]> {
    match file.location {
        FileLocation::Hosted(bytes) | FileLocation::AskFirst(bytes) => Some(bytes),
        FileLocation::BehindLogin | FileLocation::Elsewhere(_) | FileLocation::Hidden => None,
    }
}

/// A `file_deleted` event.
pub(super) fn file_deleted(file: &str, channel: &str, event_ts: &str) -> Value {
    json!({ "type": "file_deleted", "file_id": file, "channel_ids": [channel], "event_ts": event_ts })
}

/// The body of an `app_rate_limited` request: Slack delivered no events in this minute.
pub(super) fn rate_limited(minute_s: i64) -> String {
    json!({ "type": "app_rate_limited", "team_id": TEAM, "minute_rate_limited": minute_s, "api_app_id": "A0DEMO" })
        .to_string()
}
