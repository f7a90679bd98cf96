//! Compares what Slack lists with what the archive holds: what a message of Slack's brings that is not here, and what is here
//! and no longer at Slack.

use std::collections::HashSet;

use ports::archive::Item;
use slack::ids::Ts;

use super::HistoryMessage;
use crate::interval::Interval;
use crate::message::stored_version;
use crate::reaction;

/// What is here and may be missing at Slack is something that a person or an app wrote. Slack lists other subtypes in part
/// only, so that one of them is not known to be deleted if it is not listed.
const WRITTEN: [&str; 4] = ["bot_message", "file_share", "me_message", "thread_broadcast"];

/// What a message of Slack's brings that the archive lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The message: it is not here, or nothing of it but a reaction.
    Missing,
    /// A newer edit, its deletion, or a reaction.
    Changed,
}

/// A message of Slack's beside the archive's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ComparedMessage {
    /// What the archive lacks of it.
    pub difference: Option<Difference>,
    /// Reactions that the archive shows and Slack does not: no message of history says when they went.
    pub reactions_removed: u64,
}

/// Compares a message that Slack lists with its row. What storing it changes beside this (its thread, a copy of the same
/// edit) is no difference: it comes and goes without anything having been missed.
pub fn compare(listed: &HistoryMessage, row: Option<&Item>) -> ComparedMessage {
    let missing = ComparedMessage { difference: Some(Difference::Missing), reactions_removed: 0 };
    let Some(row) = row else { return missing };
    if row.is_erased() {
        return ComparedMessage::default();
    }
    let (version, is_deleted) = (stored_version(row), row.is("deleted"));
    if version.is_none() && !is_deleted {
        return missing;
    }
    let is_changed = match (listed.content(), version) {
        (Some(content), Some(version)) => content.version().edit_time() > version.edit_time(),
        (Some(_), None) => false,
        (None, _) => !is_deleted,
    };
    // What was removed and comes back in a gap has a later clock here than any history has: it cannot be brought.
    let lacks_a_reaction =
        reaction::registers(&listed.reactions).any(|name| !row.attributes.contains_key(&name));
    let gone = || {
        let there: HashSet<String> = reaction::registers(&listed.reactions).collect();
        reaction::added(&row.attributes).filter(|name| !there.contains(*name)).count() as u64
    };
    ComparedMessage {
        difference: (is_changed || lacks_a_reaction).then_some(Difference::Changed),
        // A list that was cut says of no reaction that it is gone, and a tombstone shows none.
        reactions_removed: if listed.reactions_cut || listed.content().is_none() || is_deleted {
            0
        } else {
            gone()
        },
    }
}

/// Whose messages Slack listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedTimeline {
    /// Those of the channel itself, without replies.
    Channel,
    /// The replies of this root. A reply that was sent to the channel too is one of them.
    Thread(Ts),
}

/// What Slack listed of a time, completely: what is not in it is not at Slack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteListing {
    /// Whose messages.
    pub place: ListedTimeline,
    /// The time.
    pub time: Interval,
    /// What there is in it at least.
    pub listed: HashSet<Ts>,
}

impl CompleteListing {
    /// When a row's message was written, if the message is here and Slack no longer lists it although it should.
    pub fn lacks(&self, row: &Item) -> Option<Ts> {
        if stored_version(row).is_none() || row.is("deleted") || row.is_erased() {
            return None;
        }
        let ts = Ts::parse(row.text("ts")?).ok()?;
        let is_written = row.text("subtype").is_none_or(|subtype| WRITTEN.contains(&subtype));
        let is_here = match (&self.place, root(row, &ts)) {
            (ListedTimeline::Channel, root) => root.is_none(),
            (ListedTimeline::Thread(listed), root) => root.as_ref() == Some(listed),
        };
        let is_gone = is_here && is_written && self.time.contains(ts.micros()) && !self.listed.contains(&ts);
        is_gone.then_some(ts)
    }
}

/// The root of the thread in which a row's message is a reply, if it is here and not deleted.
pub fn held_reply_of(row: &Item) -> Option<Ts> {
    let is_held = stored_version(row).is_some() && !row.is("deleted") && !row.is_erased();
    let ts = Ts::parse(row.text("ts")?).ok()?;
    root(row, &ts).filter(|_| is_held)
}

fn root(row: &Item, ts: &Ts) -> Option<Ts> {
    let root = Ts::parse(row.text("thread_ts")?).ok()?;
    (root != *ts).then_some(root)
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
