//! The people and conversations that an export lists. Only data needed to read the days is kept in memory;
//! the lists are read again when their rows are written.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use rules::channel::ChannelEvent;
use rules::directory::listed_user;
use rules::figures::person::AuthorKind;
use rules::version;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use slack::envelope::{object_or_default, text_or_none};
use slack::ids::{ChannelId, TeamId, UserId};
use unicode_normalization::UnicodeNormalization;

use super::elements::{ArrayElement, Break, Elements};
use super::layout::{EntryIndex, ExportSection};
use super::problem::{PathProblems, Problem, ProblemKind};
use super::source::{EntryTooLarge, ExportEntries};
use super::workspace::{self, WorkspaceEvidence};

/// Workspaces to which organisation-wide channels may belong. The lists are read again for each, and the
/// largest organisations have some hundred workspaces.
const MAX_HOMES: usize = 1_000;

/// The conversation that a folder belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FolderOwner {
    Public(ChannelId),
    /// A conversation that is never stored.
    Private,
    /// Two conversations: their messages cannot be distinguished.
    Ambiguous,
}

/// The conversations that are never stored, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrivateCounts {
    pub channels: u64,
    /// Direct messages between two people.
    pub direct_messages: u64,
    /// Direct messages between several people.
    pub group_messages: u64,
}

impl PrivateCounts {
    /// The sum of all kinds.
    #[must_use]
    pub fn total(self) -> u64 {
        self.channels + self.direct_messages + self.group_messages
    }
}

/// The lists of a section.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) users: HashSet<UserId>,
    /// The people of the workspace itself: neither guests, nor apps, nor deactivated, nor of another one.
    members: HashSet<UserId>,
    /// What shows the workspace.
    pub(crate) evidence: WorkspaceEvidence,
    /// The workspaces that channels name, or their first messages in a list of organisation-wide channels.
    pub(crate) homes: HashMap<ChannelId, TeamId>,
    /// The public channels.
    pub(crate) channels: Vec<ChannelId>,
    /// The owner of each folder, by its name; a channel's ID is a name too.
    folders: HashMap<String, FolderOwner>,
    /// The conversations that are not stored.
    pub(crate) private: PrivateCounts,
    /// Times in the list of people and of public channels, in seconds: the newest that is not after the
    /// limit.
    pub(crate) newest_s: Option<i64>,
    latest_s: i64,
}

/// Facts in the lists, apart from names: all optional, and read leniently.
#[derive(Default, Deserialize)]
struct ListedFacts<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    context_team_id: Option<Cow<'a, str>>,
    /// When a person changed, and when a channel was created.
    #[serde(borrow, default)]
    updated: Option<&'a RawValue>,
    #[serde(borrow, default)]
    created: Option<&'a RawValue>,
    #[serde(borrow, default)]
    topic: Option<&'a RawValue>,
    #[serde(borrow, default)]
    purpose: Option<&'a RawValue>,
}

/// A topic or a purpose.
#[derive(Default, Deserialize)]
struct SetText<'a> {
    #[serde(borrow, default)]
    last_set: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Conversation<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    name: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "may_be_true")]
    is_private: bool,
    #[serde(default, deserialize_with = "may_be_true")]
    is_group: bool,
    #[serde(default, deserialize_with = "may_be_true")]
    is_im: bool,
    #[serde(default, deserialize_with = "may_be_true")]
    is_mpim: bool,
}

/// When a topic or a purpose was set.
fn last_set(text: Option<&RawValue>) -> Option<&RawValue> {
    object_or_default::<SetText<'_>>(text?).last_set
}

/// Whether a member is anything but `false`: older lists of private channels contain only `"is_group":
/// "true"`.
fn may_be_true<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(!matches!(<&'de RawValue>::deserialize(deserializer)?.get(), "false" | "null"))
}

impl Conversation<'_> {
    /// Whether an entry in a list of public channels is itself marked as private.
    fn is_private(&self) -> bool {
        self.is_private
            || self.is_group
            || self.is_im
            || self.is_mpim
            || self.id.as_deref().is_some_and(|id| id.starts_with('D'))
    }
}

impl Roster {
    /// Reads the lists of a section. Times after `latest_s` are implausible.
    pub(crate) fn read(
        source: &mut dyn ExportEntries,
        section: &ExportSection,
        latest_s: i64,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut roster = Self { latest_s, ..Self::default() };
        for entry in &section.users {
            for_each_element(source, *entry, problems, &mut |raw| roster.user(raw));
        }
        if let Some(entry) = section.channels {
            for_each_element(source, entry, problems, &mut |raw| roster.channel(raw));
        }
        let mut private = [0; 3];
        let lists = [section.groups, section.direct_messages, section.group_messages];
        for (count, entry) in private.iter_mut().zip(lists) {
            let Some(entry) = entry else { continue };
            for_each_element(source, entry, problems, &mut |raw| {
                *count += 1;
                roster.private(raw);
                Ok(())
            });
        }
        roster.private.channels += private[0];
        roster.private.direct_messages += private[1];
        roster.private.group_messages += private[2];
        // A channel that is in two lists is not certain to be public.
        let folders = &roster.folders;
        roster
            .channels
            .retain(|channel| matches!(folders.get(channel.as_str()), Some(FolderOwner::Public(_))));
        roster
    }

    fn user(&mut self, raw: &RawValue) -> Result<(), String> {
        let user = listed_user(raw).map_err(|malformed| malformed.to_string())?;
        let facts: ListedFacts<'_> = object_or_default(raw);
        if self.users.insert(user.clone()) {
            let home = facts.team_id.as_deref();
            let kind = AuthorKind::from_listed(raw.get(), user.as_str(), home.unwrap_or_default());
            self.note_times([&facts.updated]);
            if kind == AuthorKind::Member {
                self.evidence.people.add(home);
                self.members.insert(user);
            }
        }
        Ok(())
    }

    fn channel(&mut self, raw: &RawValue) -> Result<(), String> {
        let conversation: Conversation<'_> = object_or_default(raw);
        if conversation.is_private() {
            self.private.channels += 1;
            self.private(raw);
            return Ok(());
        }
        // The workspace and the clock do not affect whether it can be parsed.
        let any_team = TeamId::parse("T0").map_err(|invalid| invalid.to_string())?;
        let listed = ChannelEvent::listed(&any_team, raw, &version::zero());
        let channel = listed.map_err(|malformed| malformed.to_string())?.channel().clone();
        if !self.folders.contains_key(channel.as_str()) {
            self.channels.push(channel.clone());
            let ListedFacts { context_team_id, created, topic, purpose, .. } = object_or_default(raw);
            self.note_times([&created, &last_set(topic), &last_set(purpose)]);
            if let Some(home) = self.evidence.channels.add(context_team_id.as_deref()) {
                self.homes.insert(channel.clone(), home);
            }
        }
        self.folder(channel.as_str(), FolderOwner::Public(channel.clone()));
        if let Some(name) = conversation.name {
            self.folder(&name, FolderOwner::Public(channel));
        }
        Ok(())
    }

    /// Notes times, each a number of seconds; anything else is skipped.
    fn note_times<const N: usize>(&mut self, times: [&Option<&RawValue>; N]) {
        let times = times.into_iter().flatten().filter_map(|time| time.get().parse::<i64>().ok());
        let newest = times.filter(|seconds| (1..=self.latest_s).contains(seconds)).max();
        self.newest_s = self.newest_s.max(newest);
    }

    fn private(&mut self, raw: &RawValue) {
        let conversation: Conversation<'_> = object_or_default(raw);
        for name in [conversation.id, conversation.name].into_iter().flatten() {
            self.folder(&name, FolderOwner::Private);
        }
    }

    fn folder(&mut self, name: &str, folder: FolderOwner) {
        let known = self.folders.entry(composed(name)).or_insert_with(|| folder.clone());
        if *known != folder {
            *known = FolderOwner::Ambiguous;
        }
    }

    /// The owner of a folder; `None` if no list names it.
    pub(crate) fn folder_named(&self, name: &str) -> Option<FolderOwner> {
        // The list of private conversations may be missing.
        let is_private =
            || name.starts_with("mpdm-") || (name.starts_with('D') && ChannelId::parse(name).is_ok());
        self.folders.get(&composed(name)).cloned().or_else(|| is_private().then_some(FolderOwner::Private))
    }

    /// Whether a list names this folder.
    pub(crate) fn lists(&self, name: &str) -> bool {
        self.folders.contains_key(&composed(name))
    }

    /// Asks messages for the workspace: a sample of a workspace's days, or the first messages of each channel
    /// of an organisation. Members' messages count, or all if no people are listed, here or in `shared`.
    pub(crate) fn ask_messages(
        &mut self,
        source: &mut dyn ExportEntries,
        section: &ExportSection,
        is_organisation: bool,
        shared: &HashSet<UserId>,
    ) {
        let members = if self.users.is_empty() { shared } else { &self.members };
        let is_listed = !(self.users.is_empty() && shared.is_empty());
        let counts =
            |author: &str| !is_listed || UserId::parse(author).is_ok_and(|author| members.contains(&author));
        let mut all_days = Vec::new();
        let mut named: HashSet<TeamId> = self.homes.values().cloned().collect();
        for (folder, days) in &section.folders {
            let Some(FolderOwner::Public(channel)) = self.folder_named(folder) else { continue };
            all_days.extend(days);
            if is_organisation
                && let Some(home) = workspace::first_named(source, days, &counts)
                && (named.contains(&home) || named.len() < MAX_HOMES)
            {
                named.insert(home.clone());
                self.homes.insert(channel, home);
            }
        }
        workspace::sample_days(source, &all_days, &counts, &mut self.evidence.messages);
    }

    /// The people of the workspace itself.
    pub(crate) fn members(&self) -> &HashSet<UserId> {
        &self.members
    }
}

/// A name as Slack writes it. macOS decomposes letters and their accents in folder names: an export that was
/// unpacked and zipped again there contains such names.
fn composed(name: &str) -> String {
    name.nfc().collect()
}

/// Calls `handle` for each element of a list. An unreadable element is a problem.
pub(crate) fn for_each_element(
    source: &mut dyn ExportEntries,
    entry: EntryIndex,
    problems: &mut Vec<Problem>,
    handle: &mut dyn FnMut(&RawValue) -> Result<(), String>,
) {
    let path = source.entries()[entry].name.clone();
    let mut found = PathProblems::new(&path);
    let mut number = 0_u64;
    let broken = match source.open(entry) {
        Err(error) => Some(Break::Unreadable(error)),
        Ok(bytes) => {
            let mut elements = Elements::new(bytes);
            loop {
                number += 1;
                let handled = match elements.next() {
                    Ok(Some(ArrayElement::Json(raw))) => handle(raw),
                    Ok(Some(ArrayElement::Malformed(why))) => Err(why.to_owned()),
                    Ok(None) => break None,
                    Err(broken) => break Some(broken),
                };
                if let Err(why) = handled {
                    problems
                        .extend(found.add(ProblemKind::BrokenMessage, format!("element {number}: {why}")));
                }
            }
        }
    };
    if let Some(broken) = broken {
        problems.push(Problem::new(broken.kind(ProblemKind::BrokenZip), path, broken.to_string()));
    }
    problems.extend(found.rest());
}

impl Break {
    /// The kind of the problem: `TooLarge` if the size is the cause, `otherwise` if not.
    pub(crate) fn kind(&self, otherwise: ProblemKind) -> ProblemKind {
        match self {
            Self::Unreadable(error) if EntryTooLarge::is_cause(error) => ProblemKind::TooLarge,
            Self::Unreadable(_) | Self::Shape(_) => otherwise,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::fixture::Entries;
    use super::*;

    fn roster(lists: &[(&str, Value)]) -> (Roster, Vec<Problem>) {
        let mut source = Entries::new(lists.iter().map(|(name, list)| (*name, list.to_string())));
        let names: Vec<String> = source.entries().iter().map(|entry| entry.name.clone()).collect();
        let layout = super::super::layout::ExportLayout::from_names(names.iter().map(String::as_str));
        let mut problems = Vec::new();
        let roster = Roster::read(&mut source, &layout.sections[0], 2_000_000_000, &mut problems);
        (roster, problems)
    }

    #[test]
    fn only_members_and_channels_show_the_workspace() {
        let users = json!([
            { "id": "U1", "team_id": "T1" },
            { "id": "U2", "team_id": "T9", "is_restricted": true },
            { "id": "U3", "team_id": "T9", "is_ultra_restricted": true },
            { "id": "U4", "team_id": "T9", "is_bot": true },
            { "id": "U5", "team_id": "T9", "deleted": true },
            { "id": "U6", "team_id": "T9", "is_stranger": true },
            { "id": "USLACKBOT", "team_id": "T9" },
            { "id": "U7", "team_id": 7 },
            { "id": "U1", "team_id": "T9" },
        ]);
        let (people, _) = roster(&[("users.json", users.clone())]);
        assert_eq!(people.evidence.candidates(), "T1: 1 people");
        assert_eq!(people.members.len(), 2, "{:?}", people.members);
        let channel = |id: &str, team: Value| json!({ "id": id, "name": id, "context_team_id": team });
        let channels =
            json!([channel("C1", "T2".into()), channel("C2", "E1".into()), channel("C3", json!([]))]);
        let (all, _) = roster(&[("users.json", users), ("channels.json", channels)]);
        assert_eq!(all.evidence.workspace().map(TeamId::as_str), Some("T2"), "channels are asked first");
        assert_eq!(all.evidence.candidates(), "T1: 1 people; T2: 1 channels");
        assert_eq!(all.homes.len(), 1);
    }

    #[test]
    fn only_a_public_channel_with_a_unique_name_has_a_folder() {
        let channel = |id: &str, name: &str| json!({ "id": id, "name": name });
        let (roster, problems) = roster(&[
            (
                "channels.json",
                json!([
                    channel("C1", "general"),
                    channel("C2", "twice"),
                    channel("C3", "twice"),
                    { "id": "C4", "name": "hidden", "is_private": true },
                    { "id": "D4", "name": "odd" },
                    { "id": "G5", "name": "older", "is_group": "true" },
                    { "id": "C6", "name": "shown", "is_private": false, "is_group": null, "is_im": false },
                    channel("C5", "both"),
                    null,
                    { "id": "c#6", "name": "x" },
                    { "id": "C7" },
                ]),
            ),
            ("groups.json", json!([channel("G1", "secret"), channel("G2", "both")])),
            ("dms.json", json!([{ "id": "D1", "members": ["U1", "U2"] }])),
            ("mpims.json", json!([channel("G3", "mpdm-a--b-1")])),
        ]);
        let public = |id: &str| Some(FolderOwner::Public(ChannelId::parse(id).unwrap()));
        for (name, folder) in [
            ("general", public("C1")),
            ("C1", public("C1")),
            ("twice", Some(FolderOwner::Ambiguous)),
            ("both", Some(FolderOwner::Ambiguous)),
            ("hidden", Some(FolderOwner::Private)),
            ("older", Some(FolderOwner::Private)),
            ("shown", public("C6")),
            ("secret", Some(FolderOwner::Private)),
            ("D1", Some(FolderOwner::Private)),
            ("D99", Some(FolderOwner::Private)),
            ("mpdm-a--b-1", Some(FolderOwner::Private)),
            ("nowhere", None),
        ] {
            assert_eq!(roster.folder_named(name), folder, "{name}");
        }
        assert_eq!(roster.channels.len(), 5);
        let counts = PrivateCounts { channels: 5, direct_messages: 1, group_messages: 1 };
        assert_eq!((roster.private, roster.private.total()), (counts, 7));
        let kinds: Vec<_> = problems.iter().map(|problem| problem.kind).collect();
        assert_eq!(kinds, [ProblemKind::BrokenMessage; 3]);
    }

    #[test]
    fn a_folder_name_decomposed_by_macos_matches_its_channel() {
        let (roster, _) = roster(&[("channels.json", json!([{ "id": "C1", "name": "caf\u{e9}-\u{30ac}" }]))]);
        let public = Some(FolderOwner::Public(ChannelId::parse("C1").unwrap()));
        for name in ["caf\u{e9}-\u{30ac}", "cafe\u{301}-\u{30ab}\u{3099}"] {
            assert_eq!((roster.folder_named(name), roster.lists(name)), (public.clone(), true), "{name}");
        }
        assert_eq!(roster.folder_named("cafe-\u{30ab}"), None);
    }

    #[test]
    fn the_newest_plausible_time_of_the_lists_is_known() {
        let newest = |users: Value, channels: Value| {
            roster(&[("users.json", users), ("channels.json", channels)]).0.newest_s
        };
        let person = |updated: Value| json!([{ "id": "U1", "updated": updated }]);
        let channel = |created: Value, set: Value| json!([{ "id": "C1", "name": "a", "created": created, "topic": { "last_set": set }, "purpose": 7 }]);
        assert_eq!(newest(person(1_600.into()), channel(1_500.into(), 1_700.into())), Some(1_700));
        assert_eq!(newest(person(1_800.into()), channel(1_500.into(), 0.into())), Some(1_800));
        assert_eq!(newest(person("1800".into()), channel(json!([]), json!(-5))), None);
        assert_eq!(
            newest(person(9_999_999_999_u64.into()), channel(1_500.into(), 1e300.into())),
            Some(1_500)
        );
    }

    #[test]
    fn a_broken_list_is_read_up_to_the_break() {
        let mut source =
            Entries::new([("users.json", r#"[{"id":"U1","team_id":"T1"},{"id":"U2""#.to_owned())]);
        let layout = super::super::layout::ExportLayout::from_names(["users.json"].into_iter());
        let mut problems = Vec::new();
        let roster = Roster::read(&mut source, &layout.sections[0], 2_000_000_000, &mut problems);
        assert_eq!(roster.users.len(), 1);
        assert_eq!((problems.len(), problems[0].kind), (1, ProblemKind::BrokenZip));
    }
}
