//! The figures of one message. They are projections: they cannot disagree with the message, and cost nothing until they
//! are read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::message::stored_version;
use crate::reaction;
use ports::archive::Item;
use slack::envelope;
use slack::ids::{Ts, UserId};

/// Subtypes with which a message counts like one without: what a person wrote. Slack gives a message with a file a subtype in
/// an event, and none in its history.
const COUNTED_SUBTYPES: [&str; 3] = ["file_share", "thread_broadcast", "me_message"];

/// The subtype of what apps of the old kind post: they have no user.
const BOT_MESSAGE: &str = "bot_message";

/// Microseconds of a day.
pub const DAY_MICROS: i64 = 86_400_000_000;
/// And of a quarter of an hour.
const QUARTER_MICROS: i64 = DAY_MICROS / 96;

/// Words: what white space parts.
pub fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// The people whom a text mentions, each once, in the order of the text, without its author.
pub fn mentions<'t>(text: &'t str, author: Option<&str>) -> Vec<&'t str> {
    let mut mentioned: Vec<&str> = Vec::new();
    for piece in text.split("<@").skip(1) {
        let Some(end) = piece.find(['>', '|']) else { continue };
        let id = &piece[..end];
        if UserId::parse(id).is_ok() && Some(id) != author && !mentioned.contains(&id) {
            mentioned.push(id);
        }
    }
    mentioned
}

/// The reactions that a message has now: each name with the people who reacted, both in the order of text.
pub fn reactions(message: &Item) -> BTreeMap<&str, Vec<&str>> {
    let mut reactions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, user) in reaction::pairs(&message.attributes) {
        reactions.entry(name).or_default().push(user);
    }
    reactions.values_mut().for_each(|users| users.sort_unstable());
    reactions
}

/// `emoji:UID:UID,emoji:UID`, as channelstats spells reactions.
pub fn reactions_text(reactions: &BTreeMap<&str, Vec<&str>>) -> String {
    let each = reactions.iter().map(|(name, users)| format!("{name}:{}", users.join(":")));
    each.collect::<Vec<_>>().join(",")
}

/// The day of a timestamp, `2026-11-20`, in UTC; empty beyond the calendar.
pub fn date(ts: &Ts) -> String {
    let moment = Timestamp::from_microsecond(ts.micros());
    moment.map_or_else(|_| String::new(), |moment| moment.to_zoned(TimeZone::UTC).date().to_string())
}

/// Whom a reply names as the author of its root, as events do.
pub fn told_author(raw: &str) -> Option<String> {
    let raw = envelope::value(raw).ok()?;
    let author = raw["parent_user_id"].as_str()?;
    UserId::parse(author).ok().map(|author| author.to_string())
}

/// What a message is counted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedMessage<'a> {
    /// When it was posted.
    pub ts: Ts,
    /// The person who wrote it; `None` if an app posted it in its own name.
    pub author: Option<&'a str>,
    /// Whether an app posted it, for itself or in a person's name.
    pub is_by_app: bool,
    /// Whether it was deleted: it only counts as an author's first message then.
    pub is_deleted: bool,
    /// Its words.
    pub words: u64,
    /// Whom it mentions.
    pub mentions: Vec<&'a str>,
    /// Who reacted, and with which emoji.
    pub reactions: Vec<(&'a str, &'a str)>,
    /// The message that it replies to.
    pub root_ts: Option<Ts>,
    /// Whom a reply names as the author of that message, as events do.
    pub told_author: Option<String>,
    /// Whether its row says that it begins a thread.
    pub is_root: bool,
    /// How many files it has.
    pub files: u64,
    /// Whether it was edited.
    pub is_edited: bool,
    /// Changes if anything that is counted changes.
    pub digest: u128,
}

impl<'a> CountedMessage<'a> {
    /// What is counted of a row; `None` if it does not count: a notice of Slack, a row without content, an erased one.
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
        let is_deleted = message.is("deleted");
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
            told_author: message.text("raw_event").filter(|_| is_reply).and_then(told_author),
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

    /// The day it was posted on: days since 1970, in UTC.
    pub fn day(&self) -> i64 {
        self.ts.micros().div_euclid(DAY_MICROS)
    }

    /// In which quarter of an hour of its day, from 0 to 95.
    pub fn quarter(&self) -> u8 {
        let quarter = self.ts.micros().rem_euclid(DAY_MICROS) / QUARTER_MICROS;
        u8::try_from(quarter).unwrap_or(95)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_does_not_hide_whom_a_reply_names_as_the_author_of_its_root() {
        let raw = r#"{"text":"\ud83d","parent_user_id":"U1"}"#;
        assert_eq!(told_author(raw).as_deref(), Some("U1"));
    }
}
