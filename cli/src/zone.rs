//! The time zone of printed times.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use process::config::zone::{NamedZone, ZoneArgs, system_zone};
use slack::ids::Ts;

use crate::plain;

/// A time zone and its name.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    zone: TimeZone,
    name: String,
}

impl Zone {
    /// Returns the zone of the arguments, or otherwise the system's.
    pub(crate) fn from_args(args: &ZoneArgs) -> Self {
        let chosen = args.tz.clone().map(|NamedZone { name, zone }| Self { zone, name });
        chosen.unwrap_or_else(Self::from_system)
    }

    /// Returns the zone from `TZ`, or otherwise from the machine; UTC if neither is set.
    fn from_system() -> Self {
        let zone = system_zone();
        let name = zone.iana_name().unwrap_or("local time").to_owned();
        Self { zone, name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Formats a timestamp to the second. A time beyond the year 9999 is returned unchanged.
    pub(crate) fn time(&self, ts: &str) -> String {
        let known = Ts::parse(ts).ok().and_then(|ts| Timestamp::from_microsecond(ts.micros()).ok());
        known.map_or_else(|| plain::line(ts), |time| self.moment(time))
    }

    /// Formats a moment to the second.
    pub(crate) fn moment(&self, moment: Timestamp) -> String {
        moment.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// Formats a timestamp for programs, to the second and with its offset from UTC; `None` beyond the
    /// calendar.
    pub(crate) fn stamp(&self, ts: &str) -> Option<String> {
        let time = Timestamp::from_microsecond(Ts::parse(ts).ok()?.micros()).ok()?;
        Some(time.to_zoned(self.zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
    }

    /// Returns the day of a timestamp.
    pub(crate) fn day(&self, ts: &str) -> String {
        let mut time = self.time(ts);
        if let Some(end) = time.find(' ') {
            time.truncate(end);
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Zone, &'static str> {
        NamedZone::parse(text).map(|zone| Zone::from_args(&ZoneArgs { tz: Some(zone) }))
    }

    #[test]
    fn a_time_is_shown_in_the_requested_zone() {
        let time = |zone: &str| parse(zone).unwrap().time("1795178096.000200");
        assert_eq!(time("UTC"), "2026-11-20 12:34:56");
        assert_eq!(time("America/New_York"), "2026-11-20 07:34:56");
        assert_eq!(time("<+14>-14"), "2026-11-21 02:34:56");
        assert_eq!(
            parse("America/New_York").unwrap().stamp("1795178096.000200").unwrap(),
            "2026-11-20T07:34:56-05:00"
        );
        assert_eq!(parse("<+14>-14").unwrap().day("1795178096.000200"), "2026-11-21");
        for invalid in ["", "Europe/Nowhere", "../../etc/passwd", "a\u{1b}[2J"] {
            assert!(parse(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn times_beyond_the_calendar_are_shown_unchanged() {
        let utc = parse("UTC").unwrap();
        assert_eq!(utc.time("999999999999.000000"), "999999999999.000000");
        assert_eq!(utc.time("0.000000"), "1970-01-01 00:00:00");
    }
}
