//! From when to when.

use slack::ids::Ts;

/// The timestamp of this number of microseconds since the Unix epoch, with ten digits of seconds as every one since 2001 has:
/// keys are compared as text.
///
/// # Panics
/// Never: twelve digits hold every time of the calendar.
pub fn ts_of(micros: i64) -> Ts {
    let micros = micros.max(0);
    let text = format!("{:010}.{:06}", micros / 1_000_000, micros % 1_000_000);
    Ts::parse(&text).expect("twelve digits of seconds hold every time of the calendar")
}

/// The messages of a time: from one timestamp on, and before another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// Only those from here on.
    pub since: Option<Ts>,
    /// Only those before this.
    pub until: Option<Ts>,
}

impl TimeRange {
    /// Whether it leaves anything out.
    pub fn is_bounded(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// Whether a message of this timestamp is of the time.
    pub fn contains(&self, ts: &Ts) -> bool {
        let is_after = self.since.as_ref().is_none_or(|since| ts.micros() >= since.micros());
        is_after && self.until.as_ref().is_none_or(|until| ts.micros() < until.micros())
    }

    /// Leaves out what is not after a key.
    pub fn not_before(&mut self, after: Option<&str>) {
        if let Some(after) = after.and_then(|after| Ts::parse(after).ok()) {
            let since = ts_of(after.micros() + 1);
            self.since = self.since.take().max(Some(since));
        }
    }

    /// The greatest key that is before it.
    pub fn after(&self) -> Option<String> {
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
        let after = |ts: &str| TimeRange { since: Some(Ts::parse(ts).unwrap()), until: None }.after();
        assert_eq!(after("1700000000.000000").unwrap(), "1699999999.999999");
        assert_eq!(after("1700000000.000100").unwrap(), "1700000000.000099");
        assert_eq!(after("0915145200.000000").unwrap(), "0915145199.999999");
        assert_eq!(after("0.000000"), None);
    }
}
