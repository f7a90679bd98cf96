//! Merges the rows of one message. A channel whose id changed, or that several workspaces share, has a row
//! for the message under each id and in each workspace. Every register is a maximum, so the merged row is the
//! row that a single channel with all the events would have.

use std::cmp::Reverse;

use super::file::row as file_row;
use super::message::{self, CONTENT, CONTENT_VERSION};
use super::{pin, reaction};
use ports::archive::Item;

/// The result of merging several rows of one message.
#[derive(Debug, Clone, PartialEq)]
pub struct MergedMessage {
    /// The message. It has the keys and the identity of the row whose content won.
    pub row: Item,
    /// Contents that lost to it, as revisions.
    pub replaced: Vec<Item>,
}

/// Merges the rows of one message; `None` without rows. The order of the rows does not matter. If one of them
/// is erased, so is the message.
pub fn messages(mut rows: Vec<Item>) -> Option<MergedMessage> {
    // The key decides between equal contents, so that the winner does not depend on the order.
    rows.sort_by_cached_key(|row| Reverse((row.is_erased(), message::stored_version(row), row.key.clone())));
    let mut rows = rows.into_iter();
    let mut winner = rows.next()?;
    if winner.is_erased() {
        return Some(MergedMessage { row: winner, replaced: Vec::new() });
    }
    let version = message::stored_version(&winner);
    let mut replaced = Vec::new();
    for row in rows {
        if message::stored_version(&row) != version {
            replaced.extend(message::as_revision(&row));
        }
        for (name, value) in row.attributes {
            let is_content = name == CONTENT_VERSION || CONTENT.contains(&name.as_str());
            let is_register =
                reaction::is_register(&name) || pin::is_register(&name) || file_row::is_register(&name);
            match winner.attributes.get(&name) {
                _ if is_content => {}
                Some(known) if !is_register || known.as_str() >= value.as_str() => {}
                Some(_) | None => drop(winner.attributes.insert(name, value)),
            }
        }
    }
    Some(MergedMessage { row: winner, replaced })
}

/// Merges revisions: those with the same timestamp key become one row with the marks of all, whichever
/// partition they are in.
pub fn revisions(mut rows: Vec<Item>) -> Vec<Item> {
    rows.sort_by_cached_key(|row| {
        (row.key.timestamp.clone(), Reverse((message::stored_version(row), row.key.item_id.clone())))
    });
    let mut merged: Vec<Item> = Vec::new();
    for row in rows {
        match merged.last_mut().filter(|last| last.key.timestamp == row.key.timestamp) {
            None => merged.push(row),
            Some(last) => {
                let others = row.attributes.into_iter().filter(|(name, _)| !CONTENT.contains(&name.as_str()));
                for (name, value) in others {
                    last.attributes.entry(name).or_insert(value);
                }
            }
        }
    }
    merged
}

/// Merges the rows of one file; `None` without rows. The most final state wins.
pub fn files(mut rows: Vec<Item>) -> Option<Item> {
    let state = |row: &Item| {
        let register = row.attributes.iter().find(|(name, _)| file_row::is_register(name));
        register.and_then(|(_, version)| version.as_str()).map(str::to_owned)
    };
    rows.sort_by_cached_key(|row| Reverse((row.is_erased(), state(row), row.key.clone())));
    let mut rows = rows.into_iter();
    let mut winner = rows.next()?;
    if !winner.is_erased() {
        for (name, value) in rows.flat_map(|row| row.attributes) {
            winner.attributes.entry(name).or_insert(value);
        }
    }
    Some(winner)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::project;
    use crate::version::ContentVersion;
    use ports::archive::ItemKey;
    use slack::ids::Ts;

    fn row(channel: &str, attributes: Value) -> Item {
        let Value::Object(mut attributes) = attributes else { panic!("no object") };
        for (name, value) in
            [("type", "message"), ("team_id", "T1"), ("channel_id", channel), ("ts", "1.000000")]
        {
            attributes.insert(name.into(), value.into());
        }
        Item { key: ItemKey::new(format!("message#T1#{channel}"), "1.000000"), attributes }
    }

    fn content(channel: &str, edited: &str, text: &str, more: Value) -> Item {
        let ts = |text: &str| Ts::parse(text).unwrap();
        let raw = json!({ "text": text }).to_string();
        let version = ContentVersion::new(&ts(edited), &ts(edited), &raw);
        let mut row = row(channel, more);
        let texts = [("text", text), ("raw_event", &raw), (CONTENT_VERSION, version.as_str())];
        row.attributes.extend(texts.map(|(name, value)| (name.to_owned(), value.into())));
        row
    }

    /// Merges these rows; asserts that the order does not matter.
    fn merged(rows: &[Item]) -> MergedMessage {
        let merged = messages(rows.to_vec()).unwrap();
        let mut other = rows.to_vec();
        for _ in rows {
            other.rotate_left(1);
            assert_eq!(messages(other.clone()).unwrap(), merged);
            other.reverse();
            assert_eq!(messages(other.clone()).unwrap(), merged);
            other.reverse();
        }
        merged
    }

    #[test]
    fn each_register_is_the_greatest_and_a_content_that_lost_is_a_revision() {
        let before = content(
            "C1",
            "1.000000",
            "before",
            json!({ "user": "U1", "thread_ts": "1.000000", "parent": "thread#T1#1.000000",
                "reaction#eyes#U2": "000000000002.000000/added", "reaction#tada#U2": "000000000009.000000/added",
                "pin": "000000000002.000000/added/000000000002.000000/U2", "file#F1": "0/pending" }),
        );
        let after = content(
            "C2",
            "3.000000",
            "after",
            json!({ "reaction#eyes#U2": "000000000004.000000/removed", "reaction#tada#U2": "000000000008.000000/removed",
                "pin": "000000000003.000000/added/000000000003.000000/U3", "file#F1": "9/stored/slack/F1" }),
        );
        let gone = row("C3", json!({ "deleted": true }));
        let MergedMessage { row, replaced } = merged(&[before, after.clone(), gone]);
        assert_eq!(
            (&row.key, row.text("text"), row.text("channel_id")),
            (&after.key, Some("after"), Some("C2"))
        );
        assert_eq!(
            row.text("user"),
            None,
            "a field that the content lacks is not taken from another content"
        );
        assert_eq!(row.text("thread_ts"), Some("1.000000"));
        assert_eq!(row.text("file#F1"), Some("9/stored/slack/F1"));
        assert!(row.has_flag("deleted"));
        let seen = project::message(&row).unwrap().into_json();
        assert_eq!(seen["pinned"], json!({ "user": "U3", "ts": "3.000000" }));
        assert_eq!(seen["reactions"], json!([{ "name": "tada", "count": 1, "users": ["U2"] }]));
        let texts: Vec<_> = replaced.iter().map(|row| (row.text("type"), row.text("text"))).collect();
        assert_eq!(texts, [(Some("revision"), Some("before"))]);
    }

    #[test]
    fn equal_rows_replace_nothing_and_an_erased_message_stays_erased() {
        let both = ["C1", "C2"].map(|channel| content(channel, "1.000000", "same", json!({})));
        let MergedMessage { row: winner, replaced } = merged(&both);
        assert_eq!((winner.text("channel_id"), replaced.len()), (Some("C2"), 0));
        let erased = row("C3", json!({ "erased": true }));
        let [one, other] = both;
        let MergedMessage { row: winner, replaced } = merged(&[one, erased, other]);
        assert!(winner.is_erased() && replaced.is_empty() && project::message(&winner).is_none());
        assert_eq!(messages(Vec::new()), None);
    }

    #[test]
    fn a_merged_file_has_the_most_final_state_and_all_its_shares() {
        let row = |team: &str, attributes: Value| {
            let Value::Object(attributes) = attributes else { panic!("no object") };
            Item { key: ItemKey::new(format!("file#{team}"), "F1"), attributes }
        };
        let stored = row("T2", json!({ "file#F1": "9/stored/slack/F1", "shared#C1#1.000000": true }));
        let gone = row("T1", json!({ "file#F1": "6/gone", "deleted": true, "shared#C2#1.000000": true }));
        for rows in [vec![stored.clone(), gone.clone()], vec![gone, stored]] {
            let file = files(rows).unwrap();
            assert_eq!((file.text("file#F1"), file.has_flag("deleted")), (Some("9/stored/slack/F1"), true));
            assert!(file.has_flag("shared#C1#1.000000") && file.has_flag("shared#C2#1.000000"));
        }
    }
}
