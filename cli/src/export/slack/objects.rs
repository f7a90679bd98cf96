//! Converts messages, channels and people, as readers see them, to the objects in Slack's exports.
//!
//! <https://slack.com/help/articles/220556107-How-to-read-Slack-data-exports>

use std::collections::HashSet;

use rules::history::{DELETED_TEXT, without_tokens};
use rules::message::is_forwarded;
use rules::view::{MessageView, PersonView};
use serde_json::{Map, Value, json};
use slack::ids::{ChannelId, SLACKBOT, TeamId, Ts};

use crate::export::source::ExportedFacts;
use crate::export::threads::Replies;

/// Fields that only events have, not exports.
const EVENT_FIELDS: [&str; 3] = ["channel", "channel_type", "event_ts"];

/// Fields that are copied from the row if the message's raw event is missing or unreadable.
const ROW_FIELDS: [&str; 6] = ["text", "user", "bot_id", "username", "subtype", "files"];

/// Maximum number of users in a root's `reply_users`, as in Slack. `reply_users_count` counts them all.
const MAX_REPLY_USERS: usize = 5;

/// A field of a person and of their profile. Slack only returns it to apps with a scope for it.
const EMAIL: &str = "email";

/// A message as Slack lists it: its raw event, with the reactions, pin, files and replies of the archive.
pub(super) fn message(row: &MessageView, replies: Option<Replies<'_>>) -> Value {
    let mut object = match row.raw() {
        Some(Value::Object(raw)) => raw,
        Some(_) | None => from_row(row.as_json()),
    };
    object.retain(|name, _| !EVENT_FIELDS.contains(&name.as_str()));
    object.insert("type".into(), "message".into());
    for name in ["ts", "thread_ts", "reactions"] {
        match row.as_json().get(name) {
            Some(known) => object.insert(name.into(), known.clone()),
            None => object.remove(name),
        };
    }
    for (name, known) in ["pinned_to", "pinned_info"].into_iter().zip(pin(row)) {
        match known {
            Some(known) => object.insert(name.into(), known),
            None => object.remove(name),
        };
    }
    // The files of forwarded messages are in the attachments of the raw event.
    if object.contains_key("files") && row.has_files() {
        let own = row.files().iter().filter(|file| !is_forwarded(file));
        object.insert("files".into(), own.cloned().collect());
    }
    if let Some(replies) = replies {
        add_thread_fields(&mut object, replies);
    }
    if row.is_deleted() {
        object.insert("subtype".into(), "tombstone".into());
        object.insert("hidden".into(), true.into());
        object.entry("text").or_insert_with(|| DELETED_TEXT.into());
        object.entry("user").or_insert_with(|| SLACKBOT.into());
    }
    let mut object = Value::Object(object);
    without_tokens(&mut object);
    object
}

/// The channels in which a message is pinned, and when and by whom, as Slack lists them.
fn pin(row: &MessageView) -> [Option<Value>; 2] {
    let (Some(pin), Some(channel)) = (row.pin(), row.channel()) else { return [None, None] };
    let at = pin["ts"].as_str().and_then(|at| Ts::parse(at).ok());
    let info = at.map(
        |at| json!({ "channel": channel, "pinned_by": pin["user"], "pinned_ts": at.micros() / 1_000_000 }),
    );
    [Some(json!([channel])), info]
}

fn from_row(row: &Value) -> Map<String, Value> {
    let known = ROW_FIELDS.into_iter().filter_map(|name| Some((name.to_owned(), row.get(name)?.clone())));
    known.collect()
}

/// Adds a root's fields about its thread.
fn add_thread_fields(root: &mut Map<String, Value>, replies: Replies<'_>) {
    let (mut listed, mut users, mut all_users) = (Vec::new(), Vec::new(), HashSet::new());
    let mut latest = None;
    for (ts, user) in replies.authors_by_ts() {
        if let Some(user) = user
            && all_users.insert(user)
            && users.len() < MAX_REPLY_USERS
        {
            users.push(user);
        }
        listed.push(json!({ "user": user, "ts": ts }));
        latest = Some(ts);
    }
    let ts = root.get("ts").cloned().unwrap_or_default();
    root.insert("thread_ts".into(), ts);
    root.insert("reply_count".into(), replies.count().into());
    root.insert("reply_users_count".into(), all_users.len().into());
    root.insert("reply_users".into(), json!(users));
    root.insert("latest_reply".into(), latest.into());
    root.insert("replies".into(), listed.into());
}

/// A channel as Slack lists it. Its name is the name of its folder.
pub(super) fn channel(id: &ChannelId, folder: &str, facts: &ExportedFacts) -> Value {
    let ExportedFacts { topic, purpose, created, is_archived, is_deleted, is_private, name: _, is_shared: _ } =
        facts;
    let description = |text: &Option<String>| json!({ "value": text.as_deref().unwrap_or_default(), "creator": "", "last_set": 0 });
    let mut listed = json!({
        "id": id,
        "name": folder,
        "created": created.as_ref().map_or(0, |created| created.micros() / 1_000_000),
        "creator": "",
        "is_archived": *is_archived || *is_deleted,
        "is_general": false,
        "is_private": is_private,
        "members": [],
        "topic": description(topic),
        "purpose": description(purpose),
    });
    without_tokens(&mut listed);
    listed
}

/// A person as Slack lists them, without their email address.
pub(super) fn person(row: &PersonView, team: &TeamId) -> Value {
    let mut object = match row.raw() {
        Some(Value::Object(raw)) => raw,
        Some(_) | None => Map::new(),
    };
    let id = row.id().unwrap_or_default();
    object.insert("id".into(), id.into());
    object.entry("team_id").or_insert_with(|| team.as_str().into());
    let known = row.name().or(row.display_name()).or(row.real_name());
    object.entry("name").or_insert_with(|| known.unwrap_or(id).into());
    object.remove(EMAIL);
    if let Some(profile) = object.get_mut("profile").and_then(Value::as_object_mut) {
        profile.remove(EMAIL);
    }
    let mut object = Value::Object(object);
    without_tokens(&mut object);
    object
}

/// An author of whom the archive only has the id. Programs that read exports look up every author.
pub(super) fn unknown_person(id: &str, team: &TeamId) -> Value {
    json!({ "id": id, "team_id": team, "name": id, "is_stranger": true })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use ports::archive::{Item, ItemKey};

    use super::*;
    use crate::export::threads::ThreadTable;

    fn row(raw: &Value, more: &Value) -> MessageView {
        let mut row = json!({ "ts": "1700000000.000100", "raw_event": raw.to_string() });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row.into()
    }

    #[test]
    fn a_pin_is_the_current_one_and_is_listed_as_slack_does() {
        let raw = json!({ "type": "message", "pinned_to": ["C9"], "pinned_info": { "pinned_by": "U9" } });
        let more = json!({ "channel_id": "C1", "pinned": { "user": "U2", "ts": "1700000005.000100" } });
        let pinned = message(&row(&raw, &more), None);
        assert_eq!(pinned["pinned_to"], json!(["C1"]));
        let info = json!({ "channel": "C1", "pinned_by": "U2", "pinned_ts": 1_700_000_005 });
        assert_eq!(pinned["pinned_info"], info);
        let unpinned = message(&row(&raw, &json!({ "channel_id": "C1" })), None);
        assert_eq!((unpinned.get("pinned_to"), unpinned.get("pinned_info")), (None, None));
    }

    #[test]
    fn a_message_is_its_raw_event_with_current_reactions_and_files() {
        let raw = json!({ "type": "message", "ts": "1700000000.000100", "text": "look", "user": "U1", "channel": "C1",
            "channel_type": "channel", "event_ts": "1700000000.000100", "blocks": [],
            "files": [{ "id": "F1", "mode": "tombstone" }], "reactions": [{ "name": "old" }] });
        let files = json!([{ "id": "F1", "mode": "tombstone", "name": "plan.pdf", "deleted": true }]);
        let reactions = json!([{ "name": "tada", "users": ["U2"], "count": 1 }]);
        let exported = message(&row(&raw, &json!({ "files": files, "reactions": reactions })), None);
        let expected = json!({ "type": "message", "ts": "1700000000.000100", "text": "look", "user": "U1", "blocks": [],
            "files": files, "reactions": reactions });
        assert_eq!(exported, expected);
        let without = message(&row(&raw, &json!({ "thread_ts": "1600000000.000100" })), None);
        assert_eq!(
            (&without["reactions"], &without["thread_ts"]),
            (&Value::Null, &"1600000000.000100".into())
        );
    }

    #[test]
    fn a_file_of_a_forwarded_message_is_listed_in_its_attachment_only() {
        let forwarded = json!({ "id": "F2", "name": "invoice.pdf" });
        for own in [json!([{ "id": "F1" }]), json!([])] {
            let raw = json!({ "type": "message", "ts": "1700000000.000100", "files": own, "attachments": [{ "files": [forwarded] }] });
            let mut files = own.as_array().unwrap().clone();
            files.push(json!({ "id": "F2", "name": "invoice.pdf", "forwarded": true }));
            assert_eq!(message(&row(&raw, &json!({ "files": files })), None), raw);
        }
    }

    #[test]
    fn a_root_counts_everyone_who_replied_and_lists_five() {
        let (mut table, mut users) = (ThreadTable::default(), HashMap::new());
        for n in 1..=8 {
            let user = format!("U{}", n % 7);
            let reply = json!({ "ts": format!("1700000000.00020{n}"), "thread_ts": "1700000000.000100", "user": user });
            let key = ItemKey::new("message#T1#C1", reply["ts"].as_str().unwrap());
            table.add(&Item { key, attributes: reply.as_object().unwrap().clone() }, &mut users);
        }
        let raw = json!({ "text": "a root", "user": "U9" });
        let replies = table.replies_to(&Ts::parse("1700000000.000100").unwrap());
        let root = message(&row(&raw, &json!({})), replies);
        assert_eq!((&root["reply_count"], &root["reply_users_count"]), (&8.into(), &7.into()));
        assert_eq!(root["reply_users"], json!(["U1", "U2", "U3", "U4", "U5"]));
    }

    #[test]
    fn addresses_contain_no_credentials() {
        let raw = json!({ "ts": "1.000000", "text": "<https://x.test/?t=xoxe-1-secret|this>",
            "files": [{ "id": "F1", "url_private": "https://files.slack.com/files-pri/T1-F1/a.txt?t=xoxe-1-secret" }] });
        let exported = message(&row(&raw, &json!({ "files": raw["files"] })), None).to_string();
        assert!(!exported.contains("xox") && exported.contains("T1-F1/a.txt"), "{exported}");
    }

    #[test]
    fn a_deleted_message_is_a_tombstone_with_its_text_only_if_the_row_has_it() {
        let tombstone = message(&json!({ "ts": "1.000000", "deleted": true }).into(), None);
        let expected = json!({ "type": "message", "subtype": "tombstone", "hidden": true, "ts": "1.000000",
            "text": "This message was deleted.", "user": "USLACKBOT" });
        assert_eq!(tombstone, expected);
        let raw = json!({ "text": "secret", "user": "U1" });
        let whole = message(&row(&raw, &json!({ "deleted": true })), None);
        assert_eq!((&whole["subtype"], &whole["text"]), (&"tombstone".into(), &"secret".into()));
    }

    #[test]
    fn an_unreadable_raw_event_is_replaced_by_fields_of_the_row() {
        let row =
            json!({ "ts": "1.000000", "raw_event": "{", "text": "hello", "user": "U1", "channel_id": "C1" });
        let expected = json!({ "type": "message", "ts": "1.000000", "text": "hello", "user": "U1" });
        assert_eq!(message(&row.into(), None), expected);
    }

    #[test]
    fn people_have_a_name_and_a_workspace_and_no_email_address() {
        let team = TeamId::parse("T1").unwrap();
        let raw = json!({ "id": "U1", "email": "a@x.test", "profile": { "email": "a@x.test", "real_name": "Ana" } });
        let row = json!({ "user_id": "U1", "real_name": "Ana", "raw_event": raw.to_string() });
        let expected =
            json!({ "id": "U1", "team_id": "T1", "name": "Ana", "profile": { "real_name": "Ana" } });
        assert_eq!(person(&row.into(), &team), expected);
        let nameless = json!({ "id": "U9", "team_id": team, "name": "U9" });
        assert_eq!(person(&json!({ "timestamp": "U9" }).into(), &team), nameless);
    }
}
