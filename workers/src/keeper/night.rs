//! When a night begins.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use ports::clock::TimestampMs;

/// When each night begins.
#[derive(Debug, Clone)]
pub struct NightTime {
    /// The time of the day.
    pub at: Time,
    /// Its zone.
    pub zone: TimeZone,
}

impl NightTime {
    /// The beginning of the last night: the last time at which the clock showed this time of the day.
    pub fn before(&self, now: TimestampMs) -> TimestampMs {
        let now = Timestamp::from_millisecond(now.0).unwrap_or_default().to_zoned(self.zone.clone());
        let begin = |days: i64| {
            let date = now.date().saturating_sub(Span::new().days(days));
            let begin = date.to_datetime(self.at).to_zoned(self.zone.clone());
            begin.map_or(0, |begin| begin.timestamp().as_millisecond())
        };
        let today = begin(0);
        TimestampMs(if today <= now.timestamp().as_millisecond() { today } else { begin(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_night_begins_at_the_local_time_of_this_day_or_of_the_day_before() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let time = NightTime { at: Time::constant(3, 0, 0, 0), zone };
        for (now, expected) in [
            ("2026-11-20T12:00:00Z", "2026-11-20T02:00:00Z"),
            ("2026-11-20T02:00:00Z", "2026-11-20T02:00:00Z"),
            ("2026-11-20T01:59:59Z", "2026-11-19T02:00:00Z"),
            // The clocks go forward at two in the morning, and back at three.
            ("2026-03-29T12:00:00Z", "2026-03-29T01:00:00Z"),
            ("2026-10-25T12:00:00Z", "2026-10-25T02:00:00Z"),
        ] {
            let [now, expected] =
                [now, expected].map(|time| time.parse::<Timestamp>().unwrap().as_millisecond());
            assert_eq!(time.before(TimestampMs(now)).0, expected);
        }
    }
}
