//! Gaps as readers see them: the stored facts, joined. All functions depend on the stored rows only, not on
//! their order.

use std::collections::BTreeMap;

use super::run::RunSpan;
use super::{GapEnd, GapReason, REPORTED_AT};
use crate::interval::Interval;
use crate::message;
use ports::archive::Item;
use slack::ids::{ChannelId, Ts};

/// An interval in which events may be missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// Its beginning, by Slack's clock.
    pub from: Ts,
    /// Its end; `None` if it has not ended yet.
    pub to: Option<Ts>,
    /// Its channel; `None` for a gap of every channel.
    pub channel: Option<ChannelId>,
    pub reason: GapReason,
    /// When Slack reported a change of the history. If it is set, only history that was read later can fill
    /// the gap.
    pub reported_at: Option<Ts>,
}

impl Gap {
    /// The interval in which events may be missing; `None` while the gap has not ended.
    pub fn interval(&self) -> Option<Interval> {
        let from = self.from.micros();
        let to = self.to.as_ref()?.micros() + i64::from(self.reason.misses_its_end());
        Some(Interval { from, to: to.max(from + 1) })
    }
}

/// Reads the gaps that have rows of their own. A row that this version does not understand is skipped.
pub fn recorded_gaps(rows: &[Item]) -> Vec<Gap> {
    let gap = |row: &Item| {
        let reason = row.text("reason")?;
        let reason = GapReason::ALL.into_iter().find(|known| known.as_str() == reason)?;
        let to = row.text("to").and_then(|to| Ts::parse(to).ok());
        // Rows of earlier versions do not contain the time of Slack's report: it was not before the gap's
        // end.
        let reported = || row.text(REPORTED_AT).and_then(Ts::unpadded).max(to.clone());
        Some(Gap {
            reported_at: (reason == GapReason::HistoryChanged).then(reported).flatten(),
            reason,
            from: Ts::parse(row.text("from")?).ok()?,
            to,
            channel: row.text("channel_id").and_then(|channel| ChannelId::parse(channel).ok()),
        })
    };
    rows.iter().filter_map(gap).collect()
}

/// The longest time between the two events of a migration, which takes hours. If Slack's report of the other
/// end was lost, the gap is this long.
const MIGRATION_MICROS: i64 = 3 * 24 * 3_600 * 1_000_000;

/// The gaps of migrations among the rows of gaps: from a start to the first finish after it. Either event may
/// be missing: without its start, a gap begins three days before its finish; without its finish, it has no
/// end.
pub fn migrations(rows: &[Item]) -> Vec<Gap> {
    let starts = recorded_gaps(rows).into_iter().filter(|gap| gap.reason == GapReason::Migration);
    let mut starts: Vec<Ts> = starts.map(|gap| gap.from).collect();
    let mut finishes = GapEnd::MigrationFinished.times(rows);
    starts.sort_unstable();
    finishes.sort_unstable();
    let belongs = |start: &Ts, finish: &Ts| {
        (0..=MIGRATION_MICROS).contains(&finish.micros().saturating_sub(start.micros()))
    };
    let gap = |from, to| Gap { from, to, channel: None, reason: GapReason::Migration, reported_at: None };
    let started = starts
        .iter()
        .map(|start| gap(start.clone(), finishes.iter().find(|finish| belongs(start, finish)).cloned()));
    let unstarted = finishes.iter().filter(|finish| !starts.iter().any(|start| belongs(start, finish)));
    let unstarted = unstarted.map(|finish| {
        let from = Interval { from: (finish.micros() - MIGRATION_MICROS).max(0), to: finish.micros() };
        gap(from.from_ts(), Some(finish.clone()))
    });
    started.chain(unstarted).collect()
}

/// The time from which new messages show that a migration without a reported finish is over.
pub fn surely_migrated(started: &Ts) -> Ts {
    Interval { from: started.micros().saturating_add(MIGRATION_MICROS), to: i64::MAX }.from_ts()
}

/// The downtime between runs: from the last event that any run accepted to the first one after it. While
/// another run continues, the end of a run is not a gap.
pub fn downtime_between(mut runs: Vec<RunSpan>) -> Vec<Gap> {
    runs.sort_unstable();
    let mut gaps = Vec::new();
    let mut until: Option<Ts> = None;
    for RunSpan { first, last } in runs {
        if let Some(until) = until.clone().filter(|until| *until < first) {
            let (to, reason) = (Some(first), GapReason::Downtime);
            gaps.push(Gap { from: until, to, channel: None, reason, reported_at: None });
        }
        until = until.max(Some(last));
    }
    gaps
}

/// Ends a gap at the first of these signs after its beginning.
pub fn end_gap(gap: Gap, signs: impl IntoIterator<Item = Ts>) -> Gap {
    let after = signs.into_iter().filter(|sign| *sign > gap.from);
    Gap { to: gap.to.clone().into_iter().chain(after).min(), ..gap }
}

/// A time in which nothing can be written in a channel; without an end, it has not ended.
pub type ClosedTime = (Ts, Option<Ts>);

/// The times in which a channel was archived or deleted, oldest first, given the channel's rows.
pub fn closed_times(rows: &[Item]) -> Vec<ClosedTime> {
    let is_closed = |row: &Item| row.has_flag("archived") || row.has_flag("deleted");
    let mut states: Vec<(Ts, bool)> =
        rows.iter().filter_map(|row| Some((Ts::parse(&row.key.timestamp).ok()?, is_closed(row)))).collect();
    states.sort_unstable();
    let mut closed: Vec<ClosedTime> = Vec::new();
    for (ts, is_closed) in states {
        match closed.last_mut().filter(|(_, to)| to.is_none()) {
            Some((_, to)) if !is_closed => *to = Some(ts),
            None if is_closed => closed.push((ts, None)),
            Some(_) | None => {}
        }
    }
    closed
}

/// The parts of a gap outside these times, which are sorted: what cannot be written is not missing.
pub fn outside(gap: Gap, closed: &[ClosedTime]) -> Vec<Gap> {
    let mut parts = Vec::new();
    let mut rest = Some(gap);
    for (from, to) in closed {
        let Some(gap) = rest.take() else { break };
        let is_later = gap.to.as_ref().is_some_and(|end| end <= from);
        let is_earlier = to.as_ref().is_some_and(|to| *to <= gap.from);
        if is_later || is_earlier {
            rest = Some(gap);
            continue;
        }
        if gap.from < *from {
            parts.push(Gap { to: Some(from.clone()), ..gap.clone() });
        }
        let reopened = to.clone().filter(|to| gap.to.as_ref().is_none_or(|end| to < end));
        rest = reopened.map(|from| Gap { from, ..gap });
    }
    parts.extend(rest);
    parts
}

/// Gaps of refused requests that are at most this far apart are joined: ingest reports them once a minute.
const REFUSED_APART_MICROS: i64 = 120 * 1_000_000;

/// Sorts gaps, oldest first, and joins those that were opened several times before the same sign ended them:
/// Slack reports an uninstalled app with two events, and nothing ends the first gap before the second begins.
pub fn oldest_first(gaps: Vec<Gap>) -> Vec<Gap> {
    let mut by_end: BTreeMap<_, Gap> = BTreeMap::new();
    for gap in joined(gaps) {
        let opened_again = match gap.reason {
            GapReason::Left | GapReason::Revoked | GapReason::Migration => None,
            GapReason::Downtime
            | GapReason::RateLimited
            | GapReason::Dropped
            | GapReason::Refused
            | GapReason::HistoryChanged => Some(gap.from.clone()),
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

/// Joins gaps of refused requests that follow each other, and overlapping changes of the same history.
fn joined(mut gaps: Vec<Gap>) -> Vec<Gap> {
    gaps.sort_unstable_by(|one, other| {
        (one.reason, &one.channel, &one.from).cmp(&(other.reason, &other.channel, &other.from))
    });
    let mut joined: Vec<Gap> = Vec::with_capacity(gaps.len());
    for gap in gaps {
        match joined.last_mut() {
            Some(last) if follows(last, &gap) => {
                last.to = last.to.clone().max(gap.to);
                last.reported_at = last.reported_at.clone().max(gap.reported_at);
            }
            Some(_) | None => joined.push(gap),
        }
    }
    joined
}

/// Whether a gap continues an earlier one.
fn follows(earlier: &Gap, gap: &Gap) -> bool {
    let apart_micros = match gap.reason {
        GapReason::Refused => REFUSED_APART_MICROS,
        GapReason::HistoryChanged => 0,
        GapReason::Downtime
        | GapReason::RateLimited
        | GapReason::Left
        | GapReason::Revoked
        | GapReason::Dropped
        | GapReason::Migration => {
            return false;
        }
    };
    let reaches = |to: &Ts| to.micros().saturating_add(apart_micros) >= gap.from.micros();
    (earlier.reason, &earlier.channel) == (gap.reason, &gap.channel)
        && earlier.to.as_ref().is_some_and(reaches)
}

/// When a stored message was posted, if it came with the event of its post: proof that the app was in the
/// channel at that time. A message that came with an edit, a reply or a reaction may be from a time when the
/// app was not.
pub fn posted_at(row: &Item) -> Option<Ts> {
    let ts = Ts::parse(row.text("ts")?).ok()?;
    let version = message::stored_version(row)?;
    (version.clock() == ts && version.edit_time() == ts).then_some(ts)
}

#[cfg(test)]
#[path = "projection_tests.rs"]
mod tests;
