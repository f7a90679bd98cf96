//! A channel's day as the text of a row: written with zeros left out, and read in one pass.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::day::{DayFigures, DayThread, PersonDay};
use slack::hex::to_hex;
use slack::ids::Ts;

/// A roll-up that is stored has at most this many bytes, so that its row fits DynamoDB's 400 KB whatever else is in it.
pub const MAX_STORED_BYTES: usize = 350 * 1024;

/// A roll-up that no row can hold: what reads it counts the messages themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the roll-up would have {0} bytes, more than {MAX_STORED_BYTES}")]
pub struct TooLarge(pub usize);

/// What is read of a stored day. The totals over people are for those who look at the row itself.
#[derive(Deserialize)]
struct StoredDay<'a> {
    bot_messages: u64,
    files: u64,
    edited: u64,
    #[serde(borrow)]
    users: BTreeMap<String, StoredPerson<'a>>,
    emoji: BTreeMap<String, u64>,
    #[serde(borrow)]
    threads: BTreeMap<&'a str, StoredThread>,
    #[serde(borrow)]
    roots: Vec<&'a str>,
    authorship: BTreeMap<String, u64>,
    #[serde(borrow)]
    top_reacted: Vec<(&'a str, u64)>,
    basis: &'a str,
}

#[derive(Deserialize)]
struct StoredPerson<'a> {
    #[serde(default)]
    m: u64,
    #[serde(default)]
    w: u64,
    #[serde(default)]
    re: u64,
    #[serde(default)]
    rx_in: u64,
    #[serde(default)]
    rx_out: u64,
    #[serde(default)]
    men_in: u64,
    #[serde(default)]
    re_in: u64,
    #[serde(borrow)]
    first: Option<&'a str>,
    #[serde(default)]
    q: Vec<(u8, u64, u64)>,
}

#[derive(Deserialize)]
struct StoredThread {
    by: BTreeMap<String, u64>,
    told: Option<String>,
    author: Option<String>,
}

impl DayFigures {
    /// As it is stored; zeros are left out.
    pub fn stored(&self) -> Result<String, TooLarge> {
        let total = self.total();
        let people = self.people.iter().map(|(id, person)| (id.clone(), person_stored(person)));
        let stored = json!({
            "messages": total.messages, "words": total.words, "replies": total.replies,
            "reactions": total.reactions_received, "files": self.files, "edited": self.edited,
            "bot_messages": self.bot_messages,
            "users": people.collect::<Map<_, _>>(), "emoji": self.emoji,
            "threads": self.threads.iter().map(thread_stored).collect::<Map<_, _>>(),
            "roots": self.roots, "authorship": self.authorship, "top_reacted": self.most_reacted, "basis": to_hex(&self.basis.to_be_bytes()),
        });
        let stored = stored.to_string();
        if stored.len() > MAX_STORED_BYTES { Err(TooLarge(stored.len())) } else { Ok(stored) }
    }

    /// Reads what is stored; `None` if it does not have that shape.
    pub fn read(stored: &str) -> Option<Self> {
        let stored: StoredDay<'_> = serde_json::from_str(stored).ok()?;
        let people = stored.users.into_iter().map(|(id, person)| Some((id, person.read()?)));
        let threads = stored.threads.into_iter().map(|(root_ts, StoredThread { by, told, author })| {
            Some((Ts::parse(root_ts).ok()?, DayThread { repliers: by, told_author: told, author }))
        });
        let most_reacted =
            stored.top_reacted.into_iter().map(|(ts, count)| Some((Ts::parse(ts).ok()?, count)));
        Some(Self {
            bot_messages: stored.bot_messages,
            files: stored.files,
            edited: stored.edited,
            people: people.collect::<Option<_>>()?,
            emoji: stored.emoji,
            threads: threads.collect::<Option<_>>()?,
            roots: stored.roots.into_iter().map(|ts| Ts::parse(ts).ok()).collect::<Option<_>>()?,
            authorship: stored.authorship,
            most_reacted: most_reacted.collect::<Option<_>>()?,
            basis: u128::from_str_radix(stored.basis, 16).ok()?,
        })
    }
}

impl StoredPerson<'_> {
    fn read(self) -> Option<PersonDay> {
        let first = match self.first {
            Some(first) => Some(Ts::parse(first).ok()?),
            None => None,
        };
        Some(PersonDay {
            messages: self.m,
            words: self.w,
            replies: self.re,
            reactions_received: self.rx_in,
            reactions_given: self.rx_out,
            mentions_received: self.men_in,
            replies_received: self.re_in,
            first,
            quarters: self
                .q
                .into_iter()
                .map(|(quarter, messages, words)| (quarter, (messages, words)))
                .collect(),
        })
    }
}

fn person_stored(person: &PersonDay) -> Value {
    let counts = [
        ("m", person.messages),
        ("w", person.words),
        ("re", person.replies),
        ("rx_in", person.reactions_received),
        ("rx_out", person.reactions_given),
        ("men_in", person.mentions_received),
        ("re_in", person.replies_received),
    ];
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    let mut stored: Map<String, Value> =
        counts.map(|(name, count)| (name.to_owned(), count.into())).collect();
    stored.extend(person.first.as_ref().map(|first| ("first".to_owned(), first.as_str().into())));
    if !person.quarters.is_empty() {
        let quarters =
            person.quarters.iter().map(|(quarter, (messages, words))| json!([quarter, messages, words]));
        stored.insert("q".into(), quarters.collect());
    }
    stored.into()
}

fn thread_stored((root_ts, thread): (&Ts, &DayThread)) -> (String, Value) {
    let mut stored = json!({ "by": thread.repliers });
    for (name, author) in [("told", &thread.told_author), ("author", &thread.author)] {
        if let Some(author) = author {
            stored[name] = author.as_str().into();
        }
    }
    (root_ts.to_string(), stored)
}
