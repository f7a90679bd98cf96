//! Versions of registers, as text whose order is the order of the versions.

use sha2::{Digest, Sha256};

use crate::slack::ids::Ts;
use crate::slack::signature::to_hex;

/// The clock of what has none: history, `previous_message`, `message_replied`.
#[must_use]
pub fn zero() -> Ts {
    canonical("0.000000")
}

/// A timestamp without superfluous zeros in front, so that equal times are equal keys.
pub(super) fn canonical(ts: &str) -> Ts {
    let trimmed = ts.trim_start_matches('0');
    let text = if trimmed.starts_with('.') { format!("0{trimmed}") } else { trimmed.to_owned() };
    Ts::parse(&text).expect("a timestamp without leading zeros keeps its shape")
}

/// The version of a message's content: when it was last edited, then the clock of the event that brought it, then a
/// hash of it, so that two different contents never have the same version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentVersion(String);

impl ContentVersion {
    /// The version of `content`, which was last edited at `edit_time` and brought by an event of this clock.
    #[must_use]
    pub fn new(edit_time: &Ts, clock: &Ts, content: &str) -> Self {
        Self(format!("{}/{}/{}", edit_time.padded(), clock.padded(), hash(content)))
    }

    /// A version as it is stored.
    #[must_use]
    pub fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The version as it is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The clock of the event that brought the content; zero where it came with another event or from history.
    #[must_use]
    pub fn clock(&self) -> Ts {
        canonical(self.0.split('/').nth(1).unwrap_or_default())
    }

    /// When the content was last edited, or the message's own time.
    #[must_use]
    pub fn edit_time(&self) -> Ts {
        canonical(self.0.split('/').next().unwrap_or_default())
    }
}

/// A version for a register whose values replace each other by clock alone.
#[must_use]
pub fn by_clock(clock: &Ts, content: &str) -> String {
    format!("{}/{}", clock.padded(), hash(content))
}

/// The later of an edit's time and the message's own, without superfluous zeros.
#[must_use]
pub fn edit_time(ts: &Ts, edited_ts: Option<&Ts>) -> Ts {
    canonical(edited_ts.map_or(ts, |edited_ts| edited_ts.max(ts)).as_str())
}

/// A short hash: what tells two contents apart.
pub(super) fn hash(content: &str) -> String {
    to_hex(&Sha256::digest(content.as_bytes())[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(text: &str) -> Ts {
        Ts::parse(text).unwrap()
    }

    #[test]
    fn a_later_edit_wins_over_a_later_clock() {
        let unfurled = ContentVersion::new(&ts("100.000000"), &ts("900.000000"), "a");
        let edited = ContentVersion::new(&ts("200.000000"), &ts("200.000000"), "b");
        assert!(edited > unfurled);
        assert_eq!(edited.edit_time(), ts("200.000000"));
        assert_eq!(unfurled.clock(), ts("900.000000"));
    }

    #[test]
    fn an_event_wins_over_what_has_no_clock_and_versions_of_other_content_differ() {
        let event = ContentVersion::new(&ts("100.000000"), &ts("100.000000"), "a");
        let history = ContentVersion::new(&ts("100.000000"), &zero(), "a");
        assert!(event > history);
        assert_ne!(event, ContentVersion::new(&ts("100.000000"), &ts("100.000000"), "b"));
    }

    #[test]
    fn an_edit_before_the_message_counts_as_the_message() {
        assert_eq!(edit_time(&ts("0100.000000"), Some(&ts("99.000000"))), ts("100.000000"));
        assert_eq!(edit_time(&ts("0.000000"), None), zero());
    }
}
