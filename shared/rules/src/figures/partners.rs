//! The partners of one person: mentions, reactions and replies, in both directions.

use std::collections::BTreeMap;

use super::day::DayThread;
use super::message::CountedMessage;

pub type CountByPerson = BTreeMap<String, u64>;

/// One kind of interaction, in both directions, without a person's interactions with themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchange {
    /// From the person to others.
    pub given: CountByPerson,
    /// From others to the person.
    pub received: CountByPerson,
}

impl Exchange {
    fn add(&mut self, person: &str, from: &str, to: &str, count: u64) {
        if from == to {
            return;
        }
        if from == person {
            *self.given.entry(to.to_owned()).or_default() += count;
        } else if to == person {
            *self.received.entry(from.to_owned()).or_default() += count;
        }
    }
}

/// The partners of one person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partners {
    /// Mentions in messages.
    pub mentions: Exchange,
    /// Reactions to messages.
    pub reactions: Exchange,
    /// Replies to roots of threads.
    pub replies: Exchange,
}

impl Partners {
    /// Adds the mentions in a message of a person, and the reactions to it.
    pub fn add(&mut self, person: &str, message: &CountedMessage<'_>) {
        let Some(author) = message.author.filter(|_| !message.is_deleted) else { return };
        for mentioned in &message.mentions {
            self.mentions.add(person, author, mentioned, 1);
        }
        for (_, reacting) in &message.reactions {
            self.reactions.add(person, reacting, author, 1);
        }
    }

    /// Adds a day's replies to a message of `root_author`.
    pub fn add_replies(&mut self, person: &str, thread: &DayThread, root_author: &str) {
        for (replier, count) in &thread.repliers {
            self.replies.add(person, replier, root_author, *count);
        }
    }
}
