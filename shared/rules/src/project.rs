//! Items as readers see them: stored attribute names, without the registers' bookkeeping.
//!
//! Files are named by their keys here, in `files_s3`, `uri`, `other_uris`, `image_file` and the `versions` of a
//! canvas. [`address`] replaces the keys with the current addresses.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::channel::event::is_raw;
use super::channel::fold::FOLDED;
use super::directory::EARLIEST;
use super::file::{canvas_text, image, row};
use super::message::{CONTENT_VERSION, files, revision};
use super::version::VERSION;
use super::view::{ChannelView, FileView, MessageView};
use super::{pin, profile, reaction};
use ports::archive::item::{ERASED, EXPIRED, WITHHELD};
use ports::archive::{Item, rows, text_attributes};
use ports::files::{FileKey, FileKeyParts};

/// The text that readers show of a message whose author had opted out.
pub const WITHHELD_TEXT: &str = "(not archived: its author opted out)";

/// The text that readers show of the root of a thread that a retention rule has removed.
pub const EXPIRED_TEXT: &str = "(removed by the retention rule)";

/// A message or a revision as readers see it. `None` for a row that only has registers waiting for their
/// message, for example a reaction to a message that was never seen.
pub fn message(item: &Item) -> Option<MessageView> {
    if item.has_flag(WITHHELD) {
        return withheld(item);
    }
    if item.text(CONTENT_VERSION).is_none() && !item.has_flag("deleted") {
        return None;
    }
    let mut visible = item.clone();
    let reactions = reaction::project(&item.attributes);
    let pin = pin::project(&item.attributes);
    let states = row::on_message_projected(&item.attributes);
    let files = files::projected(&item.attributes);
    let is_register = |name: &str| {
        reaction::is_register(name)
            || pin::is_register(name)
            || row::is_register(name)
            || row::is_deletion_mark(name)
            || files::is_about(name)
            || revision::is_mark(name)
    };
    visible.attributes.retain(|name, _| name != CONTENT_VERSION && !is_register(name));
    visible.attributes.extend(states);
    if let Some(files) = files {
        visible.attributes.insert("files".into(), files);
    }
    if let Some(reactions) = reactions {
        visible.attributes.insert("reactions".into(), reactions);
    }
    if let Some(pin) = pin {
        visible.attributes.insert("pinned".into(), pin);
    }
    Some(visible.to_json().into())
}

/// A message of which only its place is stored, because its author had opted out.
fn withheld(item: &Item) -> Option<MessageView> {
    without_content(item, WITHHELD_TEXT)
}

/// The root of a thread as readers see it: also one that a retention rule has removed, so that its replies have a
/// place.
pub fn root(item: &Item) -> Option<MessageView> {
    if item.has_flag(EXPIRED) { without_content(item, EXPIRED_TEXT) } else { message(item) }
}

fn without_content(item: &Item, text: &str) -> Option<MessageView> {
    item.key.item_id.strip_prefix(rows::MESSAGE.prefix())?;
    let mut visible = item.clone();
    visible.attributes.remove(ERASED);
    let texts = [("type", "message"), ("ts", item.key.timestamp.as_str()), ("text", text)];
    visible.attributes.extend(text_attributes(texts));
    Some(visible.to_json().into())
}

/// Whether a message that readers see is pinned now.
pub fn is_pinned(item: &Item) -> bool {
    pin::project(&item.attributes).is_some()
}

/// What shares a canvas without a message: the channel whose own canvas it is. `None` for any other row.
pub fn canvas_of_channel(item: &Item) -> Option<MessageView> {
    let files: Vec<Value> = canvas_text::on(item).map(|file| json!({ "id": file.as_str() })).collect();
    let is_message = item.is_erased() || message(item).is_some();
    if is_message || files.is_empty() {
        return None;
    }
    let kept = |name: &str| Some((name.to_owned(), item.attributes.get(name)?.clone()));
    let identity = ["type", "team_id", "channel_id", "ts"].into_iter().filter_map(kept);
    Some(identity.chain([("files".to_owned(), files.into())]).collect::<Value>().into())
}

/// A row of the directory as readers see it.
pub fn directory(item: &Item) -> Value {
    let mut visible = item.clone();
    let image = image::picture(item);
    visible.attributes.retain(|name, _| name != VERSION && !image::is_register(name));
    visible.attributes.extend(image.map(|key| ("image_file".to_owned(), key.as_str().into())));
    if let Some(earliest) = item.text(EARLIEST).and_then(profile::unpadded) {
        visible.attributes.insert(EARLIEST.into(), earliest.as_str().into());
    }
    visible.to_json()
}

/// The row with addresses instead of file keys. The files are below `files_uri`, which has no trailing slash.
pub fn address<'r>(row: &'r Value, files_uri: &str) -> Cow<'r, Value> {
    with_addresses(row, |key, _| format!("{files_uri}/{key}"))
}

/// The row with the addresses of the site that serves the files, which name no channel.
pub fn site_address(row: &Value) -> Cow<'_, Value> {
    with_addresses(row, |key, updated_s| match key.parts() {
        Some(FileKeyParts::Shared { team, file, .. }) => {
            let version = updated_s.map(|at| format!("?updated={at}")).unwrap_or_default();
            format!("/files/{team}/{file}{version}")
        }
        Some(FileKeyParts::Image { team }) => {
            let hash = key.as_str().rsplit('/').next().unwrap_or_default();
            format!("/pictures/{team}/{hash}")
        }
        // Not a key of this program's: nothing serves it.
        None => String::new(),
    })
}

/// The row with the address of each key. A version of a canvas also has the time of its edit.
fn with_addresses(row: &Value, address: impl Fn(&FileKey, Option<u64>) -> String) -> Cow<'_, Value> {
    const NAMES: [&str; 4] = ["files_s3", "uri", "other_uris", "image_file"];
    if NAMES.iter().all(|name| row.get(name).is_none()) {
        return Cow::Borrowed(row);
    }
    let mut row = row.clone();
    let replace_key = |value: &mut Value, updated_s: Option<u64>| {
        if let Some(key) = value.as_str().and_then(FileKey::parse) {
            *value = address(&key, updated_s).into();
        }
    };
    for name in NAMES {
        match row.get_mut(name) {
            Some(Value::Array(keys)) => keys.iter_mut().for_each(|key| replace_key(key, None)),
            Some(key) => replace_key(key, None),
            None => {}
        }
    }
    let versions = row.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten();
    for version in versions {
        let updated_s = version.get("updated").and_then(Value::as_u64);
        if let Some(uri) = version.get_mut("uri") {
            replace_key(uri, updated_s);
        }
    }
    Cow::Owned(row)
}

/// A file as readers see it. `None` if nothing is known about it except that it was deleted.
pub fn file(item: &Item) -> Option<FileView> {
    let attributes = row::projected(item)?;
    Some(Item { key: item.key.clone(), attributes }.to_json().into())
}

/// The state of a file, as [`file`] shows it, without the rest of its row.
pub fn file_state(item: &Item) -> Option<&'static str> {
    row::state_word(item)
}

/// A snapshot of a channel as readers see it. `None` for a row whose event is stored but not folded yet.
pub fn channel(item: &Item) -> Option<ChannelView> {
    item.text(FOLDED)?;
    let mut visible = item.clone();
    visible.attributes.retain(|name, _| name != FOLDED && !is_raw(name));
    Some(visible.to_json().into())
}

#[cfg(test)]
mod tests {
    use ports::archive::ItemKey;

    use super::*;

    #[test]
    fn a_site_has_addresses_without_channels() {
        let key = |name: &str| format!("slack/T1/C1/1.000000/{name}");
        let image = "slack/T1/images/0123456789abcdef0123456789abcdef";
        let row = json!({ "uri": key("F1"), "other_uris": [key("F1")], "files_s3": [key("F2"), null, 7], "text": key("F3"),
            "image_file": image, "versions": [{ "uri": key("F1.001700000100"), "updated": 1_700_000_100 }, null, {}] });
        let expected = json!({ "uri": "/files/T1/F1", "other_uris": ["/files/T1/F1"], "files_s3": ["/files/T1/F2", null, 7],
            "text": key("F3"), "image_file": "/pictures/T1/0123456789abcdef0123456789abcdef",
            "versions": [{ "uri": "/files/T1/F1?updated=1700000100", "updated": 1_700_000_100 }, null, {}] });
        assert_eq!(*site_address(&row), expected);
        assert_eq!(
            address(&row, "s3://b")["versions"][0]["uri"],
            "s3://b/slack/T1/C1/1.000000/F1.001700000100"
        );
        let unknown = json!({ "uri": "slack/nothing/of/this/program/at/all" });
        assert_eq!(site_address(&unknown)["uri"], "");
    }

    #[test]
    fn readers_see_the_place_of_a_withheld_message_and_nothing_of_an_expired_one() {
        let row = |item_id: &str, flag: &str| {
            let attributes =
                json!({ "erased": true, flag: true, "thread_ts": "1.000000", "channel_id": "C1" });
            let Value::Object(attributes) = attributes else { panic!("no object") };
            Item { key: ItemKey::new(item_id, "2.000000"), attributes }
        };
        let shown = message(&row("message#T1#C1", "withheld")).unwrap();
        assert_eq!((shown.text(), shown.ts(), shown.user()), (Some(WITHHELD_TEXT), Some("2.000000"), None));
        assert_eq!(shown.replies_to().unwrap().as_str(), "1.000000");
        assert_eq!((&shown.as_json()["withheld"], &shown.as_json()["erased"]), (&json!(true), &Value::Null));
        assert!(message(&row("revision#T1#C1#2.000000", "withheld")).is_none());
        let expired = row("message#T1#C1", "expired");
        assert!(message(&expired).is_none());
        let shown = root(&expired).unwrap();
        assert_eq!((shown.text(), shown.ts()), (Some(EXPIRED_TEXT), Some("2.000000")));
        assert!(root(&row("revision#T1#C1#2.000000", "expired")).is_none());
    }
}
