//! Dates on the command line of commands that compare with Slack, where days begin at midnight UTC.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use reader::range::ts_from_micros;
use slack::ids::Ts;

/// The text is neither a day nor a time with a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a date is such as 2026-11-20 (midnight UTC) or 2026-11-20T09:30:00Z")]
pub(crate) struct InvalidDate;

/// Parses `2026-11-20` as midnight UTC of that day, or a time in the format of RFC 3339.
pub(crate) fn date(text: &str) -> Result<Ts, InvalidDate> {
    let moment: Timestamp = text.parse().ok().or_else(|| midnight(text)).ok_or(InvalidDate)?;
    Ok(ts_from_micros(moment.as_microsecond()))
}

/// Returns midnight UTC of a day. The day must be the whole text: a time without a zone is invalid.
fn midnight(text: &str) -> Option<Timestamp> {
    let day = Date::strptime("%Y-%m-%d", text).ok()?;
    Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_midnight_utc_or_has_a_zone() {
        for (text, expected) in [
            ("2026-11-20", Some("1795132800.000000")),
            ("2026-11-20T01:00:00+01:00", Some("1795132800.000000")),
            ("2026-11-20T00:00:00.5Z", Some("1795132800.500000")),
            ("1960-01-01", Some("0000000000.000000")),
            ("2026-11-20\n", None),
            ("20261120", None),
            ("2026-11", None),
            ("2026-11-20T09:30", None),
            ("2026-11-20 09:30:00", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(date(text).ok().as_ref().map(Ts::as_str), expected, "{text}");
        }
    }
}
