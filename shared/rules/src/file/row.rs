//! The rows with the state of a file: its own row, `file#{team}` / file id, and every message that shares it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::object::FileObject;
use super::state::{FileState, FileVerdict};
pub use super::stored::{Share, StoredBytes};
use super::stored::{VERSION, file_identity, versions};
use super::{canvas, canvas_text};
use crate::message;
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use ports::files::FileKey;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

/// The prefix of the state registers, one per file.
pub(super) const STATE: &str = "file#";

/// Set once Slack has reported that the file was deleted.
const DELETED: &str = "deleted";

/// The prefix of the marks on a message for files that were deleted in Slack.
const DELETED_FILE: &str = "deleted_file#";

/// The prefix of the marks for shares, one per message that shares the file.
const SHARED: &str = "shared#";

/// The file object, and the register with its version.
const OBJECT: &str = "object";
const OBJECT_VERSION: &str = "object_version";

/// The prefix of the marks for bytes that must be deleted, one per key.
const UNSHARED: &str = "bytes#";

/// The maximum number of shares on a file's row, which must fit an item. Every message still has its file's
/// state.
pub const MAX_SHARES: usize = 1000;

fn state_guard(file: &FileId, state: &FileState) -> Guard {
    Guard::Greater { register: format!("{STATE}{file}"), version: state.version() }
}

/// The update for a file that was seen in a message: the file object and the share.
pub fn seen(team: &TeamId, object: &FileObject, share: Option<&Share>) -> Update {
    let mut set: Attributes = [(OBJECT.to_owned(), object.to_json())].into_iter().collect();
    let texts = [("name", &object.name), ("mimetype", &object.mimetype)];
    set.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.clone()?.into()))));
    let remove = ["name", "mimetype"].into_iter().filter(|name| !set.contains_key(*name)).collect();
    let mut set_if_absent = file_identity(team, &object.id);
    if object.is_tombstone() {
        set_if_absent.insert(DELETED.into(), true.into());
    }
    if let Some(share) = share {
        set_if_absent.insert(format!("{SHARED}{}#{}", share.channel, share.ts), true.into());
    }
    let guard = Guard::Greater { register: OBJECT_VERSION.into(), version: object.version() };
    Update { guard, set, remove, set_if_absent, ..Update::new(ItemKey::file(team, &object.id)) }
}

/// An update that writes nothing and is rejected unless the file is still stored as in the row that was read:
/// if a row is deleted, so are its bytes. `None` if the file is not stored.
pub fn still_stored(row: &Item, file: &FileId) -> Option<Update> {
    let state @ FileState::Stored(_) = state(row, file)? else { return None };
    let (register, version) = (format!("{STATE}{file}"), state.version());
    let guard = Guard::Unchanged { register, expected: Some(version.clone()), version };
    Some(Update { guard, ..Update::new(row.key.clone()) })
}

/// The update that records the state of a file that is not stored.
pub fn settled(team: &TeamId, file: &FileId, state: &FileState) -> Update {
    Update {
        guard: state_guard(file, state),
        set_if_absent: file_identity(team, file),
        ..Update::new(ItemKey::file(team, file))
    }
}

/// The update that records a file as stored.
pub fn stored(team: &TeamId, file: &FileId, held: &StoredBytes) -> Update {
    let mut set = text_attributes([("sha256", &held.sha256)]);
    set.insert("size_bytes".into(), held.size_bytes.into());
    let mut update = settled(team, file, &FileState::Stored(held.key.clone()));
    let version = format!("{VERSION}{}#{}", held.source, held.size_bytes);
    update.set_if_absent.insert(version, held.key.as_str().into());
    Update { set, ..update }
}

/// The update for a file that was deleted in Slack.
pub(super) fn deleted(team: &TeamId, file: &FileId) -> Update {
    let mut set_if_absent = file_identity(team, file);
    set_if_absent.insert(DELETED.into(), true.into());
    Update { set_if_absent, ..Update::new(ItemKey::file(team, file)) }
}

/// The update that records the state of a file on a message that shares it.
pub fn on_message(team: &TeamId, share: &Share, file: &FileId, state: &FileState) -> Update {
    let Share { channel, ts } = share;
    Update {
        guard: state_guard(file, state),
        set_if_absent: message::identity(team, channel, ts),
        ..Update::new(ItemKey::message(team, channel, ts))
    }
}

/// The update that marks a file as deleted in Slack on a message that shares it.
pub fn deleted_on_message(team: &TeamId, share: &Share, file: &FileId) -> Update {
    let Share { channel, ts } = share;
    let mut set_if_absent = message::identity(team, channel, ts);
    set_if_absent.insert(format!("{DELETED_FILE}{file}"), true.into());
    Update { set_if_absent, ..Update::new(ItemKey::message(team, channel, ts)) }
}

/// Whether a file's row says that it was deleted in Slack.
pub fn is_deleted(item: &Item) -> bool {
    item.has_flag(DELETED)
}

/// The state of a file in its row or in the row of a message.
pub fn state(item: &Item, file: &FileId) -> Option<FileState> {
    FileState::stored(item.text(&format!("{STATE}{file}"))?)
}

/// The most complete file object in a file's row.
pub fn object(item: &Item) -> Option<FileObject> {
    FileObject::read(item.attributes.get(OBJECT)?)
}

/// The share that an attribute of a file's row marks.
pub fn share(name: &str) -> Option<Share> {
    let (channel, ts) = name.strip_prefix(SHARED)?.split_once('#')?;
    Some(Share { channel: ChannelId::parse(channel).ok()?, ts: Ts::parse(ts).ok()? })
}

/// The shares in a file's row.
pub fn shares(item: &Item) -> impl Iterator<Item = Share> + '_ {
    item.attributes.keys().filter_map(|name| share(name))
}

/// The key of the stored version that matches an object: from the same source, and of the same size; of a
/// canvas, also a version of a later edit, because Slack has no other. `None` if no such version is stored.
pub fn matching_key(item: &Item, team: &TeamId, object: &FileObject) -> Option<FileKey> {
    let Some(FileState::Stored(key)) = state(item, &object.id) else { return None };
    let has_size = |size_bytes| object.exact_size_bytes().is_none_or(|expected| expected == size_bytes);
    let Some(source) = object.source(team) else { return Some(key) };
    if versions(item).next().is_none() {
        let size_bytes = item.attributes.get("size_bytes").and_then(Value::as_u64);
        return size_bytes.is_none_or(has_size).then_some(key);
    }
    if let Some(updated) = object.updated {
        let edits = versions(item).filter_map(|(from, _, key)| Some((canvas::edited_at(from)?, from, key)));
        let same = edits.filter(|(_, from, _)| canvas::without_edit(from) == canvas::without_edit(&source));
        return same.filter(|(edited, _, _)| *edited >= updated).max().map(|(_, _, key)| key);
    }
    let mut same = versions(item).filter(|(from, size_bytes, _)| *from == source && has_size(*size_bytes));
    same.next().map(|(_, _, key)| key)
}

/// The files that a message has, or had before an edit removed them.
pub fn files_of_message(message: &Item) -> BTreeSet<FileId> {
    let listed = message::files(message).iter().filter_map(|file| file["id"].as_str());
    let registers = message.attributes.keys().filter_map(|name| name.strip_prefix(STATE));
    listed.chain(registers).filter_map(|file| FileId::parse(file).ok()).collect()
}

/// The keys of all versions of a file that are stored or about to be, in its row or in the row of a message.
pub fn keys(item: &Item, file: &FileId) -> BTreeSet<FileKey> {
    let newest = match state(item, file) {
        Some(FileState::Stored(key)) => Some(key),
        Some(FileState::Failed(_) | FileState::Verdict(_)) | None => None,
    };
    versions(item).map(|(_, _, key)| key).chain(newest).chain(canvas::expected_keys(item)).collect()
}

/// The bytes that a row says are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedBytes<'r> {
    pub key: FileKey,
    /// Their size, if the row has it.
    pub size_bytes: Option<u64>,
    /// Their SHA-256 in hex, if the row has it: that of the newest version.
    pub sha256: Option<&'r str>,
}

/// The bytes of a file that must be there.
pub fn expected_bytes<'r>(item: &'r Item, file: &FileId) -> Vec<ExpectedBytes<'r>> {
    let newest = match state(item, file) {
        Some(FileState::Stored(key)) => Some(key),
        Some(FileState::Failed(_) | FileState::Verdict(_)) | None => None,
    };
    let older = versions(item).filter(|(_, _, key)| newest.as_ref() != Some(key));
    let older =
        older.map(|(_, size_bytes, key)| ExpectedBytes { key, size_bytes: Some(size_bytes), sha256: None });
    let mut expected: Vec<ExpectedBytes<'r>> = older.collect();
    expected.extend(newest.map(|key| ExpectedBytes {
        key,
        size_bytes: item.attributes.get("size_bytes").and_then(Value::as_u64),
        sha256: item.text("sha256"),
    }));
    expected
}

/// The update that marks the bytes of a file that no message shares any more. They must be deleted, unless
/// the file's row still names them.
pub fn unshared(team: &TeamId, file: &FileId, keys: &BTreeSet<FileKey>) -> Update {
    let mut set_if_absent = file_identity(team, file);
    set_if_absent.insert("type".into(), "unshared".into());
    set_if_absent.extend(keys.iter().map(|key| (format!("{UNSHARED}{key}"), true.into())));
    Update { set_if_absent, ..Update::new(ItemKey::unshared_file(team, file)) }
}

/// The keys of bytes that must be deleted, as written by [`unshared`].
pub fn unshared_keys(item: &Item) -> impl Iterator<Item = FileKey> + '_ {
    item.attributes.keys().filter_map(|name| FileKey::from_stored(name.strip_prefix(UNSHARED)?))
}

/// Whether a version of the file is already stored under a key.
pub fn has_key(item: &Item, file: &FileId, key: &FileKey) -> bool {
    versions(item).any(|(_, _, stored)| stored == *key)
        || state(item, file) == Some(FileState::Stored(key.clone()))
}

/// Whether more than one version is stored.
pub fn has_versions(item: &Item) -> bool {
    versions(item).nth(1).is_some()
}

/// Whether a message has the mark that a file was deleted in Slack.
pub(crate) fn has_deletion_mark(message: &Attributes, file: &str) -> bool {
    message.contains_key(&format!("{DELETED_FILE}{file}"))
}

/// Whether an attribute of a message is such a mark.
pub(crate) fn is_deletion_mark(name: &str) -> bool {
    name.starts_with(DELETED_FILE)
}

/// Whether an attribute of a message is a file's register.
pub(crate) fn is_register(name: &str) -> bool {
    name.starts_with(STATE) || canvas_text::is_register(name)
}

/// The states of a message's files as readers see them. Files are named by their keys: see
/// [`crate::project`].
pub(crate) fn on_message_projected(message: &Attributes) -> Attributes {
    let register = |name: &str| Some(name.strip_prefix(STATE)?.to_owned());
    let mut states: Vec<(String, FileState)> = message
        .iter()
        .filter_map(|(name, version)| Some((register(name)?, FileState::stored(version.as_str()?)?)))
        .collect();
    // In the order of the message; files that an edit removed come last.
    let listed = message.get("files").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let position = |id: &str| listed.iter().position(|file| file["id"] == id).unwrap_or(listed.len());
    states.sort_by_cached_key(|(id, _)| (position(id), id.clone()));

    let (mut keys, mut verdicts, mut errors) = (Vec::new(), Attributes::new(), Vec::new());
    for (id, state) in states {
        match state {
            FileState::Stored(key) => keys.push(Value::from(key.as_str())),
            FileState::Verdict(verdict) => drop(verdicts.insert(id, verdict.label().into())),
            FileState::Failed(error) if errors.contains(&error) => {}
            FileState::Failed(error) => errors.push(error),
        }
    }
    let mut projected = Attributes::new();
    if !keys.is_empty() {
        projected.insert("files_s3".into(), keys.into());
    }
    if !verdicts.is_empty() {
        projected.insert("files_verdict".into(), verdicts.into());
    }
    if !errors.is_empty() {
        projected.insert("files_fetch_failed".into(), true.into());
        projected.insert("files_fetch_error".into(), errors.join("; ").into());
    }
    projected
}

/// The state of a file as readers see it. `None` if nothing is known about the file except that it was deleted.
pub(crate) fn state_word(item: &Item) -> Option<&'static str> {
    let file = FileId::parse(&item.key.timestamp).ok().filter(|_| !item.is_erased())?;
    Some(match state(item, &file) {
        Some(FileState::Stored(_)) => "held",
        Some(FileState::Failed(_)) => "failed",
        Some(FileState::Verdict(FileVerdict::Pending)) => "pending",
        Some(FileState::Verdict(_)) => "skipped",
        None => object(item).map(|_| "pending")?,
    })
}

/// A file's row as readers see it; `None` as for [`state_word`].
pub(crate) fn projected(item: &Item) -> Option<Attributes> {
    let word = state_word(item)?;
    let file = FileId::parse(&item.key.timestamp).ok()?;
    let (object, state) = (object(item), state(item, &file));
    let visible = ["type", "team_id", "file_id", "name", "mimetype", "size_bytes", "sha256", "deleted"];
    let kept = |name: &str| Some((name.to_owned(), item.attributes.get(name)?.clone()));
    let mut projected: Attributes = visible.into_iter().filter_map(kept).collect();
    if let Some(size_bytes) = object.and_then(|object| object.size_bytes) {
        projected.entry("size_bytes").or_insert(size_bytes.into());
    }
    let edits = canvas::projected(item);
    let detail = match (state, canvas::newest(item)) {
        (Some(FileState::Stored(key)), Some(newest)) => {
            projected.insert("size_bytes".into(), newest.size_bytes.into());
            // It belongs to the version that the register names.
            if key != newest.key {
                projected.remove("sha256");
            }
            projected.insert("versions".into(), edits.into());
            Some(("uri", newest.key.to_string()))
        }
        (Some(FileState::Stored(key)), None) => {
            let mut others: Vec<String> = versions(item)
                .filter(|(_, _, other)| *other != key)
                .map(|(_, _, other)| other.to_string())
                .collect();
            if !others.is_empty() {
                others.sort_unstable();
                projected.insert("other_uris".into(), others.into());
            }
            Some(("uri", key.to_string()))
        }
        (Some(FileState::Failed(error)), _) => Some(("error", error)),
        (Some(FileState::Verdict(verdict)), _) => Some(("verdict", verdict.label().to_owned())),
        (None, _) => None,
    };
    projected.insert("state".into(), word.into());
    projected.extend(detail.map(|(name, text)| (name.to_owned(), text.into())));
    let share = |share: Share| json!({ "channel_id": share.channel.as_str(), "ts": share.ts.as_str() });
    projected.insert("shares".into(), shares(item).map(share).collect());
    Some(projected)
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
