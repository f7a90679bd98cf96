//! Time ranges.

use slack::ids::Ts;

/// Returns the timestamp for a number of microseconds since the Unix epoch. It has at least ten digits of
/// seconds, like every timestamp since 2001, because keys are compared as text.
///
/// # Panics
/// Never: twelve digits of seconds cover every date of the calendar.
pub fn ts_from_micros(micros: i64) -> Ts {
    let micros = micros.max(0);
    let text = format!("{:010}.{:06}", micros / 1_000_000, micros % 1_000_000);
    Ts::parse(&text).expect("twelve digits of seconds hold every time of the calendar")
}

/// A half-open range of timestamps: `since` is inclusive, `until` is exclusive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// The inclusive start; unbounded if it is missing.
    pub since: Option<Ts>,
    /// The exclusive end; unbounded if it is missing.
    pub until: Option<Ts>,
}

impl TimeRange {
    /// Whether the range has a start or an end.
    pub fn is_bounded(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// Whether a timestamp is in the range.
    pub fn contains(&self, ts: &Ts) -> bool {
        let is_after = self.since.as_ref().is_none_or(|since| ts.micros() >= since.micros());
        is_after && self.until.as_ref().is_none_or(|until| ts.micros() < until.micros())
    }

    /// Moves the start behind a key, unless it is later already.
    pub fn start_after(&mut self, after: Option<&str>) {
        if let Some(after) = after.and_then(|after| Ts::parse(after).ok()) {
            let since = ts_from_micros(after.micros() + 1);
            self.since = self.since.take().max(Some(since));
        }
    }

    /// The greatest key before the range.
    pub fn key_before(&self) -> Option<String> {
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
    fn the_key_before_a_range_is_its_neighbour() {
        let after = |ts: &str| TimeRange { since: Some(Ts::parse(ts).unwrap()), until: None }.key_before();
        assert_eq!(after("1700000000.000000").unwrap(), "1699999999.999999");
        assert_eq!(after("1700000000.000100").unwrap(), "1700000000.000099");
        assert_eq!(after("0915145200.000000").unwrap(), "0915145199.999999");
        assert_eq!(after("0.000000"), None);
    }
}
