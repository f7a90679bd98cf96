//! Every kind of stored row, in one table: its key, how long it stays, what erases it, and who writes it.
//!
//! The constructors of keys, the rows that facts of erasures cover, the rows that a role on AWS may delete, the
//! rows that the changes port follows and `docs/rows.md` follow from it.

mod table;

pub use table::*;

use std::time::Duration;

use slack::ids::{ChannelId, TeamId, Ts};

use super::key::ItemKey;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowKind {
    pub about: &'static str,
    /// The partition, with a `{name}` for each id.
    pub partition: &'static str,
    /// The beginning of every partition: the text before the first id.
    prefix: &'static str,
    /// The position in the partition, with a `{name}` for each id.
    pub sort: &'static str,
    /// How long a row stays.
    pub lifetime: Lifetime,
    /// The days after its last write after which DynamoDB deletes it.
    pub expires_days: Option<u32>,
    pub erased: ErasedWith,
    /// Whether the changes port reports it.
    pub is_followed: bool,
    /// The only backend that has such rows; `None` for every backend.
    pub only_on: Option<&'static str>,
    /// The parts that write it.
    pub written_by: &'static str,
}

/// How long a row stays, unless it is erased, or expires by itself ([`RowKind::expires_days`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// For good: nothing deletes it.
    Kept,
    /// Until it is no longer needed: then it is deleted.
    Transient,
}

/// What erases a row. All but the last two are facts, which also bind every writer: see [`super::erasure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasedWith {
    /// Its message (`channel` and `ts`), whose author is its `user`.
    Message,
    /// Its channel, if the time in its key (`ts`) is before the erasure's.
    ChannelBefore,
    /// Its channel, if the day in its key (`day`) began before the erasure's time.
    ChannelDay,
    /// Its channel, whatever its time.
    Channel,
    User,
    /// The user that its attribute `user_id` names.
    BotUser,
    /// The eraser alone, as described here.
    Eraser(&'static str),
    /// Nothing: it has no content of a person or of a channel.
    Nothing,
}

/// A row that stays for good and that nothing erases.
const KEPT: RowKind = RowKind {
    about: "",
    partition: "",
    prefix: "",
    sort: "",
    lifetime: Lifetime::Kept,
    expires_days: None,
    erased: ErasedWith::Nothing,
    is_followed: false,
    only_on: None,
    written_by: "",
};

/// A row that is deleted when it is no longer needed.
const TRANSIENT: RowKind = RowKind { lifetime: Lifetime::Transient, ..KEPT };

/// The ids in a key by the names in its patterns; empty if the kind has none of that name.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RowIds<'k> {
    pub team: &'k str,
    pub channel: &'k str,
    /// The time of the message, or of the state of a channel.
    pub ts: &'k str,
    pub day: &'k str,
    pub user: &'k str,
}

/// The text before the first id of a pattern.
const fn before_ids(pattern: &'static str) -> &'static str {
    let bytes = pattern.as_bytes();
    let mut end = 0;
    while end < bytes.len() && bytes[end] != b'{' {
        end += 1;
    }
    pattern.split_at(end).0
}

impl RowKind {
    const fn erased_with(self, erased: ErasedWith) -> Self {
        Self { erased, ..self }
    }

    const fn followed(self) -> Self {
        Self { is_followed: true, ..self }
    }

    const fn expiring(self, days: u32) -> Self {
        Self { expires_days: Some(days), ..self }
    }

    const fn only_on(self, backend: &'static str) -> Self {
        Self { only_on: Some(backend), ..self }
    }

    /// The beginning of every partition: the text before the first id.
    pub const fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// The partitions as a pattern, in which a `*` matches the rest of a name.
    pub fn partitions(&self) -> String {
        if self.prefix == self.partition { self.prefix.to_owned() } else { format!("{}*", self.prefix) }
    }

    /// Whether a partition begins like those of this kind.
    fn begins(&self, item_id: &str) -> bool {
        item_id.starts_with(self.prefix) && (self.prefix != self.partition || self.prefix == item_id)
    }

    /// The ids in a key; `None` if the partition is not one of this kind.
    pub fn ids<'k>(&self, key: &'k ItemKey) -> Option<RowIds<'k>> {
        let mut ids = RowIds::default();
        let (mut names, mut parts) = (self.partition.split('#'), key.item_id.split('#'));
        loop {
            match (names.next(), parts.next()) {
                (Some(name), Some(part)) if ids.take(name, part) || name == part => {}
                (None, None) => break,
                _ => return None,
            }
        }
        let mut rest = Some(key.timestamp.as_str());
        let mut names = self.sort.split('#').peekable();
        while let (Some(name), Some(text)) = (names.next(), rest) {
            let (part, after) = match (names.peek(), text.split_once('#')) {
                (Some(_), Some((part, after))) => (part, Some(after)),
                (Some(_), None) | (None, _) => (text, None),
            };
            ids.take(name, part);
            rest = after;
        }
        Some(ids)
    }

    /// Whether facts of erasures cover rows of this kind.
    pub fn is_covered(&self) -> bool {
        !matches!(self.erased, ErasedWith::Eraser(_) | ErasedWith::Nothing)
    }
}

impl<'k> RowIds<'k> {
    /// Keeps the id for which `name` stands. Returns whether it stands for one.
    fn take(&mut self, name: &str, id: &'k str) -> bool {
        match name {
            "{team}" => self.team = id,
            "{channel}" => self.channel = id,
            "{ts}" => self.ts = id,
            "{day}" => self.day = id,
            "{user}" => self.user = id,
            _ => return name.starts_with('{'),
        }
        true
    }
}

/// The kind of a row that facts of erasures may cover, and the ids in its key.
pub fn covered(key: &ItemKey) -> Option<(&'static RowKind, RowIds<'_>)> {
    let mut kinds = ROWS.iter().filter(|kind| kind.is_covered() && kind.begins(&key.item_id));
    kinds.find_map(|kind| Some((kind, kind.ids(key)?)))
}

/// The message with which a row is erased.
pub fn message_of(key: &ItemKey) -> Option<(TeamId, ChannelId, Ts)> {
    let (_, ids) = covered(key).filter(|(kind, _)| kind.erased == ErasedWith::Message)?;
    Some((TeamId::parse(ids.team).ok()?, ChannelId::parse(ids.channel).ok()?, Ts::parse(ids.ts).ok()?))
}

/// The partitions whose rows are deleted at some time, as patterns in which a `*` matches the rest of a name.
/// All other rows are permanent.
pub fn transient_partitions() -> Vec<String> {
    let mut patterns = Vec::new();
    for kind in ROWS.iter().filter(|kind| kind.lifetime == Lifetime::Transient) {
        if !patterns.contains(&kind.partitions()) {
            patterns.push(kind.partitions());
        }
    }
    patterns
}

/// How long after its last write a row of this partition expires; `None` if it does not.
///
/// Only a backend that deletes expired rows uses it: whoever reads them must get along without them, and with ones
/// that are left.
pub fn expires_after(item_id: &str) -> Option<Duration> {
    let days = ROWS.iter().filter(|kind| kind.begins(item_id)).find_map(|kind| kind.expires_days)?;
    Some(Duration::from_secs(u64::from(days) * 24 * 3600))
}

/// Whether the rows of a partition are deleted at some time.
pub fn is_transient(item_id: &str) -> bool {
    ROWS.iter().any(|kind| kind.lifetime == Lifetime::Transient && kind.begins(item_id))
}

/// The prefix of the partitions whose rows the changes port reports. A test checks that it is the only one.
pub const FOLLOWED: &str = MESSAGE.prefix();

/// The kinds of rows as the Markdown table in the documentation.
pub fn markdown_table() -> String {
    let mut table = String::from("| row | key | stays | erased | written by |\n|---|---|---|---|---|\n");
    for kind in ROWS {
        let lifetime = match kind.lifetime {
            Lifetime::Kept => "for good",
            Lifetime::Transient => "until it is not needed",
        };
        let lifetime = match (kind.expires_days, kind.only_on) {
            (Some(days), Some(_)) => format!("{days} days"),
            (Some(days), None) => format!("{lifetime}; on AWS, {days} days at most"),
            (None, _) => lifetime.to_owned(),
        };
        let erased = match kind.erased {
            ErasedWith::Message => "with its message",
            ErasedWith::ChannelBefore | ErasedWith::ChannelDay => {
                "with its channel, if it is of an earlier time"
            }
            ErasedWith::Channel => "with its channel",
            ErasedWith::User => "with its user",
            ErasedWith::BotUser => "with the user of its app",
            ErasedWith::Eraser(how) => how,
            ErasedWith::Nothing => "",
        };
        let followed = if kind.is_followed { "; followed" } else { "" };
        let backend = kind.only_on.map_or_else(String::new, |backend| format!("; only {backend}"));
        let (about, partition, sort) = (kind.about.trim_end_matches('.'), kind.partition, kind.sort);
        table.push_str(&format!(
            "| {about}{followed}{backend} | `{partition}` / `{sort}` | {lifetime} | {erased} | {} |\n",
            kind.written_by
        ));
    }
    table
}

#[cfg(test)]
mod tests;
