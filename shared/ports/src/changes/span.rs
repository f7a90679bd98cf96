//! A part of a channel in which something may have changed.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::archive::{ItemKey, Query, key, rows};
use crate::clock::TimestampMs;
use slack::ids::{ChannelId, TeamId, Ts};

/// Timestamps with this number of digits in their seconds sort as text as they do as numbers: the years 2001
/// to 2286. Slack sends no others.
const SECONDS_DIGITS: usize = 10;

/// The day part of the mark for a whole channel.
const WHOLE: &str = "all";

/// The messages of a channel of one day in UTC, or all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangedSpan {
    pub team: TeamId,
    pub channel: ChannelId,
    /// The day of the messages; `None` for the whole channel.
    pub day: Option<Date>,
}

impl ChangedSpan {
    /// The span that contains a row; `None` if the row is not a message.
    pub fn for_row(row: &ItemKey) -> Option<Self> {
        let (team, channel) = row.item_id.strip_prefix(rows::FOLLOWED)?.split_once('#')?;
        let (team, channel) = (TeamId::parse(team).ok()?, ChannelId::parse(channel).ok()?);
        Some(Self { team, channel, day: day_of(&Ts::parse(&row.timestamp).ok()?) })
    }

    pub fn whole(team: TeamId, channel: ChannelId) -> Self {
        Self { team, channel, day: None }
    }

    /// The row that marks a write to this span within an hour, as [`hour_of`] formats it.
    pub fn mark_key(&self, hour: &str) -> ItemKey {
        let day = self.day.map_or_else(|| WHOLE.to_owned(), |day| day.to_string());
        ItemKey::change_mark(&self.team, hour, &self.channel, &day)
    }

    /// The span that a mark names; `None` if the row is not a mark.
    pub fn from_mark(mark: &ItemKey) -> Option<Self> {
        let team = TeamId::parse(mark.item_id.strip_prefix(rows::CHANGE_MARK.prefix())?).ok()?;
        let (_, part) = mark.timestamp.split_once('#')?;
        let (channel, day) = part.split_once('#')?;
        let day = if day == WHOLE { None } else { Some(day.parse().ok()?) };
        Some(Self { team, channel: ChannelId::parse(channel).ok()?, day })
    }

    /// A query for the first page of its rows, oldest first.
    pub fn query(&self) -> Query {
        let partition = key::messages(&self.team, &self.channel);
        // A second without a fraction sorts before each timestamp within it.
        let bound =
            |day: Date| Some(seconds_at(day)?.to_string()).filter(|text| text.len() == SECONDS_DIGITS);
        let after = self.day.and_then(bound).map(|seconds| ItemKey::new(partition.clone(), seconds));
        let until = self.day.and_then(|day| bound(day.tomorrow().ok()?));
        Query { after, until, ..Query::partition(partition) }
    }
}

/// An hour in UTC as formatted in marks: `2026-11-22T10`.
pub fn hour_of(time: TimestampMs) -> String {
    let timestamp = Timestamp::from_millisecond(time.0).unwrap_or(Timestamp::MIN);
    timestamp.strftime("%Y-%m-%dT%H").to_string()
}

fn seconds_at(day: Date) -> Option<i64> {
    Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// The day of a message; `None` if its timestamp does not sort as text.
fn day_of(ts: &Ts) -> Option<Date> {
    let (seconds, _) = ts.as_str().split_once('.')?;
    let is_ordered = seconds.len() == SECONDS_DIGITS && !seconds.starts_with('0');
    let timestamp = Timestamp::from_second(seconds.parse().ok().filter(|_| is_ordered)?).ok()?;
    Some(timestamp.to_zoned(TimeZone::UTC).date())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ts: &str) -> ItemKey {
        ItemKey::new("message#T1#C1", ts)
    }

    /// Whether a query reads a timestamp, as the archive compares them.
    fn reads(query: &Query, ts: &str) -> bool {
        query.after.as_ref().is_none_or(|after| after.timestamp.as_str() < ts)
            && query.until.as_ref().is_none_or(|until| ts < until.as_str())
    }

    #[test]
    fn a_day_contains_its_messages_and_not_the_adjacent_ones() {
        let span = ChangedSpan::for_row(&row("1700000000.000100")).unwrap();
        assert_eq!(span.day.unwrap().to_string(), "2023-11-14");
        let query = span.query();
        for (ts, within) in [
            ("1699919999.999999", false),
            ("1699920000.000000", true),
            ("1700006399.999999", true),
            ("1700006400.000000", false),
        ] {
            assert_eq!(reads(&query, ts), within, "{ts}");
            assert_eq!(ChangedSpan::for_row(&row(ts)).as_ref() == Some(&span), within, "{ts}");
        }
    }

    #[test]
    fn every_message_is_in_its_own_span() {
        let odd = ["0.000000", "9.000001", "999999999.999999", "100000000000.000000", "0001700000.000000"];
        let edges = ["1000000000.000000", "1000079999.999999", "9999999999.999999", "2147483648.000000"];
        for ts in odd.into_iter().chain(edges) {
            let span = ChangedSpan::for_row(&row(ts)).unwrap();
            assert!(reads(&span.query(), ts), "{ts}: {span:?}");
            assert_eq!(ChangedSpan::from_mark(&span.mark_key("2026-11-22T10")).as_ref(), Some(&span));
            assert_eq!(span.day.is_none(), odd.contains(&ts), "{ts}");
        }
    }

    #[test]
    fn a_mark_names_its_hour_its_channel_and_its_day() {
        let span = ChangedSpan::for_row(&row("1700000000.000100")).unwrap();
        let mark = span.mark_key(&hour_of(TimestampMs(1_795_344_000_000 - 1)));
        assert_eq!(
            (mark.item_id.as_str(), mark.timestamp.as_str()),
            ("changes#T1", "2026-11-22T10#C1#2023-11-14")
        );
        for (item_id, timestamp) in [
            ("changes#t1", "2026-11-22T10#C1#2023-11-14"),
            ("changed#T1", "2026-11-22T10#C1#2023-11-14"),
            ("changes#T1", "2026-11-22T10#C1#2023-11-32"),
            ("changes#T1", "2026-11-22T10#C1"),
            ("changes#T1", "2026-11-22T10"),
        ] {
            assert_eq!(
                ChangedSpan::from_mark(&ItemKey::new(item_id, timestamp)),
                None,
                "{item_id} {timestamp}"
            );
        }
    }

    #[test]
    fn a_row_that_is_not_a_message_has_no_span() {
        for (item_id, timestamp) in [
            ("revision#T1#C1", "1700000000.000100"),
            ("message#T1", "1700000000.000100"),
            ("message#t1#C1", "1700000000.000100"),
            ("message#T1#C1#C2", "1700000000.000100"),
            ("message#T1#C1", "1700000000"),
        ] {
            assert_eq!(
                ChangedSpan::for_row(&ItemKey::new(item_id, timestamp)),
                None,
                "{item_id} {timestamp}"
            );
        }
    }
}
