//! The members of a channel, as Slack listed them: `membership#{team}#{channel}` / `head`.
//!
//! The text of a list is `{"channel_id": …, "members": […], "team_id": …}`, with sorted ids. A short list is the
//! `value` of the head. A longer one is in chunks, the rows `{stamp}#{number}`, and the head names them in its
//! attributes `0`, `1`, …; the stamp is the time of the list. The chunks are written first, and the head last, so
//! a reader finds a whole list. The register `clock` of the head is Slack's time before the list was requested: of
//! two lists the later one stays.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

/// The maximum size of a value: DynamoDB's limit for an item is 400 KB with all attributes.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html>
pub const CHUNK_BYTES: usize = 300_000;

/// The attributes of the head that name chunks: enough for 700,000 members, more than Slack's largest workspaces
/// have.
const CHUNK_NAMES: [&str; 32] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18",
    "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31",
];

const CLOCK: &str = "clock";
const VALUE: &str = "value";
const HEAD: &str = "head";

/// The members of a channel at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelMembers {
    /// When they were listed, by Slack's clock.
    pub as_of: Ts,
    pub members: BTreeSet<UserId>,
}

#[derive(Serialize)]
struct MemberText<'a> {
    channel_id: &'a ChannelId,
    members: &'a BTreeSet<UserId>,
    team_id: &'a TeamId,
}

#[derive(Deserialize)]
struct StoredMembers {
    members: Vec<Value>,
}

impl ChannelMembers {
    /// Reads a list from its head and the text of its chunks, in the order of [`chunk_keys`]. `None` if a chunk
    /// is missing or the text cannot be read.
    pub fn read(head: &Item, chunks: &[Option<Item>]) -> Option<Self> {
        let as_of = listed_at(head)?;
        let text = match head.text(VALUE) {
            Some(text) => text.to_owned(),
            None if chunks.is_empty() => return None,
            None => chunks.iter().map(|chunk| chunk.as_ref()?.text(VALUE)).collect::<Option<String>>()?,
        };
        let StoredMembers { members } = serde_json::from_str(&text).ok()?;
        let members = members.iter().filter_map(|id| UserId::parse(id.as_str()?).ok()).collect();
        Some(Self { as_of, members })
    }

    /// The rows of the list, in the order in which they must be written: the head is the last one. `None` if it
    /// is longer than any list of Slack's can be.
    pub fn rows(&self, team: &TeamId, channel: &ChannelId) -> Option<Vec<Update>> {
        self.rows_of(team, channel, CHUNK_BYTES)
    }

    fn rows_of(&self, team: &TeamId, channel: &ChannelId, chunk_bytes: usize) -> Option<Vec<Update>> {
        let text = MemberText { channel_id: channel, members: &self.members, team_id: team };
        let text = serde_json::to_string(&text).ok()?;
        let identity = || {
            text_attributes([
                ("type", "membership"),
                ("team_id", team.as_str()),
                ("channel_id", channel.as_str()),
            ])
        };
        let mut rows = Vec::new();
        let mut set = Attributes::new();
        if text.len() <= chunk_bytes {
            set.insert(VALUE.into(), text.into());
        } else {
            // Ids are ASCII, so a chunk ends at a character.
            for (number, chunk) in text.as_bytes().chunks(chunk_bytes).enumerate() {
                let key = ItemKey::membership(team, channel, &format!("{}#{number:04}", self.as_of.padded()));
                set.insert((*CHUNK_NAMES.get(number)?).to_owned(), key.timestamp.as_str().into());
                let mut set_if_absent = identity();
                set_if_absent.insert(VALUE.into(), String::from_utf8_lossy(chunk).into_owned().into());
                rows.push(Update { set_if_absent, ..Update::new(key) });
            }
        }
        let names = CHUNK_NAMES.into_iter().chain([VALUE]);
        rows.push(Update {
            remove: names.filter(|name| !set.contains_key(*name)).collect(),
            set,
            set_if_absent: identity(),
            ..relisted(team, channel, &self.as_of)
        });
        Some(rows)
    }
}

/// The key of the head of a channel's list.
pub fn head_key(team: &TeamId, channel: &ChannelId) -> ItemKey {
    ItemKey::membership(team, channel, HEAD)
}

/// The write of the time at which an unchanged list was listed again.
pub fn relisted(team: &TeamId, channel: &ChannelId, at: &Ts) -> Update {
    let guard = Guard::Greater { register: CLOCK.into(), version: at.padded() };
    Update { guard, ..Update::new(head_key(team, channel)) }
}

/// When the list of a head was listed.
pub fn listed_at(head: &Item) -> Option<Ts> {
    Ts::unpadded(head.text(CLOCK).filter(|_| !head.is_erased())?)
}

/// The keys of the chunks that a head names, in order.
pub fn chunk_keys(head: &Item) -> Vec<ItemKey> {
    let names = CHUNK_NAMES.iter().map_while(|name| head.text(name));
    names.map(|sort| ItemKey::new(head.key.item_id.clone(), sort)).collect()
}

/// The rows of a channel's lists that its head does not name and that were written before it, which can be
/// deleted. A later list may be about to be named.
pub fn old_chunks<'r>(head: &Item, rows: &'r [Item]) -> Vec<&'r Item> {
    let Some(clock) = head.text(CLOCK).filter(|_| !head.is_erased()) else { return Vec::new() };
    let named = chunk_keys(head);
    let is_old = |row: &&Item| {
        row.key != head.key
            && !row.is_erased()
            && !named.contains(&row.key)
            && row.key.timestamp.as_str() < clock
    };
    rows.iter().filter(is_old).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> (TeamId, ChannelId) {
        (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap())
    }

    fn list(second: i64, members: &[&str]) -> ChannelMembers {
        let as_of = Ts::parse(&format!("{second}.000000")).unwrap();
        ChannelMembers { as_of, members: members.iter().map(|id| UserId::parse(id).unwrap()).collect() }
    }

    /// Applies updates to rows, as an archive does.
    fn apply(rows: &mut Vec<Item>, updates: &[Update]) {
        for update in updates {
            let found = rows.iter().position(|row| row.key == update.key);
            let stored = found.map(|found| rows[found].attributes.clone());
            if let Some(attributes) = update.apply(stored.as_ref()) {
                match found {
                    Some(found) => rows[found].attributes = attributes,
                    None => rows.push(Item { key: update.key.clone(), attributes }),
                }
            }
        }
    }

    fn read(rows: &[Item]) -> Option<ChannelMembers> {
        let head = rows.iter().find(|row| row.key.timestamp == "head")?;
        let find = |key: &ItemKey| rows.iter().find(|row| row.key == *key).cloned();
        ChannelMembers::read(head, &chunk_keys(head).iter().map(find).collect::<Vec<_>>())
    }

    #[test]
    fn a_list_is_read_as_it_was_written_and_the_later_one_stays() {
        let (team, channel) = ids();
        let small = list(1_700_000_000, &["U2", "U1"]);
        let large = list(1_700_000_001, &["U1", "U2", "U3", "U4", "U5", "U6", "U7", "U8"]);
        let rows_of = |list: &ChannelMembers| list.rows_of(&team, &channel, 60).unwrap();
        assert_eq!(
            rows_of(&small)[0].set.get("value").unwrap(),
            r#"{"channel_id":"C1","members":["U1","U2"],"team_id":"T1"}"#
        );
        assert_eq!(rows_of(&large).len(), 3, "two chunks and the head");
        for order in [[&small, &large], [&large, &small]] {
            let mut rows = Vec::new();
            order.iter().for_each(|list| apply(&mut rows, &rows_of(list)));
            assert_eq!(read(&rows).as_ref(), Some(&large));
        }
        // A crash before the head leaves the earlier list, whole.
        let mut rows = Vec::new();
        apply(&mut rows, &rows_of(&small));
        apply(&mut rows, &rows_of(&large)[..2]);
        assert_eq!(read(&rows).as_ref(), Some(&small));
        // And a head whose chunk is gone is no list.
        apply(&mut rows, &rows_of(&large)[2..]);
        rows.retain(|row| !row.key.timestamp.ends_with("#0001"));
        assert_eq!(read(&rows), None);
    }

    #[test]
    fn chunks_of_an_earlier_list_are_old_and_those_of_a_later_one_are_not() {
        let (team, channel) = ids();
        let members = ["U1", "U2", "U3", "U4", "U5", "U6", "U7", "U8"];
        let mut rows = Vec::new();
        for second in [1_700_000_000, 1_700_000_001] {
            apply(&mut rows, &list(second, &members).rows_of(&team, &channel, 60).unwrap());
        }
        apply(&mut rows, &list(1_700_000_002, &members).rows_of(&team, &channel, 60).unwrap()[..1]);
        let head = rows.iter().find(|row| row.key.timestamp == "head").unwrap();
        let old: Vec<&str> = old_chunks(head, &rows).iter().map(|row| row.key.timestamp.as_str()).collect();
        assert_eq!(old, ["001700000000.000000#0000", "001700000000.000000#0001"]);
        apply(&mut rows, &[relisted(&team, &channel, &Ts::parse("1700000009.000000").unwrap())]);
        assert_eq!(read(&rows).unwrap().as_of, Ts::parse("1700000009.000000").unwrap());
    }

    #[test]
    fn a_stored_list_that_cannot_be_read_is_no_list() {
        let head = |value: Value| Item {
            key: ItemKey::new("membership#T1#C1", "head"),
            attributes: [("clock".to_owned(), "001700000000.000000".into()), ("value".to_owned(), value)]
                .into_iter()
                .collect(),
        };
        for value in ["", "null", "[]", "{}", r#"{"members":null}"#, r#"{"members":{"U1":1}}"#] {
            assert_eq!(ChannelMembers::read(&head(value.into()), &[]), None, "{value}");
        }
        assert_eq!(ChannelMembers::read(&head(Value::Null), &[]), None);
        let odd =
            ChannelMembers::read(&head(r#"{"members":[null,7,["U1"],"","U1","not an id"]}"#.into()), &[]);
        assert_eq!(odd.unwrap().members, list(0, &["U1"]).members);
    }
}
