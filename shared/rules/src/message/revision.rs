//! Versions that are not, or no longer, a message's content: which rows store them, and what readers see of
//! these rows.
//!
//! Versions with the same edit time and signature (text, blocks, files) are equivalent: an unfurl, or a copy
//! that Slack sent with another event. They share a row, `revision#…` / `{edit time}#{signature}`, which has
//! the greatest of them and one mark for each clock at which Slack sent it. The rows are a function of the
//! set of versions:
//!
//! * Every signature except the content's has a row.
//! * The content's signature has a row if Slack sent it at an earlier clock too, or if the content is
//!   contested: there is another signature of the same edit time. A copy without a clock adds no row: history
//!   repeats every message.
//!
//! The content register states whether it is contested, so that a writer that changes either has seen the
//! other.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::content::{CONTENT, CONTENT_VERSION, Content, lacking, stored_version};
use super::files;
use crate::version::{self, CONTESTED, ContentVersion};
use ports::archive::{Attributes, Guard, Item, ItemKey, Update};
use slack::envelope;
use slack::ids::Ts;

/// The prefix of a revision's marks: one mark for each clock at which Slack sent it.
const SEEN: &str = "seen#";

/// The attributes that identify the message of a version.
const IDENTITY: [&str; 3] = ["team_id", "channel_id", "ts"];

/// The writes that store a version, given the message as it was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VersionPlan {
    /// Revisions. They are written first: a writer that stops after them repeats the work and loses nothing.
    pub keep: Vec<Update>,
    /// The update of the message's row if its content is unchanged since it was read; otherwise the caller
    /// plans again.
    pub row: Option<Update>,
    /// The state of the message after both writes.
    pub kept_versions: KeptVersions,
}

/// The versions of a message that are known to be stored, after one of them was written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeptVersions {
    erased: bool,
    /// Rows of revisions, with a lower bound of the version in each. The content is listed under the row that
    /// would store it.
    kept: Vec<(ItemKey, ContentVersion)>,
}

impl KeptVersions {
    /// Whether a version would change neither the content nor a revision: it is a copy of a stored one.
    pub fn covers(&self, content: &Content) -> bool {
        let is_kept = || {
            let version = Version::from_content(content);
            let at_least =
                |(key, kept): &(ItemKey, ContentVersion)| *key == version.row && *kept >= version.version;
            !version.is_live() && self.kept.iter().any(at_least)
        };
        self.erased || is_kept()
    }
}

/// Plans the writes that store a version.
pub fn plan(content: &Content, stored: Option<&Item>) -> VersionPlan {
    if stored.is_some_and(Item::is_erased) {
        return VersionPlan {
            kept_versions: KeptVersions { erased: true, kept: Vec::new() },
            ..VersionPlan::default()
        };
    }
    let Some((register, now)) =
        stored.and_then(|item| Some((item.text(CONTENT_VERSION)?, Version::from_row(item)?)))
    else {
        return VersionPlan { row: Some(content.if_absent().clone()), ..VersionPlan::default() };
    };
    let new = Version::from_content(content);
    let contested = register.ends_with(CONTESTED);
    let (same, same_time) = (new.row == now.row, new.edit_time == now.edit_time);
    let mut plan = VersionPlan::default();
    let mut keep = |version: &Version<'_>, seen: &[&Version<'_>]| {
        plan.keep.push(version.keep(seen));
        plan.kept_versions.kept.push((version.row.clone(), version.version.clone()));
    };
    let mut greatest = &now;
    match new.version.cmp(&now.version) {
        Ordering::Equal => {}
        Ordering::Greater => {
            if !same {
                keep(&now, &[&now]);
            }
            if same && (now.is_live() || contested) {
                keep(&new, &[&now, &new]);
            } else if !same && same_time {
                keep(&new, &[&new]);
            }
            plan.row = Some(content.if_unchanged(register, same_time && (contested || !same)));
            greatest = &new;
        }
        Ordering::Less if same => {
            if new.is_live() {
                keep(&now, &[&new, &now]);
            }
        }
        Ordering::Less => {
            keep(&new, &[&new]);
            if same_time && !contested {
                keep(&now, &[&now]);
                plan.row = Some(content.contest(register));
            }
        }
    }
    plan.kept_versions.kept.push((greatest.row.clone(), greatest.version.clone()));
    plan
}

/// A version, new or stored, and the row that would store it.
struct Version<'a> {
    version: ContentVersion,
    edit_time: Ts,
    row: ItemKey,
    content: &'a Attributes,
    identity: &'a Attributes,
}

impl<'a> Version<'a> {
    fn from_content(content: &'a Content) -> Self {
        let Update { set, set_if_absent, .. } = content.if_absent();
        Self::new(content.version().clone(), set, set_if_absent)
    }

    fn from_row(item: &'a Item) -> Option<Self> {
        Some(Self::new(stored_version(item)?, &item.attributes, &item.attributes))
    }

    fn new(version: ContentVersion, content: &'a Attributes, identity: &'a Attributes) -> Self {
        let id = |name| identity.get(name).and_then(Value::as_str).unwrap_or_default();
        let [team, channel, ts] = IDENTITY.map(id);
        let edit_time = version.edit_time();
        let row = ItemKey::revision(team, channel, ts, &edit_time, &signature(content));
        Self { version, edit_time, row, content, identity }
    }

    /// Whether it came with its own event, not as a copy.
    fn is_live(&self) -> bool {
        self.version.clock() != version::zero()
    }

    /// The update that stores it in its row, with marks for the live versions in `seen`.
    fn keep(&self, seen: &[&Version<'_>]) -> Update {
        let pick = |from: &Attributes, names: &[&str]| -> Attributes {
            let present = |name: &&str| Some(((*name).to_owned(), from.get(*name)?.clone()));
            names.iter().filter_map(present).collect()
        };
        let set = pick(self.content, &CONTENT);
        let mut set_if_absent = pick(self.identity, &IDENTITY);
        set_if_absent.insert("type".into(), "revision".into());
        let live = seen.iter().filter(|version| version.is_live());
        set_if_absent
            .extend(live.map(|version| (format!("{SEEN}{}", version.version.clock().padded()), true.into())));
        let guard =
            Guard::Greater { register: CONTENT_VERSION.into(), version: self.version.as_str().into() };
        Update { guard, remove: lacking(&set), set, set_if_absent, ..Update::new(self.row.clone()) }
    }
}

/// The content of a stored message as the revision that would store it.
pub fn as_revision(message: &Item) -> Option<Item> {
    let version = Version::from_row(message)?;
    let update = version.keep(&[&version]);
    Some(Item { attributes: update.apply(None)?, key: update.key })
}

/// Whether an attribute of a revision is a mark.
pub(crate) fn is_mark(name: &str) -> bool {
    name.starts_with(SEEN)
}

/// A hash that distinguishes versions with the same edit time: of the text, the blocks and the files.
fn signature(content: &Attributes) -> String {
    #[derive(Default, Deserialize)]
    struct VersionFacts<'a> {
        #[serde(borrow, default, deserialize_with = "envelope::text_or_json")]
        text: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow, default)]
        blocks: Option<&'a RawValue>,
    }
    let text = |name| content.get(name).and_then(Value::as_str).unwrap_or_default();
    let Ok(facts) = serde_json::from_str::<VersionFacts<'_>>(text("raw_event")) else {
        return short_hash(&format!("{}{}", text("raw_event"), text("text")));
    };
    let blocks = facts.blocks.map(|blocks| match envelope::parse_value(blocks.get()) {
        Ok(mut value) => {
            // Slack gives blocks without an id a new one with every update.
            for block in value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                block.remove("block_id");
            }
            if value.as_array().is_none_or(Vec::is_empty) { String::new() } else { value.to_string() }
        }
        Err(_) => blocks.get().to_owned(),
    });
    let files = content.get("files").map(files::signed).unwrap_or_default();
    let text = facts.text.unwrap_or_default();
    short_hash(&format!("{}\n{text}{}\n{files}", text.len(), blocks.unwrap_or_default()))
}

fn short_hash(text: &str) -> String {
    let mut hash = version::hash(text);
    hash.truncate(16);
    hash
}

/// An earlier version of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub struct Replaced<'i> {
    /// The revision.
    pub row: &'i Item,
    /// Slack's clock when it sent this version; zero if only a copy is known.
    pub clock: Ts,
}

/// All versions of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Versions<'i> {
    /// The earlier versions, oldest first.
    pub replaced: Vec<Replaced<'i>>,
    /// Slack's clock when the current content first appeared; zero if only a copy is known.
    pub since: Ts,
}

/// The versions of a message, given all its revisions and its own row. A version that equals the one before
/// it is left out, and so is a last one that equals the content: an unfurl is not a version.
pub fn versions<'i>(rows: &'i [Item], message: Option<&Item>) -> Versions<'i> {
    let mut sorted: BTreeMap<(String, String, String), (String, Replaced<'i>)> = BTreeMap::new();
    for row in rows {
        let Some(version) = stored_version(row) else { continue };
        let clock_of = |name: &String| Ts::unpadded(name.strip_prefix(SEEN)?);
        let mut clocks: Vec<Ts> = row.attributes.keys().filter_map(clock_of).collect();
        if clocks.is_empty() {
            clocks.push(version.clock());
        }
        for clock in clocks {
            let order = (version.edit_time().padded(), clock.padded(), version.as_str().to_owned());
            sorted.insert(order, (signature(&row.attributes), Replaced { row, clock }));
        }
    }
    let mut replaced: Vec<(String, Replaced<'i>)> = sorted.into_values().collect();
    replaced.dedup_by(|(later, _), (earlier, _)| later == earlier);
    let current =
        message.and_then(|message| Some((signature(&message.attributes), stored_version(message)?.clock())));
    let mut since = version::zero();
    if let Some((signature, clock)) = current {
        let same = replaced.pop_if(|(last, _)| *last == signature);
        since = same.map_or(clock, |(_, same)| same.clock);
    }
    Versions { replaced: replaced.into_iter().map(|(_, replaced)| replaced).collect(), since }
}

#[cfg(test)]
#[path = "revision_tests.rs"]
mod tests;
