//! What the importers of other chats do not understand of Slack's exports, or drop without a message. Each function
//! changes a message, a person or a channel for one of them, and reads nothing.
//!
//! * Zulip: <https://github.com/zulip/zulip/blob/main/zerver/data_import/slack.py>
//! * Mattermost: <https://github.com/mattermost/mmetl/tree/master/services/slack>

use std::collections::{BTreeMap, HashSet};

use rules::view::file_id_text;
use serde_json::{Map, Value, json};
use slack::ids::{SLACKBOT, TeamId, Ts};

/// The subtypes that `mmetl` imports. It drops a message with any other one.
const MATTERMOST_SUBTYPES: [&str; 8] = [
    "bot_message",
    "channel_join",
    "channel_leave",
    "channel_name",
    "channel_purpose",
    "channel_topic",
    "me_message",
    "thread_broadcast",
];

/// The text of a root that is not in the archive.
const MISSING_ROOT: &str = "This message is not in the archive.";

/// Maximum length of a username. Mattermost has this limit.
const MAX_USERNAME: usize = 64;

/// The program that reads the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Importer {
    /// Mattermost's `mmetl`
    Mattermost,
    /// Zulip's `manage.py convert_slack_data`
    Zulip,
}

/// The location of a file's bytes for the importer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FilePlace {
    /// In the zip.
    Packed,
    /// At an address.
    At(String),
    /// Nowhere.
    Missing,
}

/// Changes a message as the importer needs it. `parent` is the user of the root as it is exported, if the message
/// is a reply; `files` are the places of its files, by id.
pub(super) fn message(
    importer: Importer,
    message: Value,
    parent: Option<&str>,
    files: &BTreeMap<String, FilePlace>,
) -> Value {
    let Value::Object(mut message) = message else { return message };
    // The old shape has `file`; both importers read `files`, and Zulip reads `file` of this subtype.
    if matches!(subtype(&message), Some("file_share" | "tombstone")) {
        message.remove("subtype");
    }
    message.remove("hidden");
    let is_known = subtype(&message).is_some_and(|subtype| MATTERMOST_SUBTYPES.contains(&subtype));
    if importer == Importer::Mattermost && !is_known {
        message.remove("subtype");
    }
    give_author(&mut message);
    if let Some(parent) = parent {
        message.insert("parent_user_id".into(), parent.into());
        if subtype(&message) == Some("thread_broadcast") {
            let root_ts = message.get("thread_ts").cloned().unwrap_or_default();
            message.insert("root".into(), json!({ "user": parent, "ts": root_ts, "thread_ts": root_ts }));
        }
    }
    place_files(importer, &mut message, files);
    Value::Object(message)
}

fn subtype(message: &Map<String, Value>) -> Option<&str> {
    message.get("subtype").and_then(Value::as_str)
}

/// Gives a message without an author one: an app, if it names one, otherwise Slackbot.
fn give_author(message: &mut Map<String, Value>) {
    let has = |name: &str| message.get(name).and_then(Value::as_str).is_some_and(|id| !id.is_empty());
    let (has_user, has_bot) = (has("user"), has("bot_id"));
    let is_bot_message = subtype(message) == Some("bot_message");
    match (has_user, has_bot) {
        (false, true) => drop(message.insert("subtype".into(), "bot_message".into())),
        (false, false) => drop(message.insert("user".into(), SLACKBOT.into())),
        (true, _) => {}
    }
    if is_bot_message && !has_bot {
        message.remove("subtype");
    }
}

/// Gives each file an address that the importer can use, and names the others in the text.
fn place_files(importer: Importer, message: &mut Map<String, Value>, places: &BTreeMap<String, FilePlace>) {
    let Some(files) = message.get_mut("files").and_then(Value::as_array_mut) else { return };
    let mut lines = Vec::new();
    files.retain_mut(|file| {
        let place = file_id_text(file).and_then(|id| places.get(id)).unwrap_or(&FilePlace::Missing);
        let name =
            ["name", "title", "id"].iter().find_map(|name| file[*name].as_str()).unwrap_or("file").to_owned();
        let Some(file) = file.as_object_mut() else { return false };
        match (importer, place) {
            (Importer::Mattermost, FilePlace::Packed) => true,
            (Importer::Mattermost, FilePlace::At(address)) => {
                lines.push(format!("{name}: {address}"));
                false
            }
            (Importer::Mattermost, FilePlace::Missing) => {
                lines.push(format!("{name} (not in the archive)"));
                false
            }
            (Importer::Zulip, FilePlace::At(address)) => {
                file.remove("url_private_download");
                file.insert("url_private".into(), address.as_str().into());
                // Zulip shows the title of a link.
                file.entry("title").or_insert_with(|| name.into());
                true
            }
            (Importer::Zulip, FilePlace::Packed | FilePlace::Missing) => {
                lines.push(format!("{name} (not in the archive)"));
                false
            }
        }
    });
    if files.is_empty() {
        message.remove("files");
    }
    if !lines.is_empty() {
        let text = message.get("text").and_then(Value::as_str).unwrap_or_default();
        let text = text.lines().map(str::to_owned).chain(lines).collect::<Vec<_>>().join("\n");
        message.insert("text".into(), text.into());
    }
}

/// The row of a root that is not in the archive, for its replies.
pub(super) fn missing_root(root_ts: &Ts) -> Value {
    json!({ "ts": root_ts.as_str(), "thread_ts": root_ts.as_str(), "user": SLACKBOT, "text": MISSING_ROOT })
}

/// Changes people as both importers need them: each has a profile and a name that is a username, and no other
/// person has that name.
#[derive(Debug, Default)]
pub(super) struct ImportedPeople {
    taken: HashSet<String>,
}

impl ImportedPeople {
    /// Changes one person.
    pub(super) fn person(&mut self, mut person: Value) -> Value {
        let id = person["id"].as_str().unwrap_or_default().to_lowercase();
        let own = person["name"].as_str().unwrap_or_default().to_lowercase();
        let is_username = !own.is_empty()
            && own.len() <= MAX_USERNAME
            && own.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c));
        let name = if is_username && self.taken.insert(own.clone()) { own } else { id };
        self.taken.insert(name.clone());
        if let Some(person) = person.as_object_mut() {
            person.insert("name".into(), name.clone().into());
            let profile = person.entry("profile").or_insert_with(|| json!({}));
            if !profile.is_object() {
                *profile = json!({});
            }
            if let Some(profile) = profile.as_object_mut() {
                for field in ["real_name", "display_name"] {
                    profile.entry(field).or_insert_with(|| name.clone().into());
                }
            }
        }
        person
    }

    /// Slack's own user, who is the author of tombstones.
    pub(super) fn slackbot(&mut self, team: &TeamId) -> Value {
        self.person(
            json!({ "id": SLACKBOT, "team_id": team, "name": "slackbot", "is_bot": true, "deleted": false }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(importer: Importer, message: Value) -> Value {
        super::message(importer, message, None, &BTreeMap::new())
    }

    #[test]
    fn mmetl_drops_no_subtype() {
        for (subtype, expected) in [
            ("tombstone", Value::Null),
            ("bot_add", Value::Null),
            ("channel_archive", Value::Null),
            ("file_share", Value::Null),
            ("thread_broadcast", "thread_broadcast".into()),
            ("channel_topic", "channel_topic".into()),
        ] {
            let changed =
                plain(Importer::Mattermost, json!({ "user": "U1", "subtype": subtype, "hidden": true }));
            assert_eq!((&changed["subtype"], &changed["hidden"]), (&expected, &Value::Null), "{subtype}");
        }
        let kept = plain(Importer::Zulip, json!({ "user": "U1", "subtype": "pinned_item" }));
        assert_eq!(kept["subtype"], "pinned_item");
    }

    #[test]
    fn every_message_has_an_author() {
        for (message, user, subtype) in [
            (json!({ "text": "x" }), json!(SLACKBOT), Value::Null),
            (json!({ "bot_id": "B1" }), Value::Null, json!("bot_message")),
            (json!({ "subtype": "bot_message", "username": "x" }), json!(SLACKBOT), Value::Null),
            (json!({ "user": null, "subtype": [7] }), json!(SLACKBOT), Value::Null),
        ] {
            let changed = plain(Importer::Mattermost, message.clone());
            assert_eq!((&changed["user"], &changed["subtype"]), (&user, &subtype), "{message}");
        }
    }

    #[test]
    fn a_reply_names_the_user_of_its_root() {
        let reply = json!({ "user": "U1", "subtype": "thread_broadcast", "thread_ts": "1.000000" });
        let changed = message(Importer::Zulip, reply, Some("U9"), &BTreeMap::new());
        assert_eq!((&changed["parent_user_id"], &changed["root"]["user"]), (&json!("U9"), &json!("U9")));
    }

    #[test]
    fn a_file_without_bytes_is_named_in_the_text() {
        let files = json!([{ "id": "F1", "name": "a.txt" }, { "id": "F2", "name": "b.txt", "url_private_download": "x" }, null]);
        let places = BTreeMap::from([
            ("F1".to_owned(), FilePlace::Packed),
            ("F2".to_owned(), FilePlace::At("https://x.test/b.txt".into())),
        ]);
        let shared = json!({ "user": "U1", "text": "look", "files": files });
        let changed = message(Importer::Mattermost, shared.clone(), None, &places);
        assert_eq!(changed["files"], json!([{ "id": "F1", "name": "a.txt" }]));
        assert_eq!(changed["text"], "look\nb.txt: https://x.test/b.txt");
        let changed = message(Importer::Zulip, shared, None, &places);
        let expected =
            json!([{ "id": "F2", "name": "b.txt", "title": "b.txt", "url_private": "https://x.test/b.txt" }]);
        assert_eq!(
            (&changed["files"], &changed["text"]),
            (&expected, &json!("look\na.txt (not in the archive)"))
        );
    }

    #[test]
    fn every_person_has_a_username_of_their_own_and_a_profile() {
        let mut people = ImportedPeople::default();
        let names: Vec<Value> = [("U1", "Ana"), ("U2", "ana"), ("U3", "会"), ("U4", ""), ("U5", "a b")]
            .map(|(id, name)| people.person(json!({ "id": id, "name": name, "profile": [null] })))
            .into_iter()
            .map(|person| {
                assert!(person["profile"].is_object());
                person["name"].clone()
            })
            .collect();
        assert_eq!(names, ["ana", "u2", "u3", "u4", "u5"]);
    }
}
