//! Roll-ups for readers: which of them hold, and what has to be counted from rows instead.
//!
//! A roll-up holds if its day is closed, the statistician has followed every change of it, and none of these is still to be
//! counted. What it has not followed yet, the reader asks for itself: so a report never waits for the statistician, and never
//! shows what was so before a change.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use ports::changes::{ChangedSpan, Changes, SpanBatch};
use rules::figures::day::DayFigures;
use rules::figures::message::DAY_MICROS;
use rules::figures::rollup::{self, ChannelDay, FiguresState, RollupDay};
use slack::ids::{ChannelId, TeamId};

use super::counting::People;
use super::period::Period;
use crate::directory;
use crate::joined::JoinedChannel;

/// Changes read in one batch, and how many batches: the statistician is at most minutes behind. Beyond it, counting rows is
/// what a reader does.
const BATCH: usize = 1_000;
const MAX_BATCHES: usize = 20;

/// Days that are still to be counted. Beyond them the statistician has just begun.
const MAX_DUE: usize = 5_000;

/// What the roll-ups of a workspace say, and what they do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollups {
    closed: RollupDay,
    /// Days that have changed since they were counted.
    due: BTreeSet<(ChannelId, RollupDay)>,
    /// Channels of which any day may have.
    changed: BTreeSet<ChannelId>,
}

/// What roll-ups have of a channel in a period.
#[derive(Debug)]
pub(super) struct Rolled {
    /// Days as they were counted.
    pub(super) days: BTreeMap<i64, DayFigures>,
    /// What has to be counted from rows.
    pub(super) rest: Vec<Period>,
}

impl Rolled {
    /// What is counted of a channel in two periods, read at once; without roll-ups, everything has to be counted from rows.
    pub(super) async fn read(
        rollups: Option<&Rollups>,
        channel: &JoinedChannel<'_>,
        periods: [Period; 2],
        people: &People,
    ) -> Result<[Self; 2], ArchiveError> {
        match rollups {
            Some(rollups) => rollups.counted(channel, periods, people).await,
            None => Ok(Self::nothing(periods)),
        }
    }

    fn nothing(periods: [Period; 2]) -> [Self; 2] {
        periods.map(|period| Self { days: BTreeMap::new(), rest: vec![period] })
    }

    /// Takes what these days of a period have. What is not among them has to be counted from rows.
    fn take(from: &mut BTreeMap<i64, DayFigures>, counted: &BTreeSet<RollupDay>, period: Period) -> Self {
        let (mut days, mut rest, mut reached) = (BTreeMap::new(), Vec::new(), period.from());
        for day in counted {
            days.extend(from.remove_entry(&day.number()));
            rest.extend(Period::of_micros(reached, day.number() * DAY_MICROS));
            reached = (day.number() + 1) * DAY_MICROS;
        }
        rest.extend(Period::of_micros(reached, period.to()));
        Self { days, rest }
    }
}

impl Rollups {
    /// Which roll-ups of a workspace hold; `None` if that cannot be said without reading more than the rows of a report.
    ///
    /// # Errors
    /// As [`Archive::query`].
    pub async fn read(
        archive: &dyn Archive,
        changes: &dyn Changes,
        team: &TeamId,
    ) -> Result<Option<Self>, ArchiveError> {
        let Some(row) = archive.get(&ItemKey::figures_state()).await? else { return Ok(None) };
        let FiguresState { cursor: Some(cursor), closed: Some(closed), .. } = FiguresState::read(&row) else {
            return Ok(None);
        };
        let mut rollups = Self { closed, due: BTreeSet::new(), changed: BTreeSet::new() };
        // First what the statistician has not seen, then what it has: nothing is between them.
        let mut cursor = cursor;
        for batch in 0.. {
            let Some(SpanBatch { spans, next, is_all }) = changes.spans_since(Some(&cursor), BATCH).await?
            else {
                return Ok(None);
            };
            rollups.add(spans, team);
            if is_all {
                break;
            }
            if batch == MAX_BATCHES {
                return Ok(None);
            }
            cursor = next;
        }
        let mut query = Query::partition(key::rollups_due(team));
        loop {
            let page = archive.query(&query).await?;
            let due = page.items.iter().filter_map(|row| ChannelDay::of_due(team, &row.key));
            rollups.due.extend(due.map(|due| (due.channel, due.day)));
            if rollups.due.len() > MAX_DUE {
                return Ok(None);
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(Some(rollups)),
            }
        }
    }

    fn add(&mut self, spans: BTreeSet<ChangedSpan>, of_team: &TeamId) {
        for ChangedSpan { team, channel, day } in spans {
            match day {
                _ if team != *of_team => {}
                None => self.changed.extend([channel]),
                Some(date) => self.due.extend(RollupDay::of(date).map(|day| (channel, day))),
            }
        }
    }

    fn holds(&self, channel: &ChannelId, day: RollupDay) -> bool {
        day <= self.closed && !self.changed.contains(channel) && !self.due.contains(&(channel.clone(), day))
    }

    /// Whether every message before a time was counted.
    pub(super) fn are_all_counted_before(&self, micros: i64) -> bool {
        let first_not_counted = self.due.iter().map(|(_, day)| day.number()).min();
        let is_before = |day: i64| day * DAY_MICROS < micros;
        self.changed.is_empty()
            && !is_before(self.closed.number() + 1)
            && !first_not_counted.is_some_and(is_before)
    }

    /// What is counted of a channel in two periods. A channel that lies in several places is read from rows: what counts of a
    /// message is only known of all of them.
    async fn counted(
        &self,
        channel: &JoinedChannel<'_>,
        periods: [Period; 2],
        people: &People,
    ) -> Result<[Rolled; 2], ArchiveError> {
        let [place] = channel.places() else {
            return Ok(Rolled::nothing(periods));
        };
        let mut within = periods.map(|period| {
            let first = (period.from() + DAY_MICROS - 1).div_euclid(DAY_MICROS);
            let days = (first..period.to().div_euclid(DAY_MICROS)).filter_map(RollupDay::new);
            days.filter(|day| self.holds(&place.channel, *day)).collect::<BTreeSet<_>>()
        });
        let all = || within.iter().flatten();
        let (Some(earliest), Some(latest)) = (all().min(), all().max()) else {
            return Ok(Rolled::nothing(periods));
        };
        let partition = key::rollups(&place.team, &place.channel);
        let mut query =
            Query { until: latest.next().map(RollupDay::text), ..Query::partition(partition.clone()) };
        query.after =
            RollupDay::new(earliest.number() - 1).map(|before| ItemKey::new(partition, before.text()));
        let mut days = BTreeMap::new();
        loop {
            let page = channel.query(&query).await?;
            for row in &page.items {
                let Some(of) = ChannelDay::of_rollup(&place.team, &place.channel, &row.key) else { continue };
                let Some(within) = within.iter_mut().find(|within| within.contains(&of.day)) else {
                    continue;
                };
                let agreed = rollup::figures(row)
                    .filter(|figures| figures.agrees(|id, is_by_app| people.is_bot_now(id, is_by_app)));
                match agreed {
                    Some(figures) if figures == DayFigures::default() => {}
                    Some(figures) => days.extend([(of.day.number(), figures)]),
                    // Counted from its rows.
                    None => drop(within.remove(&of.day)),
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        let ([period, other], [counted, counted_other]) = (periods, within);
        Ok([Rolled::take(&mut days, &counted, period), Rolled::take(&mut days, &counted_other, other)])
    }
}

/// Every channel of a workspace that messages may be kept of.
///
/// # Errors
/// As [`Archive::query`].
pub async fn channels_of(archive: &dyn Archive, team: &TeamId) -> Result<BTreeSet<ChannelId>, ArchiveError> {
    // One whose mark was removed may get it back, and its days with it.
    let marks = query_all(archive, Query::partition(key::public_marks(team))).await?;
    let marked = marks.iter().filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok());
    let names = directory::read(archive, team).await?;
    Ok(marked.chain(names.iter().map(|(channel, _)| channel)).collect())
}

/// The first day from `from` to `until` on which a channel has a row; `None` if there is no such day.
///
/// # Errors
/// As [`Archive::query`].
pub async fn first_day_with_rows(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    from: RollupDay,
    until: RollupDay,
) -> Result<Option<RollupDay>, ArchiveError> {
    let partition = key::messages(team, channel);
    let mut query = Query { limit: 1, ..Query::partition(partition.clone()) };
    query.after = Some(ItemKey::new(partition, from.bound()));
    query.until = until.next().map(RollupDay::bound);
    loop {
        let page = archive.query(&query).await?;
        let days = page.items.iter().filter_map(|row| ChangedSpan::of(&row.key)?.day.and_then(RollupDay::of));
        if let Some(day) = days.into_iter().next() {
            return Ok(Some(day));
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(None),
        }
    }
}
