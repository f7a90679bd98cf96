use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::*;
use crate::Change;
use crate::history::read;
use crate::message::{deletion, plan};
use crate::version::{self, ContentVersion};
use ports::archive::{Attributes, ItemKey};
use slack::ids::{ChannelId, TeamId};

fn listed(message: &Value) -> HistoryMessage {
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
    read(&team, &channel, &to_raw_value(message).unwrap()).unwrap()
}

const BEGAN_S: i64 = 1_700_000_000;

fn ts(second: i64) -> String {
    format!("{}.000000", BEGAN_S + second)
}

fn posted(second: i64) -> Value {
    json!({ "type": "message", "ts": ts(second), "user": "U1", "text": format!("posted at {second}") })
}

fn with(mut message: Value, more: &Value) -> Value {
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    message
}

/// An archive that consists only of its rows.
#[derive(Debug, Clone, Default, PartialEq)]
struct ArchivedRows(BTreeMap<ItemKey, Attributes>);

impl ArchivedRows {
    fn row(&self, key: &ItemKey) -> Option<Item> {
        let attributes = self.0.get(key)?.clone();
        Some(Item { key: key.clone(), attributes })
    }

    fn apply(&mut self, update: &ports::archive::Update) {
        let stored = self.row(&update.key);
        let after = update.apply(stored.as_ref().map(|row| &row.attributes));
        let settled = || update.left_out(stored.as_ref()?)?.apply(stored.as_ref().map(|row| &row.attributes));
        if let Some(attributes) = after.or_else(settled) {
            self.0.insert(update.key.clone(), attributes);
        }
    }

    fn store(&mut self, message: &HistoryMessage) {
        match &message.change {
            Change::Register(update) => self.apply(update),
            Change::Content(content) => {
                let row = plan(content, self.row(content.key()).as_ref()).row;
                row.iter().chain([content.if_absent()]).for_each(|update| self.apply(update));
            }
        }
    }

    fn compare(&self, message: &Value) -> ComparedMessage {
        let message = listed(message);
        compare(&message, self.row(message.change.key()).as_ref())
    }

    fn lacked(&self, listing: &CompleteListing) -> BTreeSet<i64> {
        let rows =
            self.0.iter().map(|(key, attributes)| Item { key: key.clone(), attributes: attributes.clone() });
        rows.filter_map(|row| listing.unlisted_ts(&row)).map(|ts| ts.micros() / 1_000_000 - BEGAN_S).collect()
    }
}

fn archive_of(messages: &[Value]) -> ArchivedRows {
    let mut rows = ArchivedRows::default();
    messages.iter().for_each(|message| rows.store(&listed(message)));
    rows
}

fn key(second: i64) -> ItemKey {
    listed(&posted(second)).change.key().clone()
}

fn listing(timeline: ListedTimeline, seconds: (i64, i64), listed: &[i64]) -> CompleteListing {
    let interval =
        Interval { from: (BEGAN_S + seconds.0) * 1_000_000, to: (BEGAN_S + seconds.1) * 1_000_000 };
    CompleteListing {
        timeline,
        interval,
        listed: listed.iter().map(|second| Ts::parse(&ts(*second)).unwrap()).collect(),
    }
}

const MISSING: Option<Difference> = Some(Difference::Missing);
const CHANGED: Option<Difference> = Some(Difference::Changed);

#[test]
fn a_message_without_a_row_or_with_only_a_reaction_is_missing() {
    let mut rows = ArchivedRows::default();
    assert_eq!(rows.compare(&posted(1)).difference, MISSING);
    let reaction = json!({ "reaction#tada#U1": "001700000005.000000/added", "ts": ts(1) });
    rows.0.insert(key(1), reaction.as_object().unwrap().clone());
    assert_eq!(rows.compare(&posted(1)), ComparedMessage { difference: MISSING, reactions_removed: 0 });
    rows.store(&listed(&posted(1)));
    assert_eq!(rows.compare(&posted(1)), ComparedMessage { difference: None, reactions_removed: 1 });
}

#[test]
fn a_newer_edit_a_tombstone_and_a_reaction_are_changes_and_nothing_else_is() {
    let rows = archive_of(&[posted(1)]);
    let difference = |more: Value| rows.compare(&with(posted(1), &more)).difference;
    assert_eq!(
        difference(json!({ "text": "edited", "edited": { "user": "U1", "ts": "1700000009.000000" } })),
        CHANGED
    );
    assert_eq!(difference(json!({ "subtype": "tombstone" })), CHANGED);
    let reaction = json!({ "reactions": [{ "name": "tada", "users": ["U2"], "count": 1 }] });
    assert_eq!(difference(reaction.clone()), CHANGED);
    for same in [
        json!({}),
        json!({ "reply_count": 3, "thread_ts": ts(1), "latest_reply": ts(8), "subscribed": true }),
        json!({ "user_profile": { "name": "now" }, "permalink": "https://example.com", "pinned_to": ["C1"] }),
        json!({ "attachments": [{ "text": "an unfurl" }] }),
    ] {
        assert_eq!(difference(same.clone()), None, "{same}");
    }
    let deleted = archive_of(&[with(posted(1), &json!({ "subtype": "tombstone" }))]);
    assert_eq!(deleted.compare(&with(posted(1), &json!({ "subtype": "tombstone" }))).difference, None);
    // Neither an edit that history does not show yet nor a reaction that an event removed is a change.
    let edited = json!({ "text": "edited", "edited": { "user": "U1", "ts": "1700000009.000000" } });
    assert_eq!(archive_of(&[with(posted(1), &edited)]).compare(&posted(1)).difference, None);
    let mut removed = archive_of(&[posted(1)]);
    removed
        .0
        .get_mut(&key(1))
        .unwrap()
        .insert("reaction#tada#U2".into(), "001700000007.000000/removed".into());
    assert_eq!(removed.compare(&with(posted(1), &reaction)), ComparedMessage::default());
    let mut erased = ArchivedRows::default();
    erased.0.insert(key(1), json!({ "erased": true }).as_object().unwrap().clone());
    assert_eq!(erased.compare(&posted(1)), ComparedMessage::default());
}

#[test]
fn reactions_that_slack_no_longer_has_are_counted_unless_its_list_is_truncated() {
    let reaction = |users: &[&str], count: u64| json!({ "reactions": [{ "name": "tada", "users": users, "count": count }] });
    let rows = archive_of(&[with(posted(1), &reaction(&["U1", "U2", "U3"], 3))]);
    let removed = |more: Value| rows.compare(&with(posted(1), &more)).reactions_removed;
    assert_eq!(removed(json!({})), 3);
    assert_eq!(removed(reaction(&["U2"], 1)), 2);
    assert_eq!(removed(reaction(&["U2"], 60)), 0);
}

#[test]
fn only_a_written_message_that_slack_should_have_listed_is_gone() {
    let reply = |second: i64, root: i64| with(posted(second), &json!({ "thread_ts": ts(root) }));
    let broadcast = with(reply(6, 3), &json!({ "subtype": "thread_broadcast" }));
    let joined = with(posted(4), &json!({ "subtype": "channel_join" }));
    let tombstone = with(posted(7), &json!({ "subtype": "tombstone" }));
    let mut rows = archive_of(&[
        posted(1),
        posted(2),
        posted(3),
        joined,
        reply(5, 3),
        broadcast,
        tombstone,
        posted(8),
        posted(9),
    ]);
    rows.0
        .insert(key(10), json!({ "ts": ts(10), "reaction#tada#U1": "x/added" }).as_object().unwrap().clone());
    assert_eq!(rows.lacked(&listing(ListedTimeline::Channel, (2, 9), &[2, 8])), BTreeSet::from([3]));
    assert_eq!(rows.lacked(&listing(ListedTimeline::Channel, (0, 20), &[1, 2, 3, 8, 9])), BTreeSet::new());
    let thread = |listed: &[i64]| {
        let root = Ts::parse(&ts(3)).unwrap();
        rows.lacked(&listing(ListedTimeline::Thread(root), (4, 20), listed))
    };
    assert_eq!(thread(&[]), BTreeSet::from([5, 6]));
    assert_eq!(thread(&[6]), BTreeSet::from([5]));
    let roots: BTreeSet<Option<Ts>> = rows
        .0
        .iter()
        .map(|(key, attributes)| {
            archived_reply_root(&Item { key: key.clone(), attributes: attributes.clone() })
        })
        .collect();
    assert_eq!(roots, BTreeSet::from([None, Ts::parse(&ts(3)).ok()]));
}

/// The versions of a message in Slack and in the archive.
#[derive(Debug, Clone, Copy)]
struct MessageFate {
    second: i64,
    at_slack: Option<(u8, bool, bool)>,
    archived: Option<(u8, bool, bool)>,
    is_deleted_here: bool,
    is_live: bool,
}

fn fates() -> impl Strategy<Value = Vec<MessageFate>> {
    let version = || prop::option::weighted(0.8, (0_u8..4, any::<bool>(), prop::bool::weighted(0.1)));
    let fate = (version(), version(), prop::bool::weighted(0.15), any::<bool>());
    prop::collection::vec(fate, 0..25).prop_map(|fates| {
        let fate = |(index, (at_slack, archived, is_deleted_here, is_live))| MessageFate {
            second: 100 + index as i64,
            at_slack,
            archived,
            is_deleted_here,
            is_live,
        };
        fates.into_iter().enumerate().map(fate).collect()
    })
}

/// A message with this number of edits, with a reaction or as a tombstone.
fn version_of(second: i64, (edits, has_reaction, is_tombstone): (u8, bool, bool)) -> Value {
    let mut message = posted(second);
    if edits > 0 {
        let edited =
            json!({ "text": format!("edit {edits}"), "edited": { "ts": ts(1_000 + i64::from(edits)) } });
        message = with(message, &edited);
    }
    if has_reaction {
        message = with(message, &json!({ "reactions": [{ "name": "tada", "users": ["U2"], "count": 1 }] }));
    }
    if is_tombstone { with(message, &json!({ "subtype": "tombstone" })) } else { message }
}

/// Changes the version as if it had come with an event.
fn make_live(row: &mut Attributes) {
    let version = row.get("content_version").and_then(Value::as_str).map(ContentVersion::stored);
    if let Some(version) = version {
        let live = version.as_str().replace(&version::zero().padded(), "001700005000.000000");
        row.insert("content_version".into(), live.into());
    }
}

proptest! {
    #[test]
    fn storing_what_slack_lists_and_marking_the_rest_as_deleted_leaves_no_difference(
        fates in fates(),
        (first, last) in (95_i64..130, 95_i64..130),
    ) {
        let mut rows = ArchivedRows::default();
        for fate in &fates {
            if let Some(archived) = fate.archived {
                rows.store(&listed(&version_of(fate.second, archived)));
                if let Some(row) = rows.0.get_mut(&key(fate.second)).filter(|_| fate.is_live) {
                    make_live(row);
                }
            }
            if fate.is_deleted_here {
                rows.0.entry(key(fate.second)).or_default().insert("deleted".into(), true.into());
            }
        }
        let shown: Vec<Value> =
            fates.iter().filter_map(|fate| Some(version_of(fate.second, fate.at_slack?))).collect();
        for fate in &fates {
            let Some(at_slack) = fate.at_slack else { continue };
            let is_known = fate.archived.is_some() || fate.is_deleted_here;
            let found = rows.compare(&version_of(fate.second, at_slack)).difference;
            prop_assert_eq!(found == MISSING, !is_known, "{:?}", fate);
            if fate.archived == Some(at_slack) {
                prop_assert!(found.is_none(), "{:?}", fate);
            }
            let volatile = json!({ "reply_count": 7, "latest_reply": ts(900), "user_profile": {}, "is_locked": true });
            prop_assert_eq!(rows.compare(&with(version_of(fate.second, at_slack), &volatile)).difference, found);
        }
        let seconds: Vec<i64> = fates.iter().filter(|fate| fate.at_slack.is_some()).map(|fate| fate.second).collect();
        let listing = listing(ListedTimeline::Channel, (first, last), &seconds);
        let lacked = rows.lacked(&listing);
        for fate in &fates {
            let is_archived = fate.archived.is_some_and(|(.., is_tombstone)| !is_tombstone) && !fate.is_deleted_here;
            let should_be = (first..last).contains(&fate.second) && fate.at_slack.is_none();
            prop_assert_eq!(lacked.contains(&fate.second), is_archived && should_be, "{:?}", fate);
        }
        // Store what Slack lists, and mark the rest as deleted.
        shown.iter().for_each(|message| rows.store(&listed(message)));
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        for second in lacked {
            rows.apply(&deletion(&team, &channel, &Ts::parse(&ts(second)).unwrap()));
        }
        for message in &shown {
            prop_assert_eq!(rows.compare(message).difference, None, "{}", message);
        }
        prop_assert_eq!(rows.lacked(&listing), BTreeSet::new());
        let before = rows.clone();
        shown.iter().for_each(|message| rows.store(&listed(message)));
        prop_assert_eq!(rows, before);
    }
}
