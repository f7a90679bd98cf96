//! A roll-up: the figures of a channel's day. Roll-ups can be merged, and one is stored as one row.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::message::CountedMessage;
use slack::ids::Ts;

/// The number of messages with the most reactions that a day keeps: no displayed list is longer.
pub const TOP: usize = 10;

/// The figures of one person's day in a channel. They are stored under short names, and zeros are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PersonDay {
    /// Messages that they wrote.
    #[serde(rename = "m", skip_serializing_if = "is_zero")]
    pub messages: u64,
    #[serde(rename = "w", skip_serializing_if = "is_zero")]
    pub words: u64,
    /// Replies among them.
    #[serde(rename = "re", skip_serializing_if = "is_zero")]
    pub replies: u64,
    #[serde(rename = "rx_in", skip_serializing_if = "is_zero")]
    pub reactions_received: u64,
    /// Reactions that they gave, to messages of this day.
    #[serde(rename = "rx_out", skip_serializing_if = "is_zero")]
    pub reactions_given: u64,
    /// Messages of others that mention them.
    #[serde(rename = "men_in", skip_serializing_if = "is_zero")]
    pub mentions_received: u64,
    /// Replies of others to threads that they started; only after [`DayFigures::credit`].
    #[serde(rename = "re_in", skip_serializing_if = "is_zero")]
    pub replies_received: u64,
    /// The first message of the day that they wrote, deleted or not.
    #[serde(deserialize_with = "ts", skip_serializing_if = "Option::is_none")]
    pub first: Option<Ts>,
    /// Quarters of an hour in which they wrote, in order, each with its messages and words.
    #[serde(rename = "q", skip_serializing_if = "Vec::is_empty")]
    pub quarters: Vec<(u8, u64, u64)>,
}

impl PersonDay {
    /// Adds the same person's figures of another part of the day, or of another day.
    pub fn merge(&mut self, other: &Self) {
        self.add_counts(other);
        for (quarter, messages, words) in &other.quarters {
            self.add_quarter(*quarter, *messages, *words);
        }
    }

    fn add_quarter(&mut self, quarter: u8, messages: u64, words: u64) {
        match self.quarters.binary_search_by_key(&quarter, |(quarter, ..)| *quarter) {
            Ok(index) => {
                let (_, all_messages, all_words) = &mut self.quarters[index];
                *all_messages += messages;
                *all_words += words;
            }
            Err(index) => self.quarters.insert(index, (quarter, messages, words)),
        }
    }

    /// Adds the same figures except the quarters of an hour, which have no meaning beyond their day.
    pub fn add_counts(&mut self, other: &Self) {
        self.messages += other.messages;
        self.words += other.words;
        self.replies += other.replies;
        self.reactions_received += other.reactions_received;
        self.reactions_given += other.reactions_given;
        self.mentions_received += other.mentions_received;
        self.replies_received += other.replies_received;
        if let Some(first) = &other.first
            && self.first.as_ref().is_none_or(|known| first < known)
        {
            self.first = Some(first.clone());
        }
    }
}

/// The replies of a day to one root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayThread {
    /// The number of replies by author.
    #[serde(rename = "by")]
    pub repliers: BTreeMap<String, u64>,
    /// The author of the root according to the events of the replies: the least id if they differ.
    #[serde(rename = "told", skip_serializing_if = "Option::is_none")]
    pub told_author: Option<String>,
    /// The author of the root, if the root is of the same day; only after [`DayFigures::name_authors`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
}

impl DayThread {
    pub fn replies(&self) -> u64 {
        self.repliers.values().sum()
    }

    fn merge(&mut self, other: &Self) {
        for (replier, count) in &other.repliers {
            *self.repliers.entry(replier.clone()).or_default() += count;
        }
        self.told_author = self.told_author.iter().chain(&other.told_author).min().cloned();
        self.author = self.author.iter().chain(&other.author).min().cloned();
    }
}

/// How an author's messages were counted, as a set of bits. Messages that a person posted without an app have
/// no bit.
mod kind {
    /// As a person's, although an app posted it.
    pub(super) const PERSON_BY_APP: u64 = 1;
    /// As an app's, although no app posted it: its author is an app.
    pub(super) const BOT: u64 = 2;
    /// As an app's, and an app posted it.
    pub(super) const BOT_BY_APP: u64 = 4;
}

/// The figures of a channel's day, or of a part of it. For messages of apps only their number is counted.
///
/// They do not depend on rows of other days: readers look up the authors of the roots that were replied to
/// ([`DayFigures::credit`]), and check which authors are apps ([`DayFigures::agrees`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DayFigures {
    /// Messages of apps.
    pub bot_messages: u64,
    /// Files of people's messages.
    pub files: u64,
    /// People's messages that were edited later.
    pub edited: u64,
    /// People by their ids: those who wrote, were mentioned, or gave or received reactions.
    pub people: BTreeMap<String, PersonDay>,
    /// Reactions to people's messages, by emoji.
    pub emoji: BTreeMap<String, u64>,
    /// Replies of this day by their root, which may be older.
    pub threads: BTreeMap<Ts, DayThread>,
    /// Messages of people that are roots of threads according to their rows.
    pub roots: BTreeSet<Ts>,
    /// Authors of messages that an app posted or that were counted as an app's, with the bits of [`kind`].
    pub(super) authorship: BTreeMap<String, u64>,
    /// The messages with the most reactions, at most [`TOP`], sorted by the number of reactions and then by
    /// time.
    pub most_reacted: Vec<(Ts, u64)>,
    /// The sum of the digests of all messages: it changes if anything that is counted changes.
    pub basis: u128,
}

impl DayFigures {
    /// Adds a message. `is_bot`: it is counted as an app's.
    pub fn add(&mut self, message: &CountedMessage<'_>, is_bot: bool) {
        self.basis = self.basis.wrapping_add(message.digest);
        if let Some(author) = message.author.filter(|_| is_bot || message.is_by_app) {
            let bit = match (is_bot, message.is_by_app) {
                (false, _) => kind::PERSON_BY_APP,
                (true, false) => kind::BOT,
                (true, true) => kind::BOT_BY_APP,
            };
            *self.authorship.entry(author.to_owned()).or_default() |= bit;
        }
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
        if message.is_root {
            self.roots.insert(message.ts.clone());
        }
        let reactions = message.reactions.len() as u64;
        let person = self.person(author);
        person.messages += 1;
        person.words += message.words;
        person.replies += u64::from(message.root_ts.is_some());
        person.reactions_received += reactions;
        person.add_quarter(message.quarter(), 1, message.words);
        for mentioned in message.mentions.iter().filter(|mentioned| **mentioned != author) {
            self.person(mentioned).mentions_received += 1;
        }
        for (name, user) in &message.reactions {
            self.person(user).reactions_given += 1;
            *self.emoji.entry((*name).to_owned()).or_default() += 1;
        }
        if let Some(root_ts) = &message.root_ts {
            let reply = DayThread {
                repliers: BTreeMap::from([(author.to_owned(), 1)]),
                told_author: message.told_author.clone(),
                author: None,
            };
            self.threads.entry(root_ts.clone()).or_default().merge(&reply);
        }
        if reactions > 0 {
            self.most_reacted.push((message.ts.clone(), reactions));
            self.rank();
        }
    }

    /// Stores the authors of the roots that are of the same day, so that readers of the day need not read
    /// their rows. `author_of` returns the author in a root's row.
    pub fn name_authors<'a>(&mut self, author_of: impl Fn(&Ts) -> Option<&'a str>) {
        for (root_ts, thread) in &mut self.threads {
            thread.author = author_of(root_ts).map(str::to_owned);
        }
    }

    /// Counts the replies for the authors of the roots. `author_of` returns the author in a root's row. Call
    /// it once.
    pub fn credit<'a>(&mut self, author_of: impl Fn(&Ts) -> Option<&'a str>) {
        let mut received: Vec<(String, u64)> = Vec::new();
        for (root_ts, thread) in &self.threads {
            let Some(author) = author_of(root_ts).or(thread.told_author.as_deref()) else { continue };
            let others = thread.repliers.iter().filter(|(replier, _)| *replier != author);
            let replies: u64 = others.map(|(_, count)| count).sum();
            if replies > 0 {
                received.push((author.to_owned(), replies));
            }
        }
        for (author, replies) in received {
            self.person(&author).replies_received += replies;
        }
    }

    /// Whether every message would be counted in the same way today: as an app's if `is_bot` returns true for
    /// its author and for whether an app posted it.
    pub fn agrees(&self, is_bot: impl Fn(&str, bool) -> bool) -> bool {
        let bits = |id: &str| self.authorship.get(id).copied().unwrap_or_default();
        let wrote = self.people.iter().filter(|(_, person)| person.first.is_some());
        let people_agree = wrote.into_iter().all(|(id, _)| !is_bot(id, bits(id) & kind::PERSON_BY_APP != 0));
        people_agree
            && self.authorship.iter().all(|(id, bits)| {
                (bits & kind::BOT == 0 || is_bot(id, false))
                    && (bits & kind::BOT_BY_APP == 0 || is_bot(id, true))
            })
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
        for (root_ts, thread) in &other.threads {
            self.threads.entry(root_ts.clone()).or_default().merge(thread);
        }
        self.roots.extend(other.roots.iter().cloned());
        for (id, bits) in &other.authorship {
            *self.authorship.entry(id.clone()).or_default() |= bits;
        }
        self.most_reacted.extend_from_slice(&other.most_reacted);
        self.rank();
        self.basis = self.basis.wrapping_add(other.basis);
    }

    /// The sum of all people's figures, which are the channel's: messages, words, replies, and reactions to
    /// them.
    pub fn total(&self) -> PersonDay {
        let mut total = PersonDay::default();
        self.people.values().for_each(|person| total.add_counts(person));
        total
    }

    fn person(&mut self, id: &str) -> &mut PersonDay {
        self.people.entry(id.to_owned()).or_default()
    }

    fn rank(&mut self) {
        self.most_reacted.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        self.most_reacted.truncate(TOP);
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn ts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ts>, D::Error> {
    let text: &str = Deserialize::deserialize(deserializer)?;
    Ts::parse(text).map(Some).map_err(D::Error::custom)
}
