//! The period of a report, and the previous period that it is compared with.

use jiff::Timestamp;
use jiff::civil::{Date, ISOWeekDate, Weekday};
use jiff::tz::TimeZone;
use slack::ids::Ts;

use crate::range::{TimeRange, ts_from_micros};

const DAY_MICROS: i64 = 86_400_000_000;

/// Ten years. A longer period is a mistyped year.
const MAX_DAYS: i64 = 3_660;

/// A half-open period from `from` to `to`, in microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    from: i64,
    to: i64,
}

/// Why a period is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeriodError {
    /// The text does not have the format of a week.
    #[error("write a week as 2026-W46")]
    NoWeek,
    /// The year does not have this week.
    #[error("there is no week {week} in {year}: a year has 52 or 53")]
    UnknownWeek { year: i16, week: i8 },
    /// The period ends before it begins, or has no length.
    #[error(
        "the period ends before it begins, or has no length: --to is exclusive, so a day ends with the next one"
    )]
    Empty,
    /// The period is longer than ten years.
    #[error("the period is longer than ten years: choose a shorter one")]
    TooLong,
}

impl Period {
    /// Returns the period from one time to another.
    ///
    /// # Errors
    /// [`PeriodError::Empty`], [`PeriodError::TooLong`]
    pub fn between(from: &Ts, to: &Ts) -> Result<Self, PeriodError> {
        let period = Self { from: from.micros(), to: to.micros() };
        match period.to - period.from {
            length if length <= 0 => Err(PeriodError::Empty),
            length if length > MAX_DAYS * DAY_MICROS => Err(PeriodError::TooLong),
            _ => Ok(period),
        }
    }

    /// Returns the period between two times in microseconds; `None` if it is empty.
    pub(super) fn from_micros(from: i64, to: i64) -> Option<Self> {
        (from < to).then_some(Self { from, to })
    }

    /// Parses an ISO 8601 week, from Monday to Monday in UTC.
    ///
    /// # Errors
    /// [`PeriodError::NoWeek`], [`PeriodError::UnknownWeek`]
    pub fn week(text: &str) -> Result<Self, PeriodError> {
        let (year, week) = text.split_once("-W").ok_or(PeriodError::NoWeek)?;
        let is_number = |text: &str, digits| text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(year, 4) || !is_number(week, 2) {
            return Err(PeriodError::NoWeek);
        }
        let year: i16 = year.parse().map_err(|_| PeriodError::NoWeek)?;
        let week: i8 = week.parse().map_err(|_| PeriodError::NoWeek)?;
        let monday = ISOWeekDate::new(year, week, Weekday::Monday)
            .map_err(|_| PeriodError::UnknownWeek { year, week })?;
        // A week before 1970 has no timestamps, so it becomes a period without messages.
        Ok(Self::week_of(monday.date()).unwrap_or(Self { from: 0, to: DAY_MICROS }))
    }

    /// Returns the last complete week.
    pub fn last_week(now: Timestamp) -> Self {
        let today = now.to_zoned(TimeZone::UTC).date();
        let monday = today.iso_week_date().first_of_week().map(ISOWeekDate::date);
        let this_week = monday.ok().and_then(Self::week_of);
        this_week.map_or(Self { from: 0, to: 7 * DAY_MICROS }, |week| week.previous())
    }

    fn week_of(monday: Date) -> Option<Self> {
        let from = monday.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond();
        (from >= 0).then_some(Self { from, to: from + 7 * DAY_MICROS })
    }

    /// Returns the period of the same length that ends where this one begins.
    pub fn previous(&self) -> Self {
        Self { from: self.from - (self.to - self.from), to: self.from }
    }

    /// Returns the period of the same length that begins where this one ends.
    pub fn next(&self) -> Self {
        Self { from: self.to, to: self.to + (self.to - self.from) }
    }

    /// The name of the week, such as `2026-W46`; `None` if the period is no week from Monday to Monday.
    pub fn week_name(&self) -> Option<String> {
        let first = self.days()?.0.iso_week_date();
        let is_week = first.weekday() == Weekday::Monday && self.to - self.from == 7 * DAY_MICROS;
        is_week.then(|| format!("{:04}-W{:02}", first.year(), first.week()))
    }

    /// The first and the last day of the period, if it consists of whole days.
    fn days(&self) -> Option<(Date, Date)> {
        let day =
            |micros: i64| Some(Timestamp::from_microsecond(micros).ok()?.to_zoned(TimeZone::UTC).date());
        Some((day(self.from)?, day(self.to - 1)?)).filter(|_| self.has_whole_days())
    }

    /// The period for people, such as `9–15 November 2026 (week 46)`.
    pub fn in_words(&self) -> String {
        let Some((first, last)) = self.days() else { return self.bounds().join(" to ") };
        let end = last.strftime("%-d %B %Y");
        let days = if first == last {
            end.to_string()
        } else if (first.year(), first.month()) == (last.year(), last.month()) {
            format!("{}–{end}", first.day())
        } else if first.year() == last.year() {
            format!("{} – {end}", first.strftime("%-d %B"))
        } else {
            format!("{} – {end}", first.strftime("%-d %B %Y"))
        };
        match self.week_name() {
            Some(_) => format!("{days} (week {})", first.iso_week_date().week()),
            None => days,
        }
    }

    /// Whether this period, and therefore the previous one, consists of whole days in UTC.
    pub(super) fn has_whole_days(&self) -> bool {
        self.from % DAY_MICROS == 0 && self.to % DAY_MICROS == 0
    }

    /// Parses the result of [`Period::bounds`].
    pub(super) fn parse_bounds(from: &str, to: &str) -> Option<Self> {
        let micros = |text: &str| match text.parse::<Date>() {
            Ok(date) => Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond()),
            Err(_) => Some(text.parse::<Timestamp>().ok()?.as_microsecond()),
        };
        Self::from_micros(micros(from)?, micros(to)?)
    }

    /// The first microsecond of the period.
    pub fn from(&self) -> i64 {
        self.from
    }

    /// The first microsecond after the period.
    pub fn to(&self) -> i64 {
        self.to
    }

    /// Whether a timestamp is in the period.
    pub fn contains(&self, ts: &Ts) -> bool {
        (self.from..self.to).contains(&ts.micros())
    }

    /// The period as a range of timestamps.
    pub fn range(&self) -> TimeRange {
        TimeRange { since: Some(ts_from_micros(self.from)), until: Some(ts_from_micros(self.to)) }
    }

    /// The start and end of the period: dates if both are midnights in UTC, otherwise times.
    pub fn bounds(&self) -> [String; 2] {
        let is_whole = self.has_whole_days();
        [self.from, self.to].map(|micros| if is_whole { day_of(micros) } else { moment(micros) })
    }

    /// Returns the days, in UTC, that overlap both an interval and this period.
    pub(super) fn days_touched(&self, from: i64, to: i64) -> impl Iterator<Item = String> {
        let (from, to) = (from.max(self.from), to.min(self.to));
        let days = from.div_euclid(DAY_MICROS)..(to + DAY_MICROS - 1).div_euclid(DAY_MICROS);
        days.filter(move |_| from < to).map(|day| day_of(day * DAY_MICROS))
    }
}

fn day_of(micros: i64) -> String {
    let moment = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX);
    moment.to_zoned(TimeZone::UTC).date().to_string()
}

fn moment(micros: i64) -> String {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_is_from_monday_to_monday_and_is_compared_with_the_one_before() {
        let bounds = |text: &str| Period::week(text).map(|week| week.bounds());
        let dates = |from: &str, to: &str| Ok([from.to_owned(), to.to_owned()]);
        assert_eq!(bounds("2026-W46"), dates("2026-11-09", "2026-11-16"));
        assert_eq!(bounds("2026-W01"), dates("2025-12-29", "2026-01-05"));
        assert_eq!(bounds("2026-W53"), dates("2026-12-28", "2027-01-04"));
        assert_eq!(Period::week("2026-W46").unwrap().previous(), Period::week("2026-W45").unwrap());
        assert_eq!(bounds("2025-W53"), Err(PeriodError::UnknownWeek { year: 2025, week: 53 }));
        assert_eq!(bounds("2026-W00"), Err(PeriodError::UnknownWeek { year: 2026, week: 0 }));
        assert_eq!(bounds("2026-W99"), Err(PeriodError::UnknownWeek { year: 2026, week: 99 }));
        for malformed in ["", "2026-46", "2026-W4", "26-W46", "2026-W-1", "2026-W+1", "W46", "2026-W461"] {
            assert_eq!(bounds(malformed), Err(PeriodError::NoWeek), "{malformed}");
        }
        assert!(bounds("0001-W01").is_ok() && bounds("9999-W52").is_ok());
    }

    #[test]
    fn the_last_week_is_over() {
        for now in ["2026-11-16T00:00:00Z", "2026-11-22T23:59:59Z"] {
            let week = Period::last_week(now.parse().unwrap());
            assert_eq!(week.bounds(), ["2026-11-09", "2026-11-16"], "{now}");
        }
    }

    #[test]
    fn a_period_has_a_positive_length_of_at_most_ten_years() {
        let between = |from: &str, to: &str| {
            let ts = |text: &str| ts_from_micros(text.parse::<Timestamp>().unwrap().as_microsecond());
            Period::between(&ts(from), &ts(to))
        };
        let hours = between("2026-11-20T10:00:00Z", "2026-11-20T12:00:00Z").unwrap();
        assert_eq!(hours.bounds(), ["2026-11-20T10:00:00Z", "2026-11-20T12:00:00Z"]);
        assert_eq!(hours.previous().bounds(), ["2026-11-20T08:00:00Z", "2026-11-20T10:00:00Z"]);
        let day = "2026-11-20T00:00:00Z";
        assert_eq!(between(day, day), Err(PeriodError::Empty));
        assert_eq!(between(day, "2026-11-19T00:00:00Z"), Err(PeriodError::Empty));
        assert_eq!(between("2006-11-20T00:00:00Z", day), Err(PeriodError::TooLong));
    }

    #[test]
    fn a_hole_touches_the_days_that_it_overlaps() {
        let week = Period::week("2026-W46").unwrap();
        let day = |n: i64| week.from() + n * DAY_MICROS;
        let touched = |from, to| week.days_touched(from, to).collect::<Vec<_>>();
        assert_eq!(touched(0, i64::MAX - DAY_MICROS).len(), 7);
        assert_eq!(touched(day(1), day(2)), ["2026-11-10"]);
        assert_eq!(touched(day(1) - 1, day(2) + 1), ["2026-11-09", "2026-11-10", "2026-11-11"]);
        assert_eq!(touched(day(7), day(9)), [""; 0]);
        assert_eq!(touched(day(3), day(3)), [""; 0]);
    }

    #[test]
    fn a_period_in_words_names_its_days_and_its_week() {
        let day = |text: &str| text.parse::<Date>().unwrap().to_zoned(TimeZone::UTC).unwrap().timestamp();
        let period = |from: &str, to: &str| {
            Period::from_micros(day(from).as_microsecond(), day(to).as_microsecond()).unwrap()
        };
        for (from, to, words, week) in [
            ("2026-11-09", "2026-11-16", "9–15 November 2026 (week 46)", Some("2026-W46")),
            ("2026-11-30", "2026-12-07", "30 November – 6 December 2026 (week 49)", Some("2026-W49")),
            ("2026-12-28", "2027-01-04", "28 December 2026 – 3 January 2027 (week 53)", Some("2026-W53")),
            ("2026-11-10", "2026-11-17", "10–16 November 2026", None),
            ("2026-11-10", "2026-11-11", "10 November 2026", None),
        ] {
            let period = period(from, to);
            assert_eq!((period.in_words().as_str(), period.week_name().as_deref()), (words, week));
            assert_eq!(period.next().previous(), period);
        }
        let hours = Period::from_micros(3_600_000_000, 7_200_000_000).unwrap();
        assert_eq!(hours.in_words(), "1970-01-01T01:00:00Z to 1970-01-01T02:00:00Z");
    }
}
