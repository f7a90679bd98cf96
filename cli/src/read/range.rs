//! From when to when.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use slack::ids::Ts;

use super::target;

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
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if let Ok(ts) = target::ts(text) {
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
    fn first(&self, zone: &TimeZone) -> Ts {
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

/// Ten digits of seconds, as every timestamp since 2001 has: keys are compared as text.
fn ts_of(micros: i64) -> Ts {
    let micros = micros.max(0);
    let text = format!("{:010}.{:06}", micros / 1_000_000, micros % 1_000_000);
    Ts::parse(&text).expect("twelve digits of seconds hold every time of the calendar")
}

/// The messages of a time: from one timestamp on, and before another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TimeRange {
    /// Only those from here on.
    pub(super) since: Option<Ts>,
    /// Only those before this.
    pub(super) until: Option<Ts>,
}

impl TimeRange {
    /// What lies between two bounds, on the clock of a zone.
    pub(super) fn between(since: Option<&TimeBound>, until: Option<&TimeBound>, zone: &TimeZone) -> Self {
        let first = |bound: &TimeBound| bound.first(zone);
        Self { since: since.map(first), until: until.map(first) }
    }

    /// Whether it leaves anything out.
    pub(super) fn is_bounded(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// Leaves out what is not after a key.
    pub(super) fn not_before(&mut self, after: Option<&str>) {
        if let Some(after) = after.and_then(|after| Ts::parse(after).ok()) {
            let since = ts_of(after.micros() + 1);
            self.since = self.since.take().max(Some(since));
        }
    }

    /// The greatest key that is before it.
    pub(super) fn after(&self) -> Option<String> {
        let since = self.since.as_ref()?;
        let width = since.as_str().len() - ".000000".len();
        let micros = since.micros().checked_sub(1)?;
        (micros >= 0).then(|| format!("{:0width$}.{:06}", micros / 1_000_000, micros % 1_000_000))
    }
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

    #[test]
    fn the_key_before_a_range_is_its_neighbour() {
        let after = |ts: &str| TimeRange { since: Some(Ts::parse(ts).unwrap()), until: None }.after();
        assert_eq!(after("1700000000.000000").unwrap(), "1699999999.999999");
        assert_eq!(after("1700000000.000100").unwrap(), "1700000000.000099");
        assert_eq!(after("0915145200.000000").unwrap(), "0915145199.999999");
        assert_eq!(after("0.000000"), None);
    }
}
