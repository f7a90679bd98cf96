//! Closes gaps with the history of channels that was read later. All functions depend on the stored facts
//! only, not on their order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::GapReason;
use super::projection::Gap;
use crate::filled::{FilledSpan, UnreadableBefore, UnreadableReason};
use crate::interval::{Cover, Interval};
use slack::ids::{ChannelId, Ts};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapState {
    /// It has not ended yet.
    Open,
    /// It has ended, and Slack may have the missing messages.
    Missing,
    /// It has ended, and everything that Slack has of it was read.
    Filled,
    /// It has ended, and Slack's plan no longer shows the missing messages.
    Lost,
}

impl GapState {
    /// The name for users and scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Missing => "missing",
            Self::Filled => "filled",
            Self::Lost => "lost",
        }
    }

    /// Whether the gap may still be filled.
    #[must_use]
    pub fn needs_work(self) -> bool {
        match self {
            Self::Open | Self::Missing => true,
            Self::Filled | Self::Lost => false,
        }
    }
}

/// A span of a channel that must be read from Slack's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadSpan {
    pub channel: ChannelId,
    /// Its inclusive start.
    pub from: Ts,
    /// Its exclusive end, which is the `to` of the fact that it was read. It stays the same until the span is
    /// read, so the fact shows where to continue.
    pub to: Ts,
    pub reason: GapReason,
}

/// The known facts about the history of a workspace's channels.
#[derive(Debug, Clone, Default)]
pub struct HistoryFacts {
    read: BTreeMap<ChannelId, ReadHistory>,
    /// The channels that a gap of all channels concerns, and when each was created, if known.
    kept: BTreeMap<ChannelId, Option<Ts>>,
}

/// The known facts about the history of one channel.
#[derive(Debug, Clone, Default)]
struct ReadHistory {
    spans: Vec<Interval>,
    cover: Cover,
    /// Slack's plan hides history older than this, in microseconds; zero if it shows everything.
    limited_before: i64,
    refused: Vec<HistoryRefusal>,
}

/// A refusal of Slack to return history older than `before`, for another reason than its plan. Times are in
/// microseconds.
#[derive(Debug, Clone)]
struct HistoryRefusal {
    reason: UnreadableReason,
    before: i64,
    /// When Slack last refused.
    refused_at: i64,
}

/// Refused history is requested again after this interval: the app may have joined the channel, or received
/// the scope.
const REFUSED_AGAIN_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

impl HistoryFacts {
    /// Combines these facts. `kept` are the channels that gaps of all channels concern.
    pub fn new(
        spans: &[FilledSpan],
        unreadables: &[UnreadableBefore],
        kept: impl IntoIterator<Item = ChannelId>,
    ) -> Self {
        let mut read: BTreeMap<ChannelId, ReadHistory> = BTreeMap::new();
        for span in spans {
            read.entry(span.channel.clone()).or_default().spans.push(span.interval());
        }
        for history in read.values_mut() {
            history.cover = Cover::from_intervals(history.spans.iter().copied());
        }
        for UnreadableBefore { channel, from, reason, refused_at: asked } in unreadables {
            let history = read.entry(channel.clone()).or_default();
            let before = from.micros();
            match reason {
                UnreadableReason::PlanLimit => history.limited_before = before.max(history.limited_before),
                UnreadableReason::NotInChannel
                | UnreadableReason::NotFound
                | UnreadableReason::MissingScope => {
                    let refused_at = asked.as_ref().map_or(0, Ts::micros);
                    history.refused.push(HistoryRefusal { reason: *reason, before, refused_at });
                }
            }
        }
        Self { read, kept: kept.into_iter().map(|channel| (channel, None)).collect() }
    }

    /// Sets when a channel was created: gaps that ended earlier do not concern it.
    pub fn set_created(&mut self, channel: &ChannelId, created: Ts) {
        if let Some(known) = self.kept.get_mut(channel) {
            *known = Some(created);
        }
    }

    /// Excludes a channel from gaps of all channels.
    pub fn exclude_channel(&mut self, channel: &ChannelId) {
        self.kept.remove(channel);
    }

    /// Whether Slack refused to return the channel's history for this reason.
    pub fn is_refused(&self, channel: &ChannelId, reason: UnreadableReason) -> bool {
        let has_reason = |refusal: &HistoryRefusal| refusal.reason == reason;
        self.read.get(channel).is_some_and(|history| history.refused.iter().any(has_reason))
    }

    /// The channels whose history Slack refused because the app is not in them, each with the time of the
    /// last refusal.
    pub fn channels_without_app(&self) -> Vec<(ChannelId, Ts)> {
        let lacks_access = |refusal: &&HistoryRefusal| {
            matches!(refusal.reason, UnreadableReason::NotInChannel | UnreadableReason::NotFound)
        };
        let last = |(channel, history): (&ChannelId, &ReadHistory)| {
            let refused_at =
                history.refused.iter().filter(lacks_access).map(|refusal| refusal.refused_at).max()?;
            Some((channel.clone(), Interval { from: refused_at, to: refused_at }.from_ts()))
        };
        self.read.iter().filter_map(last).collect()
    }

    /// Removes the refusals of a channel that the app has joined since.
    pub fn mark_joined(&mut self, channel: &ChannelId) {
        if let Some(history) = self.read.get_mut(channel) {
            history.refused.retain(|refusal| refusal.reason == UnreadableReason::MissingScope);
        }
    }

    /// The oldest time of a channel that Slack's plan still shows, in microseconds; `None` if it shows
    /// everything.
    pub fn limited_before(&self, channel: &ChannelId) -> Option<i64> {
        self.read.get(channel).map(|history| history.limited_before).filter(|before| *before > 0)
    }

    /// The channels in which a part of the gap is still missing; for a gap that has not ended, all that it
    /// concerns.
    pub fn lacking_channels<'a>(&'a self, gap: &'a Gap) -> Vec<&'a ChannelId> {
        let is_lacking =
            |channel: &&ChannelId| gap.to.is_none() || !self.missing_intervals(channel, gap).is_empty();
        self.concerned(gap).into_iter().filter(is_lacking).collect()
    }

    /// The state of a gap, and for a gap of all channels, the number of channels in which a part is missing.
    pub fn state(&self, gap: &Gap) -> (GapState, Option<usize>) {
        let lacking = self.lacking_channels(gap);
        let is_limited = |channel: &&ChannelId| {
            let before = self.limited_before(channel).unwrap_or_default();
            self.missing_intervals(channel, gap).first().is_some_and(|rest| rest.from < before)
        };
        let state = if gap.to.is_none() {
            GapState::Open
        } else if lacking.iter().any(is_limited) {
            GapState::Lost
        } else if lacking.is_empty() && (gap.channel.is_some() || !self.kept.is_empty()) {
            GapState::Filled
        } else {
            GapState::Missing
        };
        (state, gap.channel.is_none().then_some(lacking.len()))
    }

    /// The missing parts of a gap in one channel, oldest first; empty while the gap has not ended.
    pub fn missing_intervals(&self, channel: &ChannelId, gap: &Gap) -> Vec<Interval> {
        let Some(whole) = gap.interval() else { return Vec::new() };
        match (self.read.get(channel), &gap.reported_at) {
            (None, _) => vec![whole],
            (Some(history), None) => history.cover.uncovered(whole),
            (Some(history), Some(reported)) => {
                let reported = reported.micros();
                Cover::from_intervals(history.spans.iter().filter(|span| span.to > reported).copied())
                    .uncovered(whole)
            }
        }
    }

    /// The spans that must be read from Slack's history for gaps that have ended, at most `limit` of them.
    /// Filled gaps, and history that Slack refused in the last 24 hours, are left out. Reading all these
    /// spans, and calling this again until it returns no more, fills every gap that Slack shows completely.
    ///
    /// The spans alternate between channels, so a channel that keeps failing does not delay the others.
    /// Within a channel the newest span comes first: if Slack refuses it, the older ones are not requested.
    pub fn unread_spans(&self, gaps: &[Gap], now: &Ts, limit: usize) -> Vec<UnreadSpan> {
        let is_open = |gap: &&Gap| gap.to.is_none();
        if gaps.iter().filter(is_open).any(|gap| gap.reason == GapReason::Revoked) {
            return Vec::new();
        }
        let left: BTreeSet<&ChannelId> =
            gaps.iter().filter(is_open).filter_map(|gap| gap.channel.as_ref()).collect();
        let mut unread: BTreeMap<&ChannelId, BTreeMap<i64, (i64, GapReason)>> = BTreeMap::new();
        for gap in gaps {
            for channel in self.concerned(gap).into_iter().filter(|channel| !left.contains(channel)) {
                let Some(Interval { from, to }) = self.unread_in(channel, gap, now) else { continue };
                if to > now.micros() {
                    continue;
                }
                match unread.entry(channel).or_default().entry(to) {
                    Entry::Vacant(vacant) => drop(vacant.insert((from, gap.reason))),
                    Entry::Occupied(mut other) => other.get_mut().0 = from.min(other.get().0),
                }
            }
        }
        let mut in_turn: Vec<(usize, UnreadSpan)> = Vec::new();
        for (channel, spans) in unread {
            in_turn.extend(spans.into_iter().rev().enumerate().map(|(turn, (to, (from, reason)))| {
                let interval = Interval { from, to };
                let (from, to) = (interval.from_ts(), interval.to_ts());
                (turn, UnreadSpan { channel: channel.clone(), from, to, reason })
            }));
        }
        in_turn.sort_by_key(|(turn, _)| *turn);
        in_turn.into_iter().map(|(_, span)| span).take(limit).collect()
    }

    /// The interval of one channel that must be read to fill a gap in it, if Slack shows any of it.
    fn unread_in(&self, channel: &ChannelId, gap: &Gap, now: &Ts) -> Option<Interval> {
        let whole = gap.interval()?;
        let shown_from = self.limited_before(channel).unwrap_or_default();
        let oldest = self.missing_intervals(channel, gap).into_iter().find(|rest| rest.to > shown_from)?;
        let after_report = gap.reported_at.as_ref().map_or(0, |reported| reported.micros() + 1);
        let to = whole.to.max(after_report);
        (!self.is_refused_now(channel, to, now)).then(|| Interval { from: oldest.from.max(shown_from), to })
    }

    /// Whether Slack has lately refused to show what is before `to`, in microseconds: it is not asked again for a
    /// day.
    pub fn is_refused_now(&self, channel: &ChannelId, to: i64, now: &Ts) -> bool {
        let applies = |refusal: &HistoryRefusal| {
            refusal.before >= to && now.micros().saturating_sub(refusal.refused_at) < REFUSED_AGAIN_MICROS
        };
        self.read.get(channel).is_some_and(|history| history.refused.iter().any(applies))
    }

    fn concerned<'a>(&'a self, gap: &'a Gap) -> Vec<&'a ChannelId> {
        if let Some(channel) = &gap.channel {
            return vec![channel];
        }
        let existed = |created: &Option<Ts>| match (created, &gap.to) {
            (Some(created), Some(to)) => created.micros() <= to.micros(),
            (None, _) | (_, None) => true,
        };
        self.kept.iter().filter(|(_, created)| existed(created)).map(|(channel, _)| channel).collect()
    }
}

#[cfg(test)]
#[path = "closing_tests.rs"]
mod tests;
