//! Where the state of a file is written: on its own row, `file#{team}` / file id, and on every message it is in.

use serde_json::{Value, json};

use super::object::FileObject;
use super::state::{State, Verdict};
use crate::archive::{Attributes, Guard, Item, ItemKey, Update};
use crate::slack::ids::{ChannelId, FileId, TeamId, Ts};

/// One register per file.
pub(super) const STATE: &str = "file#";

/// One mark per place a file was shared in.
const SHARED: &str = "shared#";

/// What Slack says of a file, and how that compares with what it said elsewhere.
const OBJECT: &str = "object";
const OBJECT_VERSION: &str = "object_version";

/// Places remembered on a file's row, which must fit an item. The messages themselves all know their file.
pub const MAX_SHARES: usize = 1000;

/// Where a file was shared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// In which channel.
    pub channel: ChannelId,
    /// With which message.
    pub ts: Ts,
}

/// What is held of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Where it is.
    pub uri: String,
    /// How long it is.
    pub size_bytes: u64,
    /// The SHA-256 of its bytes, in hex.
    pub sha256: String,
}

fn attributes<const N: usize>(texts: [(&str, &str); N]) -> Attributes {
    texts.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
}

fn file_identity(team: &TeamId, file: &FileId) -> Attributes {
    attributes([("type", "file"), ("team_id", team.as_str()), ("file_id", file.as_str())])
}

fn state_guard(file: &FileId, state: &State) -> Guard {
    Guard::Greater { register: format!("{STATE}{file}"), version: state.version() }
}

/// A file was seen in a message: what Slack says of it there, and where that is.
#[must_use]
pub fn seen(team: &TeamId, object: &FileObject, share: Option<&Share>) -> Update {
    let mut set: Attributes = [(OBJECT.to_owned(), object.to_json())].into_iter().collect();
    let texts = [("name", &object.name), ("mimetype", &object.mimetype)];
    set.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.clone()?.into()))));
    let remove = ["name", "mimetype"].into_iter().filter(|name| !set.contains_key(*name)).collect();
    let mut set_if_absent = file_identity(team, &object.id);
    if let Some(share) = share {
        set_if_absent.insert(format!("{SHARED}{}#{}", share.channel, share.ts), true.into());
    }
    let guard = Guard::Greater { register: OBJECT_VERSION.into(), version: object.version() };
    Update { guard, set, remove, set_if_absent, ..Update::new(ItemKey::file(team, &object.id)) }
}

/// What became of a file that is not held.
#[must_use]
pub fn settled(team: &TeamId, file: &FileId, state: &State) -> Update {
    Update {
        guard: state_guard(file, state),
        set_if_absent: file_identity(team, file),
        ..Update::new(ItemKey::file(team, file))
    }
}

/// A file is held.
#[must_use]
pub fn held(team: &TeamId, file: &FileId, held: &Held) -> Update {
    let mut set = attributes([("sha256", &held.sha256)]);
    set.insert("size_bytes".into(), held.size_bytes.into());
    Update { set, ..settled(team, file, &State::Stored(held.uri.clone())) }
}

/// A file was deleted in Slack.
pub(super) fn deleted(team: &TeamId, file: &FileId) -> Update {
    let mut set_if_absent = file_identity(team, file);
    set_if_absent.insert("deleted".into(), true.into());
    Update { set_if_absent, ..Update::new(ItemKey::file(team, file)) }
}

/// What became of a file, on a message it is in.
#[must_use]
pub fn on_message(team: &TeamId, share: &Share, file: &FileId, state: &State) -> Update {
    let Share { channel, ts } = share;
    let identity = [
        ("type", "message"),
        ("team_id", team.as_str()),
        ("channel_id", channel.as_str()),
        ("ts", ts.as_str()),
    ];
    Update {
        guard: state_guard(file, state),
        set_if_absent: attributes(identity),
        ..Update::new(ItemKey::message(team, channel, ts))
    }
}

/// What became of a file, as its row or a message says.
#[must_use]
pub fn state(item: &Item, file: &FileId) -> Option<State> {
    State::stored(item.text(&format!("{STATE}{file}"))?)
}

/// What Slack says of the file of this row, at its most talkative.
#[must_use]
pub fn object(item: &Item) -> Option<FileObject> {
    FileObject::read(item.attributes.get(OBJECT)?)
}

/// Where the file of this row was shared, as far as it is remembered.
pub fn shares(item: &Item) -> impl Iterator<Item = Share> + '_ {
    item.attributes.keys().filter_map(|name| {
        let (channel, ts) = name.strip_prefix(SHARED)?.split_once('#')?;
        Some(Share { channel: ChannelId::parse(channel).ok()?, ts: Ts::parse(ts).ok()? })
    })
}

/// Whether an attribute of a message is a file's register.
pub(in crate::rules) fn is_register(name: &str) -> bool {
    name.starts_with(STATE)
}

/// What the registers on a message say to readers.
pub(in crate::rules) fn on_message_projected(message: &Attributes) -> Attributes {
    let register = |name: &str| Some(name.strip_prefix(STATE)?.to_owned());
    let mut states: Vec<(String, State)> = message
        .iter()
        .filter_map(|(name, version)| Some((register(name)?, State::stored(version.as_str()?)?)))
        .collect();
    // As the message lists them; what an edit took out of it comes last.
    let listed = message.get("files").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let place = |id: &str| listed.iter().position(|file| file["id"] == id).unwrap_or(listed.len());
    states.sort_by_cached_key(|(id, _)| (place(id), id.clone()));

    let (mut uris, mut verdicts, mut errors) = (Vec::new(), Attributes::new(), Vec::new());
    for (id, state) in states {
        match state {
            State::Stored(uri) => uris.push(Value::from(uri)),
            State::Verdict(verdict) => drop(verdicts.insert(id, verdict.label().into())),
            State::Failed(error) => errors.push(error),
        }
    }
    errors.dedup();
    let mut projected = Attributes::new();
    if !uris.is_empty() {
        projected.insert("files_s3".into(), uris.into());
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

/// A file's row as readers see it. `None` for one of which nothing is known but that it was deleted.
pub(in crate::rules) fn projected(item: &Item) -> Option<Attributes> {
    let file = FileId::parse(&item.key.timestamp).ok().filter(|_| !item.is_erased())?;
    let (object, state) = (object(item), state(item, &file));
    if object.is_none() && state.is_none() {
        return None;
    }
    let visible = ["type", "team_id", "file_id", "name", "mimetype", "size_bytes", "sha256", "deleted"];
    let kept = |name: &str| Some((name.to_owned(), item.attributes.get(name)?.clone()));
    let mut projected: Attributes = visible.into_iter().filter_map(kept).collect();
    if let Some(size_bytes) = object.and_then(|object| object.size_bytes) {
        projected.entry("size_bytes").or_insert(size_bytes.into());
    }
    let (word, detail) = match state {
        Some(State::Stored(uri)) => ("held", Some(("uri", uri))),
        Some(State::Failed(error)) => ("failed", Some(("error", error))),
        Some(State::Verdict(Verdict::Pending)) => {
            ("pending", Some(("verdict", Verdict::Pending.label().to_owned())))
        }
        Some(State::Verdict(verdict)) => ("skipped", Some(("verdict", verdict.label().to_owned()))),
        None => ("pending", None),
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
