//! Versions that are not a message's content, or not any more: which rows keep them, and what readers see of these.
//!
//! Versions with one edit time and one signature (text, blocks, files) say the same: an unfurl, or a copy that Slack
//! sent with another event. They share a row, `revision#…` / `{edit time}#{signature}`, which has the greatest of them
//! and one mark for each clock at which Slack said so. The rows are a function of the set of versions:
//!
//! * Every signature that is not the content's has a row.
//! * The content's own has one if Slack said the same at an earlier clock, or if the content is contested: there is
//!   another signature of the same edit time. A copy without a clock alone makes none: history repeats every message.
//!
//! The register of the content says whether it is contested, so that a writer that changes either has seen the other.

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

/// One mark per clock at which Slack said what a revision says.
const SEEN: &str = "seen#";

/// The attributes that say whose version it is.
const IDENTITY: [&str; 3] = ["team_id", "channel_id", "ts"];

/// What has to be written so that a version is kept, given the message as it was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VersionPlan {
    /// Revisions. They come first: what is stopped behind them is done again, and loses nothing.
    pub keep: Vec<Update>,
    /// Writes the message's row if its content is still what was read; if it is not, all is to be planned again.
    pub row: Option<Update>,
    /// What is known of the message once both are written.
    pub kept_versions: KeptVersions,
}

/// What is known of a message after one of its versions was written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeptVersions {
    erased: bool,
    /// Rows of revisions, and the version each has at least. The content is listed under the row it would have.
    kept: Vec<(ItemKey, ContentVersion)>,
}

impl KeptVersions {
    /// Whether a version would change neither the content nor a revision: a copy of one that is kept.
    pub fn covers(&self, content: &Content) -> bool {
        let is_kept = || {
            let version = Version::of(content);
            let at_least =
                |(key, kept): &(ItemKey, ContentVersion)| *key == version.row && *kept >= version.version;
            !version.is_live() && self.kept.iter().any(at_least)
        };
        self.erased || is_kept()
    }
}

/// Plans the writing of a version.
pub fn plan(content: &Content, stored: Option<&Item>) -> VersionPlan {
    if stored.is_some_and(Item::is_erased) {
        return VersionPlan {
            kept_versions: KeptVersions { erased: true, kept: Vec::new() },
            ..VersionPlan::default()
        };
    }
    let Some((register, now)) =
        stored.and_then(|item| Some((item.text(CONTENT_VERSION)?, Version::stored(item)?)))
    else {
        return VersionPlan { row: Some(content.if_absent().clone()), ..VersionPlan::default() };
    };
    let new = Version::of(content);
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

/// A version, as it came or as it is stored, and the row that would keep it.
struct Version<'a> {
    version: ContentVersion,
    edit_time: Ts,
    row: ItemKey,
    content: &'a Attributes,
    identity: &'a Attributes,
}

impl<'a> Version<'a> {
    fn of(content: &'a Content) -> Self {
        let Update { set, set_if_absent, .. } = content.if_absent();
        Self::new(content.version().clone(), set, set_if_absent)
    }

    fn stored(item: &'a Item) -> Option<Self> {
        Some(Self::new(stored_version(item)?, &item.attributes, &item.attributes))
    }

    fn new(version: ContentVersion, content: &'a Attributes, identity: &'a Attributes) -> Self {
        let id = |name| identity.get(name).and_then(Value::as_str).unwrap_or_default();
        let [team, channel, ts] = IDENTITY.map(id);
        let edit_time = version.edit_time();
        let row = ItemKey::revision(team, channel, ts, &edit_time, &signature(content));
        Self { version, edit_time, row, content, identity }
    }

    /// Whether Slack said it when it happened.
    fn is_live(&self) -> bool {
        self.version.clock() != version::zero()
    }

    /// Keeps it in its row, with the marks of those of these that are live.
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

/// The content of a stored message as the revision that would keep it.
pub fn as_revision(message: &Item) -> Option<Item> {
    let version = Version::stored(message)?;
    let update = version.keep(&[&version]);
    Some(Item { attributes: update.apply(None)?, key: update.key })
}

/// Whether an attribute of a revision is a mark.
pub(crate) fn is_mark(name: &str) -> bool {
    name.starts_with(SEEN)
}

/// What makes two versions of one edit time two: their texts, their blocks, their files.
fn signature(content: &Attributes) -> String {
    #[derive(Default, Deserialize)]
    struct VersionFacts<'a> {
        #[serde(borrow, default, deserialize_with = "envelope::text_or_none")]
        text: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow, default)]
        blocks: Option<&'a RawValue>,
    }
    let text = |name| content.get(name).and_then(Value::as_str).unwrap_or_default();
    let Ok(said) = serde_json::from_str::<VersionFacts<'_>>(text("raw_event")) else {
        return short_hash(&format!("{}{}", text("raw_event"), text("text")));
    };
    let blocks = said.blocks.map(|blocks| match envelope::value(blocks.get()) {
        Ok(mut value) => {
            // Slack numbers blocks that have no id of their own, at every update anew.
            for block in value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                block.remove("block_id");
            }
            if value.as_array().is_none_or(Vec::is_empty) { String::new() } else { value.to_string() }
        }
        Err(_) => blocks.get().to_owned(),
    });
    let files = content.get("files").map(files::signed).unwrap_or_default();
    let text = said.text.unwrap_or_default();
    short_hash(&format!("{}\n{text}{}\n{files}", text.len(), blocks.unwrap_or_default()))
}

fn short_hash(text: &str) -> String {
    let mut hash = version::hash(text);
    hash.truncate(16);
    hash
}

/// One time at which a message said something else than it does now.
#[derive(Debug, Clone, PartialEq)]
pub struct Replaced<'i> {
    /// The revision.
    pub row: &'i Item,
    /// Slack's clock when it said so; zero if only a copy is known.
    pub clock: Ts,
}

/// All versions of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Versions<'i> {
    /// What it said before, oldest first.
    pub replaced: Vec<Replaced<'i>>,
    /// Slack's clock when it began to say what it says now; zero if only a copy is known.
    pub since: Ts,
}

/// The versions of a message, given all its revisions and its own row. What says the same as what came before it, and
/// in the end as the content, is left out: an unfurl is no version.
pub fn versions<'i>(rows: &'i [Item], message: Option<&Item>) -> Versions<'i> {
    let mut said: BTreeMap<(String, String, String), (String, Replaced<'i>)> = BTreeMap::new();
    for row in rows {
        let Some(version) = stored_version(row) else { continue };
        let clock_of = |name: &String| Ts::parse(name.strip_prefix(SEEN)?).ok();
        let marks = row.attributes.keys().filter_map(clock_of);
        let mut clocks: Vec<Ts> = marks.map(|clock| version::canonical(clock.as_str())).collect();
        if clocks.is_empty() {
            clocks.push(version.clock());
        }
        for clock in clocks {
            let place = (version.edit_time().padded(), clock.padded(), version.as_str().to_owned());
            said.insert(place, (signature(&row.attributes), Replaced { row, clock }));
        }
    }
    let mut said: Vec<(String, Replaced<'i>)> = said.into_values().collect();
    said.dedup_by(|(later, _), (earlier, _)| later == earlier);
    let current =
        message.and_then(|message| Some((signature(&message.attributes), stored_version(message)?.clock())));
    let mut since = version::zero();
    if let Some((signature, clock)) = current {
        let same = said.pop_if(|(last, _)| *last == signature);
        since = same.map_or(clock, |(_, same)| same.clock);
    }
    Versions { replaced: said.into_iter().map(|(_, replaced)| replaced).collect(), since }
}

#[cfg(test)]
#[path = "revision_tests.rs"]
mod tests;
