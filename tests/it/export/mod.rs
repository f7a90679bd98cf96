//! `annalist export` on the real binary: its output, and importing it again.

mod bad_input;
pub(crate) mod formats;
mod peer;
mod round_trip;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::event;
use tests::harness::client::deliver_through_up;
use tests::harness::command::{CommandOutput, annalist_at, json_lines, wait_until_idle};
use tests::harness::environment::ProgramEnvironment;

use crate::import::export::{Export, TEAM, channel, exported_message, file, person};

const DEADLINE: Duration = Duration::from_secs(60);

/// Runs `annalist export` in this format.
pub(crate) async fn export(
    environment: &(impl ProgramEnvironment + ?Sized),
    format: &str,
    out: &Path,
    args: &[&str],
) -> CommandOutput {
    let args = [&["export", "--format", format, "--out", out.to_str().unwrap()], args].concat();
    annalist_at(environment, &args).await
}

/// A data folder with the import and all events.
async fn archive() -> (crate::import::export::ImportFolder, PathBuf) {
    let import_folder = crate::import::export::ImportFolder::new();
    let (zip, data) = (import_folder.zip("older.zip", &imported()), import_folder.data());
    fill(&*data, &zip, async { drop(wait_until_idle(&*data, DEADLINE).await) }).await;
    (import_folder, data)
}

/// Imports an older export and delivers the later events.
pub(crate) async fn fill(
    environment: &(impl ProgramEnvironment + ?Sized),
    zip: &Path,
    drained: impl Future<Output = ()>,
) {
    annalist_at(environment, &["import", zip.to_str().unwrap()]).await.succeeded();
    deliver_through_up(environment, TEAM, &events(), drained).await;
}

/// A timestamp with this second.
pub(crate) fn ts(second: u32) -> String {
    format!("16000{second:05}.000100")
}

/// An older export: a thread, an edit, reactions, files with their bytes.
pub(crate) fn imported() -> Export {
    let mut root = exported_message(&ts(1), "U1", "a question");
    root["thread_ts"] = ts(1).into();
    root["reply_count"] = 1.into();
    let mut reply = exported_message(&ts(2), "U2", "an answer");
    reply["thread_ts"] = ts(1).into();
    let mut edited = exported_message(&ts(3), "U1", "corrected");
    edited["edited"] = json!({ "user": "U1", "ts": ts(9) });
    edited["reactions"] = json!([{ "name": "tada", "users": ["U2", "U9"], "count": 2 }]);
    let mut shared =
        exported_message("1600086400.000100", "U2", "see <https://x.test/?t=xoxe-1-secret|this>");
    shared["files"] = json!([file("F1", 5), file("F2", 5)]);
    Export::default()
        .with("users.json", &json!([person("U1"), person("U2")]))
        .with(
            "channels.json",
            &json!([channel("C1", "general"), channel("C2", "random"), channel("C3", "empty")]),
        )
        .with("general/2020-09-13.json", &json!([root, reply, edited]))
        .with("general/2020-09-14.json", &json!([shared]))
        .with("random/2020-09-13.json", &json!([exported_message(&ts(4), "U2", "elsewhere")]))
        .with_bytes("__uploads/F1/a.txt", "hello")
}

/// The events after the export.
pub(crate) fn events() -> Vec<Value> {
    let message = |second: u32, text: &str| event::message(&ts(second), "U1", text);
    let reply = |second: u32, root: u32, text: &str| event::reply(&ts(second), &ts(root), "U2", text);
    let (root, bare) = (message(10, "the root that will go"), message(11, "words that will go"));
    let before = message(20, "before the edit");
    let after = event::edited(&before, &ts(21), "after the edit");
    let hostile = "<script>alert(1)</script> \u{202e}RTL <javascript:alert(1)|click> *ben* ```\n# not a heading\u{1b}[2J";
    vec![
        event::posted("C1", &root),
        event::posted("C1", &bare),
        event::posted("C1", &reply(12, 10, "a reply that stays")),
        event::deleted("C1", &root, &ts(13)),
        event::deleted("C1", &bare, &ts(14)),
        event::posted("C1", &before),
        event::changed("C1", &before, &after, &ts(21)),
        event::posted("C1", &reply(22, 20, "a live reply")),
        event::posted(
            "C1",
            &event::subtyped(reply(23, 20, "to the channel too"), "thread_broadcast", json!({})),
        ),
        event::posted("C1", &event::bot_message(&ts(24), "B1", "deploys", "deployed")),
        event::posted("C1", &reply(25, 19, "a reply to what is not here")),
        event::reaction_added("C1", &ts(20), "U2", "eyes", &ts(26)),
        event::reaction_added("C1", &ts(20), "U1", "tada", &ts(27)),
        event::reaction_removed("C1", &ts(20), "U1", "tada", &ts(28)),
        event::posted("C1", &event::message(&ts(29), "U7", hostile)),
        event::posted("C1", &event::file_share(&ts(30), "U1", "a file", &["F7"])),
        // Another channel with the same name, and one whose id changes.
        event::channel_created("C4", "random", &ts(40)),
        event::posted("C4", &message(41, "in the second random")),
        event::channel_created("C5", "../partners", &ts(42)),
        event::posted("C5", &message(43, "under the old id")),
        json!({ "type": "channel_id_changed", "old_channel_id": "C5", "new_channel_id": "C6", "event_ts": ts(44) }),
        event::posted("C6", &reply(45, 43, "under the new id")),
        event::posted("C6", &message(46, "on its own")),
        json!({ "type": "channel_shared", "event_ts": ts(47), "channel": "C2", "connected_team_id": "T8" }),
        // A channel that becomes private.
        event::channel_created("C7", "closed", &ts(50)),
        event::posted("C7", &message(51, "while it was open")),
        event::posted(
            "C7",
            &event::subtyped(
                message(52, "made this channel private"),
                "channel_convert_to_private",
                json!({}),
            ),
        ),
    ]
}

/// Every message by its channel's id, reduced to what Slack's export format can represent: without channels
/// that are now private, earlier revisions, the stamps of edits and the locations of files.
pub(crate) async fn comparable(
    environment: &(impl ProgramEnvironment + ?Sized),
) -> BTreeMap<String, Vec<Value>> {
    let mut all = BTreeMap::new();
    for listed in json_lines(environment, &["channels"]).await {
        let id = listed["channel_id"].as_str().unwrap();
        let state = json_lines(environment, &["channel", id]).await;
        if state.iter().any(|state| state["visibility"] == "private" || state["next_channel_id"].is_string())
        {
            continue;
        }
        let messages: Vec<Value> = json_lines(environment, &["messages", id])
            .await
            .iter()
            .map(|message| reduced(message, id))
            .collect();
        all.insert(id.to_owned(), messages);
    }
    all
}

fn reduced(message: &Value, channel: &str) -> Value {
    let mut message = message.clone();
    let object = message.as_object_mut().unwrap();
    let is_root = object.get("thread_ts") == object.get("ts");
    object.retain(|name, _| {
        let is_left_out = ["raw_event", "updated_ts", "client_msg_id", "itemId"].contains(&name.as_str())
            || name.starts_with("files_")
            || (is_root && ["thread_ts", "parent"].contains(&name.as_str()));
        !is_left_out
    });
    // A channel with several ids is listed under its newest.
    object.insert("channel_id".into(), channel.into());
    if object.get("deleted") == Some(&true.into()) {
        object.retain(|name, _| ["ts", "thread_ts", "deleted", "channel_id"].contains(&name.as_str()));
    }
    message
}
