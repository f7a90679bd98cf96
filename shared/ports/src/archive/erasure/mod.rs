//! Erasure requests, as facts that bind every writer: a row `erased#{team}` / scope, which contains the end
//! of the erased period.
//!
//! [`ErasureFacts::admit`] decides about erasure. A backend calls it before every write
//! ([`super::Archive::apply_once`]), so that events, history, import and sync need no erasure logic. A fact
//! covers:
//!
//! | fact | rows |
//! |---|---|
//! | `user#{U}` | messages and revisions whose `user` is U and whose ts is before `until`; the user's row and profiles, their rows as a member of user groups, and the row of the bot that has this user, at any time |
//! | `channel#{C}` | messages of C and their revisions with a ts before `until`; snapshots of C with a clock before `until`, and its member counts for days that began before `until`; its bookmarks, at any time |
//! | `message#{C}#{ts}` | the message and its revisions, at any time |
//!
//! A question to the responder, its answer and each reply are covered like the message whose key they have;
//! their `user` is the person who asked.
//!
//! The `user` of a message is the author of its content, who may be named by the comment in an old
//! `file_comment` only. Reactions, deletion marks and file states contain no words of a user, and a row with
//! only these is invisible to readers. The eraser removes an erased person from the pins of other messages. No fact covers a file's row: a file belongs to every message that
//! shares it and is deleted with the last of them, which its writer checks. Nor does a fact cover the row of
//! an organisation.
//!
//! Other facts in the same partition cover messages, and the rows that are erased with them: those before the
//! time of an [`ExpiryFact`] have expired, unless a [`HoldFact`] keeps them; those whose author or channel is out
//! by an [`OptOutFact`] are withheld.

mod expiry;
mod facts;
mod hold;
mod opt_out;

use serde_json::Value;

use super::item::{Item, text_attributes};
use super::key::ItemKey;
use super::rows;
use super::update::{Guard, Update};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

pub use expiry::ExpiryFact;
pub use facts::{ErasureFacts, FactCover, WriteAdmission};
pub use hold::{HoldFact, HoldRelease, HoldScope};
pub use opt_out::{OptOutFact, OptOutScope};

/// The register of a fact: content before this time is erased.
const UNTIL: &str = "until";

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErasureScope {
    /// A user: their messages and their profile.
    User(UserId),
    /// A channel: its messages and its names.
    Channel(ChannelId),
    Message(ChannelId, Ts),
}

/// A fact that something in a workspace is erased and must stay erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureFact {
    pub team: TeamId,
    pub scope: ErasureScope,
    /// Only content before this time is erased. [`ErasureScope::Message`] ignores it.
    pub until: Ts,
}

impl ErasureFact {
    pub fn key(&self) -> ItemKey {
        let timestamp = match &self.scope {
            ErasureScope::User(user) => format!("user#{user}"),
            ErasureScope::Channel(channel) => format!("channel#{channel}"),
            ErasureScope::Message(channel, ts) => format!("message#{channel}#{ts}"),
        };
        ItemKey::erasure(&self.team, &timestamp)
    }

    /// The update that stores it. A fact only grows: the latest `until` wins.
    pub fn update(&self) -> Update {
        let mut set_if_absent = text_attributes([("type", "erased"), ("team_id", self.team.as_str())]);
        let (user, channel, ts) = match &self.scope {
            ErasureScope::User(user) => (Some(user.as_str()), None, None),
            ErasureScope::Channel(channel) => (None, Some(channel.as_str()), None),
            ErasureScope::Message(channel, ts) => (None, Some(channel.as_str()), Some(ts.as_str())),
        };
        let ids = [("user_id", user), ("channel_id", channel), ("ts", ts)];
        set_if_absent.extend(ids.into_iter().filter_map(|(name, id)| Some((name.to_owned(), id?.into()))));
        let guard = Guard::Greater { register: UNTIL.into(), version: self.until.padded() };
        Update { guard, set_if_absent, ..Update::new(self.key()) }
    }

    /// Reads the row of a fact; `None` for any other row.
    pub fn read(item: &Item) -> Option<Self> {
        let team = TeamId::parse(item.key.item_id.strip_prefix(rows::ERASURE.prefix())?).ok()?;
        let scope = match item.key.timestamp.split_once('#')? {
            ("user", user) => ErasureScope::User(UserId::parse(user).ok()?),
            ("channel", channel) => ErasureScope::Channel(ChannelId::parse(channel).ok()?),
            ("message", message) => {
                let (channel, ts) = message.split_once('#')?;
                ErasureScope::Message(ChannelId::parse(channel).ok()?, Ts::parse(ts).ok()?)
            }
            _ => return None,
        };
        Some(Self { team, scope, until: Ts::unpadded(item.text(UNTIL)?)? })
    }
}

/// The workspace whose facts may cover this row; `None` for rows that no fact covers.
pub fn covered_team(key: &ItemKey) -> Option<TeamId> {
    TeamId::parse(rows::covered(key)?.1.team).ok()
}

/// The attribute of a message or revision with the author of its content.
const USER: &str = "user";

/// The attribute of a bot with the app's user.
const BOT_USER: &str = "user_id";

/// The author of the content that an update writes, if it writes any; for a bot, the app's user.
pub fn author(update: &Update) -> Option<&str> {
    let name = author_attribute(&update.key);
    let user = update.set.get(name).or_else(|| update.set_if_absent.get(name));
    user.and_then(Value::as_str)
}

/// The author of the content of a row.
fn row_author(item: &Item) -> Option<&str> {
    item.text(author_attribute(&item.key))
}

fn author_attribute(key: &ItemKey) -> &'static str {
    if key.item_id.starts_with(rows::BOT.prefix()) { BOT_USER } else { USER }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::archive::Attributes;

    fn fact(scope: ErasureScope, until: &str) -> ErasureFact {
        ErasureFact { team: TeamId::parse("T1").unwrap(), scope, until: Ts::parse(until).unwrap() }
    }

    fn user(id: &str, until: &str) -> ErasureFact {
        fact(ErasureScope::User(UserId::parse(id).unwrap()), until)
    }

    fn channel(id: &str, until: &str) -> ErasureFact {
        fact(ErasureScope::Channel(ChannelId::parse(id).unwrap()), until)
    }

    fn message(id: &str, ts: &str) -> ErasureFact {
        fact(ErasureScope::Message(ChannelId::parse(id).unwrap(), Ts::parse(ts).unwrap()), "1.000000")
    }

    fn attributes(object: Value) -> Attributes {
        let Value::Object(attributes) = object else { panic!("no object") };
        attributes
    }

    /// Whether facts cover a row with this content, and an update that writes it.
    fn covered(facts: &ErasureFacts, item_id: &str, timestamp: &str, content: Value) -> bool {
        let key = ItemKey::new(item_id, timestamp);
        let item = Item { key: key.clone(), attributes: attributes(content) };
        let set = Update { set: item.attributes.clone(), ..Update::new(key.clone()) };
        let absent = Update { set_if_absent: item.attributes.clone(), ..Update::new(key) };
        let by_row = facts.covers_row(&item);
        assert_eq!([facts.covers(&set), facts.covers(&absent)], [by_row, by_row], "{item_id} {timestamp}");
        by_row
    }

    #[test]
    fn a_stored_fact_is_read_back_and_its_latest_time_wins() {
        for fact in
            [user("U1", "1700000000.000100"), channel("C1", "0.000000"), message("C1", "1600000000.000200")]
        {
            let stored = Item { key: fact.key(), attributes: fact.update().apply(None).unwrap() };
            assert_eq!(ErasureFact::read(&stored), Some(fact.clone()));
            let [earlier, later] = ["0.000000", "1800000000.000000"]
                .map(|until| ErasureFact { until: Ts::parse(until).unwrap(), ..fact.clone() });
            assert_eq!(earlier.update().apply(Some(&stored.attributes)), None);
            let attributes = later.update().apply(Some(&stored.attributes)).unwrap();
            assert_eq!(ErasureFact::read(&Item { attributes, ..stored }), Some(later));
        }
    }

    #[test]
    fn no_other_row_is_a_fact() {
        let until = || attributes(json!({ "until": "000000000001.000000" }));
        for (item_id, timestamp) in [
            ("erasure#T1", "user#U1"),
            ("erased#t1", "user#U1"),
            ("erased#T1", "user#"),
            ("erased#T1", "U1"),
            ("erased#T1", "message#C1"),
            ("erased#T1", "file#F1"),
        ] {
            let item = Item { key: ItemKey::new(item_id, timestamp), attributes: until() };
            assert_eq!(ErasureFact::read(&item), None, "{item_id} {timestamp}");
        }
        let without_time = Item { key: user("U1", "1.000000").key(), attributes: Attributes::new() };
        assert_eq!(ErasureFact::read(&without_time), None);
    }

    #[test]
    fn a_user_is_erased_with_their_earlier_messages() {
        let facts: ErasureFacts = [user("U1", "100.000000"), user("U1", "50.000000")].into_iter().collect();
        let by_author = |author: &str| json!({ "user": author, "text": "secret" });
        for (item_id, timestamp, content, is_covered) in [
            ("message#T1#C1", "99.999999", by_author("U1"), true),
            ("message#T1#C1", "0099.999999", by_author("U1"), true),
            ("message#T1#C1", "100.000000", by_author("U1"), false),
            ("message#T1#C1", "99.999999", by_author("U2"), false),
            ("message#T2#C1", "99.999999", by_author("U1"), false),
            ("message#T1#C1", "99.999999", json!({ "reaction#eyes#U1": "1/added" }), false),
            ("message#T1#C1", "99.999999", json!({ "deleted": true }), false),
            ("revision#T1#C1#99.999999", "000000000200.000000#abc", by_author("U1"), true),
            ("revision#T1#C1#100.000000", "000000000001.000000#abc", by_author("U1"), false),
            ("user#T1", "U1", json!({ "name": "ada" }), true),
            ("user#T1", "U1", json!({ "insert_timestamp": "000000000900.000000" }), true),
            ("user#T1", "U2", json!({ "name": "bob" }), false),
            ("userhistory#T1#U1", "abc", json!({ "name": "ada" }), true),
            ("userhistory#T1#U2", "abc", json!({ "name": "bob" }), false),
            ("bot#T1", "B1", json!({ "name": "ada", "user_id": "U1" }), true),
            ("bot#T1", "B1", json!({ "name": "ada", "user_id": "U2" }), false),
            ("bot#T1", "B1", json!({ "name": "U1", "user": "U1" }), false),
            ("team#T1", "T2", json!({ "name": "Acme" }), false),
            ("usergroupmember#T1#S1", "U1", json!({ "user_id": "U1" }), true),
            ("usergroupmember#T1#S1", "U2", json!({ "user_id": "U2" }), false),
            ("file#T1", "F1", json!({ "object": { "user": "U1" } }), false),
            ("erased#T1", "user#U1", json!({ "until": "1" }), false),
            ("message", "1.000000", by_author("U1"), false),
        ] {
            assert_eq!(covered(&facts, item_id, timestamp, content), is_covered, "{item_id} {timestamp}");
        }
    }

    #[test]
    fn a_channel_is_erased_with_its_earlier_rows_regardless_of_their_content() {
        let facts: ErasureFacts = std::iter::once(channel("C1", "100.000000")).collect();
        for (item_id, timestamp, is_covered) in [
            ("message#T1#C1", "99.000000", true),
            ("message#T1#C1", "100.000000", false),
            ("message#T1#C2", "99.000000", false),
            ("pins#T1#C1", "99.000000", false),
            ("revision#T1#C1#99.000000", "000000000300.000000#abc", true),
            ("revision#T1#C1#101.000000", "000000000300.000000#abc", false),
            ("channel#T1#C1", "99.000000", true),
            ("channel#T1#C1", "100.000000", false),
            ("channel#T1#C2", "99.000000", false),
            ("bookmark#T1#C1", "Bk1", true),
            ("bookmark#T1#C2", "Bk1", false),
            ("channelindex#T1", "0", false),
            ("meta#T1#public", "C1", false),
        ] {
            assert_eq!(covered(&facts, item_id, timestamp, json!({})), is_covered, "{item_id} {timestamp}");
        }
    }

    #[test]
    fn only_the_named_message_is_erased_with_its_revisions() {
        let facts: ErasureFacts = std::iter::once(message("C1", "99.000000")).collect();
        for (item_id, timestamp, is_covered) in [
            ("message#T1#C1", "99.000000", true),
            ("message#T1#C1", "99.000001", false),
            ("message#T1#C2", "99.000000", false),
            ("revision#T1#C1#99.000000", "000000000300.000000#abc", true),
            ("revision#T1#C1#98.000000", "000000000300.000000#abc", false),
        ] {
            assert_eq!(covered(&facts, item_id, timestamp, json!({})), is_covered, "{item_id} {timestamp}");
        }
    }

    #[test]
    fn an_erased_row_is_not_covered_again_and_no_facts_cover_nothing() {
        let facts: ErasureFacts = std::iter::once(channel("C1", "100.000000")).collect();
        let mut row = Item { key: ItemKey::new("message#T1#C1", "1.000000"), attributes: Attributes::new() };
        assert!(facts.covers_row(&row) && !ErasureFacts::default().covers_row(&row));
        row.attributes.insert("erased".into(), true.into());
        assert!(!facts.covers_row(&row));
    }
}
