//! The file objects in a message: read field by field if necessary, and remembered after the file is deleted.
//!
//! When a file is deleted, Slack reduces its object to an id and `tombstone`. The facts in earlier objects
//! are stored next to the content, one attribute for each distinct set of facts, so that the order does not
//! matter.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::MessageObject;
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

/// The files of a message; `None` if it has none.
pub(crate) fn read_files(object: &MessageObject<'_>) -> Option<Value> {
    let listed = object.files.and_then(|files| {
        let files: Vec<&RawValue> = serde_json::from_str(files.get()).ok()?;
        (!files.is_empty()).then_some(files)
    });
    // Old payloads carry one file object under the singular name.
    let files = listed.or_else(|| Some(vec![object.file.filter(|file| file.get().starts_with('{'))?]))?;
    Some(
        files
            .into_iter()
            .map(|file| envelope::parse_value(file.get()).unwrap_or_else(|_| by_fields(file)))
            .collect(),
    )
}

/// A file object without the fields that are nested too deeply to be read.
fn by_fields(file: &RawValue) -> Value {
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(file.get()).unwrap_or_default();
    let read = |(name, raw): (Cow<'_, str>, &RawValue)| {
        Some((name.into_owned(), envelope::parse_value(raw.get()).ok()?))
    };
    Value::Object(fields.into_iter().filter_map(read).collect())
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

/// The part of a list of files that distinguishes it from others.
pub(super) fn signed(files: &Value) -> String {
    let sign =
        |file: &Value| json!([file["id"], word(file, "name"), word(file, "title"), is_tombstone(file)]);
    files.as_array().into_iter().flatten().map(sign).collect::<Value>().to_string()
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

/// The files of a stored message as readers see them: a deleted one is marked as such and keeps its known
/// facts.
pub(crate) fn projected(message: &Attributes) -> Option<Value> {
    let mut files = message.get("files")?.clone();
    for file in files.as_array_mut()? {
        let tombstone = is_tombstone(file);
        if tombstone || !has_name(file) {
            let known = word(file, "id").and_then(|id| most_known(message, id)).cloned();
            let Some(file) = file.as_object_mut() else { continue };
            for (name, value) in known.into_iter().flatten() {
                file.entry(name).or_insert(value);
            }
            if tombstone {
                file.insert("deleted".into(), true.into());
            }
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
