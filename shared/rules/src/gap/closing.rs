//! What closes gaps: what was read of the history of channels since. Functions of stored facts, whatever their order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::Reason;
use super::projection::Gap;
use crate::filled::{FilledSpan, UnreadableBefore, UnreadableReason};
use crate::interval::{Cover, Interval};
use slack::ids::{ChannelId, Ts};

/// How a gap stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapState {
    /// It goes on: nothing has ended it yet.
    Open,
    /// It has ended, and Slack may have what is missing.
    Missing,
    /// It has ended, and everything that Slack has of it was read.
    Filled,
    /// It has ended, and Slack's plan no longer shows what is missing.
    Lost,
}

impl GapState {
    /// As people and scripts read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Missing => "missing",
            Self::Filled => "filled",
            Self::Lost => "lost",
        }
    }

    /// Whether there is anything left to do about it.
    #[must_use]
    pub fn needs_work(self) -> bool {
        match self {
            Self::Open | Self::Missing => true,
            Self::Filled | Self::Lost => false,
        }
    }
}

/// A time of a channel that is to be read of Slack's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadSpan {
    /// The channel.
    pub channel: ChannelId,
    /// Its oldest moment.
    pub from: Ts,
    /// Its end, which is not part of it: the `to` of the fact that it was read. It stays the same until the span is read, so
    /// the fact says where to go on.
    pub to: Ts,
    /// Why.
    pub reason: Reason,
}

/// What is known of the history of a workspace's channels.
#[derive(Debug, Clone, Default)]
pub struct HistoryFacts {
    read: BTreeMap<ChannelId, ReadHistory>,
    /// The channels that a gap of all channels is about, and when each was created, if that is known.
    kept: BTreeMap<ChannelId, Option<Ts>>,
}

/// What is known of the history of one channel.
#[derive(Debug, Clone, Default)]
struct ReadHistory {
    spans: Vec<Interval>,
    cover: Cover,
    /// Slack's plan shows nothing older, in microseconds; zero if it shows everything.
    limited_before: i64,
    refused: Vec<HistoryRefusal>,
}

/// Slack did not show what is older than `before`, although its plan does: when it last said so, in microseconds.
#[derive(Debug, Clone)]
struct HistoryRefusal {
    reason: UnreadableReason,
    before: i64,
    asked: i64,
}

/// What Slack refused to show is asked for again after this long: the app may have been let in, or been given the scope.
const ASKED_AGAIN_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

impl HistoryFacts {
    /// What these facts say of the channels that are kept.
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
            history.cover = Cover::of(history.spans.iter().copied());
        }
        for UnreadableBefore { channel, from, reason, asked } in unreadables {
            let history = read.entry(channel.clone()).or_default();
            let before = from.micros();
            match reason {
                UnreadableReason::PlanLimit => history.limited_before = before.max(history.limited_before),
                UnreadableReason::NotInChannel
                | UnreadableReason::NotFound
                | UnreadableReason::MissingScope => {
                    let asked = asked.as_ref().map_or(0, Ts::micros);
                    history.refused.push(HistoryRefusal { reason: *reason, before, asked });
                }
            }
        }
        Self { read, kept: kept.into_iter().map(|channel| (channel, None)).collect() }
    }

    /// When a channel was created: gaps that ended before are not about it.
    pub fn created(&mut self, channel: &ChannelId, created: Ts) {
        if let Some(known) = self.kept.get_mut(channel) {
            *known = Some(created);
        }
    }

    /// Gaps of all channels are not about this one.
    pub fn leave_out(&mut self, channel: &ChannelId) {
        self.kept.remove(channel);
    }

    /// Whether Slack refused to show the channel for this reason.
    pub fn is_refused(&self, channel: &ChannelId, reason: UnreadableReason) -> bool {
        let is_why = |refusal: &HistoryRefusal| refusal.reason == reason;
        self.read.get(channel).is_some_and(|history| history.refused.iter().any(is_why))
    }

    /// The channels that Slack does not show to an app that is not in them, and when it last said so of each.
    pub fn not_let_in(&self) -> Vec<(ChannelId, Ts)> {
        let is_that = |refusal: &&HistoryRefusal| {
            matches!(refusal.reason, UnreadableReason::NotInChannel | UnreadableReason::NotFound)
        };
        let last = |(channel, history): (&ChannelId, &ReadHistory)| {
            let asked = history.refused.iter().filter(is_that).map(|refusal| refusal.asked).max()?;
            Some((channel.clone(), Interval { from: asked, to: asked }.from_ts()))
        };
        self.read.iter().filter_map(last).collect()
    }

    /// The app was let into a channel after Slack refused to show it.
    pub fn let_in(&mut self, channel: &ChannelId) {
        if let Some(history) = self.read.get_mut(channel) {
            history.refused.retain(|refusal| refusal.reason == UnreadableReason::MissingScope);
        }
    }

    /// The oldest ts that Slack still showed of a channel, if its plan does not show everything.
    pub fn limited_before(&self, channel: &ChannelId) -> Option<i64> {
        self.read.get(channel).map(|history| history.limited_before).filter(|before| *before > 0)
    }

    /// The channels in which something of a gap that has ended is still missing; of a gap that goes on, all it is about.
    pub fn lacking<'a>(&'a self, gap: &'a Gap) -> Vec<&'a ChannelId> {
        let is_lacking = |channel: &&ChannelId| gap.to.is_none() || !self.rest(channel, gap).is_empty();
        self.concerned(gap).into_iter().filter(is_lacking).collect()
    }

    /// How a gap stands, and if it is about all channels, in how many something is missing.
    pub fn state(&self, gap: &Gap) -> (GapState, Option<usize>) {
        let lacking = self.lacking(gap);
        let is_limited = |channel: &&ChannelId| {
            let before = self.limited_before(channel).unwrap_or_default();
            self.rest(channel, gap).first().is_some_and(|rest| rest.from < before)
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

    /// What is still missing of a gap in one channel, oldest first; nothing while the gap goes on.
    pub fn rest(&self, channel: &ChannelId, gap: &Gap) -> Vec<Interval> {
        let Some(whole) = gap.interval() else { return Vec::new() };
        match (self.read.get(channel), &gap.told) {
            (None, _) => vec![whole],
            (Some(history), None) => history.cover.rest(whole),
            (Some(history), Some(told)) => {
                let told = told.micros();
                Cover::of(history.spans.iter().filter(|span| span.to > told).copied()).rest(whole)
            }
        }
    }

    /// The spans that are to be read of Slack's history for gaps that have ended, at most `limit` of them: those of the
    /// gaps that are filled, and what Slack refused to show in the last 24 hours, are left out. Reading all of it, and asking
    /// again until there is nothing left, fills every gap of which Slack shows everything.
    ///
    /// One channel comes after the other, so a channel that fails again and again holds up no other; of each channel the newest
    /// span comes first: if Slack refuses to show that, it is not asked for the older ones.
    pub fn wanted(&self, gaps: &[Gap], now: &Ts, limit: usize) -> Vec<UnreadSpan> {
        let goes_on = |gap: &&Gap| gap.to.is_none();
        if gaps.iter().filter(goes_on).any(|gap| gap.reason == Reason::Revoked) {
            return Vec::new();
        }
        let left: BTreeSet<&ChannelId> =
            gaps.iter().filter(goes_on).filter_map(|gap| gap.channel.as_ref()).collect();
        let mut wanted: BTreeMap<&ChannelId, BTreeMap<i64, (i64, Reason)>> = BTreeMap::new();
        for gap in gaps {
            for channel in self.concerned(gap).into_iter().filter(|channel| !left.contains(channel)) {
                let Some(Interval { from, to }) = self.wanted_in(channel, gap, now) else { continue };
                if to > now.micros() {
                    continue;
                }
                match wanted.entry(channel).or_default().entry(to) {
                    Entry::Vacant(vacant) => drop(vacant.insert((from, gap.reason))),
                    Entry::Occupied(mut other) => other.get_mut().0 = from.min(other.get().0),
                }
            }
        }
        let mut in_turn: Vec<(usize, UnreadSpan)> = Vec::new();
        for (channel, spans) in wanted {
            in_turn.extend(spans.into_iter().rev().enumerate().map(|(turn, (to, (from, reason)))| {
                let interval = Interval { from, to };
                let (from, to) = (interval.from_ts(), interval.to_ts());
                (turn, UnreadSpan { channel: channel.clone(), from, to, reason })
            }));
        }
        in_turn.sort_by_key(|(turn, _)| *turn);
        in_turn.into_iter().map(|(_, wanted)| wanted).take(limit).collect()
    }

    /// What is to be read of one channel to fill a gap in it, as far as Slack shows it.
    fn wanted_in(&self, channel: &ChannelId, gap: &Gap, now: &Ts) -> Option<Interval> {
        let whole = gap.interval()?;
        let shown_from = self.limited_before(channel).unwrap_or_default();
        let oldest = self.rest(channel, gap).into_iter().find(|rest| rest.to > shown_from)?;
        let told = gap.told.as_ref().map_or(0, |told| told.micros() + 1);
        let to = whole.to.max(told);
        let history = self.read.get(channel);
        let holds = |refusal: &HistoryRefusal| {
            refusal.before >= to && now.micros().saturating_sub(refusal.asked) < ASKED_AGAIN_MICROS
        };
        let is_refused = history.is_some_and(|history| history.refused.iter().any(holds));
        (!is_refused).then(|| Interval { from: oldest.from.max(shown_from), to })
    }

    /// The channels that a gap is about.
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
