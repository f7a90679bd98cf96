//! When the night's work begins.

use jiff::civil::Time;

/// The beginning of the night.
#[derive(Debug, Clone, clap::Args)]
pub struct NightlyArgs {
    /// When the night's work begins, each day, in the zone of --tz: comparing with Slack, and removing what has expired
    #[arg(long, env = "ANNALIST_NIGHTLY_AT", value_name = "HH:MM", default_value = "03:00", value_parser = time)]
    pub nightly_at: Time,
}

fn time(text: &str) -> Result<Time, &'static str> {
    const EXPECTED: &str = "use a time of the day such as 03:00";
    let is_short = text.len() == 5 && text.bytes().enumerate().all(|(at, byte)| (at == 2) == (byte == b':'));
    if is_short { Time::strptime("%H:%M", text).map_err(|_| EXPECTED) } else { Err(EXPECTED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_night_begins_at_an_hour_and_a_minute() {
        for (text, expected) in [("03:00", Some((3, 0))), ("23:59", Some((23, 59))), ("00:00", Some((0, 0)))]
        {
            assert_eq!(time(text).ok().map(|time| (time.hour(), time.minute())), expected, "{text}");
        }
        for refused in ["24:00", "3:00", "03", "03:60", "03:00:00", "+3:00", "-1:00", "", "noon"] {
            assert!(time(refused).is_err(), "{refused}");
        }
    }
}
