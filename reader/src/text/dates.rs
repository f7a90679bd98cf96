//! Dates in messages: Slack sends a moment and a format, and each reader sees it in their own zone.
//!
//! <https://docs.slack.dev/messaging/formatting-message-text#date-formatting>

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::spans::TextSpan;

/// A format whose text is longer is not one of Slack's, which are a few words around tokens.
const MAX_FORMAT_BYTES: usize = 1_000;

/// Returns a date: the text that the app wrote for it, or otherwise the moment in the reader's zone.
pub(super) fn span(
    timestamp: &str,
    format: &str,
    address: Option<&str>,
    fallback: Option<&str>,
    zone: &TimeZone,
) -> Option<TextSpan> {
    let shown = fallback.map(str::to_owned).or_else(|| formatted(timestamp, format, zone));
    match address {
        Some(address) => Some(TextSpan::Link { address: address.to_owned(), label: shown }),
        None => shown.map(TextSpan::text),
    }
}

/// Formats a moment. A moment beyond the calendar is shown as it was sent.
fn formatted(timestamp: &str, format: &str, zone: &TimeZone) -> Option<String> {
    let seconds: Option<i64> = timestamp.trim().split('.').next().and_then(|seconds| seconds.parse().ok());
    let Some(moment) = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()) else {
        return (!timestamp.trim().is_empty()).then(|| timestamp.trim().to_owned());
    };
    let moment = moment.to_zoned(zone.clone());
    let mut rest = if format.len() > MAX_FORMAT_BYTES { "" } else { format };
    let (mut shown, mut has_token) = (String::new(), false);
    while let Some((before, after)) = rest.split_once('{') {
        shown += before;
        rest = after;
        let token = after.split_once('}').and_then(|(name, behind)| Some((token(name, &moment)?, behind)));
        match token {
            Some((text, behind)) => {
                has_token = true;
                shown += &text;
                rest = behind;
            }
            None => shown.push('{'),
        }
    }
    shown += rest;
    let shown = if has_token { shown } else { moment.strftime("%Y-%m-%d %H:%M").to_string() };
    Some(shown)
}

/// Formats one token. Words for near days, such as "yesterday", become dates: a message may be read years
/// later.
fn token(name: &str, moment: &Zoned) -> Option<String> {
    let day = || {
        let day = moment.day();
        let suffix = match (day % 10, day / 10) {
            (_, 1) => "th",
            (1, _) => "st",
            (2, _) => "nd",
            (3, _) => "rd",
            (_, _) => "th",
        };
        format!("{} {day}{suffix}", moment.strftime("%B"))
    };
    let year = moment.year();
    Some(match name {
        "date_num" | "ago" => moment.strftime("%Y-%m-%d").to_string(),
        "date_slash" => moment.strftime("%m/%d/%Y").to_string(),
        "date" | "date_pretty" => format!("{}, {year}", day()),
        "date_short" | "date_short_pretty" => format!("{} {}, {year}", moment.strftime("%b"), moment.day()),
        "date_long" | "date_long_full" | "date_long_pretty" | "day_divider_pretty" => {
            format!("{}, {}, {year}", moment.strftime("%A"), day())
        }
        "time" => moment.strftime("%H:%M").to_string(),
        "time_secs" => moment.strftime("%H:%M:%S").to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_is_formatted_in_the_zone_of_the_reader() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (format, expected) in [
            ("{date_num}", "2024-01-18"),
            ("{date_slash}", "01/18/2024"),
            ("{date}", "January 18th, 2024"),
            ("{date_pretty}", "January 18th, 2024"),
            ("{date_short}", "Jan 18, 2024"),
            ("{date_short_pretty}", "Jan 18, 2024"),
            ("{date_long}", "Thursday, January 18th, 2024"),
            ("{date_long_pretty} at {time}", "Thursday, January 18th, 2024 at 10:20"),
            ("{date_long_full}", "Thursday, January 18th, 2024"),
            ("{day_divider_pretty}", "Thursday, January 18th, 2024"),
            ("{time_secs}", "10:20:50"),
            ("{ago}", "2024-01-18"),
            ("due {date_num} {or} {", "due 2024-01-18 {or} {"),
            ("", "2024-01-18 10:20"),
            ("{unknown}", "2024-01-18 10:20"),
        ] {
            assert_eq!(formatted("1705569650", format, &berlin).as_deref(), Some(expected), "{format}");
        }
        let late = formatted("1705619650", "{date_num}", &berlin);
        assert_eq!(late.as_deref(), Some("2024-01-19"));
        let day = |second: i64| formatted(&second.to_string(), "{date}", &TimeZone::UTC).unwrap();
        let days: Vec<String> = [0, 1, 2, 10, 11, 12, 20, 21, 22].map(|after| day(after * 86_400)).into();
        let suffixes: Vec<&str> = days.iter().map(|day| &day["January ".len()..day.len() - 6]).collect();
        assert_eq!(suffixes, ["1st", "2nd", "3rd", "11th", "12th", "13th", "21st", "22nd", "23rd"]);
    }

    #[test]
    fn a_moment_beyond_the_calendar_is_shown_as_it_was_sent() {
        for (sent, expected) in [("99999999999999999", "99999999999999999"), ("soon", "soon"), ("1e9", "1e9")]
        {
            assert_eq!(formatted(sent, "{date}", &TimeZone::UTC).as_deref(), Some(expected));
        }
        assert_eq!(formatted(" ", "{date}", &TimeZone::UTC), None);
    }
}
