//! The nightly proof: which interval of a channel was compared with Slack, and what the last night found.
//!
//! * A row `verified#{team}` / `{channel}`, with two registers. `proven` has the interval: the later end wins, then
//!   the earlier start. It is written after everything that it claims is stored, so the interval has no hole and is
//!   never too long. `counted` has the counts of the last night.
//! * A row `verified#{team}` / `night`: the last night that is done.

use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use ports::clock::TimestampMs;
use ports::queue::job::encode_job;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use slack::ids::{ChannelId, TeamId, Ts};

use crate::{Malformed, read_job};

const PROVEN: &str = "proven";
const COUNTED: &str = "counted";
const DONE: &str = "done";
const NIGHT: &str = "night";

/// A channel that is behind for more nights than this needs a person: Slack may fail for a night. For a channel that
/// Slack refuses, it is a week: the app may be invited by then.
const MAX_NIGHTS_BEHIND: i64 = 3;
const MAX_NIGHTS_REFUSED: i64 = 7;

/// A day in microseconds.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// The interval of a channel that was compared with Slack, and in which the archive has everything since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenSpan {
    /// Its inclusive start.
    pub from: Ts,
    /// Its exclusive end, a midnight in UTC.
    pub through: Ts,
    /// When its end was compared, by Slack's clock.
    pub at: Ts,
    /// Whether Slack shows nothing older.
    pub is_whole: bool,
    /// Whether the channel was archived then: nothing new can be in it.
    pub is_archived: bool,
}

/// What a night found in a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProofCounts {
    /// Messages in Slack that were not in the archive.
    pub missing: u64,
    /// Messages for which Slack had an edit, a deletion or a reaction that was not in the archive.
    pub changed: u64,
    /// Messages in the archive that Slack no longer lists.
    pub extra: u64,
    /// The missing and changed messages that were stored.
    pub filled: u64,
    /// Calls to Slack.
    pub calls: u64,
    /// Why the channel could not be compared.
    pub error: Option<String>,
}

impl ProofCounts {
    /// The counts by their names, for scripts.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 5] {
        let Self { missing, changed, extra, filled, calls, .. } = self;
        [
            ("missing", *missing),
            ("changed", *changed),
            ("extra", *extra),
            ("filled", *filled),
            ("calls", *calls),
        ]
    }

    /// What was found since these counts.
    #[must_use]
    pub fn minus(&self, before: &Self) -> Self {
        Self {
            missing: self.missing.saturating_sub(before.missing),
            changed: self.changed.saturating_sub(before.changed),
            extra: self.extra.saturating_sub(before.extra),
            filled: self.filled.saturating_sub(before.filled),
            calls: self.calls.saturating_sub(before.calls),
            error: self.error.clone(),
        }
    }

    /// Adds what was found next; its error replaces this one.
    #[must_use]
    pub fn plus(&self, next: &Self) -> Self {
        Self {
            missing: self.missing.saturating_add(next.missing),
            changed: self.changed.saturating_add(next.changed),
            extra: self.extra.saturating_add(next.extra),
            filled: self.filled.saturating_add(next.filled),
            calls: self.calls.saturating_add(next.calls),
            error: next.error.clone(),
        }
    }
}

/// The row of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedChannel {
    /// The workspace.
    pub team: TeamId,
    pub channel: ChannelId,
    /// The first night in which the channel was to be compared: its midnight.
    pub since: Option<Ts>,
    /// The interval that is proven.
    pub proven: Option<ProvenSpan>,
    /// The midnight of the last night, how often its counts were written, and the counts.
    pub last: Option<(Ts, u32, ProofCounts)>,
}

impl VerifiedChannel {
    /// A channel that was never compared.
    #[must_use]
    pub fn new(team: TeamId, channel: ChannelId) -> Self {
        Self { team, channel, since: None, proven: None, last: None }
    }

    /// Reads a row; `None` for the row of the night, and for rows that this version does not understand.
    #[must_use]
    pub fn read(team: &TeamId, row: &Item) -> Option<Self> {
        let channel = ChannelId::parse(&row.key.timestamp).ok()?;
        let time = |name: &str| row.text(name).and_then(Ts::unpadded);
        let through = row.text(PROVEN).and_then(|proven| Ts::unpadded(proven.split_once('#')?.0));
        let proven = through.zip(time("from")).zip(time("at")).map(|((through, from), at)| ProvenSpan {
            from,
            through,
            at,
            is_whole: row.has_flag("whole"),
            is_archived: row.has_flag("archived"),
        });
        let count = |name: &str| row.attributes.get(name).and_then(Value::as_u64).unwrap_or_default();
        let last = row.text(COUNTED).and_then(|counted| {
            let (midnight, number) = counted.split_once('#')?;
            let counts = ProofCounts {
                missing: count("missing"),
                changed: count("changed"),
                extra: count("extra"),
                filled: count("filled"),
                calls: count("calls"),
                error: row.text("error").map(str::to_owned),
            };
            Some((Ts::unpadded(midnight)?, number.parse().ok()?, counts))
        });
        Some(Self { team: team.clone(), channel, since: time("since"), proven, last })
    }

    /// Whether the proof reaches this midnight, or the night already failed.
    #[must_use]
    pub fn is_settled(&self, midnight: &Ts) -> bool {
        self.reaches(midnight) || self.failed_in(midnight)
    }

    /// Whether the proof reaches this midnight.
    #[must_use]
    pub fn reaches(&self, midnight: &Ts) -> bool {
        self.proven.as_ref().is_some_and(|proven| proven.through >= *midnight)
    }

    /// Whether the channel could not be compared in the night of this midnight.
    #[must_use]
    pub fn failed_in(&self, midnight: &Ts) -> bool {
        self.last.as_ref().is_some_and(|(last, _, counts)| last == midnight && counts.error.is_some())
    }

    /// What the night of this midnight found so far.
    #[must_use]
    pub fn found_in(&self, midnight: &Ts) -> ProofCounts {
        let last = self.last.as_ref().filter(|(last, ..)| last == midnight);
        last.map(|(_, _, counts)| counts.clone()).unwrap_or_default()
    }

    /// The nights that the proof is behind this midnight.
    #[must_use]
    pub fn nights_behind(&self, midnight: &Ts) -> i64 {
        let reached = self.proven.as_ref().map(|proven| &proven.through).or(self.since.as_ref());
        let reached = reached.map_or_else(|| midnight.micros(), Ts::micros);
        midnight.micros().saturating_sub(reached).max(0) / DAY_MICROS
    }

    /// Whether the proof is so far behind this midnight that a person must look.
    #[must_use]
    pub fn is_late(&self, midnight: &Ts) -> bool {
        let max = if self.failed_in(midnight) { MAX_NIGHTS_REFUSED } else { MAX_NIGHTS_BEHIND };
        self.nights_behind(midnight) > max
    }

    /// The update that records an interval.
    #[must_use]
    pub fn prove(&self, span: &ProvenSpan) -> Update {
        let ProvenSpan { from, through, at, is_whole, is_archived } = span;
        // The earlier start is the greater version.
        let reach = i64::MAX.saturating_sub(from.micros());
        let guard = Guard::Greater {
            register: PROVEN.into(),
            version: format!("{}#{reach:019}#{}", through.padded(), u8::from(*is_whole)),
        };
        let mut set = text_attributes([("from", &*from.padded()), ("at", &*at.padded())]);
        let mut remove = Vec::new();
        for (name, is_set) in [("whole", *is_whole), ("archived", *is_archived)] {
            if is_set {
                set.insert(name.into(), true.into());
            } else {
                remove.push(name);
            }
        }
        Update { guard, set, remove, set_if_absent: self.identity(through), ..Update::new(self.key()) }
    }

    /// The update that adds what was found in the night of this midnight.
    #[must_use]
    pub fn count(&self, midnight: &Ts, found: &ProofCounts) -> Update {
        let counts = self.found_in(midnight).plus(found);
        let number = self.last.as_ref().filter(|(last, ..)| last == midnight).map_or(0, |last| last.1 + 1);
        let guard = Guard::Greater {
            register: COUNTED.into(),
            version: format!("{}#{number:010}", midnight.padded()),
        };
        let mut set: Attributes =
            counts.named().into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        let mut remove = Vec::new();
        match counts.error {
            Some(error) => drop(set.insert("error".into(), error.into())),
            None => remove.push("error"),
        }
        Update { guard, set, remove, set_if_absent: self.identity(midnight), ..Update::new(self.key()) }
    }

    fn key(&self) -> ItemKey {
        ItemKey::verified(&self.team, self.channel.as_str())
    }

    fn identity(&self, midnight: &Ts) -> Attributes {
        let (team, channel, since) = (self.team.as_str(), self.channel.as_str(), &*midnight.padded());
        text_attributes([("type", "verified"), ("team_id", team), ("channel_id", channel), ("since", since)])
    }
}

/// The key of the row that records the last night.
#[must_use]
pub fn night_key(team: &TeamId) -> ItemKey {
    ItemKey::verified(team, NIGHT)
}

/// The update that records that a night is done.
#[must_use]
pub fn night_done(team: &TeamId, night: TimestampMs) -> Update {
    let guard = Guard::Greater { register: DONE.into(), version: format!("{:020}", night.0.max(0)) };
    let set_if_absent = text_attributes([("type", "night"), ("team_id", team.as_str())]);
    Update { guard, set_if_absent, ..Update::new(night_key(team)) }
}

/// The last night that is done; `None` if the archive has not seen a night yet.
#[must_use]
pub fn last_night(row: Option<&Item>) -> Option<TimestampMs> {
    row?.text(DONE)?.parse().ok().map(TimestampMs)
}

/// The midnight in UTC before this time.
#[must_use]
pub fn midnight_before(micros: i64) -> Ts {
    let midnight = micros.max(0) / DAY_MICROS * DAY_MICROS;
    crate::interval::Interval { from: midnight, to: midnight }.from_ts()
}

/// A turn of the night's work in a workspace: retention first, then the proof. The rows say what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NightJob {
    /// The workspace.
    pub team: TeamId,
    /// When the night began, in milliseconds since the Unix epoch.
    pub night_ms: i64,
    /// When the first turn was sent, in milliseconds since the Unix epoch: it tells a repeated night from the first.
    pub sent_ms: i64,
    /// The number of the turn: each sends the next one, while anything is left.
    pub turn: u32,
    /// The calls to Slack in the turns before.
    #[serde(default)]
    pub calls: u64,
    /// The last channel whose newest days are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ChannelId>,
    /// How far the newest days of the next channel are compared already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Ts>,
}

impl NightJob {
    /// The job as a message.
    #[must_use]
    pub fn outgoing(&self) -> Outgoing {
        let Self { team, night_ms, sent_ms, turn, .. } = self;
        let parts = ["night", team.as_str(), &night_ms.to_string(), &sent_ms.to_string(), &turn.to_string()];
        Outgoing {
            queue: QueueName::Nightly,
            group: GroupId::from_parts(&[team.as_str()]),
            dedup: DedupId::from_parts(&parts.map(str::as_bytes)),
            body: encode_job("night", self),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or malformed.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        read_job("night", raw)
    }
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
