//! The content register: the content of a message, in its greatest version.

use serde_json::Value;
use serde_json::value::RawValue;

use super::{MessageObject, rfc3339};
use crate::version::{CONTESTED, ContentVersion};
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, erasure};
use slack::ids::Ts;

/// The register of a message's content.
pub const CONTENT_VERSION: &str = "content_version";

/// The attributes of the content register. Everything else (blocks, attachments) is in `raw_event` only: a
/// second copy would make every row, and every write of a row, half as large again.
pub(crate) const CONTENT: [&str; 8] =
    ["text", "user", "bot_id", "username", "subtype", "files", "updated_ts", "raw_event"];

/// One version of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    version: ContentVersion,
    change: bool,
    if_absent: Update,
}

impl Content {
    pub(super) fn new(
        key: ItemKey,
        version: ContentVersion,
        change: bool,
        set: Attributes,
        set_if_absent: Attributes,
    ) -> Self {
        let guard = register(None, version.as_str().to_owned());
        Self { version, change, if_absent: Update { key, guard, remove: lacking(&set), set, set_if_absent } }
    }

    /// The key of the message.
    pub fn key(&self) -> &ItemKey {
        &self.if_absent.key
    }

    pub fn version(&self) -> &ContentVersion {
        &self.version
    }

    /// The person or the app's user who wrote it.
    pub fn author(&self) -> Option<&str> {
        erasure::author(&self.if_absent)
    }

    /// Whether Slack sent it as the replacement of another version, which is then most likely stored.
    pub fn is_change(&self) -> bool {
        self.change
    }

    /// The update that writes the content if its message has none yet.
    pub fn if_absent(&self) -> &Update {
        &self.if_absent
    }

    /// The update that writes the content if the register is still `read`.
    pub(super) fn if_unchanged(&self, read: &str, contested: bool) -> Update {
        let suffix = if contested { CONTESTED } else { "" };
        let guard = register(Some(read.to_owned()), format!("{}{suffix}", self.version.as_str()));
        Update { guard, ..self.if_absent.clone() }
    }

    /// The update that marks the stored content as contested if the register is still `read`. This content
    /// lost to it.
    pub(super) fn contest(&self, read: &str) -> Update {
        Update {
            guard: register(Some(read.to_owned()), format!("{read}{CONTESTED}")),
            set_if_absent: self.if_absent.set_if_absent.clone(),
            ..Update::new(self.key().clone())
        }
    }
}

/// The attributes of the register that `set` lacks.
pub(super) fn lacking(set: &Attributes) -> Vec<&'static str> {
    CONTENT.into_iter().filter(|name| !set.contains_key(*name)).collect()
}

fn register(expected: Option<String>, version: String) -> Guard {
    Guard::Unchanged { register: CONTENT_VERSION.into(), expected, version }
}

/// The version of a stored message's content, if it has content.
pub fn stored_version(item: &Item) -> Option<ContentVersion> {
    item.text(CONTENT_VERSION).map(ContentVersion::stored)
}

/// The author in a message's row, if they are a person or an app's user.
pub fn author(item: &Item) -> Option<&str> {
    item.text("user")
}

/// The channel in a message's row.
pub fn channel(item: &Item) -> Option<&str> {
    item.text("channel_id")
}

/// The root of the thread in a message's row; that of a root is its own timestamp.
pub fn root(item: &Item) -> Option<Ts> {
    Ts::parse(item.text("thread_ts")?).ok()
}

/// The files in a message's row, as Slack describes them.
pub fn files(item: &Item) -> &[Value] {
    item.attributes.get("files").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// What Slack sent about a message, in its row.
pub fn raw_event(item: &Item) -> Option<&str> {
    item.text("raw_event")
}

pub(super) fn attributes(
    object: &MessageObject<'_>,
    files: Option<Value>,
    edited_ts: Option<&Ts>,
    raw: &RawValue,
) -> Attributes {
    let person = object.person();
    let texts = [
        ("text", &object.text),
        ("user", &person),
        ("bot_id", &object.bot_id),
        ("username", &object.username),
        ("subtype", &object.subtype),
    ];
    let mut attributes: Attributes = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), Value::from(text.as_deref()?))))
        .collect();
    attributes.extend(files.map(|files| ("files".to_owned(), files)));
    if let Some(edited_ts) = edited_ts {
        attributes.insert("updated_ts".into(), rfc3339(edited_ts).into());
    }
    attributes.insert("raw_event".into(), raw.get().into());
    attributes
}
