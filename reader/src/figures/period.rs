//! The period of a report, and the previous period that it is compared with.

use jiff::civil::{Date, ISOWeekDate, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use slack::ids::Ts;

use crate::range::{TimeRange, ts_from_micros};

const DAY_MICROS: i64 = 86_400_000_000;

/// Ten years. A longer period is a mistyped year.
const MAX_DAYS: i64 = 3_660;

/// The number of periods in a trend, and the greatest length of one. Twelve months are read within the time of a page.
const TREND_PERIODS: usize = 12;
const MAX_TREND_DAYS: i64 = 31;

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
    /// The text does not have the format of a month, or the year does not have it.
    #[error("write a month as 2026-08, from 01 to 12")]
    NoMonth,
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

    /// Parses a month, from its first day to that of the next month in UTC.
    ///
    /// # Errors
    /// [`PeriodError::NoMonth`]
    pub fn month(text: &str) -> Result<Self, PeriodError> {
        let (year, month) = text.split_once('-').ok_or(PeriodError::NoMonth)?;
        if !is_number(year, 4) || !is_number(month, 2) {
            return Err(PeriodError::NoMonth);
        }
        let first: Date = format!("{text}-01").parse().map_err(|_| PeriodError::NoMonth)?;
        Ok(Self::month_of(first).unwrap_or(Self { from: 0, to: DAY_MICROS }))
    }

    /// Returns the last complete week.
    pub fn last_week(now: Timestamp) -> Self {
        Self::week_with(now.as_microsecond()).previous()
    }

    /// Returns the last complete month.
    pub fn last_month(now: Timestamp) -> Self {
        Self::month_with(now.as_microsecond()).previous()
    }

    /// Returns the week that a time is in.
    pub fn week_with(micros: i64) -> Self {
        let monday = date_of(micros).iso_week_date().first_of_week().map(ISOWeekDate::date);
        monday.ok().and_then(Self::week_of).unwrap_or(Self { from: 0, to: 7 * DAY_MICROS })
    }

    /// Returns the month that a time is in.
    pub fn month_with(micros: i64) -> Self {
        Self::month_of(date_of(micros).first_of_month()).unwrap_or(Self { from: 0, to: 31 * DAY_MICROS })
    }

    fn week_of(monday: Date) -> Option<Self> {
        let from = midnight(monday)?;
        Some(Self { from, to: from + 7 * DAY_MICROS })
    }

    fn month_of(first: Date) -> Option<Self> {
        Some(Self { from: midnight(first)?, to: midnight(first.checked_add(1.month()).ok()?)? })
    }

    /// Returns the month before a whole month, and otherwise the period of the same length that ends where this one
    /// begins.
    pub fn previous(&self) -> Self {
        let month =
            self.first_of_month().and_then(|first| Self::month_of(first.checked_sub(1.month()).ok()?));
        month.unwrap_or(Self { from: self.from - (self.to - self.from), to: self.from })
    }

    /// Returns the month after a whole month, and otherwise the period of the same length that begins where this one
    /// ends.
    pub fn next(&self) -> Self {
        let month =
            self.first_of_month().and_then(|first| Self::month_of(first.checked_add(1.month()).ok()?));
        month.unwrap_or(Self { from: self.to, to: self.to + (self.to - self.from) })
    }

    /// Returns the periods of a trend: this one and the eleven before it, oldest first. It is empty for a period that is
    /// longer than a month or does not consist of whole days.
    pub(super) fn trend(&self) -> Vec<Self> {
        if !self.has_whole_days() || self.to - self.from > MAX_TREND_DAYS * DAY_MICROS {
            return Vec::new();
        }
        let before = |period: &Self| Some(period.previous()).filter(|period| period.from >= 0);
        let mut periods: Vec<Self> = std::iter::successors(Some(*self), before).take(TREND_PERIODS).collect();
        periods.reverse();
        periods
    }

    /// The first day of the period, if it is a whole month.
    fn first_of_month(&self) -> Option<Date> {
        let (first, _) = self.days()?;
        (Self::month_of(first) == Some(*self) && first.day() == 1).then_some(first)
    }

    /// The name of the month, such as `2026-11`; `None` if the period is no whole month.
    pub fn month_name(&self) -> Option<String> {
        Some(self.first_of_month()?.strftime("%Y-%m").to_string())
    }

    /// The shortest name of the period: that of its week or month, or its first day.
    pub fn short_name(&self) -> String {
        self.week_name().or_else(|| self.month_name()).unwrap_or_else(|| day_of(self.from))
    }

    /// The name of the week, such as `2026-W46`; `None` if the period is no week from Monday to Monday.
    pub fn week_name(&self) -> Option<String> {
        let first = self.days()?.0.iso_week_date();
        let is_week = first.weekday() == Weekday::Monday && self.to - self.from == 7 * DAY_MICROS;
        is_week.then(|| format!("{:04}-W{:02}", first.year(), first.week()))
    }

    /// The name of the period below a column of a chart, such as `W46`, `Nov` or `9 Nov`.
    pub fn label(&self) -> String {
        let format = match (self.week_name(), self.first_of_month()) {
            (Some(_), _) => "W%V",
            (None, Some(_)) => "%b",
            (None, None) => "%-d %b",
        };
        date_of(self.from).strftime(format).to_string()
    }

    /// The first and the last day of the period, if it consists of whole days.
    fn days(&self) -> Option<(Date, Date)> {
        self.has_whole_days().then(|| (date_of(self.from), date_of(self.to - 1)))
    }

    /// The period for people, such as `9–15 November 2026 (week 46)` or `November 2026`.
    pub fn in_words(&self) -> String {
        if let Some(first) = self.first_of_month() {
            return first.strftime("%B %Y").to_string();
        }
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
            Ok(date) => midnight(date),
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

fn is_number(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit())
}

/// The start of a day in UTC; `None` before 1970, where there are no timestamps.
fn midnight(date: Date) -> Option<i64> {
    let micros = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond();
    (micros >= 0).then_some(micros)
}

/// The day in UTC that a time is in.
fn date_of(micros: i64) -> Date {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX).to_zoned(TimeZone::UTC).date()
}

fn day_of(micros: i64) -> String {
    date_of(micros).to_string()
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
    fn a_month_is_compared_with_the_month_before() {
        let bounds = |text: &str| Period::month(text).map(|month| month.bounds());
        let dates = |from: &str, to: &str| Ok([from.to_owned(), to.to_owned()]);
        assert_eq!(bounds("2026-08"), dates("2026-08-01", "2026-09-01"));
        assert_eq!(bounds("2024-02"), dates("2024-02-01", "2024-03-01"));
        assert_eq!(bounds("2026-12"), dates("2026-12-01", "2027-01-01"));
        let march = Period::month("2026-03").unwrap();
        assert_eq!(march.previous(), Period::month("2026-02").unwrap(), "28 days, and not 31");
        assert_eq!(march.next(), Period::month("2026-04").unwrap());
        assert_eq!((march.in_words().as_str(), march.short_name().as_str()), ("March 2026", "2026-03"));
        assert_eq!(Period::parse_bounds("2026-03-01", "2026-04-01"), Some(march), "however it was written");
        for malformed in
            ["", "2026", "2026-8", "2026-00", "2026-13", "26-08", "2026-W8", "2026-+8", "2026-08-01"]
        {
            assert_eq!(bounds(malformed), Err(PeriodError::NoMonth), "{malformed}");
        }
        assert!(bounds("0001-01").is_ok() && bounds("9999-12").is_ok());
        for (now, last) in [("2026-12-01T00:00:00Z", "2026-11"), ("2027-01-31T23:59:59Z", "2026-12")] {
            let last_month = Period::last_month(now.parse().unwrap());
            assert_eq!(last_month.month_name().as_deref(), Some(last), "{now}");
        }
    }

    #[test]
    fn a_trend_has_twelve_periods_and_ends_with_the_period() {
        let names = |period: Period| period.trend().iter().map(Period::short_name).collect::<Vec<_>>();
        let weeks = names(Period::week("2026-W02").unwrap());
        assert_eq!((weeks.len(), weeks[0].as_str(), weeks[11].as_str()), (12, "2025-W43", "2026-W02"));
        let months = names(Period::month("2026-03").unwrap());
        assert_eq!((months.len(), months[0].as_str(), months[11].as_str()), (12, "2025-04", "2026-03"));
        let days = Period::parse_bounds("2026-11-20", "2026-11-22").unwrap();
        assert_eq!(names(days)[10..], ["2026-11-18", "2026-11-20"]);
        let labels = [Period::week("2026-W02").unwrap(), Period::month("2026-03").unwrap(), days]
            .map(|period| period.label());
        assert_eq!(labels, ["W02", "Mar", "20 Nov"]);
        assert_eq!(names(Period::month("1970-02").unwrap()), ["1970-01", "1970-02"]);
        for (from, to) in [("2026-01-01", "2026-02-02"), ("2026-11-20T10:00:00Z", "2026-11-20T12:00:00Z")] {
            assert_eq!(Period::parse_bounds(from, to).unwrap().trend(), [], "{from} to {to}");
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
