//! A channel's day as the text of a row: written without zeros, and read in one pass.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::day::{DayFigures, DayThread, PersonDay};
use slack::hex::to_hex;
use slack::ids::Ts;

/// The maximum size of a stored roll-up: its row fits DynamoDB's 400 KB with all its other attributes.
pub const MAX_STORED_BYTES: usize = 350 * 1024;

/// A roll-up that is too large for a row: readers count the messages themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the roll-up would have {0} bytes, more than {MAX_STORED_BYTES}")]
pub struct DayTooLarge(pub usize);

/// The fields that are read from a stored day. Its totals over people are for operators who inspect the row.
#[derive(Deserialize)]
struct StoredDay<'a> {
    bot_messages: u64,
    files: u64,
    edited: u64,
    users: BTreeMap<String, PersonDay>,
    emoji: BTreeMap<String, u64>,
    #[serde(borrow)]
    threads: BTreeMap<&'a str, DayThread>,
    #[serde(borrow)]
    roots: Vec<&'a str>,
    authorship: BTreeMap<String, u64>,
    #[serde(borrow)]
    top_reacted: Vec<(&'a str, u64)>,
    basis: &'a str,
}

impl DayFigures {
    /// The figures as they are stored; zeros are left out.
    pub fn stored(&self) -> Result<String, DayTooLarge> {
        let total = self.total();
        let stored = json!({
            "messages": total.messages, "words": total.words, "replies": total.replies,
            "reactions": total.reactions_received, "files": self.files, "edited": self.edited,
            "bot_messages": self.bot_messages,
            "users": self.people, "emoji": self.emoji, "threads": self.threads,
            "roots": self.roots, "authorship": self.authorship, "top_reacted": self.most_reacted, "basis": to_hex(&self.basis.to_be_bytes()),
        });
        let stored = stored.to_string();
        if stored.len() > MAX_STORED_BYTES { Err(DayTooLarge(stored.len())) } else { Ok(stored) }
    }

    /// Reads stored figures; `None` if they do not have that shape.
    pub fn read(stored: &str) -> Option<Self> {
        let stored: StoredDay<'_> = serde_json::from_str(stored).ok()?;
        let threads = stored.threads.into_iter();
        let threads = threads.map(|(root_ts, thread)| Some((Ts::parse(root_ts).ok()?, thread)));
        let most_reacted =
            stored.top_reacted.into_iter().map(|(ts, count)| Some((Ts::parse(ts).ok()?, count)));
        Some(Self {
            bot_messages: stored.bot_messages,
            files: stored.files,
            edited: stored.edited,
            people: stored.users,
            emoji: stored.emoji,
            threads: threads.collect::<Option<_>>()?,
            roots: stored.roots.into_iter().map(|ts| Ts::parse(ts).ok()).collect::<Option<_>>()?,
            authorship: stored.authorship,
            most_reacted: most_reacted.collect::<Option<_>>()?,
            basis: u128::from_str_radix(stored.basis, 16).ok()?,
        })
    }
}
