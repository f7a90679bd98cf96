//! A roll-up: what is counted of a channel's day. It merges, and it can be stored as one row.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::message::CountedMessage;
use slack::hex::to_hex;
use slack::ids::Ts;

/// How many messages of a day are kept as those with the most reactions: no list is longer.
pub const TOP: usize = 10;

/// A roll-up that is stored has at most this many bytes, so that its row fits DynamoDB's 400 KB whatever else is in it.
pub const MAX_STORED_BYTES: usize = 350 * 1024;

/// What is counted of one person's day in a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersonDay {
    /// Messages they wrote.
    pub messages: u64,
    /// Words in them.
    pub words: u64,
    /// Replies among them.
    pub replies: u64,
    /// Reactions to them.
    pub reactions_received: u64,
    /// Reactions that they gave, to messages of this day.
    pub reactions_given: u64,
    /// Messages of others that mention them.
    pub mentions_received: u64,
    /// Replies of others to threads that they began.
    pub replies_received: u64,
    /// The first message of the day that they wrote, deleted or not.
    pub first: Option<Ts>,
    /// Messages and words by the quarter of an hour in which they were written.
    pub quarters: BTreeMap<u8, (u64, u64)>,
}

impl PersonDay {
    /// Adds what another part of the same, or of another day, has of the same person.
    pub fn merge(&mut self, other: &Self) {
        self.messages += other.messages;
        self.words += other.words;
        self.replies += other.replies;
        self.reactions_received += other.reactions_received;
        self.reactions_given += other.reactions_given;
        self.mentions_received += other.mentions_received;
        self.replies_received += other.replies_received;
        self.first = other.first.iter().chain(&self.first).min().cloned();
        for (quarter, (messages, words)) in &other.quarters {
            let slot = self.quarters.entry(*quarter).or_default();
            *slot = (slot.0 + messages, slot.1 + words);
        }
    }
}

/// What is counted of a channel's day, or of a part of it. Messages of apps are counted, and nothing else of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayFigures {
    /// Messages of apps.
    pub bot_messages: u64,
    /// Files of people's messages.
    pub files: u64,
    /// People's messages that were edited since.
    pub edited: u64,
    /// People by their ids: those who wrote, and those to whom others did something.
    pub people: BTreeMap<String, PersonDay>,
    /// Reactions to people's messages, by emoji.
    pub emoji: BTreeMap<String, u64>,
    /// Replies of this day by the root that they reply to, which may be older.
    pub threads: BTreeMap<Ts, u64>,
    /// The messages with the most reactions, at most [`TOP`], by their number and then by time.
    pub most_reacted: Vec<(Ts, u64)>,
    /// Changes if anything that is counted changes: the sum of the digests of all messages.
    pub basis: u128,
}

/// A roll-up that no row can hold: what reads it counts the messages themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the roll-up would have {0} bytes, more than {MAX_STORED_BYTES}")]
pub struct TooLarge(pub usize);

impl DayFigures {
    /// Adds a message. `is_bot`: an app's; `root_author` wrote the message that it replies to.
    pub fn add(&mut self, message: &CountedMessage<'_>, is_bot: bool, root_author: Option<&str>) {
        self.basis = self.basis.wrapping_add(message.digest);
        let (Some(author), false) = (message.author, is_bot) else {
            self.bot_messages += u64::from(!message.is_deleted);
            return;
        };
        let person = self.person(author);
        person.first = person.first.iter().chain([&message.ts]).min().cloned();
        if message.is_deleted {
            return;
        }
        self.files += message.files;
        self.edited += u64::from(message.is_edited);
        let reactions = message.reactions.len() as u64;
        let person = self.person(author);
        person.messages += 1;
        person.words += message.words;
        person.replies += u64::from(message.root_ts.is_some());
        person.reactions_received += reactions;
        let slot = person.quarters.entry(message.quarter()).or_default();
        *slot = (slot.0 + 1, slot.1 + message.words);
        for mentioned in message.mentions.iter().filter(|mentioned| **mentioned != author) {
            self.person(mentioned).mentions_received += 1;
        }
        for (name, user) in &message.reactions {
            self.person(user).reactions_given += 1;
            *self.emoji.entry((*name).to_owned()).or_default() += 1;
        }
        if let Some(root_ts) = &message.root_ts {
            *self.threads.entry(root_ts.clone()).or_default() += 1;
            if let Some(root_author) = root_author.filter(|root_author| *root_author != author) {
                self.person(root_author).replies_received += 1;
                self.basis = self.basis.wrapping_add(message.digest.rotate_left(1) ^ digest_of(root_author));
            }
        }
        if reactions > 0 {
            self.most_reacted.push((message.ts.clone(), reactions));
            self.rank();
        }
    }

    /// Adds another part of the day, or another day of the channel.
    pub fn merge(&mut self, other: &Self) {
        self.bot_messages += other.bot_messages;
        self.files += other.files;
        self.edited += other.edited;
        for (id, person) in &other.people {
            self.person(id).merge(person);
        }
        for (name, count) in &other.emoji {
            *self.emoji.entry(name.clone()).or_default() += count;
        }
        for (root_ts, count) in &other.threads {
            *self.threads.entry(root_ts.clone()).or_default() += count;
        }
        self.most_reacted.extend_from_slice(&other.most_reacted);
        self.rank();
        self.basis = self.basis.wrapping_add(other.basis);
    }

    /// What people wrote, whose numbers are the channel's: messages, words, replies, and reactions to them.
    #[must_use]
    pub fn total(&self) -> PersonDay {
        let mut total = PersonDay::default();
        self.people.values().for_each(|person| total.merge(person));
        total
    }

    fn person(&mut self, id: &str) -> &mut PersonDay {
        self.people.entry(id.to_owned()).or_default()
    }

    fn rank(&mut self) {
        self.most_reacted.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        self.most_reacted.truncate(TOP);
    }

    /// As it is stored; zeros are left out.
    ///
    /// # Errors
    /// [`TooLarge`]
    pub fn stored(&self) -> Result<String, TooLarge> {
        let total = self.total();
        let people = self.people.iter().map(|(id, person)| (id.clone(), person_stored(person)));
        let stored = json!({
            "messages": total.messages, "words": total.words, "replies": total.replies,
            "reactions": total.reactions_received, "files": self.files, "edited": self.edited,
            "bot_messages": self.bot_messages,
            "users": people.collect::<Map<_, _>>(), "emoji": self.emoji,
            "threads": self.threads.iter().map(|(ts, count)| (ts.to_string(), json!(count))).collect::<Map<_, _>>(),
            "top_reacted": self.most_reacted, "basis": to_hex(&self.basis.to_be_bytes()),
        });
        let stored = stored.to_string();
        if stored.len() > MAX_STORED_BYTES { Err(TooLarge(stored.len())) } else { Ok(stored) }
    }

    /// Reads what is stored; `None` if it does not have that shape.
    #[must_use]
    pub fn read(stored: &str) -> Option<Self> {
        let stored: Value = serde_json::from_str(stored).ok()?;
        let people = stored["users"].as_object()?.iter();
        let emoji = stored["emoji"].as_object()?.iter();
        let threads = stored["threads"].as_object()?.iter();
        let top = stored["top_reacted"].as_array()?.iter();
        Some(Self {
            bot_messages: stored["bot_messages"].as_u64()?,
            files: stored["files"].as_u64()?,
            edited: stored["edited"].as_u64()?,
            people: people
                .map(|(id, person)| Some((id.clone(), person_read(person)?)))
                .collect::<Option<_>>()?,
            emoji: emoji.map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect::<Option<_>>()?,
            threads: threads
                .map(|(ts, count)| Some((Ts::parse(ts).ok()?, count.as_u64()?)))
                .collect::<Option<_>>()?,
            most_reacted: top
                .map(|one| Some((Ts::parse(one[0].as_str()?).ok()?, one[1].as_u64()?)))
                .collect::<Option<_>>()?,
            basis: u128::from_str_radix(stored["basis"].as_str()?, 16).ok()?,
        })
    }
}

/// The counts of a person and their names in a row.
fn person_counts(person: &mut PersonDay) -> [(&'static str, &mut u64); 7] {
    [
        ("m", &mut person.messages),
        ("w", &mut person.words),
        ("re", &mut person.replies),
        ("rx_in", &mut person.reactions_received),
        ("rx_out", &mut person.reactions_given),
        ("men_in", &mut person.mentions_received),
        ("re_in", &mut person.replies_received),
    ]
}

fn person_stored(person: &PersonDay) -> Value {
    let mut stored = Map::new();
    for (name, count) in person_counts(&mut person.clone()) {
        if *count > 0 {
            stored.insert(name.into(), (*count).into());
        }
    }
    stored.extend(person.first.as_ref().map(|first| ("first".to_owned(), first.as_str().into())));
    if !person.quarters.is_empty() {
        let quarters =
            person.quarters.iter().map(|(quarter, (messages, words))| json!([quarter, messages, words]));
        stored.insert("q".into(), quarters.collect());
    }
    stored.into()
}

fn person_read(stored: &Value) -> Option<PersonDay> {
    let mut person = PersonDay::default();
    for (name, count) in person_counts(&mut person) {
        *count = stored.get(name).map_or(Some(0), Value::as_u64)?;
    }
    person.first = stored.get("first").and_then(Value::as_str).and_then(|first| Ts::parse(first).ok());
    for slot in stored.get("q").and_then(Value::as_array).into_iter().flatten() {
        let quarter = u8::try_from(slot[0].as_u64()?).ok()?;
        person.quarters.insert(quarter, (slot[1].as_u64()?, slot[2].as_u64()?));
    }
    Some(person)
}

/// An id as a number.
fn digest_of(id: &str) -> u128 {
    id.bytes().fold(0, |digest: u128, byte| digest.wrapping_mul(257).wrapping_add(u128::from(byte)))
}
