//! What is held of a channel: the times from which everything is in the archive, and the holes between them.

use super::Reason;
use super::closing::{GapState, HistoryFacts};
use super::projection::Gap;
use crate::filled::{FilledSpan, SpanSource};
use crate::interval::{Cover, Interval};
use slack::ids::{ChannelId, Ts};

/// How a time came to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeldBy {
    /// By events, as it happened.
    Live,
    /// From Slack's history or from an export.
    Read(SpanSource),
}

impl HeldBy {
    /// As people and scripts read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Read(source) => source.as_str(),
        }
    }
}

/// A time of which everything is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSpan {
    /// Its oldest moment.
    pub from: Ts,
    /// Its end; of a span that was held live, the last event.
    pub to: Ts,
    /// How it came.
    pub held_by: HeldBy,
}

/// Why there is a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoleReason {
    /// A gap.
    Gap(Reason),
    /// The app was not in the channel yet.
    BeforeJoining,
    /// The same, and Slack's plan no longer shows it.
    PlanLimit,
}

impl HoleReason {
    /// As people and scripts read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gap(reason) => reason.as_str(),
            Self::BeforeJoining => "before_joining",
            Self::PlanLimit => "plan_limit",
        }
    }
}

/// A time of which something may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// Its oldest moment; zero if that is the channel's beginning, and it is not known when that was.
    pub from: Ts,
    /// Its end; `None` if it goes on.
    pub to: Option<Ts>,
    /// Why.
    pub reason: HoleReason,
    /// How it stands. It is not filled: then there is no hole.
    pub state: GapState,
}

/// What the archive knows of a channel.
#[derive(Debug, Clone)]
pub struct KnownChannel<'a> {
    /// The channel.
    pub channel: &'a ChannelId,
    /// When it was created, if Slack told.
    pub created: Option<Ts>,
    /// When the app is first known to have been in it.
    pub joined: Option<Ts>,
    /// The last event that is known to have been taken from the workspace, or at least from the channel.
    pub last_event: Option<Ts>,
    /// The gaps of its workspace.
    pub gaps: &'a [Gap],
    /// The spans of it that were read.
    pub spans: &'a [FilledSpan],
    /// What was read of its workspace's channels, these spans included.
    pub facts: &'a HistoryFacts,
}

/// What goes on has no end.
const FOREVER: i64 = i64::MAX;

impl KnownChannel<'_> {
    /// The times of which everything is held, oldest first.
    pub fn held(&self) -> Vec<HeldSpan> {
        let mut held = Vec::new();
        if let (Some(live), Some(last)) = (self.live(), self.last_live()) {
            for piece in self.interruptions().rest(live) {
                let to = if piece.to == live.to { last.clone() } else { piece.to_ts() };
                held.push(HeldSpan { from: piece.from_ts(), to, held_by: HeldBy::Live });
            }
        }
        for source in SpanSource::ALL {
            let of_source = self.spans.iter().filter(|span| span.source == source);
            held.extend(Cover::of(of_source.map(FilledSpan::interval)).intervals().iter().map(|interval| {
                HeldSpan { from: interval.from_ts(), to: interval.to_ts(), held_by: HeldBy::Read(source) }
            }));
        }
        held.sort_by(|one, other| {
            (&one.from, &one.to, one.held_by).cmp(&(&other.from, &other.to, other.held_by))
        });
        held
    }

    /// The times of which something may be missing, oldest first.
    pub fn holes(&self) -> Vec<Hole> {
        let joined = self.joined().map_or(FOREVER, |joined| joined.micros());
        let mut holes = Vec::new();
        for gap in self.gaps() {
            match gap.reason {
                // These are about what is held, too.
                Reason::HistoryChanged | Reason::Dropped => self.add_gap(gap, 0, &mut holes),
                Reason::Downtime | Reason::RateLimited | Reason::Left | Reason::Revoked | Reason::Refused => {
                    self.add_gap(gap, joined, &mut holes)
                }
            }
        }
        let start = self.created.as_ref().map_or(0, Ts::micros);
        let live = self.live().map(|live| self.interruptions().rest(live)).unwrap_or_default();
        let cover = Cover::of(live.into_iter().chain(self.spans.iter().map(FilledSpan::interval)));
        for hole in cover.rest(Interval { from: start, to: joined }) {
            self.add(hole, None, HoleReason::BeforeJoining, &mut holes);
        }
        // Times of which nothing is known: no event was taken, and no gap says so yet.
        let last = cover.intervals().last().map_or(joined, |last| last.to);
        let gaps = self.interruptions();
        for hole in cover.rest(Interval { from: joined, to: last }) {
            for hole in gaps.rest(hole) {
                self.add(hole, None, HoleReason::Gap(Reason::Downtime), &mut holes);
            }
        }
        holes.sort_by(|one, other| (&one.from, &one.to).cmp(&(&other.from, &other.to)));
        holes
    }

    /// Whether a hole touches a time. If this says no of a channel of which less is known, no hole does.
    pub fn has_hole_in(&self, within: Interval) -> bool {
        self.holes().iter().any(|hole| {
            let from = hole.from.micros();
            // A gap of one event has no length.
            let to = hole.to.as_ref().map_or(FOREVER, |to| to.micros().max(from + 1));
            from < within.to && within.from < to
        })
    }

    /// What is missing of a gap, as far as it is not before this time.
    fn add_gap(&self, gap: &Gap, joined: i64, holes: &mut Vec<Hole>) {
        let reason = HoleReason::Gap(gap.reason);
        let Some(whole) = gap.interval() else {
            let from = Interval { from: gap.from.micros().max(joined), to: FOREVER };
            return self.add(from, None, reason, holes);
        };
        for rest in self.facts.rest(self.channel, gap) {
            let end = gap.to.as_ref().filter(|_| rest.to == whole.to);
            self.add(Interval { from: rest.from.max(joined), to: rest.to }, end, reason, holes);
        }
    }

    /// A hole, or one of what Slack's plan no longer shows and one of what it shows. `end` is its end for readers.
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
                HoleReason::BeforeJoining | HoleReason::PlanLimit | HoleReason::Gap(_) => reason,
            };
            let end = end.filter(|_| part.to == hole.to).cloned();
            let to = (part.to != FOREVER).then(|| end.unwrap_or_else(|| part.to_ts()));
            holes.push(Hole { from: part.from_ts(), to, reason, state });
        }
    }

    /// When the app is first known to have been in the channel: it cannot leave before.
    pub fn joined(&self) -> Option<&Ts> {
        let left = self.gaps().filter(|gap| gap.reason == Reason::Left).map(|gap| &gap.from);
        self.joined.iter().chain(left).min()
    }

    fn last_live(&self) -> Option<&Ts> {
        self.last_event.iter().chain(self.joined()).max()
    }

    /// From when the app was in the channel to the last event, whatever interrupted it.
    fn live(&self) -> Option<Interval> {
        Some(Interval { from: self.joined()?.micros(), to: self.last_live()?.micros() + 1 })
    }

    /// The times in which events did not come.
    fn interruptions(&self) -> Cover {
        let stops_events = |gap: &&Gap| match gap.reason {
            Reason::Downtime | Reason::RateLimited | Reason::Left | Reason::Revoked | Reason::Refused => true,
            Reason::Dropped | Reason::HistoryChanged => false,
        };
        Cover::of(
            self.gaps()
                .filter(stops_events)
                .map(|gap| gap.interval().unwrap_or(Interval { from: gap.from.micros(), to: FOREVER })),
        )
    }

    /// The gaps that are about the channel.
    fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(|gap| gap.channel.as_ref().is_none_or(|channel| channel == self.channel))
    }
}

#[cfg(test)]
#[path = "coverage_tests.rs"]
mod tests;
