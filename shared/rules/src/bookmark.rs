//! Bookmarks: the links above a channel's messages.
//!
//! No event reports them, so each channel's list is read once a day. A bookmark's register has Slack's clock
//! before the list was requested. A bookmark that a later list leaves out was removed: it is marked, and keeps
//! what it said.
//!
//! <https://docs.slack.dev/reference/methods/bookmarks.list>

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::MAX_NAME_BYTES;
use super::version::{VERSION, clock_version};
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use slack::ids::{ChannelId, TeamId, Ts};

/// Set on a bookmark that Slack no longer lists.
const REMOVED: &str = "removed";

/// The attributes of a bookmark's register.
const STATE: [&str; 5] = ["title", "link", "emoji", "date_updated", REMOVED];

/// Maximum number of bookmarks of a channel; Slack accepts 100. If a list has more, the others are skipped.
pub const MAX_BOOKMARKS: usize = 500;

/// The longest address; browsers accept little more. A longer one is left out, because a cut one leads
/// elsewhere.
const MAX_LINK_BYTES: usize = 4_096;

/// The longest id. Slack's have 12 letters and digits.
const MAX_ID_BYTES: usize = 30;

/// The result of comparing Slack's list with the rows of a channel.
#[derive(Debug, Default, PartialEq)]
pub struct BookmarkChanges {
    /// One update for each bookmark that is new, changed or removed.
    pub updates: Vec<Update>,
    /// The number of entries that cannot be read.
    pub skipped: usize,
}

/// Compares the list of a channel's bookmarks, requested at a clock of Slack, with their rows. If an entry of
/// the list cannot be read, no bookmark counts as removed.
pub fn compare(
    team: &TeamId,
    channel: &ChannelId,
    listed: &[Value],
    rows: &[Item],
    asked: &Ts,
) -> BookmarkChanges {
    let entries: BTreeMap<&str, Attributes> =
        listed.iter().take(MAX_BOOKMARKS).filter_map(|entry| Some((id(entry)?, state(entry)))).collect();
    let skipped = listed.iter().skip(MAX_BOOKMARKS).count()
        + listed.iter().take(MAX_BOOKMARKS).filter(|entry| id(entry).is_none()).count();
    let known: BTreeMap<&str, &Item> = rows.iter().map(|row| (row.key.timestamp.as_str(), row)).collect();
    let is_stored = |id: &str, state: &Attributes| {
        known
            .get(id)
            .is_some_and(|row| STATE.iter().all(|name| row.attributes.get(*name) == state.get(*name)))
    };
    let written = entries.iter().filter(|(id, state)| !is_stored(id, state));
    let mut updates: Vec<Update> = written
        .map(|(id, state)| Update {
            guard: greater(asked, &Value::Object(state.clone()).to_string()),
            remove: STATE.into_iter().filter(|name| !state.contains_key(*name)).collect(),
            set: state.clone(),
            set_if_absent: text_attributes([
                ("type", "bookmark"),
                ("team_id", team.as_str()),
                ("channel_id", channel.as_str()),
                ("bookmark_id", id),
            ]),
            ..Update::new(ItemKey::bookmark(team, channel, id))
        })
        .collect();
    if skipped == 0 {
        let gone = rows.iter().filter(|row| {
            !entries.contains_key(row.key.timestamp.as_str()) && !row.is_erased() && !row.has_flag(REMOVED)
        });
        updates.extend(gone.map(|row| Update {
            guard: greater(asked, REMOVED),
            set: [(REMOVED.to_owned(), true.into())].into_iter().collect(),
            ..Update::new(row.key.clone())
        }));
    }
    BookmarkChanges { updates, skipped }
}

/// A bookmark as readers see it: its id, title and address, and whether it was removed. `None` for an erased
/// row.
pub fn project(row: &Item) -> Option<Value> {
    row.text(VERSION)?;
    let mut visible = Map::new();
    visible.insert("id".into(), row.key.timestamp.as_str().into());
    for name in ["title", "link", REMOVED] {
        visible.extend(row.attributes.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    Some(visible.into())
}

fn greater(asked: &Ts, content: &str) -> Guard {
    Guard::Greater { register: VERSION.into(), version: clock_version(asked, content) }
}

fn id(entry: &Value) -> Option<&str> {
    let id = entry["id"].as_str()?;
    let is_id = (2..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_id.then_some(id)
}

fn state(entry: &Value) -> Attributes {
    let mut state = Attributes::new();
    for name in ["title", "emoji"] {
        if let Some(text) = entry[name].as_str().filter(|text| !text.is_empty()) {
            state.insert(name.to_owned(), text[..text.floor_char_boundary(MAX_NAME_BYTES)].into());
        }
    }
    if let Some(link) = entry["link"].as_str().filter(|link| !link.is_empty() && link.len() <= MAX_LINK_BYTES)
    {
        state.insert("link".into(), link.into());
    }
    if let Some(updated_s) = entry["date_updated"].as_u64().filter(|updated_s| *updated_s > 0) {
        state.insert("date_updated".into(), updated_s.into());
    }
    state
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{channel, team, ts};

    /// The rows after these lists, each requested at its second. Each list is compared with the rows before it.
    fn rows(lists: &[(i64, &[Value])]) -> BTreeMap<String, Attributes> {
        let mut rows: BTreeMap<String, Attributes> = BTreeMap::new();
        for (second, listed) in lists {
            let items: Vec<Item> = rows
                .iter()
                .map(|(id, attributes)| Item {
                    key: ItemKey::bookmark(&team(), &channel("C1"), id),
                    attributes: attributes.clone(),
                })
                .collect();
            for update in compare(&team(), &channel("C1"), listed, &items, &ts(*second)).updates {
                if let Some(applied) = update.apply(rows.get(&update.key.timestamp)) {
                    rows.insert(update.key.timestamp, applied);
                }
            }
        }
        rows
    }

    fn bookmark(id: &str, title: &str) -> Value {
        json!({ "id": id, "channel_id": "C1", "title": title, "link": "https://example.com/", "emoji": ":book:",
            "date_created": 5, "date_updated": 0, "type": "link" })
    }

    fn read(rows: &BTreeMap<String, Attributes>) -> Vec<Value> {
        let project = |(id, attributes): (&String, &Attributes)| {
            let key = ItemKey::bookmark(&team(), &channel("C1"), id);
            project(&Item { key, attributes: attributes.clone() }).unwrap()
        };
        rows.iter().map(project).collect()
    }

    #[test]
    fn a_bookmark_that_is_left_out_is_marked_and_keeps_what_it_said() {
        let (wiki, plan) = (bookmark("Bk1", "Wiki"), bookmark("Bk2", "Plan"));
        let both = [wiki.clone(), plan.clone()];
        let stored = rows(&[(10, &both), (20, std::slice::from_ref(&wiki))]);
        assert_eq!(
            read(&stored),
            [
                json!({ "id": "Bk1", "title": "Wiki", "link": "https://example.com/" }),
                json!({ "id": "Bk2", "title": "Plan", "link": "https://example.com/", "removed": true }),
            ]
        );
        // A late response does not bring it back; a later list does.
        assert_eq!(rows(&[(10, &both), (20, std::slice::from_ref(&wiki)), (15, &both)]), stored);
        assert_eq!(read(&rows(&[(10, &both), (20, &[]), (30, &both)])).len(), 2);
        assert!(
            read(&rows(&[(10, &both), (20, &[]), (30, &both)]))
                .iter()
                .all(|row| row.get("removed").is_none())
        );
        // A late response that does not know a bookmark yet does not remove it.
        assert_eq!(rows(&[(20, &both), (10, std::slice::from_ref(&wiki))]), rows(&[(20, &both)]));
    }

    #[test]
    fn a_list_that_repeats_itself_changes_nothing() {
        let both = [bookmark("Bk1", "Wiki"), bookmark("Bk2", "Plan")];
        assert_eq!(rows(&[(10, &both), (20, &both), (30, &both)]), rows(&[(10, &both)]));
    }

    #[test]
    fn hostile_entries_are_counted_and_remove_nothing() {
        let stored = [(10, &[bookmark("Bk1", "Wiki")][..])];
        for odd in [
            json!(null),
            json!([]),
            json!(7),
            json!({}),
            json!({ "id": "a#b" }),
            json!({ "id": "x".repeat(31) }),
        ] {
            let odd = [odd];
            assert_eq!(rows(&[stored[0], (20, &odd)]), rows(&stored), "{odd:?}");
            assert_eq!(compare(&team(), &channel("C1"), &odd, &[], &ts(1)).skipped, 1);
        }
        let odd =
            json!({ "id": "Bk1", "title": 7, "link": "x".repeat(5_000), "emoji": null, "date_updated": "?" });
        assert_eq!(read(&rows(&[(10, &[odd])])), [json!({ "id": "Bk1" })]);
        let many: Vec<Value> = (10..10_010).map(|n| bookmark(&format!("Bk{n}"), "x")).collect();
        let changes = compare(&team(), &channel("C1"), &many, &[], &ts(1));
        assert_eq!((changes.updates.len(), changes.skipped), (MAX_BOOKMARKS, 10_000 - MAX_BOOKMARKS));
    }
}
