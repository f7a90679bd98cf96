//! The figures of one message. They are projections: they cannot disagree with the message, and are computed
//! only when they are read.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::message::stored_version;
use crate::reaction;
use ports::archive::Item;
use slack::envelope;
use slack::ids::{Ts, UserId};

/// Subtypes of messages that count like those without a subtype: a person wrote them. Slack gives a message
/// with a file a subtype in an event, but not in its history.
const COUNTED_SUBTYPES: [&str; 3] = ["file_share", "thread_broadcast", "me_message"];

/// The subtype of messages of legacy apps, which have no user.
const BOT_MESSAGE: &str = "bot_message";

/// Microseconds of a day.
pub const DAY_MICROS: i64 = 86_400_000_000;
/// Microseconds of a quarter of an hour.
const QUARTER_MICROS: i64 = DAY_MICROS / 96;

/// The number of words, separated by white space.
pub fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// The users that a text mentions, each once, in the order of the text, without its author.
pub fn mentions<'t>(text: &'t str, author: Option<&str>) -> Vec<&'t str> {
    let (mut mentioned, mut seen) = (Vec::new(), HashSet::new());
    for piece in text.split("<@").skip(1) {
        let Some(end) = piece.find(['>', '|']) else { continue };
        let id = &piece[..end];
        if UserId::parse(id).is_ok() && Some(id) != author && seen.insert(id) {
            mentioned.push(id);
        }
    }
    mentioned
}

/// The reactions that a message has now: each name with the users who reacted, both sorted as text.
pub fn reactions(message: &Item) -> BTreeMap<&str, Vec<&str>> {
    let mut reactions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, user) in reaction::pairs(&message.attributes) {
        reactions.entry(name).or_default().push(user);
    }
    reactions.values_mut().for_each(|users| users.sort_unstable());
    reactions
}

/// Reactions as `emoji:UID:UID,emoji:UID`, the format of channelstats.
pub fn reactions_text(reactions: &BTreeMap<&str, Vec<&str>>) -> String {
    let each = reactions.iter().map(|(name, users)| format!("{name}:{}", users.join(":")));
    each.collect::<Vec<_>>().join(",")
}

/// The day of a timestamp, `2026-11-20`, in UTC; empty if the calendar cannot represent it.
pub fn date(ts: &Ts) -> String {
    let moment = Timestamp::from_microsecond(ts.micros());
    moment.map_or_else(|_| String::new(), |moment| moment.to_zoned(TimeZone::UTC).date().to_string())
}

/// The author of the root that a reply names, as events do.
pub fn named_root_author(raw: &str) -> Option<String> {
    let raw = envelope::parse_value(raw).ok()?;
    let author = raw["parent_user_id"].as_str()?;
    UserId::parse(author).ok().map(|author| author.to_string())
}

/// The facts of a message that are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedMessage<'a> {
    /// When it was posted.
    pub ts: Ts,
    /// The user who wrote it; `None` if an app posted it in its own name.
    pub author: Option<&'a str>,
    /// Whether an app posted it, in its own name or in a person's name.
    pub is_by_app: bool,
    /// Whether it was deleted: then it counts only as an author's first message.
    pub is_deleted: bool,
    pub words: u64,
    /// The users that it mentions.
    pub mentions: Vec<&'a str>,
    /// The reactions: the name of the emoji, and the user.
    pub reactions: Vec<(&'a str, &'a str)>,
    /// The message that it replies to.
    pub root_ts: Option<Ts>,
    /// The author of that message according to the reply, as events name it.
    pub told_author: Option<String>,
    /// Whether its row marks it as the root of a thread.
    pub is_root: bool,
    pub files: u64,
    pub is_edited: bool,
    /// A digest that changes if anything that is counted changes.
    pub digest: u128,
}

impl<'a> CountedMessage<'a> {
    /// Reads the facts from a row; `None` if the row does not count: a notice of Slack, a row without
    /// content, an erased row.
    pub fn read(message: &'a Item) -> Option<Self> {
        let subtype = message.text("subtype");
        let counts =
            subtype.is_none_or(|subtype| subtype == BOT_MESSAGE || COUNTED_SUBTYPES.contains(&subtype));
        if !counts || message.is_erased() {
            return None;
        }
        let version = stored_version(message)?;
        let ts = Ts::parse(&message.key.timestamp).ok()?;
        let user = message.text("user").filter(|user| UserId::parse(user).is_ok());
        let author = user.filter(|_| subtype != Some(BOT_MESSAGE));
        let text = message.text("text").unwrap_or_default();
        let thread_ts = message.text("thread_ts").and_then(|thread_ts| Ts::parse(thread_ts).ok());
        let is_root = thread_ts.as_ref() == Some(&ts);
        let is_deleted = message.has_flag("deleted");
        let mut digest = Sha256::new();
        for part in [&message.key.item_id, &message.key.timestamp, version.as_str()] {
            digest.update(part);
            digest.update([0]);
        }
        digest.update([u8::from(is_deleted)]);
        digest.update(thread_ts.as_ref().map(Ts::as_str).unwrap_or_default());
        let mut reactions: Vec<(&str, &str)> = reaction::pairs(&message.attributes).collect();
        reactions.sort_unstable();
        for (name, user) in &reactions {
            digest.update(format!("\0{name}\0{user}"));
        }
        let digest: [u8; 32] = digest.finalize().into();
        let (half, _) = digest.split_at(16);
        let is_reply = thread_ts.is_some() && !is_root;
        Some(Self {
            told_author: message.text("raw_event").filter(|_| is_reply).and_then(named_root_author),
            author,
            is_by_app: author.is_none() || message.text("bot_id").is_some(),
            is_deleted,
            words: words(text),
            mentions: mentions(text, user),
            reactions,
            root_ts: thread_ts.filter(|_| !is_root),
            is_root,
            files: message
                .attributes
                .get("files")
                .and_then(Value::as_array)
                .map_or(0, |files| files.len() as u64),
            is_edited: message.text("updated_ts").is_some(),
            digest: half.iter().fold(0, |digest, byte| digest << 8 | u128::from(*byte)),
            ts,
        })
    }

    /// The day on which it was posted: days since 1970, in UTC.
    pub fn day(&self) -> i64 {
        self.ts.micros().div_euclid(DAY_MICROS)
    }

    /// The quarter of an hour of its day, from 0 to 95.
    pub fn quarter(&self) -> u8 {
        let quarter = self.ts.micros().rem_euclid(DAY_MICROS) / QUARTER_MICROS;
        u8::try_from(quarter).unwrap_or(95)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_does_not_hide_the_root_author_that_a_reply_names() {
        let raw = r#"{"text":"\ud83d","parent_user_id":"U1"}"#;
        assert_eq!(named_root_author(raw).as_deref(), Some("U1"));
    }
}
