//! Compares the messages that Slack lists with the archive: what the archive lacks, and what Slack no longer
//! has.

use std::collections::HashSet;

use ports::archive::Item;
use slack::ids::Ts;

use super::HistoryMessage;
use crate::interval::Interval;
use crate::message::{self, stored_version};
use crate::reaction;

/// Subtypes of messages that a person or an app wrote. Only these can be found to be missing in Slack: Slack
/// lists other subtypes incompletely, so a message of such a subtype that is not listed may still exist.
const WRITTEN: [&str; 4] = ["bot_message", "file_share", "me_message", "thread_broadcast"];

/// What the archive lacks of a message that Slack lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The message itself: the archive has no row for it, or only a reaction.
    Missing,
    /// A newer edit, its deletion, or a reaction.
    Changed,
}

/// The result of comparing a message that Slack lists with its row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ComparedMessage {
    /// What the archive lacks of the message.
    pub difference: Option<Difference>,
    /// The number of reactions that the archive shows and Slack does not: history does not state when they
    /// were removed.
    pub reactions_removed: u64,
}

/// Compares a message that Slack lists with its row. Other changes that storing it would make (its thread, a
/// copy of the same edit) are not differences: they occur even if no event was missed.
pub fn compare(listed: &HistoryMessage, row: Option<&Item>) -> ComparedMessage {
    let missing = ComparedMessage { difference: Some(Difference::Missing), reactions_removed: 0 };
    let Some(row) = row else { return missing };
    if row.is_erased() {
        return ComparedMessage::default();
    }
    let (version, is_deleted) = (stored_version(row), row.has_flag("deleted"));
    if version.is_none() && !is_deleted {
        return missing;
    }
    let is_changed = match (listed.content(), version) {
        (Some(content), Some(version)) => content.version().edit_time() > version.edit_time(),
        (Some(_), None) => false,
        (None, _) => !is_deleted,
    };
    // A reaction that was removed and then added again in a gap cannot be restored from history: its removal
    // here has a later clock than any history has.
    let lacks_a_reaction =
        reaction::registers(&listed.reactions).any(|name| !row.attributes.contains_key(&name));
    let gone = || {
        let at_slack: HashSet<String> = reaction::registers(&listed.reactions).collect();
        reaction::added(&row.attributes).filter(|name| !at_slack.contains(*name)).count() as u64
    };
    ComparedMessage {
        difference: (is_changed || lacks_a_reaction).then_some(Difference::Changed),
        // A truncated list does not show that a reaction was removed, and a tombstone has no reactions.
        reactions_removed: if listed.reactions_cut || listed.content().is_none() || is_deleted {
            0
        } else {
            gone()
        },
    }
}

/// The list that Slack's messages came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedTimeline {
    /// The channel itself, without replies.
    Channel,
    /// The replies to this root, including those that were also sent to the channel.
    Thread(Ts),
}

/// A complete list of Slack's messages in an interval: Slack does not have any other message in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteListing {
    /// The list that they came from.
    pub timeline: ListedTimeline,
    pub interval: Interval,
    /// The listed messages: all of the interval, and possibly others.
    pub listed: HashSet<Ts>,
}

impl CompleteListing {
    /// The `ts` of a row's message, if the archive has the message and Slack no longer lists it although it
    /// should.
    pub fn unlisted_ts(&self, row: &Item) -> Option<Ts> {
        if stored_version(row).is_none() || row.has_flag("deleted") || row.is_erased() {
            return None;
        }
        let ts = Ts::parse(row.text("ts")?).ok()?;
        let is_written = row.text("subtype").is_none_or(|subtype| WRITTEN.contains(&subtype));
        let is_in_timeline = match (&self.timeline, root(row, &ts)) {
            (ListedTimeline::Channel, root) => root.is_none(),
            (ListedTimeline::Thread(listed), root) => root.as_ref() == Some(listed),
        };
        let is_gone =
            is_in_timeline && is_written && self.interval.contains(ts.micros()) && !self.listed.contains(&ts);
        is_gone.then_some(ts)
    }
}

/// The root of the thread in which a row's message is a reply, if the message is archived and not deleted.
pub fn archived_reply_root(row: &Item) -> Option<Ts> {
    let is_archived = stored_version(row).is_some() && !row.has_flag("deleted") && !row.is_erased();
    let ts = Ts::parse(row.text("ts")?).ok()?;
    root(row, &ts).filter(|_| is_archived)
}

fn root(row: &Item, ts: &Ts) -> Option<Ts> {
    let root = message::root(row)?;
    (root != *ts).then_some(root)
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
