//! The bounds of a time range on the command line.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use ports::clock::{Clock, SystemClock};
use reader::permalink;
use reader::range::{TimeRange, ts_from_micros};
use slack::ids::Ts;

/// A bound as people write it, whose zone may not be known yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TimeBound {
    /// A message's timestamp.
    Message(Ts),
    /// A time with a zone.
    Moment(Timestamp),
    /// A local time; midnight for a date alone.
    Clock(DateTime),
    /// The midnight that began the local day that is N days before this time.
    DaysBefore(i32, Timestamp),
}

impl TimeBound {
    /// Parses a date, a date and time, a timestamp, or a day before this one.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let now = Timestamp::from_millisecond(SystemClock.now().0).unwrap_or(Timestamp::MAX);
        Self::parse_at(text, now)
    }

    fn parse_at(text: &str, now: Timestamp) -> Result<Self, &'static str> {
        let text = text.trim();
        let days = match text {
            "today" => Some(0),
            "yesterday" => Some(1),
            _ => text.strip_suffix('d').and_then(|days| days.parse::<u16>().ok()).map(i32::from),
        };
        if let Some(days) = days {
            return Ok(Self::DaysBefore(days, now));
        }
        if let Some(ts) = permalink::ts(text) {
            return Ok(Self::Message(ts));
        }
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Ok(Self::Moment(moment));
        }
        const EXPECTED: &str = "a time is such as 2026-11-01, 2026-11-01T09:30, 2026-11-01T09:30Z, yesterday, 7d, or a message's timestamp";
        // A `DateTime` would ignore the zone in `2026-11-01T09:30[Asia/Tokyo]`.
        if text.contains('[') {
            let zoned = text.parse::<Zoned>().map_err(|_| EXPECTED)?;
            return Ok(Self::Moment(zoned.timestamp()));
        }
        let midnight = || text.parse::<Date>().map(|date| date.at(0, 0, 0, 0));
        let clock = if text.len() > "2026-11-01".len() { text.parse() } else { midnight() };
        clock.map(Self::Clock).map_err(|_| EXPECTED)
    }

    /// Returns the first timestamp that a message at this time can have.
    pub(crate) fn first(&self, zone: &TimeZone) -> Ts {
        let moment = match self {
            Self::Message(ts) => return ts.clone(),
            Self::Moment(moment) => *moment,
            // A local time that the clock skips or repeats is resolved to the earlier one, as calendars do. A
            // time beyond the calendar is after every message.
            Self::Clock(clock) => zone.to_timestamp(*clock).unwrap_or(Timestamp::MAX),
            Self::DaysBefore(days, now) => {
                let day = now.to_zoned(zone.clone()).date().saturating_sub(Span::new().days(*days));
                zone.to_timestamp(day.at(0, 0, 0, 0)).unwrap_or(Timestamp::MIN)
            }
        };
        ts_from_micros(moment.as_microsecond())
    }
}

/// The end of a range is not after its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("--until is exclusive and must be later than --since")]
pub(crate) struct EmptyRange;

/// Returns the range between two bounds, with local times in this zone.
pub(crate) fn range_between(
    since: Option<&TimeBound>,
    until: Option<&TimeBound>,
    zone: &TimeZone,
) -> Result<TimeRange, EmptyRange> {
    let first = |bound: &TimeBound| bound.first(zone);
    let range = TimeRange { since: since.map(first), until: until.map(first) };
    match (&range.since, &range.until) {
        (Some(since), Some(until)) if since >= until => Err(EmptyRange),
        _ => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_date_a_time_or_a_timestamp() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let now = "2026-11-08T23:30:00Z".parse().unwrap();
        let first = |text: &str| TimeBound::parse_at(text, now).unwrap().first(&berlin).to_string();
        for (text, expected) in [
            ("2026-11-01", "1793487600.000000"),
            ("2026-11-01T00:00", "1793487600.000000"),
            ("2026-11-01 00:00:00", "1793487600.000000"),
            ("2026-10-31T23:00Z", "1793487600.000000"),
            ("2026-11-01T00:00+01:00", "1793487600.000000"),
            ("2026-11-01T08:00[Asia/Tokyo]", "1793487600.000000"),
            ("1700000000.000100", "1700000000.000100"),
            ("p1700000000000100", "1700000000.000100"),
            ("1999-01-01", "0915145200.000000"),
            ("1960-01-01", "0000000000.000000"),
            ("today", "1794178800.000000"),
            ("yesterday", "1794092400.000000"),
            ("8d", "1793487600.000000"),
        ] {
            assert_eq!(first(text), expected, "{text}");
        }
        for invalid in [
            "",
            "tomorrow",
            "-1d",
            "1.5d",
            "2026-13-01",
            "2026-02-30",
            "2026",
            "2026-11-01T00:00[Nowhere/X]",
            "11/01/2026",
            "1700000000",
            "\u{1b}[2J",
        ] {
            assert!(TimeBound::parse(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn a_range_that_does_not_end_after_its_beginning_is_refused() {
        let between = |since: &str, until: &str| {
            let [since, until] = [since, until].map(|text| TimeBound::parse(text).unwrap());
            range_between(Some(&since), Some(&until), &TimeZone::UTC)
        };
        assert_eq!(between("2026-11-02", "2026-11-01"), Err(EmptyRange));
        assert_eq!(between("2026-11-01", "2026-11-01"), Err(EmptyRange));
        assert!(between("2026-11-01", "1793491200.000001").is_ok());
        assert_eq!(range_between(None, None, &TimeZone::UTC), Ok(TimeRange::default()));
    }
}
