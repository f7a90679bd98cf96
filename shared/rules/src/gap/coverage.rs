//! The coverage of a channel: the spans of which everything is archived, and the holes between them.

use super::GapReason;
use super::closing::{GapState, HistoryFacts};
use super::projection::Gap;
use crate::filled::{FilledSpan, SpanSource};
use crate::interval::{Cover, Interval};
use slack::ids::{ChannelId, Ts};

/// How a span was archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoverageSource {
    /// Live, from events.
    Live,
    /// Read from Slack's history or from an export.
    Read(SpanSource),
}

impl CoverageSource {
    /// The name for users and scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Read(source) => source.as_str(),
        }
    }
}

/// A span of which everything is archived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveredSpan {
    /// Its start.
    pub from: Ts,
    /// Its end; for a live span that still continues, the last event.
    pub to: Ts,
    /// How it was archived.
    pub source: CoverageSource,
}

/// Why there is a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoleReason {
    Gap(GapReason),
    /// The app was not in the channel yet.
    BeforeJoining,
    /// The app was not in the channel yet, and Slack's plan no longer shows the messages.
    PlanLimit,
    /// The channel has opted out.
    OptedOut,
}

impl HoleReason {
    /// The name for users and scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gap(reason) => reason.as_str(),
            Self::BeforeJoining => "before_joining",
            Self::PlanLimit => "plan_limit",
            Self::OptedOut => "opted_out",
        }
    }
}

/// A span of which something may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// Its start; zero for the channel's creation if its time is not known.
    pub from: Ts,
    /// Its end; `None` if it continues.
    pub to: Option<Ts>,
    pub reason: HoleReason,
    /// Its state. It is never filled: a filled gap is not a hole.
    pub state: GapState,
}

/// The holes without those before the time from which on messages are kept, and with the times in which the channel is
/// out.
pub fn kept_holes(holes: Vec<Hole>, kept_from: Option<&Ts>, out: Vec<(Ts, Option<Ts>)>) -> Vec<Hole> {
    let out = out.into_iter().map(|(from, to)| {
        let state = if to.is_none() { GapState::Open } else { GapState::Lost };
        Hole { from, to, reason: HoleReason::OptedOut, state }
    });
    let mut kept: Vec<Hole> = holes.into_iter().chain(out).collect();
    if let Some(kept_from) = kept_from {
        kept.retain(|hole| hole.to.as_ref().is_none_or(|to| to > kept_from));
        kept.iter_mut().filter(|hole| hole.from < *kept_from).for_each(|hole| hole.from = kept_from.clone());
    }
    kept.sort_by(|one, other| (&one.from, &one.to).cmp(&(&other.from, &other.to)));
    kept
}

/// The facts in the archive about a channel's history.
#[derive(Debug, Clone)]
pub struct KnownChannel<'a> {
    pub channel: &'a ChannelId,
    /// When it was created, if Slack reported it.
    pub created: Option<Ts>,
    /// When the app is first known to have been in it.
    pub joined: Option<Ts>,
    /// The last event that is known to have been accepted from the workspace, or at least from the channel.
    pub last_event: Option<Ts>,
    /// The gaps of its workspace.
    pub gaps: &'a [Gap],
    /// The spans of it that were read.
    pub spans: &'a [FilledSpan],
    /// The facts about the history of its workspace's channels, these spans included.
    pub facts: &'a HistoryFacts,
}

/// The end of a hole that continues.
const FOREVER: i64 = i64::MAX;

impl KnownChannel<'_> {
    /// The spans of which everything is archived, oldest first.
    pub fn covered_spans(&self) -> Vec<CoveredSpan> {
        let mut covered = Vec::new();
        if let (Some(live), Some(last)) = (self.live(), self.last_live()) {
            for piece in self.interruptions().uncovered(live) {
                let to = if piece.to == live.to { last.clone() } else { piece.to_ts() };
                covered.push(CoveredSpan { from: piece.from_ts(), to, source: CoverageSource::Live });
            }
        }
        for source in SpanSource::ALL {
            let from_source = self.spans.iter().filter(|span| span.source == source);
            covered.extend(
                Cover::from_intervals(from_source.map(FilledSpan::interval)).intervals().iter().map(
                    |interval| CoveredSpan {
                        from: interval.from_ts(),
                        to: interval.to_ts(),
                        source: CoverageSource::Read(source),
                    },
                ),
            );
        }
        covered.sort_by(|one, other| {
            (&one.from, &one.to, one.source).cmp(&(&other.from, &other.to, other.source))
        });
        covered
    }

    /// The spans of which something may be missing, oldest first.
    pub fn holes(&self) -> Vec<Hole> {
        let joined = self.joined().map_or(FOREVER, |joined| joined.micros());
        let mut holes = Vec::new();
        for gap in self.gaps() {
            match gap.reason {
                // These also concern history from before the app joined.
                GapReason::HistoryChanged | GapReason::Dropped => self.add_gap(gap, 0, &mut holes),
                GapReason::Downtime
                | GapReason::RateLimited
                | GapReason::Left
                | GapReason::Revoked
                | GapReason::Migration
                | GapReason::Refused => self.add_gap(gap, joined, &mut holes),
            }
        }
        let start = self.created.as_ref().map_or(0, Ts::micros);
        let live = self.live().map(|live| self.interruptions().uncovered(live)).unwrap_or_default();
        let cover =
            Cover::from_intervals(live.into_iter().chain(self.spans.iter().map(FilledSpan::interval)));
        for hole in cover.uncovered(Interval { from: start, to: joined }) {
            self.add(hole, None, HoleReason::BeforeJoining, &mut holes);
        }
        // Spans about which nothing is known: no event was accepted, and no gap has been recorded yet.
        let last = cover.intervals().last().map_or(joined, |last| last.to);
        let gaps = self.interruptions();
        for hole in cover.uncovered(Interval { from: joined, to: last }) {
            for hole in gaps.uncovered(hole) {
                self.add(hole, None, HoleReason::Gap(GapReason::Downtime), &mut holes);
            }
        }
        holes.sort_by(|one, other| (&one.from, &one.to).cmp(&(&other.from, &other.to)));
        holes
    }

    /// Whether a hole touches an interval. If the result is false with fewer facts, it is false with all
    /// facts.
    pub fn has_hole_in(&self, within: Interval) -> bool {
        self.holes().iter().any(|hole| {
            let from = hole.from.micros();
            // A gap of a single event has no length.
            let to = hole.to.as_ref().map_or(FOREVER, |to| to.micros().max(from + 1));
            from < within.to && within.from < to
        })
    }

    /// Adds the missing parts of a gap that are not before `start`.
    fn add_gap(&self, gap: &Gap, start: i64, holes: &mut Vec<Hole>) {
        let reason = HoleReason::Gap(gap.reason);
        let Some(whole) = gap.interval() else {
            let open = Interval { from: gap.from.micros().max(start), to: FOREVER };
            return self.add(open, None, reason, holes);
        };
        for rest in self.facts.missing_intervals(self.channel, gap) {
            let end = gap.to.as_ref().filter(|_| rest.to == whole.to);
            self.add(Interval { from: rest.from.max(start), to: rest.to }, end, reason, holes);
        }
    }

    /// Adds a hole, split into the part that Slack's plan no longer shows and the rest. `end` is its end for
    /// readers.
    fn add(&self, hole: Interval, end: Option<&Ts>, reason: HoleReason, holes: &mut Vec<Hole>) {
        let limit = self
            .facts
            .limited_before(self.channel)
            .unwrap_or_default()
            .clamp(hole.from, hole.to.max(hole.from));
        for (part, is_lost) in
            [(Interval { to: limit, ..hole }, true), (Interval { from: limit, ..hole }, false)]
        {
            if part.from >= part.to {
                continue;
            }
            let state = match (is_lost, part.to) {
                (true, _) => GapState::Lost,
                (false, FOREVER) => GapState::Open,
                (false, _) => GapState::Missing,
            };
            let reason = match reason {
                HoleReason::BeforeJoining if is_lost => HoleReason::PlanLimit,
                HoleReason::BeforeJoining
                | HoleReason::PlanLimit
                | HoleReason::OptedOut
                | HoleReason::Gap(_) => reason,
            };
            let end = end.filter(|_| part.to == hole.to).cloned();
            let to = (part.to != FOREVER).then(|| end.unwrap_or_else(|| part.to_ts()));
            holes.push(Hole { from: part.from_ts(), to, reason, state });
        }
    }

    /// When the app is first known to have been in the channel: if it left, it was in the channel before.
    pub fn joined(&self) -> Option<&Ts> {
        let left = self.gaps().filter(|gap| gap.reason == GapReason::Left).map(|gap| &gap.from);
        self.joined.iter().chain(left).min()
    }

    fn last_live(&self) -> Option<&Ts> {
        self.last_event.iter().chain(self.joined()).max()
    }

    /// The interval from the app's joining to the last event, interruptions included.
    fn live(&self) -> Option<Interval> {
        Some(Interval { from: self.joined()?.micros(), to: self.last_live()?.micros() + 1 })
    }

    /// The intervals in which no events arrived.
    fn interruptions(&self) -> Cover {
        let stops_events = |gap: &&Gap| match gap.reason {
            GapReason::Downtime
            | GapReason::RateLimited
            | GapReason::Left
            | GapReason::Revoked
            | GapReason::Migration
            | GapReason::Refused => true,
            GapReason::Dropped | GapReason::HistoryChanged => false,
        };
        Cover::from_intervals(
            self.gaps()
                .filter(stops_events)
                .map(|gap| gap.interval().unwrap_or(Interval { from: gap.from.micros(), to: FOREVER })),
        )
    }

    /// The gaps that concern the channel.
    fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(|gap| gap.channel.as_ref().is_none_or(|channel| channel == self.channel))
    }
}

#[cfg(test)]
#[path = "coverage_tests.rs"]
mod tests;
