//! Folds the events that are stored in a channel's rows into a snapshot for each row.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::version;
use super::canvases;
use super::event::{ChannelEvent, KeptEvent, LISTED, identity, kept_events, shown_as_private};
use super::index::DELETED_PREFIX;
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, key};
use slack::catalogue::ChannelChange;
use slack::ids::{ChannelId, TeamId};

/// The register of a snapshot: the number of events it was folded from, then a hash of it, then [`FOLD`].
pub const FOLDED: &str = "folded";

/// The version of the fold, which rises when events are understood better: only a snapshot of this version is
/// continued. Snapshots of the first versions have none.
const FOLD: &str = "/1";

/// The maximum number of names in a channel's history, the current one included.
pub const MAX_NAMES: usize = 20;

/// The attributes of a snapshot.
const SNAPSHOT: [&str; 13] = [
    "name",
    "names_history",
    "archived",
    "deleted",
    "visibility",
    "purpose",
    "topic",
    "canvas",
    "prev_channel_id",
    "next_channel_id",
    "ext_shared",
    "shared_with",
    "raw_event",
];

#[derive(Debug, Clone, PartialEq)]
struct ChannelRow {
    timestamp: String,
    events: Vec<KeptEvent>,
    /// The register of its snapshot.
    folded: Option<String>,
}

/// The rows of one channel from some time on, oldest first, and the snapshot before them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    base: FoldedChannel,
    rows: Vec<ChannelRow>,
}

impl Timeline {
    /// Reads a channel's rows, as a query returns them, which follow the row `base`: one that
    /// [`is_base`], or none if they are all rows of the channel.
    pub fn read(base: Option<&Item>, items: &[Item]) -> Self {
        let rows = items.iter().filter(|item| !item.is_erased()).map(|item| ChannelRow {
            timestamp: item.key.timestamp.clone(),
            events: kept_events(item),
            folded: item.text(FOLDED).map(str::to_owned),
        });
        let base = base.map(|row| FoldedChannel {
            state: ChannelState::from_row(row),
            events: row.text(FOLDED).and_then(folded_events).unwrap_or_default(),
        });
        Self { base: base.unwrap_or_default(), rows: rows.collect() }
    }

    /// The old and the new ids in this channel's own rows, each with the time of the change.
    pub fn relatives(&self) -> impl Iterator<Item = (ChannelId, &str)> {
        let changes = |row: &'_ ChannelRow| -> Vec<ChannelId> {
            row.events.iter().filter_map(KeptEvent::changed_ids).flat_map(|(old, new)| [old, new]).collect()
        };
        self.rows.iter().flat_map(move |row| changes(row).into_iter().map(|id| (id, row.timestamp.as_str())))
    }
}

/// Whether later events may be folded into the snapshot of this row: it has one of this version.
pub fn is_base(row: &Item) -> bool {
    !row.is_erased() && row.text(FOLDED).is_some_and(|folded| folded.ends_with(FOLD))
}

/// The number of events in a snapshot, from its register.
fn folded_events(folded: &str) -> Option<usize> {
    folded.split('/').next()?.parse().ok()
}

/// Channels that are folded together: a set of channels with all their former and later ids.
pub type Timelines = BTreeMap<ChannelId, Timeline>;

/// The state of a channel at a certain time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChannelState {
    name: Option<String>,
    names_history: Vec<String>,
    archived: bool,
    deleted: bool,
    visibility: Option<&'static str>,
    purpose: Option<String>,
    topic: Option<String>,
    canvas: Option<String>,
    prev_channel_id: Option<String>,
    next_channel_id: Option<String>,
    ext_shared: bool,
    shared_with: BTreeSet<String>,
}

/// The result of folding the rows of a channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Folded {
    /// Snapshots that the rows lack.
    pub snapshots: Vec<Update>,
    /// Its name in the ChannelIndex; `None` if no name is known.
    pub index_name: Option<String>,
    /// Its newest row, once the snapshots are written.
    pub newest: NewestRow,
}

/// The newest row of a channel. After every event of the channel, even a late one, its snapshot becomes
/// greater.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewestRow {
    timestamp: String,
    folded: String,
}

impl NewestRow {
    /// Whether `row`, which is the newest now, shows that an event arrived after this fold. A row without a
    /// snapshot does.
    pub fn is_behind(&self, row: &Item) -> bool {
        row.key.timestamp != self.timestamp
            || row.text(FOLDED).is_none_or(|folded| folded > self.folded.as_str())
    }
}

/// The state of a channel, and the number of events it was folded from.
#[derive(Debug, Clone, Default, PartialEq)]
struct FoldedChannel {
    state: ChannelState,
    events: usize,
}

/// Folds channels. The rows of all channels are processed together in the order of their times: so a channel
/// inherits the state that its former id had just before, and ids that point at each other cost no more than
/// others. The rows of each channel must begin before the first change of its id in any of the others.
pub fn fold(team: &TeamId, timelines: &Timelines) -> BTreeMap<ChannelId, Folded> {
    let mut rows: Vec<(&ChannelId, &ChannelRow)> = timelines
        .iter()
        .flat_map(|(channel, timeline)| timeline.rows.iter().map(move |row| (channel, row)))
        .filter(|(_, row)| !row.events.is_empty())
        .collect();
    rows.sort_by(|(_, one), (_, other)| one.timestamp.cmp(&other.timestamp));
    let bases = timelines.iter().map(|(channel, timeline)| (channel, timeline.base.clone()));
    let mut known: BTreeMap<&ChannelId, FoldedChannel> = bases.collect();
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
            row.events.iter().for_each(|event| known.state.apply(event, channel));
            known.events += row.events.len();
            let folded = folded.entry((*channel).clone()).or_default();
            let attributes = known.state.attributes(row);
            let version = snapshot_version(known, &attributes);
            let stored = row.folded.as_ref().filter(|stored| **stored >= version);
            let version = version + FOLD;
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

/// Whether a listed channel differs from the channel's newest row. A listing that repeats itself every hour
/// is not stored every hour.
pub fn is_channel_changed(newest: Option<&Item>, listed: &ChannelEvent) -> bool {
    let Some(newest) = newest else { return true };
    let known = ChannelState::from_row(newest);
    let mut updated = known.clone();
    updated.apply(&listed.kept(), listed.channel());
    updated != known
}

/// The version of a snapshot, by which it is compared with others of its row, without [`FOLD`].
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
    /// Reads the state from a row's snapshot.
    pub fn from_row(item: &Item) -> Self {
        let text = |name| item.text(name).map(str::to_owned);
        let list = |name| -> Vec<String> {
            let values = item.attributes.get(name).and_then(Value::as_array);
            values.into_iter().flatten().filter_map(|value| Some(value.as_str()?.to_owned())).collect()
        };
        Self {
            name: text("name"),
            names_history: list("names_history"),
            archived: item.has_flag("archived"),
            deleted: item.has_flag("deleted"),
            visibility: item.text("visibility").map(|text| visibility(text == "private")),
            purpose: text("purpose"),
            topic: text("topic"),
            canvas: text("canvas"),
            prev_channel_id: text("prev_channel_id"),
            next_channel_id: text("next_channel_id"),
            ext_shared: item.has_flag("ext_shared"),
            shared_with: list("shared_with").into_iter().collect(),
        }
    }

    /// Applies an event. An unknown one changes nothing.
    fn apply(&mut self, event: &KeptEvent, channel: &ChannelId) {
        if let Some(private) = shown_as_private(&event.kind, &event.value) {
            self.visibility = Some(visibility(private));
        }
        if event.kind == LISTED {
            return self.apply_listing(event);
        }
        let Some(change) = ChannelChange::by_name(&event.kind) else { return };
        match change {
            ChannelChange::Created | ChannelChange::Renamed => self.rename(event.text("/channel/name")),
            ChannelChange::Archived => self.archived = true,
            ChannelChange::Unarchived => self.archived = false,
            ChannelChange::Deleted => self.deleted = true,
            ChannelChange::Topic => self.topic = filled(event.text("/topic")),
            ChannelChange::Purpose => self.purpose = filled(event.text("/purpose")),
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
            ChannelChange::Left
            | ChannelChange::MadePrivate
            | ChannelChange::MadePublic
            | ChannelChange::PostingPermissions => {}
        }
    }

    /// Applies an entry of Slack's directory. A field that is missing or has another type changes nothing.
    fn apply_listing(&mut self, event: &KeptEvent) {
        self.rename(event.text("/name"));
        let flag = |pointer| event.value.pointer(pointer).and_then(Value::as_bool);
        if let Some(archived) = flag("/is_archived") {
            self.archived = archived;
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
        // A channel without one may have lost it: the stored canvas stays.
        if let Some(canvas) = canvases(&event.value).into_iter().next() {
            self.canvas = Some(canvas.to_string());
        }
    }

    fn rename(&mut self, name: Option<&str>) {
        let Some(name) = name.filter(|name| self.name.as_deref() != Some(name)) else { return };
        self.name = Some(name.to_owned());
        self.names_history.insert(0, name.to_owned());
        self.names_history.truncate(MAX_NAMES);
    }

    /// Fills the unknown parts of the state with the state of the channel's former id.
    fn inherit(&mut self, former: Self) {
        self.name = self.name.take().or(former.name);
        // The newest name under the former id may equal the oldest name under this one.
        let known = self.names_history.last().cloned();
        let carried = former.names_history.into_iter().skip_while(|name| Some(name) == known.as_ref());
        self.names_history.extend(carried);
        self.names_history.truncate(MAX_NAMES);
        self.archived |= former.archived;
        self.visibility = self.visibility.or(former.visibility);
        self.purpose = self.purpose.take().or(former.purpose);
        self.topic = self.topic.take().or(former.topic);
        self.canvas = self.canvas.take().or(former.canvas);
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
            ("canvas", &self.canvas),
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

    /// Whether the channel was deleted, or continues under another id.
    pub fn is_over(&self) -> bool {
        self.deleted || self.next_channel_id.is_some()
    }

    /// Its name in the ChannelIndex; `None` if no name is known.
    pub fn index_name(&self) -> Option<String> {
        let name = self.name.as_deref()?;
        Some(if self.deleted { format!("{DELETED_PREFIX}{name}") } else { name.to_owned() })
    }
}

fn visibility(private: bool) -> &'static str {
    if private { "private" } else { "public" }
}

fn filled(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Whether the snapshot in a row says that every member of the workspace can read the channel.
pub fn is_public(row: &Item) -> bool {
    row.text("visibility") == Some(visibility(false))
}

/// Whether the snapshot in a row says that people of other workspaces can write in the channel.
pub fn is_shared(row: &Item) -> bool {
    row.has_flag("ext_shared")
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
