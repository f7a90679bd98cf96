//! What readers see of gaps: the stored facts, joined. Functions of what is stored, whatever its order.

use std::collections::BTreeMap;

use super::run::{RunSpan, unpadded};
use super::{Reason, TOLD};
use crate::interval::Interval;
use crate::message;
use ports::archive::Item;
use slack::ids::{ChannelId, Ts};

/// A time in which events may be missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// Its beginning, by Slack's clock.
    pub from: Ts,
    /// Its end; `None` where nothing has ended it yet.
    pub to: Option<Ts>,
    /// `None` where every channel is meant.
    pub channel: Option<ChannelId>,
    /// Why.
    pub reason: Reason,
    /// Only what was read of the history after this time counts, if not everything does: before that it was another history.
    pub told: Option<Ts>,
}

impl Gap {
    /// The time of which something may be missing; `None` while nothing has ended it.
    pub fn interval(&self) -> Option<Interval> {
        let from = self.from.micros();
        let to = self.to.as_ref()?.micros() + i64::from(self.reason.misses_its_end());
        Some(Interval { from, to: to.max(from + 1) })
    }
}

/// The gaps that have rows of their own. A row that this version does not understand is skipped.
pub fn recorded(rows: &[Item]) -> Vec<Gap> {
    let gap = |row: &Item| {
        let reason = row.text("reason")?;
        let reason = Reason::ALL.into_iter().find(|known| known.as_str() == reason)?;
        let to = row.text("to").and_then(|to| Ts::parse(to).ok());
        // Rows of earlier versions do not say when Slack told of the change: it was not before its end.
        let told = || row.text(TOLD).and_then(unpadded).max(to.clone());
        Some(Gap {
            told: (reason == Reason::HistoryChanged).then(told).flatten(),
            reason,
            from: Ts::parse(row.text("from")?).ok()?,
            to,
            channel: row.text("channel_id").and_then(|channel| ChannelId::parse(channel).ok()),
        })
    };
    rows.iter().filter_map(gap).collect()
}

/// The times between runs: from the last event that any of them took to the first one after it. While one run goes on,
/// no other one's end is a gap.
pub fn between(mut runs: Vec<RunSpan>) -> Vec<Gap> {
    runs.sort_unstable();
    let mut gaps = Vec::new();
    let mut until: Option<Ts> = None;
    for RunSpan { first, last } in runs {
        if let Some(until) = until.clone().filter(|until| *until < first) {
            let (to, reason) = (Some(first), Reason::Downtime);
            gaps.push(Gap { from: until, to, channel: None, reason, told: None });
        }
        until = until.max(Some(last));
    }
    gaps
}

/// Ends a gap with the first of these signs that comes after its beginning.
pub fn ended(gap: Gap, signs: impl IntoIterator<Item = Ts>) -> Gap {
    let after = signs.into_iter().filter(|sign| *sign > gap.from);
    Gap { to: gap.to.clone().into_iter().chain(after).min(), ..gap }
}

/// Refused requests that are at most so far apart are one gap: facts of them are sent once a minute.
const REFUSED_APART_MICROS: i64 = 120 * 1_000_000;

/// Oldest first. Gaps that were opened several times before one thing ended them all are one: Slack reports an
/// uninstalled app by two events, and nothing ended the first before the second.
pub fn oldest_first(gaps: Vec<Gap>) -> Vec<Gap> {
    let mut by_end: BTreeMap<_, Gap> = BTreeMap::new();
    for gap in joined(gaps) {
        let opened_again = match gap.reason {
            Reason::Left | Reason::Revoked => None,
            Reason::Downtime
            | Reason::RateLimited
            | Reason::Dropped
            | Reason::Refused
            | Reason::HistoryChanged => Some(gap.from.clone()),
        };
        let same = (gap.reason, gap.channel.clone(), gap.to.clone(), opened_again);
        by_end
            .entry(same)
            .and_modify(|first| {
                if gap.from < first.from {
                    first.from = gap.from.clone();
                }
            })
            .or_insert(gap);
    }
    let mut gaps: Vec<Gap> = by_end.into_values().collect();
    gaps.sort_unstable();
    gaps
}

/// The same, with one gap for refused requests that followed each other, and one for changes of one history that overlap.
fn joined(mut gaps: Vec<Gap>) -> Vec<Gap> {
    gaps.sort_unstable_by(|one, other| {
        (one.reason, &one.channel, &one.from).cmp(&(other.reason, &other.channel, &other.from))
    });
    let mut joined: Vec<Gap> = Vec::with_capacity(gaps.len());
    for gap in gaps {
        match joined.last_mut() {
            Some(last) if follows(last, &gap) => {
                last.to = last.to.clone().max(gap.to);
                last.told = last.told.clone().max(gap.told);
            }
            Some(_) | None => joined.push(gap),
        }
    }
    joined
}

/// Whether a gap goes on with what is missing in another that began before it.
fn follows(earlier: &Gap, gap: &Gap) -> bool {
    let apart_micros = match gap.reason {
        Reason::Refused => REFUSED_APART_MICROS,
        Reason::HistoryChanged => 0,
        Reason::Downtime | Reason::RateLimited | Reason::Left | Reason::Revoked | Reason::Dropped => {
            return false;
        }
    };
    let reaches = |to: &Ts| to.micros().saturating_add(apart_micros) >= gap.from.micros();
    (earlier.reason, &earlier.channel) == (gap.reason, &gap.channel)
        && earlier.to.as_ref().is_some_and(reaches)
}

/// When a stored message was posted, where it came as it was posted: proof that the app was in the channel then. One that
/// came with an edit, a reply or a reaction may be from a time when it was not.
pub fn posted_at(row: &Item) -> Option<Ts> {
    let ts = Ts::parse(row.text("ts")?).ok()?;
    let version = message::stored_version(row)?;
    (version.clock() == ts && version.edit_time() == ts).then_some(ts)
}

#[cfg(test)]
#[path = "projection_tests.rs"]
mod tests;
