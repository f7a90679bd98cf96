//! Counts the messages of the periods before the one of a report.

use ports::archive::{ArchiveError, ItemKey, Query};
use rules::figures::message::{CountedMessage, DAY_MICROS};
use slack::ids::{Ts, UserId};

use super::people::People;
use super::period::Period;
use super::report::PeriodMessages;
use super::rollups::{RollupCoverage, Rollups};
use crate::concurrent::read_all;
use crate::joined::JoinedChannel;

/// Rows per page.
const PAGE: usize = 512;

/// Maximum number of rows that are read in total, for days without a valid roll-up. Reading them takes about a second.
const MAX_ROWS: usize = 50_000;

/// Maximum number of channels whose roll-ups are in memory at the same time: each may have a year of them.
const CHANNELS_AT_ONCE: usize = 8;

/// Counts the messages of people, or of one person, in each period of a trend; empty if there are no periods or if that
/// would read more than [`MAX_ROWS`] rows.
pub(super) struct TrendCounter<'a> {
    pub(super) people: &'a People,
    pub(super) person: Option<&'a UserId>,
    pub(super) rollups: Option<&'a Rollups>,
}

impl TrendCounter<'_> {
    /// `known` are the numbers of the last two periods, which the report has counted.
    pub(super) async fn count(
        &self,
        channels: &[JoinedChannel<'_>],
        period: &Period,
        known: [u64; 2],
    ) -> Result<Vec<PeriodMessages>, ArchiveError> {
        let mut trend: Vec<PeriodMessages> =
            period.trend().into_iter().map(|period| PeriodMessages { period, messages: 0 }).collect();
        for (counted, messages) in trend.iter_mut().rev().zip(known) {
            counted.messages = messages;
        }
        let earlier = trend.len().saturating_sub(known.len());
        let Some((earlier, _)) = trend.split_at_mut_checked(earlier) else { return Ok(trend) };
        let (Some(first), Some(last)) = (earlier.first(), earlier.last()) else { return Ok(trend) };
        let Some(span) = Period::from_micros(first.period.from(), last.period.to()) else { return Ok(trend) };
        let mut rows_read = 0;
        for channels in channels.chunks(CHANNELS_AT_ONCE) {
            let reads: Vec<_> = channels
                .iter()
                .map(|channel| RollupCoverage::read(self.rollups, channel, [span], self.people))
                .collect();
            for (channel, [RollupCoverage { days, rest }]) in channels.iter().zip(read_all(reads).await?) {
                for (day, figures) in days {
                    let people = figures.people.iter().filter(|(id, _)| self.is_of_report(id));
                    add(earlier, day * DAY_MICROS, people.map(|(_, of_day)| of_day.messages).sum());
                }
                for part in rest {
                    if !self.count_rows(channel, &part, earlier, &mut rows_read).await? {
                        return Ok(Vec::new());
                    }
                }
            }
        }
        Ok(trend)
    }

    /// Counts rows; returns whether all could be read.
    async fn count_rows(
        &self,
        channel: &JoinedChannel<'_>,
        part: &Period,
        trend: &mut [PeriodMessages],
        rows_read: &mut usize,
    ) -> Result<bool, ArchiveError> {
        let partition = channel.current_location().messages();
        let range = part.range();
        let mut query = Query { limit: PAGE, ..Query::partition(partition.clone()) };
        query.after = range.key_before().map(|after| ItemKey::new(partition, after));
        query.until = range.until.as_ref().map(Ts::to_string);
        while *rows_read < MAX_ROWS {
            let page = channel.query(&query).await?;
            *rows_read += page.items.len();
            for message in page.items.iter().filter_map(CountedMessage::read) {
                let is_of_report = message.author.is_some_and(|author| self.is_of_report(author));
                let is_counted = is_of_report && !message.is_deleted && !self.people.is_bot(&message);
                add(trend, message.ts.micros(), u64::from(is_counted));
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    fn is_of_report(&self, author: &str) -> bool {
        self.person.is_none_or(|person| person.as_str() == author)
    }
}

/// Adds messages to the period that a time is in.
fn add(trend: &mut [PeriodMessages], micros: i64, messages: u64) {
    let after = trend.partition_point(|counted| counted.period.from() <= micros);
    if let Some(counted) = after.checked_sub(1).and_then(|index| trend.get_mut(index)) {
        counted.messages += messages;
    }
}
