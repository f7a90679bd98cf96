//! A version of a canvas that the message at `(channel, ts)` shares, as the file-downloader stores it.

use ports::archive::Update;
use ports::files::FileKey;
use rules::file::row::{self, Share, StoredBytes};
use rules::file::{FileObject, FileState, canvas_text};
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts};

/// The key of the bytes, and the updates of the rows in the order of the writes.
///
/// # Panics
/// If an id or the timestamp is malformed.
pub fn version(
    (channel, ts): (&str, &str),
    file: &str,
    name: &str,
    updated: u64,
    text: &str,
) -> (FileKey, Vec<Update>) {
    let team = TeamId::parse("T1").expect("an id");
    let share =
        Share { channel: ChannelId::parse(channel).expect("an id"), ts: Ts::parse(ts).expect("a timestamp") };
    let object = json!({ "id": file, "name": name, "mode": "quip", "updated": updated,
        "url_private": format!("https://files.slack.com/files-pri/T1-{file}/canvas") });
    let object = FileObject::read(&object).expect("a file object");
    let key = FileKey::shared(&team, &share.channel, &share.ts, &object.id);
    let key = key.version(&format!("{updated:012}")).expect("a key");
    let held = StoredBytes {
        key: key.clone(),
        source: object.source(&team).unwrap_or_default(),
        size_bytes: text.len() as u64,
        sha256: String::new(),
    };
    let updates = vec![
        row::seen(&team, &object, Some(&share)),
        row::stored(&team, &object.id, &held),
        canvas_text::stored(&team, &object.id, updated, Some(name), text),
        row::on_message(&team, &share, &object.id, &FileState::Stored(key.clone())),
        canvas_text::on_message(&team, &share, &object.id, updated),
    ];
    (key, updates)
}
