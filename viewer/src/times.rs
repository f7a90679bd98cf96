//! Formats times for pages.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use reader::range::ts_from_micros;
use slack::ids::Ts;

/// Converts a timestamp to a time zone; `None` beyond the calendar.
pub fn zoned(ts: &Ts, zone: &TimeZone) -> Option<Zoned> {
    Some(Timestamp::from_microsecond(ts.micros()).ok()?.to_zoned(zone.clone()))
}

/// Returns the day of a timestamp; `None` beyond the calendar.
pub fn day(ts: &Ts, zone: &TimeZone) -> Option<Date> {
    Some(zoned(ts, zone)?.date())
}

/// `Friday, 20 November 2026`
pub fn day_in_words(day: Date) -> String {
    day.strftime("%A, %-d %B %Y").to_string()
}

/// `20 Nov 2026`
pub fn short_day(day: Date) -> String {
    day.strftime("%-d %b %Y").to_string()
}

/// `09:41`
pub fn clock(ts: &Ts, zone: &TimeZone) -> String {
    zoned(ts, zone).map_or_else(|| ts.to_string(), |time| time.strftime("%H:%M").to_string())
}

/// `2026-11-20 09:41:07`
pub fn moment(ts: &Ts, zone: &TimeZone) -> String {
    zoned(ts, zone).map_or_else(|| ts.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// `20 Nov 2026, 09:41`
pub fn short(ts: &Ts, zone: &TimeZone) -> String {
    zoned(ts, zone).map_or_else(|| ts.to_string(), |time| time.strftime("%-d %b %Y, %H:%M").to_string())
}

/// Formats a timestamp for the attribute `datetime`.
pub fn machine_readable(ts: &Ts) -> String {
    Timestamp::from_microsecond(ts.micros()).map_or_else(|_| ts.to_string(), |time| time.to_string())
}

/// The name of a part of a channel, for people: `November 2026` of `2026-11`, `20 November 2026` of `2026-11-20`, and
/// `20 November 2026 (2)` of `2026-11-20-2`. Any other name is returned as it is.
pub fn part_in_words(name: &str) -> String {
    let (date, rest) = name.split_at_checked(10).unwrap_or((name, ""));
    let number = rest.strip_prefix('-');
    let (first, format) = match date.len() {
        7 => (format!("{date}-01"), "%B %Y"),
        _ => (date.to_owned(), "%-d %B %Y"),
    };
    match first.parse::<Date>() {
        Ok(day) if rest.is_empty() => day.strftime(format).to_string(),
        Ok(day) if let Some(number) = number => format!("{} ({number})", day.strftime(format)),
        Ok(_) | Err(_) => name.to_owned(),
    }
}

/// Returns the first timestamp of a day; zero before 1970; `None` beyond the calendar.
pub fn day_start(day: Date, zone: &TimeZone) -> Option<Ts> {
    let first = day.to_zoned(zone.clone()).ok()?.timestamp().as_microsecond();
    Some(ts_from_micros(first.max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_channel_are_named_by_their_month_or_day() {
        for (name, expected) in [
            ("2026-11", "November 2026"),
            ("2026-11-05", "5 November 2026"),
            ("2026-11-05-12", "5 November 2026 (12)"),
            ("2026-13", "2026-13"),
            ("2026-11-05x", "2026-11-05x"),
            ("undated", "undated"),
            ("20261120T0", "20261120T0"),
            ("ééééé", "ééééé"),
        ] {
            assert_eq!(part_in_words(name), expected);
        }
    }

    #[test]
    fn a_day_starts_at_midnight_in_its_time_zone() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let day = Date::constant(2026, 11, 20);
        let first = day_start(day, &berlin).unwrap();
        assert_eq!(moment(&first, &TimeZone::UTC), "2026-11-19 23:00:00");
        assert_eq!(super::day(&first, &berlin), Some(day));
        assert_eq!(day_in_words(day), "Friday, 20 November 2026");
        assert_eq!(
            (clock(&first, &berlin), short(&first, &berlin)),
            ("00:00".into(), "20 Nov 2026, 00:00".into())
        );
        assert_eq!(machine_readable(&first), "2026-11-19T23:00:00Z");
        assert_eq!(day_start(Date::constant(1960, 1, 1), &berlin), Ts::parse("0000000000.000000").ok());
        assert_eq!(day_start(Date::MIN, &berlin), None);
        assert_eq!(clock(&Ts::parse("999999999999.000000").unwrap(), &berlin), "999999999999.000000");
    }
}
