//! The file objects in a message: its own, and those of the messages that it forwards or previews. They are
//! read field by field if necessary, and remembered after the file is deleted.
//!
//! Slack does not list the files of a forwarded message with the message's own files, but in the attachment
//! that shows it: `attachments[].files`, or inside `attachments[].message_blocks[].message`.
//!
//! When a file is deleted, Slack reduces its object to an id and `tombstone`. The facts in earlier objects
//! are stored next to the content, one attribute for each distinct set of facts, so that the order does not
//! matter.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::MessageObject;
use crate::file::row;
use crate::version::hash;
use ports::archive::Attributes;
use slack::envelope;
use slack::ids::FileId;

/// The prefix of an attribute with the facts about a file: `about_file#{id}#{hash}`.
const ABOUT: &str = "about_file#";

/// The fields of a file object that are stored: those by which users know a file.
const KNOWN: [&str; 8] = ["name", "title", "mimetype", "filetype", "size", "user", "created", "permalink"];

/// A longer text is not stored a second time.
const MAX_TEXT_BYTES: usize = 1024;

/// Ten times what Slack's own clients attach.
const MAX_FILES: usize = 100;

/// Marks the file of a forwarded message in the stored list.
const FORWARDED: &str = "forwarded";

/// The levels of objects in attachments that are searched for files. A forwarded message takes one level, or
/// three if it is in `message_blocks`; each level reads the attachments once more.
const MAX_FORWARD_LEVELS: usize = 16;

/// The fields of an attachment with other objects that may have files.
const NESTED: [&str; 3] = ["message_blocks", "message", "attachments"];

/// The files of a message and then those of the messages that it forwards, each id once; `None` if it has
/// none.
pub(crate) fn read_files(object: &MessageObject<'_>) -> Option<Value> {
    let own = listed(object.files, object.file).into_iter().map(|file| read(file, false));
    let mut files: Vec<Value> = own.collect();
    let mut known: BTreeSet<String> = files.iter().filter_map(id).collect();
    let forwarded = object.attachments.map(forwarded).unwrap_or_default();
    files.extend(
        forwarded
            .into_iter()
            .map(|file| read(file, true))
            .filter(|file| id(file).is_none_or(|id| known.insert(id))),
    );
    (!files.is_empty()).then_some(Value::Array(files))
}

fn id(file: &Value) -> Option<String> {
    word(file, "id").map(str::to_owned)
}

/// The file objects that a message lists. Old payloads carry one under the singular name.
fn listed<'a>(files: Option<&'a RawValue>, file: Option<&'a RawValue>) -> Vec<&'a RawValue> {
    let files: Vec<&RawValue> = match files {
        Some(file) if is_object(file) => vec![file],
        Some(files) => serde_json::from_str(files.get()).unwrap_or_default(),
        None => Vec::new(),
    };
    if files.is_empty() { file.filter(|file| is_object(file)).into_iter().collect() } else { files }
}

/// The file objects in the attachments of a message, those of the outer messages first.
fn forwarded(attachments: &RawValue) -> Vec<&RawValue> {
    let mut files = Vec::new();
    let mut level = objects(attachments);
    for _ in 0..MAX_FORWARD_LEVELS {
        let mut nested = Vec::new();
        for fields in level.into_iter().map(fields) {
            let field = |name: &str| fields.get(name).copied();
            files.extend(listed(field("files"), field("file")).into_iter().filter(|file| is_object(file)));
            nested.extend(NESTED.into_iter().filter_map(field).flat_map(objects));
        }
        level = nested;
    }
    files
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// The objects in a list, or the object itself.
fn objects(raw: &RawValue) -> Vec<&RawValue> {
    let listed: Vec<&RawValue> =
        if is_object(raw) { vec![raw] } else { serde_json::from_str(raw.get()).unwrap_or_default() };
    listed.into_iter().filter(|raw| is_object(raw)).collect()
}

/// The fields of an object, of which the last one counts if a name is repeated.
fn fields(raw: &RawValue) -> BTreeMap<Cow<'_, str>, &RawValue> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// Reads a file object. The mark on it is ours alone.
fn read(file: &RawValue, is_forwarded: bool) -> Value {
    let mut read = envelope::parse_value(file.get()).unwrap_or_else(|_| by_fields(file));
    if let Some(file) = read.as_object_mut() {
        file.remove(FORWARDED);
        if is_forwarded {
            file.insert(FORWARDED.into(), true.into());
        }
    }
    read
}

/// Whether a file in a stored list belongs to a message that the message forwards.
pub fn is_forwarded(file: &Value) -> bool {
    file.get(FORWARDED) == Some(&Value::Bool(true))
}

/// A file object without the fields that are nested too deeply to be read.
fn by_fields(file: &RawValue) -> Value {
    let read = |(name, raw): (Cow<'_, str>, &RawValue)| {
        Some((name.into_owned(), envelope::parse_value(raw.get()).ok()?))
    };
    Value::Object(fields(file).into_iter().filter_map(read).collect())
}

fn word<'v>(file: &'v Value, name: &str) -> Option<&'v str> {
    file.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn is_tombstone(file: &Value) -> bool {
    word(file, "mode") == Some("tombstone")
}

/// Whether a file object has a name or a title.
fn has_name(file: &Value) -> bool {
    word(file, "name").or_else(|| word(file, "title")).is_some()
}

/// The part of a list of files that distinguishes it from others. The files of a previewed message are not
/// part of it: a preview is no edit.
pub(super) fn signed(files: &Value) -> String {
    let sign =
        |file: &Value| json!([file["id"], word(file, "name"), word(file, "title"), is_tombstone(file)]);
    let own = files.as_array().into_iter().flatten().filter(|file| !is_forwarded(file));
    let signed: Vec<Value> = own.map(sign).collect();
    // Like that of a message without a list.
    if signed.is_empty() { String::new() } else { Value::from(signed).to_string() }
}

/// The facts about these files, as attributes of their message.
pub(super) fn known(files: &Value) -> Attributes {
    let files = files.as_array().into_iter().flatten().take(MAX_FILES);
    files
        .filter(|file| has_name(file) && !is_tombstone(file))
        .filter_map(|file| {
            let id = FileId::parse(word(file, "id")?).ok()?;
            let known: Map<String, Value> = KNOWN
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), file.get(name)?.clone())))
                .filter(|(_, value)| match value {
                    Value::String(text) => !text.is_empty() && text.len() <= MAX_TEXT_BYTES,
                    Value::Number(_) => true,
                    Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
                })
                .collect();
            let known = Value::Object(known);
            let hash = hash(&known.to_string());
            Some((format!("{ABOUT}{id}#{}", &hash[..16]), known))
        })
        .collect()
}

/// Whether an attribute of a message holds the facts about a file.
pub(crate) fn is_about(name: &str) -> bool {
    name.starts_with(ABOUT)
}

/// The files of a stored message as readers see them: one that was deleted in Slack is marked as such and
/// keeps its known facts.
pub(crate) fn projected(message: &Attributes) -> Option<Value> {
    let mut files = message.get("files")?.clone();
    for file in files.as_array_mut()? {
        let tombstone = is_tombstone(file);
        let id = word(file, "id");
        let is_deleted = tombstone || id.is_some_and(|id| row::has_deletion_mark(message, id));
        let known =
            id.filter(|_| tombstone || !has_name(file)).and_then(|id| most_known(message, id)).cloned();
        let Some(file) = file.as_object_mut() else { continue };
        for (name, value) in known.into_iter().flatten() {
            file.entry(name).or_insert(value);
        }
        if is_deleted {
            file.insert("deleted".into(), true.into());
        }
    }
    Some(files)
}

/// The most complete facts about a file.
fn most_known<'m>(message: &'m Attributes, id: &str) -> Option<&'m Map<String, Value>> {
    let prefix = format!("{ABOUT}{id}#");
    let facts =
        message.iter().filter_map(|(name, known)| Some((name.strip_prefix(&prefix)?, known.as_object()?)));
    facts.max_by_key(|(hash, known)| (known.len(), *hash)).map(|(_, known)| known)
}
