//! Roll-ups for readers: which of them hold, and what has to be counted from rows instead.
//!
//! A roll-up holds if its day is closed, the statistician has followed every change of it, and none of these is still to be
//! counted. What it has not followed yet, the reader asks for itself: so a report never waits for the statistician, and never
//! shows what was so before a change.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use ports::changes::{ChangeBatch, ChangedSpan, Changes};
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
    /// What is counted of a channel in a period; without roll-ups, everything has to be counted from rows.
    pub(super) async fn read(
        rollups: Option<&Rollups>,
        channel: &JoinedChannel<'_>,
        period: &Period,
        people: &People,
    ) -> Result<Self, ArchiveError> {
        match rollups {
            Some(rollups) => rollups.counted(channel, period, people).await,
            None => Ok(Self::nothing(period)),
        }
    }

    fn nothing(period: &Period) -> Self {
        Self { days: BTreeMap::new(), rest: vec![*period] }
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
            let (spans, next) = match changes.since(Some(&cursor), BATCH).await? {
                ChangeBatch::Items { items, next } => {
                    (items.iter().filter_map(|item| ChangedSpan::of(&item.key)).collect(), next)
                }
                ChangeBatch::Spans { spans, next } => (spans, next),
                ChangeBatch::Rebuild => return Ok(None),
            };
            if spans.is_empty() {
                break;
            }
            if batch == MAX_BATCHES {
                return Ok(None);
            }
            rollups.add(spans, team);
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

    fn add(&mut self, spans: Vec<ChangedSpan>, of_team: &TeamId) {
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

    /// What is counted of a channel in a period. A channel that lies in several places is read from rows: what counts of a
    /// message is only known of all of them.
    async fn counted(
        &self,
        channel: &JoinedChannel<'_>,
        period: &Period,
        people: &People,
    ) -> Result<Rolled, ArchiveError> {
        let [place] = channel.places() else {
            return Ok(Rolled::nothing(period));
        };
        let (first, end) = (period.from(), period.to());
        let whole_days = (first + DAY_MICROS - 1).div_euclid(DAY_MICROS)..end.div_euclid(DAY_MICROS);
        let within: Vec<RollupDay> =
            whole_days.filter_map(RollupDay::new).filter(|day| self.holds(&place.channel, *day)).collect();
        let (Some(earliest), Some(latest)) = (within.first(), within.last()) else {
            return Ok(Rolled::nothing(period));
        };
        let partition = key::rollups(&place.team, &place.channel);
        let mut query =
            Query { until: latest.next().map(RollupDay::text), ..Query::partition(partition.clone()) };
        query.after =
            RollupDay::new(earliest.number() - 1).map(|before| ItemKey::new(partition, before.text()));
        let mut days = BTreeMap::new();
        let mut unusable = BTreeSet::new();
        loop {
            let page = channel.query(&query).await?;
            for row in &page.items {
                let Some(of) = ChannelDay::of_rollup(&place.team, &place.channel, &row.key) else { continue };
                let agreed = rollup::figures(row)
                    .filter(|figures| figures.agrees(|id, is_by_app| people.is_bot_now(id, is_by_app)));
                match agreed {
                    Some(figures) if figures == DayFigures::default() => {}
                    Some(figures) => days.extend([(of.day.number(), figures)]),
                    None => unusable.extend([of.day]),
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        let counted: BTreeSet<RollupDay> = within.into_iter().filter(|day| !unusable.contains(day)).collect();
        days.retain(|day, _| RollupDay::new(*day).is_some_and(|day| counted.contains(&day)));
        let mut rest = Vec::new();
        let mut from = first;
        for day in counted {
            rest.extend(Period::of_micros(from, day.number() * DAY_MICROS));
            from = (day.number() + 1) * DAY_MICROS;
        }
        rest.extend(Period::of_micros(from, end));
        Ok(Rolled { days, rest })
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
