//! Who has to do with one person: mentions, reactions and replies, in both directions.

use std::collections::BTreeMap;

use super::message::CountedMessage;

/// How often, by person.
pub type CountByPerson = BTreeMap<String, u64>;

/// One kind of attention, in both directions. What people do to themselves is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchange {
    /// From the person to others.
    pub given: CountByPerson,
    /// From others to the person.
    pub received: CountByPerson,
}

impl Exchange {
    fn add(&mut self, person: &str, from: &str, to: &str) {
        if from == to {
            return;
        }
        if from == person {
            *self.given.entry(to.to_owned()).or_default() += 1;
        } else if to == person {
            *self.received.entry(from.to_owned()).or_default() += 1;
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
    /// Replies to messages that began threads.
    pub replies: Exchange,
}

impl Partners {
    /// Adds a message of a person by any author; `root_author` wrote the message that it replies to.
    pub fn add(&mut self, person: &str, message: &CountedMessage<'_>, root_author: Option<&str>) {
        let Some(author) = message.author.filter(|_| !message.is_deleted) else { return };
        for mentioned in &message.mentions {
            self.mentions.add(person, author, mentioned);
        }
        for (_, reacting) in &message.reactions {
            self.reactions.add(person, reacting, author);
        }
        if let Some(root_author) = root_author.filter(|_| message.root_ts.is_some()) {
            self.replies.add(person, author, root_author);
        }
    }
}
