//! Roll-ups for readers: which of them are valid, and which days must be counted from rows instead.
//!
//! A roll-up is valid if its day is closed, the statistician has processed every change of the day, and the
//! day does not have to be counted again. The reader itself reads the changes that the statistician has not
//! processed yet, so a report never waits for the statistician and never shows outdated counts.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use ports::changes::{ChangedSpan, Changes, SpanBatch};
use rules::figures::day::DayFigures;
use rules::figures::message::DAY_MICROS;
use rules::figures::rollup::{self, ChannelDay, FiguresState, RollupDay};
use slack::ids::{ChannelId, TeamId};

use super::people::People;
use super::period::Period;
use crate::directory;
use crate::joined::{ChannelOfTeam, JoinedChannel};

/// The size and maximum number of batches of changes. The statistician is at most minutes behind; if there
/// are more changes, the reader counts rows.
const BATCH: usize = 1_000;
const MAX_BATCHES: usize = 20;

/// Maximum number of days to be counted. If there are more, the statistician has just started.
const MAX_DUE: usize = 5_000;

/// Which roll-ups of a workspace are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollups {
    closed: RollupDay,
    /// Days that have changed since they were counted.
    due: BTreeSet<(ChannelId, RollupDay)>,
    /// Channels of which any day may have changed.
    changed: BTreeSet<ChannelId>,
}

/// The part of a channel's period that roll-ups cover, and the rest.
#[derive(Debug)]
pub(super) struct RollupCoverage {
    /// The figures of the covered days, by the number of days since 1970.
    pub(super) days: BTreeMap<i64, DayFigures>,
    /// The periods that must be counted from rows.
    pub(super) rest: Vec<Period>,
}

impl RollupCoverage {
    /// Reads the roll-ups of a channel in some periods with one query. Without roll-ups, everything must be
    /// counted from rows.
    pub(super) async fn read<const PERIODS: usize>(
        rollups: Option<&Rollups>,
        channel: &JoinedChannel<'_>,
        periods: [Period; PERIODS],
        people: &People,
    ) -> Result<[Self; PERIODS], ArchiveError> {
        match rollups {
            Some(rollups) => rollups.counted(channel, periods, people).await,
            None => Ok(Self::from_rows_only(periods)),
        }
    }

    fn from_rows_only<const PERIODS: usize>(periods: [Period; PERIODS]) -> [Self; PERIODS] {
        periods.map(|period| Self { days: BTreeMap::new(), rest: vec![period] })
    }

    /// Moves the figures of the covered days of a period out of `all_days`. Other days must be counted from
    /// rows.
    fn split_period(
        all_days: &mut BTreeMap<i64, DayFigures>,
        counted: &BTreeSet<RollupDay>,
        period: Period,
    ) -> Self {
        let (mut days, mut rest, mut reached) = (BTreeMap::new(), Vec::new(), period.from());
        for day in counted {
            days.extend(all_days.remove_entry(&day.number()));
            rest.extend(Period::from_micros(reached, day.number() * DAY_MICROS));
            reached = (day.number() + 1) * DAY_MICROS;
        }
        rest.extend(Period::from_micros(reached, period.to()));
        Self { days, rest }
    }
}

impl Rollups {
    /// Determines which roll-ups of a workspace are valid; `None` if that would need too many reads.
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
        // Read the changes that the statistician has not processed before the days that are due, so that no
        // change is missed.
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
            let due = page.items.iter().filter_map(|row| ChannelDay::from_due_key(team, &row.key));
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
                Some(date) => self.due.extend(RollupDay::from_date(date).map(|day| (channel, day))),
            }
        }
    }

    /// Returns the numbers of messages of a channel on the days with valid roll-ups: those that are not deleted and
    /// that people or apps wrote.
    pub async fn message_counts(
        &self,
        archive: &dyn Archive,
        location: &ChannelOfTeam,
    ) -> Result<BTreeMap<RollupDay, u64>, ArchiveError> {
        let ChannelOfTeam { team, channel } = location;
        let mut query = Query::partition(key::rollups(team, channel));
        let mut counts = BTreeMap::new();
        loop {
            let page = archive.query(&query).await?;
            for row in &page.items {
                let day = ChannelDay::from_rollup_key(team, channel, &row.key).map(|counted| counted.day);
                let figures = rollup::figures(row);
                if let (Some(day), Some(figures)) = (day.filter(|day| self.is_valid(channel, *day)), figures)
                {
                    let by_people: u64 = figures.people.values().map(|person| person.messages).sum();
                    counts.insert(day, by_people + figures.bot_messages);
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(counts),
            }
        }
    }

    fn is_valid(&self, channel: &ChannelId, day: RollupDay) -> bool {
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

    /// Reads the valid roll-ups of a channel in some periods. A channel with several locations is counted from
    /// rows, because a message is only complete after merging all locations.
    async fn counted<const PERIODS: usize>(
        &self,
        channel: &JoinedChannel<'_>,
        periods: [Period; PERIODS],
        people: &People,
    ) -> Result<[RollupCoverage; PERIODS], ArchiveError> {
        let [location] = channel.locations() else {
            return Ok(RollupCoverage::from_rows_only(periods));
        };
        let mut within = periods.map(|period| {
            let first = (period.from() + DAY_MICROS - 1).div_euclid(DAY_MICROS);
            let days = (first..period.to().div_euclid(DAY_MICROS)).filter_map(RollupDay::new);
            days.filter(|day| self.is_valid(&location.channel, *day)).collect::<BTreeSet<_>>()
        });
        let all = || within.iter().flatten();
        let (Some(earliest), Some(latest)) = (all().min(), all().max()) else {
            return Ok(RollupCoverage::from_rows_only(periods));
        };
        let partition = key::rollups(&location.team, &location.channel);
        let mut query =
            Query { until: latest.next().map(RollupDay::text), ..Query::partition(partition.clone()) };
        query.after =
            RollupDay::new(earliest.number() - 1).map(|before| ItemKey::new(partition, before.text()));
        let mut days = BTreeMap::new();
        loop {
            let page = channel.query(&query).await?;
            for row in &page.items {
                let Some(channel_day) =
                    ChannelDay::from_rollup_key(&location.team, &location.channel, &row.key)
                else {
                    continue;
                };
                let Some(within) = within.iter_mut().find(|within| within.contains(&channel_day.day)) else {
                    continue;
                };
                let agreed = rollup::figures(row)
                    .filter(|figures| figures.agrees(|id, is_by_app| people.is_bot_now(id, is_by_app)));
                match agreed {
                    Some(figures) if figures == DayFigures::default() => {}
                    Some(figures) => days.extend([(channel_day.day.number(), figures)]),
                    // Outdated kinds of people: count the day from its rows.
                    None => drop(within.remove(&channel_day.day)),
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        let mut within = within.into_iter();
        Ok(periods.map(|period| {
            RollupCoverage::split_period(&mut days, &within.next().unwrap_or_default(), period)
        }))
    }
}

/// Returns every channel of a workspace of which messages may be stored.
pub async fn channels_of(archive: &dyn Archive, team: &TeamId) -> Result<BTreeSet<ChannelId>, ArchiveError> {
    // A channel without its mark may get the mark back, and its days with it.
    let marks = query_all(archive, Query::partition(key::public_marks(team))).await?;
    let marked = marks.iter().filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok());
    let names = directory::read(archive, team).await?;
    Ok(marked.chain(names.iter().map(|(channel, _)| channel)).collect())
}

/// Returns the first day from `from` to `until` on which a channel has a row; `None` if there is no such day.
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
        let days = page
            .items
            .iter()
            .filter_map(|row| ChangedSpan::for_row(&row.key)?.day.and_then(RollupDay::from_date));
        if let Some(day) = days.into_iter().next() {
            return Ok(Some(day));
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(None),
        }
    }
}
