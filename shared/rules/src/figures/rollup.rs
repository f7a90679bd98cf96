//! Roll-ups as rows: the days that must be counted, their figures, and the progress of the statistician.
//!
//! * `rollupdue#{team}` / `{day}#{channel}`: the day must be counted. `wanted` grows with each change of the
//!   day, so that a count which began before a change does not complete the request of that change.
//! * `rollup#{team}#{channel}` / `{day}`: the figures; the version is the `wanted` that was read before the
//!   count.
//! * `rollupdays#{team}` / `{day}`: changes before any roll-up of that day does.
//! * `firstpost#{team}` / `{user}`: the first known message of a person. A minimum cannot grow back, so an
//!   erasure marks it as `unsure`.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::day::DayFigures;
use super::stored_day::DayTooLarge;
use crate::{Malformed, read_job};
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use ports::changes::ChangeCursor;
use ports::clock::TimestampMs;
use ports::queue::job::encode_job;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use slack::hex::to_hex;
use slack::ids::{ChannelId, TeamId, Ts, UserId};

const DAY_S: i64 = 86_400;
const MINUTE_MS: i64 = 60_000;

/// The number of days for which a day stays open after its end: most edits, reactions and replies come in
/// that time.
const OPEN_DAYS: i64 = 2;

const VERSION: &str = "version";
const WANTED: &str = "wanted";
const FIGURES: &str = "figures";
const FIRST: &str = "first";
const UNSURE: &str = "unsure";

/// A day in UTC that can be counted: the timestamps of its messages have ten digits, so that they sort as
/// text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RollupDay(i64);

impl RollupDay {
    /// The first whole day of ten digits, 2001-09-10.
    pub const FIRST: Self = Self(11_575);
    /// The last whole day of ten digits, 2286-11-19.
    const LAST: Self = Self(115_739);

    /// The day with this number since 1970; `None` if it cannot be counted.
    pub fn new(number: i64) -> Option<Self> {
        (Self::FIRST.0..=Self::LAST.0).contains(&number).then_some(Self(number))
    }

    pub fn from_date(date: Date) -> Option<Self> {
        Self::new(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second().div_euclid(DAY_S))
    }

    pub fn from_ts(ts: &Ts) -> Option<Self> {
        Self::new(ts.micros().div_euclid(DAY_S * 1_000_000))
    }

    /// The last day that is closed at a time. Late changes of closed days are still counted, one by one.
    pub fn closed_at(now: TimestampMs) -> Option<Self> {
        Self::new(now.0.div_euclid(DAY_S * 1_000) - OPEN_DAYS)
    }

    /// Days since 1970.
    #[must_use]
    pub fn number(self) -> i64 {
        self.0
    }

    /// The day after it.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }

    #[must_use]
    pub fn date(self) -> Date {
        let midnight = Timestamp::from_second(self.0 * DAY_S).unwrap_or_default();
        midnight.to_zoned(TimeZone::UTC).date()
    }

    /// The day in keys: `2026-11-20`.
    #[must_use]
    pub fn text(self) -> String {
        self.date().to_string()
    }

    /// The lower bound of its timestamps as text: a second without a fraction sorts before each time within
    /// it.
    #[must_use]
    pub fn bound(self) -> String {
        (self.0 * DAY_S).to_string()
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::from_date(text.parse().ok()?)
    }
}

/// A channel's day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelDay {
    pub team: TeamId,
    pub channel: ChannelId,
    pub day: RollupDay,
}

impl ChannelDay {
    /// The key of the row that marks it as due.
    pub fn due_key(&self) -> ItemKey {
        ItemKey::rollup_due(&self.team, &self.channel, &self.day.text())
    }

    /// The key of its roll-up.
    pub fn rollup_key(&self) -> ItemKey {
        ItemKey::rollup(&self.team, &self.channel, &self.day.text())
    }

    /// The key of the day's row for all channels.
    pub fn day_key(&self) -> ItemKey {
        ItemKey::rollup_day(&self.team, &self.day.text())
    }

    /// The day of a key that [`ChannelDay::due_key`] returned.
    pub fn from_due_key(team: &TeamId, due: &ItemKey) -> Option<Self> {
        let (day, channel) = due.timestamp.split_once('#')?;
        Some(Self {
            team: team.clone(),
            channel: ChannelId::parse(channel).ok()?,
            day: RollupDay::parse(day)?,
        })
    }

    /// The day of a key that [`ChannelDay::rollup_key`] returned.
    pub fn from_rollup_key(team: &TeamId, channel: &ChannelId, rollup: &ItemKey) -> Option<Self> {
        let day = RollupDay::parse(&rollup.timestamp)?;
        Some(Self { team: team.clone(), channel: channel.clone(), day })
    }

    /// The update that requests a count. `due` and `rollup` are the rows as they were read.
    pub fn request_count(&self, due: Option<&Item>, rollup: Option<&Item>, now: TimestampMs) -> Update {
        let requested = due.map_or(0, request_number);
        let counted = rollup.map_or(0, counted_request);
        let guard = Guard::Unchanged {
            register: WANTED.into(),
            expected: due.and_then(|due| due.text(WANTED)).map(str::to_owned),
            version: count_text(requested.max(counted) + 1),
        };
        let set = Attributes::from_iter([("asked_at_ms".to_owned(), now.0.into())]);
        Update { guard, set, set_if_absent: self.identity("rollupdue"), ..Update::new(self.due_key()) }
    }

    /// The update of the roll-up, counted after `due` was read. A roll-up that was counted for a later change
    /// stays.
    pub fn rollup(&self, due: &Item, figures: &DayFigures) -> Update {
        let guard = Guard::Greater { register: VERSION.into(), version: count_text(request_number(due)) };
        let mut set = Attributes::new();
        let mut remove = Vec::new();
        match figures.stored() {
            Ok(stored) => {
                set.insert(FIGURES.into(), stored.into());
            }
            // Readers count the messages of such a day themselves.
            Err(DayTooLarge(_)) => remove.push(FIGURES),
        }
        Update {
            guard,
            set,
            remove,
            set_if_absent: self.identity("rollup"),
            ..Update::new(self.rollup_key())
        }
    }

    /// The update that gives the day's row for all channels a new version.
    pub fn renew(&self, day_row: Option<&Item>, due: &Item, figures: &DayFigures) -> Update {
        let version = day_row.and_then(day_version);
        let mut hash = Sha256::new();
        let request = count_text(request_number(due));
        for part in [version.unwrap_or_default(), self.channel.as_str(), &request] {
            hash.update(part);
            hash.update([0]);
        }
        hash.update(figures.basis.to_be_bytes());
        let guard = Guard::Unchanged {
            register: VERSION.into(),
            expected: version.map(str::to_owned),
            version: to_hex(&hash.finalize()[..16]),
        };
        let mut set_if_absent = self.identity("rollupday");
        set_if_absent.remove("channel_id");
        Update { guard, set_if_absent, ..Update::new(self.day_key()) }
    }

    /// The update that records the first message of a person on this day.
    pub fn first_post(&self, user: &UserId, ts: &Ts) -> Update {
        let version = format!("{}#{}", ts.padded(), self.channel);
        let guard = Guard::Less { register: FIRST.into(), version };
        let mut set_if_absent = self.identity("firstpost");
        set_if_absent.retain(|name, _| name == "type" || name == "team_id");
        Update { guard, set_if_absent, ..Update::new(ItemKey::first_post(&self.team, user)) }
    }

    fn identity(&self, kind: &str) -> Attributes {
        text_attributes([
            ("type", kind),
            ("team_id", self.team.as_str()),
            ("channel_id", self.channel.as_str()),
            ("day", &self.day.text()),
        ])
    }
}

/// A count as text that sorts like the number.
fn count_text(count: u64) -> String {
    format!("{count:012}")
}

/// The number of the last request for a count of this day.
fn request_number(due: &Item) -> u64 {
    due.text(WANTED).and_then(|wanted| wanted.parse().ok()).unwrap_or_default()
}

/// The number of the request for which a roll-up was counted.
fn counted_request(rollup: &Item) -> u64 {
    rollup.text(VERSION).and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// When a count was last requested.
pub fn requested_at(due: &Item) -> TimestampMs {
    TimestampMs(due.attributes.get("asked_at_ms").and_then(serde_json::Value::as_i64).unwrap_or_default())
}

/// The figures of a roll-up; `None` if the caller must count the messages instead.
pub fn figures(rollup: &Item) -> Option<DayFigures> {
    DayFigures::read(rollup.text(FIGURES)?)
}

/// Whether the figures of a roll-up may name a user: they are not parsed.
pub fn may_name_user(rollup: &Item, user: &UserId) -> bool {
    rollup.text(FIGURES).is_some_and(|figures| figures.contains(&format!("\"{user}\"")))
}

/// The version of the row of a day: that of the newest count in it.
pub fn day_version(day_row: &Item) -> Option<&str> {
    day_row.text(VERSION)
}

/// The update that removes the figures from a roll-up, after one of its messages was erased.
pub fn without_figures(rollup: &Item) -> Update {
    let version = rollup.text(VERSION).map(str::to_owned);
    let guard = Guard::Unchanged {
        register: VERSION.into(),
        expected: version.clone(),
        version: version.unwrap_or_else(|| count_text(0)),
    };
    Update { guard, remove: vec![FIGURES], ..Update::new(rollup.key.clone()) }
}

/// A person's first known message; `None` if no message is known, or if the row is unsure.
pub fn first_post(row: &Item) -> Option<(ChannelId, Ts)> {
    let (ts, channel) = row.text(FIRST)?.split_once('#').filter(|_| !row.has_flag(UNSURE))?;
    let (seconds, fraction) = ts.split_once('.')?;
    let ts = Ts::parse(&format!("{:0>10}.{fraction}", seconds.trim_start_matches('0'))).ok()?;
    Some((ChannelId::parse(channel).ok()?, ts))
}

/// The update after a first message was erased: from then on only the messages themselves show which one is
/// the first.
pub fn unsure_first_post(row: &Item) -> Update {
    let version = row.text(FIRST).map(|_| count_text(0));
    let guard = Guard::Unchanged {
        register: FIRST.into(),
        expected: row.text(FIRST).map(str::to_owned),
        version: version.unwrap_or_default(),
    };
    let set = Attributes::from_iter([(UNSURE.to_owned(), true.into())]);
    Update { guard, set, ..Update::new(row.key.clone()) }
}

/// The progress of the statistician.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FiguresState {
    version: Option<String>,
    /// The position in the changes of messages up to which it has followed them.
    pub cursor: Option<ChangeCursor>,
    /// The last day that is closed. Days up to it have a roll-up, are due, or have no messages.
    pub closed: Option<RollupDay>,
}

impl FiguresState {
    /// Reads the row [`ItemKey::figures_state`].
    pub fn read(row: &Item) -> Self {
        Self {
            version: row.text(VERSION).map(str::to_owned),
            cursor: row.text("cursor").map(ChangeCursor::new),
            closed: row.text("closed").and_then(RollupDay::parse),
        }
    }

    /// The update that advances the state, unless another process has advanced it.
    pub fn advance(&self, cursor: Option<&ChangeCursor>, closed: Option<RollupDay>) -> Update {
        let number: u64 =
            self.version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default();
        let guard = Guard::Unchanged {
            register: VERSION.into(),
            expected: self.version.clone(),
            version: count_text(number + 1),
        };
        let mut update = Update { guard, ..Update::new(ItemKey::figures_state()) };
        match cursor {
            Some(cursor) => {
                update.set.insert("cursor".into(), cursor.as_str().into());
            }
            None => update.remove.push("cursor"),
        }
        if let Some(closed) = closed {
            update.set.insert("closed".into(), closed.text().into());
        }
        update
    }
}

/// A job of the statistician: a channel's day that must be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayJob(pub ChannelDay);

/// A day in the body of a job.
#[derive(Serialize, Deserialize)]
struct DayFields {
    team: TeamId,
    channel: ChannelId,
    day: String,
}

impl DayJob {
    /// The job as a message that is sent at this time. Within a minute the queue accepts a day once.
    pub fn outgoing(&self, now: TimestampMs) -> Outgoing {
        let ChannelDay { team, channel, day } = &self.0;
        let (day, minute) = (day.text(), now.0.div_euclid(MINUTE_MS).to_string());
        let parts = [team.as_str(), channel.as_str(), &day, &minute];
        Outgoing {
            queue: QueueName::Stats,
            group: GroupId::from_parts(&parts[..3]),
            dedup: DedupId::from_parts(&parts.map(str::as_bytes)),
            body: encode_job("stats", &DayFields { team: team.clone(), channel: channel.clone(), day }),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if an id or the day is missing or malformed.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        let DayFields { team, channel, day } = read_job("stats", raw)?;
        let day = RollupDay::parse(&day).ok_or(Malformed::Job("stats"))?;
        Ok(Self(ChannelDay { team, channel, day }))
    }
}

#[cfg(test)]
#[path = "rollup_tests.rs"]
mod tests;
