//! From the events that are kept in a channel's rows to the snapshot in each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::version;
use super::event::{LISTED, identity, kept};
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, key};
use slack::catalogue::ChannelChange;
use slack::envelope;
use slack::ids::{ChannelId, TeamId};

/// The register of a snapshot: how many events it was folded from, then a hash of it.
pub const FOLDED: &str = "folded";

/// Former names a channel keeps, the current one included.
pub const MAX_NAMES: usize = 20;

/// The attributes a snapshot consists of.
const SNAPSHOT: [&str; 12] = [
    "name",
    "names_history",
    "archived",
    "deleted",
    "visibility",
    "purpose",
    "topic",
    "prev_channel_id",
    "next_channel_id",
    "ext_shared",
    "shared_with",
    "raw_event",
];

/// An event as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptEvent {
    kind: String,
    raw: String,
    value: Value,
}

impl KeptEvent {
    pub(super) fn new(kind: String, raw: String) -> Self {
        // What cannot be read is not kept: only an older version of this program may have done so.
        let value = envelope::value(&raw).unwrap_or_default();
        Self { kind, raw, value }
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.value.pointer(pointer).and_then(Value::as_str)
    }

    pub(super) fn number(&self, pointer: &str) -> Option<i64> {
        self.value.pointer(pointer).and_then(Value::as_i64)
    }

    /// The two ids of a change, where both are ids.
    fn changed_ids(&self) -> Option<(ChannelId, ChannelId)> {
        let id = |pointer| ChannelId::parse(self.text(pointer)?).ok();
        if ChannelChange::named(&self.kind) != Some(ChannelChange::IdChanged) {
            return None;
        }
        Some((id("/old_channel_id")?, id("/new_channel_id")?))
    }

    /// The id a channel had before this event, if it is that of a change to `channel`.
    fn former_id(&self, channel: &ChannelId) -> Option<ChannelId> {
        self.changed_ids().filter(|(old, new)| new == channel && old != channel).map(|(old, _)| old)
    }
}

/// One row of a channel.
#[derive(Debug, Clone, PartialEq)]
struct ChannelRow {
    timestamp: String,
    events: Vec<KeptEvent>,
    /// The register of the snapshot it has.
    folded: Option<String>,
}

/// All rows of one channel, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline(Vec<ChannelRow>);

impl Timeline {
    /// Reads the rows of a channel's partition, as a query returns them.
    pub fn read(items: &[Item]) -> Self {
        let rows = items.iter().filter(|item| !item.is_erased()).map(|item| ChannelRow {
            timestamp: item.key.timestamp.clone(),
            events: kept(item),
            folded: item.text(FOLDED).map(str::to_owned),
        });
        Self(rows.collect())
    }

    fn changes(&self) -> impl Iterator<Item = (ChannelId, ChannelId)> {
        self.0.iter().flat_map(|row| row.events.iter().filter_map(KeptEvent::changed_ids))
    }

    /// The ids this channel had and has, as far as its own rows know.
    pub fn relatives(&self) -> impl Iterator<Item = ChannelId> {
        self.changes().flat_map(|(old, new)| [old, new])
    }
}

/// The channels that are folded together: some, and every id they had or have.
pub type Timelines = BTreeMap<ChannelId, Timeline>;

/// What is known of a channel at some time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChannelState {
    name: Option<String>,
    names_history: Vec<String>,
    archived: bool,
    deleted: bool,
    visibility: Option<&'static str>,
    purpose: Option<String>,
    topic: Option<String>,
    prev_channel_id: Option<String>,
    next_channel_id: Option<String>,
    ext_shared: bool,
    shared_with: BTreeSet<String>,
}

/// A channel folded to its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Folded {
    /// Snapshots that the rows lack.
    pub snapshots: Vec<Update>,
    /// What the ChannelIndex calls it; `None` where no name is known.
    pub index_name: Option<String>,
    /// Its newest row, once the snapshots are written.
    pub newest: NewestRow,
}

/// The newest row of a channel. Every event of the channel, late ones as well, is followed by a greater snapshot in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewestRow {
    timestamp: String,
    folded: String,
}

impl NewestRow {
    /// Whether this row, the newest now, shows that something came after this was folded. A row without a snapshot does.
    pub fn is_behind(&self, row: &Item) -> bool {
        row.key.timestamp != self.timestamp
            || row.text(FOLDED).is_none_or(|folded| folded > self.folded.as_str())
    }
}

/// What is known of a channel, and from how many events.
#[derive(Debug, Clone, Default)]
struct FoldedChannel {
    state: ChannelState,
    events: usize,
}

/// Folds channels. All rows are gone through in the order of their times, whichever channel they are of: so a channel
/// takes over what its former id was just before, and ids that point at each other cost no more than others.
pub fn fold(team: &TeamId, timelines: &Timelines) -> BTreeMap<ChannelId, Folded> {
    let mut rows: Vec<(&ChannelId, &ChannelRow)> = timelines
        .iter()
        .flat_map(|(channel, timeline)| timeline.0.iter().map(move |row| (channel, row)))
        .filter(|(_, row)| !row.events.is_empty())
        .collect();
    rows.sort_by(|(_, one), (_, other)| one.timestamp.cmp(&other.timestamp));
    let mut known: BTreeMap<&ChannelId, FoldedChannel> = BTreeMap::new();
    let mut folded: BTreeMap<ChannelId, Folded> = BTreeMap::new();
    for at_once in rows.chunk_by(|(_, one), (_, other)| one.timestamp == other.timestamp) {
        let inherited: Vec<Vec<FoldedChannel>> = at_once
            .iter()
            .map(|(channel, row)| {
                row.events
                    .iter()
                    .filter_map(|event| event.former_id(channel))
                    .filter_map(|former| known.get(&former).cloned())
                    .collect()
            })
            .collect();
        for ((channel, row), inherited) in at_once.iter().zip(inherited) {
            let known = known.entry(channel).or_default();
            for former in inherited {
                known.state.inherit(former.state);
                known.events += former.events;
            }
            row.events.iter().for_each(|event| known.state.tell(event, channel));
            known.events += row.events.len();
            let folded = folded.entry((*channel).clone()).or_default();
            let attributes = known.state.attributes(row);
            let version = snapshot_version(known, &attributes);
            let stored = row.folded.as_ref().filter(|stored| **stored >= version);
            folded.newest =
                NewestRow { timestamp: row.timestamp.clone(), folded: stored.unwrap_or(&version).clone() };
            if stored.is_none() {
                folded.snapshots.push(snapshot(team, channel, row, version, attributes));
            }
            folded.index_name = known.state.index_name();
        }
    }
    folded
}

/// How a snapshot compares with others of its row.
fn snapshot_version(known: &FoldedChannel, attributes: &Attributes) -> String {
    let content = Value::Object(attributes.clone()).to_string();
    format!("{:08}/{}", known.events, version::hash(&content))
}

/// The snapshot of a row.
fn snapshot(
    team: &TeamId,
    channel: &ChannelId,
    row: &ChannelRow,
    version: String,
    attributes: Attributes,
) -> Update {
    Update {
        guard: Guard::Greater { register: FOLDED.into(), version },
        remove: SNAPSHOT.into_iter().filter(|name| !attributes.contains_key(*name)).collect(),
        set: attributes,
        set_if_absent: identity(team, channel),
        ..Update::new(ItemKey::new(key::channels(team, channel), row.timestamp.as_str()))
    }
}

impl ChannelState {
    /// What a row's snapshot says.
    pub fn of(item: &Item) -> Self {
        let text = |name| item.text(name).map(str::to_owned);
        let list = |name| -> Vec<String> {
            let values = item.attributes.get(name).and_then(Value::as_array);
            values.into_iter().flatten().filter_map(|value| Some(value.as_str()?.to_owned())).collect()
        };
        Self {
            name: text("name"),
            names_history: list("names_history"),
            archived: item.is("archived"),
            deleted: item.is("deleted"),
            visibility: item.text("visibility").map(|text| visibility(text == "private")),
            purpose: text("purpose"),
            topic: text("topic"),
            prev_channel_id: text("prev_channel_id"),
            next_channel_id: text("next_channel_id"),
            ext_shared: item.is("ext_shared"),
            shared_with: list("shared_with").into_iter().collect(),
        }
    }

    /// Takes in what one event says. An unknown one says nothing.
    pub(super) fn tell(&mut self, event: &KeptEvent, channel: &ChannelId) {
        if event.kind == LISTED {
            return self.list(event);
        }
        let Some(change) = ChannelChange::named(&event.kind) else { return };
        match change {
            ChannelChange::Created => {
                self.rename(event.text("/channel/name"));
                let private = event.value.pointer("/channel/is_private") == Some(&Value::Bool(true));
                self.visibility = Some(visibility(private));
            }
            ChannelChange::Renamed => self.rename(event.text("/channel/name")),
            ChannelChange::Archived => self.archived = true,
            ChannelChange::Unarchived => self.archived = false,
            ChannelChange::Deleted => self.deleted = true,
            ChannelChange::Topic => self.topic = filled(event.text("/topic")),
            ChannelChange::Purpose => self.purpose = filled(event.text("/purpose")),
            ChannelChange::MadePrivate => self.visibility = Some(visibility(true)),
            ChannelChange::MadePublic => self.visibility = Some(visibility(false)),
            ChannelChange::Shared => {
                self.ext_shared = true;
                self.shared_with.extend(event.text("/connected_team_id").map(str::to_owned));
            }
            ChannelChange::Unshared => {
                if let Some(team) = event.text("/previously_connected_team_id") {
                    self.shared_with.remove(team);
                }
                self.ext_shared = event.value.pointer("/is_ext_shared") == Some(&Value::Bool(true));
            }
            ChannelChange::IdChanged => {
                if let Some((old, new)) = event.changed_ids() {
                    if new == *channel && old != *channel {
                        self.prev_channel_id = Some(old.to_string());
                    } else if old == *channel && new != *channel {
                        self.next_channel_id = Some(new.to_string());
                    }
                }
            }
            ChannelChange::Left | ChannelChange::PostingPermissions => {}
        }
    }

    /// What Slack's directory says of a channel. A field that is missing, or of another type, says nothing.
    fn list(&mut self, event: &KeptEvent) {
        self.rename(event.text("/name"));
        let flag = |pointer| event.value.pointer(pointer).and_then(Value::as_bool);
        if let Some(archived) = flag("/is_archived") {
            self.archived = archived;
        }
        if let Some(private) = flag("/is_private") {
            self.visibility = Some(visibility(private));
        }
        if let Some(ext_shared) = flag("/is_ext_shared") {
            self.ext_shared = ext_shared;
        }
        if let Some(topic) = event.text("/topic/value") {
            self.topic = filled(Some(topic));
        }
        if let Some(purpose) = event.text("/purpose/value") {
            self.purpose = filled(Some(purpose));
        }
    }

    fn rename(&mut self, name: Option<&str>) {
        let Some(name) = name.filter(|name| self.name.as_deref() != Some(name)) else { return };
        self.name = Some(name.to_owned());
        self.names_history.insert(0, name.to_owned());
        self.names_history.truncate(MAX_NAMES);
    }

    /// Takes over what the channel was under its former id, where it does not know better.
    fn inherit(&mut self, former: Self) {
        self.name = self.name.take().or(former.name);
        // The newest of the former names may be the oldest of this one.
        let known = self.names_history.last().cloned();
        let carried = former.names_history.into_iter().skip_while(|name| Some(name) == known.as_ref());
        self.names_history.extend(carried);
        self.names_history.truncate(MAX_NAMES);
        self.archived |= former.archived;
        self.visibility = self.visibility.or(former.visibility);
        self.purpose = self.purpose.take().or(former.purpose);
        self.topic = self.topic.take().or(former.topic);
        self.ext_shared |= former.ext_shared;
        self.shared_with.extend(former.shared_with);
    }

    /// The snapshot after a row's events. Absent means false, unknown or empty.
    fn attributes(&self, row: &ChannelRow) -> Attributes {
        let mut attributes = Attributes::new();
        let texts = [
            ("name", &self.name),
            ("purpose", &self.purpose),
            ("topic", &self.topic),
            ("prev_channel_id", &self.prev_channel_id),
            ("next_channel_id", &self.next_channel_id),
        ];
        for (name, text) in texts {
            attributes.extend(text.as_ref().map(|text| (name.to_owned(), text.clone().into())));
        }
        attributes.extend(self.visibility.map(|visibility| ("visibility".to_owned(), visibility.into())));
        let flags = [("archived", self.archived), ("deleted", self.deleted), ("ext_shared", self.ext_shared)];
        attributes.extend(
            flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| (name.to_owned(), true.into())),
        );
        if !self.names_history.is_empty() {
            attributes.insert("names_history".into(), self.names_history.clone().into());
        }
        if !self.shared_with.is_empty() {
            attributes.insert("shared_with".into(), self.shared_with.iter().cloned().collect());
        }
        if let Some(last) = row.events.last() {
            attributes.insert("raw_event".into(), last.raw.clone().into());
        }
        attributes
    }

    /// What the ChannelIndex calls it; `None` where no name is known.
    pub fn index_name(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        Some(if self.deleted { format!("{DELETED_PREFIX}{name}") } else { name.to_owned() })
    }
}

/// What stands before the name of a deleted channel in the ChannelIndex.
pub const DELETED_PREFIX: &str = "deleted_";

fn visibility(private: bool) -> &'static str {
    if private { "private" } else { "public" }
}

fn filled(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
