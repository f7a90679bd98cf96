//! From when to when.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use reader::permalink;
use reader::range::{TimeRange, ts_of};
use slack::ids::Ts;

/// A time as people write it: its zone may not be known yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TimeBound {
    /// A message's timestamp.
    Message(Ts),
    /// A time that names its zone.
    Moment(Timestamp),
    /// A time on the clock of a zone; of a day alone, its midnight.
    Clock(DateTime),
}

impl TimeBound {
    /// Reads a date, a date and time, or a timestamp.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if let Some(ts) = permalink::ts(text) {
            return Ok(Self::Message(ts));
        }
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Ok(Self::Moment(moment));
        }
        let midnight = || text.parse::<Date>().map(|date| date.at(0, 0, 0, 0));
        let clock = if text.len() > "2026-11-01".len() { text.parse() } else { midnight() };
        clock.map(Self::Clock).map_err(
            |_| "a time is such as 2026-11-01, 2026-11-01T09:30, 2026-11-01T09:30Z, or a message's timestamp",
        )
    }

    /// The first timestamp that a message of that time can have.
    pub(crate) fn first(&self, zone: &TimeZone) -> Ts {
        let moment = match self {
            Self::Message(ts) => return ts.clone(),
            Self::Moment(moment) => *moment,
            // A time that the clock leaves out or has twice is the earlier one, as calendars take it. What lies beyond
            // the calendar is after every message.
            Self::Clock(clock) => zone.to_timestamp(*clock).unwrap_or(Timestamp::MAX),
        };
        ts_of(moment.as_microsecond())
    }
}

/// What lies between two bounds, on the clock of a zone.
pub(crate) fn between(since: Option<&TimeBound>, until: Option<&TimeBound>, zone: &TimeZone) -> TimeRange {
    let first = |bound: &TimeBound| bound.first(zone);
    TimeRange { since: since.map(first), until: until.map(first) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_date_a_time_or_a_timestamp() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let first = |text: &str| TimeBound::parse(text).unwrap().first(&berlin).to_string();
        for (text, expected) in [
            ("2026-11-01", "1793487600.000000"),
            ("2026-11-01T00:00", "1793487600.000000"),
            ("2026-11-01 00:00:00", "1793487600.000000"),
            ("2026-10-31T23:00Z", "1793487600.000000"),
            ("2026-11-01T00:00+01:00", "1793487600.000000"),
            ("1700000000.000100", "1700000000.000100"),
            ("p1700000000000100", "1700000000.000100"),
            ("1999-01-01", "0915145200.000000"),
            ("1960-01-01", "0000000000.000000"),
        ] {
            assert_eq!(first(text), expected, "{text}");
        }
        for none in
            ["", "yesterday", "2026-13-01", "2026-02-30", "2026", "11/01/2026", "1700000000", "\u{1b}[2J"]
        {
            assert!(TimeBound::parse(none).is_err(), "{none:?}");
        }
    }
}
