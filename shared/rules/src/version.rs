//! Versions of registers, as text whose order is the order of the versions.

use sha2::{Digest, Sha256};

use slack::hex::to_hex;
use slack::ids::Ts;

/// The register of a row of the directory, and of rows like it.
pub const VERSION: &str = "version";

/// The clock of data without one: history, `previous_message`, `message_replied`.
pub fn zero() -> Ts {
    canonical("0.000000")
}

/// A timestamp without leading zeros, so that equal times are equal keys.
fn canonical(ts: &str) -> Ts {
    Ts::unpadded(ts).expect("the text is a timestamp")
}

/// The suffix of a content register if another content with the same edit time is known.
pub(super) const CONTESTED: &str = "/contested";

/// The version of a message's content: the time of its last edit, then the clock of the event that carried
/// it, then a hash of the content, so that two different contents never have the same version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentVersion(String);

impl ContentVersion {
    /// The version of `content`, which was last edited at `edit_time` and came with an event of this clock.
    pub fn new(edit_time: &Ts, clock: &Ts, content: &str) -> Self {
        Self(format!("{}/{}/{}", edit_time.padded(), clock.padded(), hash(content)))
    }

    /// Reads a stored version.
    pub fn stored(text: &str) -> Self {
        Self(text.strip_suffix(CONTESTED).unwrap_or(text).to_owned())
    }

    /// The version as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The clock of the event that carried the content; zero if it came as a copy in another event or from
    /// history.
    pub fn clock(&self) -> Ts {
        canonical(self.0.split('/').nth(1).unwrap_or_default())
    }

    /// When the content was last edited, or the message's own time.
    pub fn edit_time(&self) -> Ts {
        canonical(self.0.split('/').next().unwrap_or_default())
    }
}

/// A version for a register whose values replace each other by clock alone.
pub fn clock_version(clock: &Ts, content: &str) -> String {
    format!("{}/{}", clock.padded(), hash(content))
}

/// When a version was made, without leading zeros: the time of its edit, but after the message itself. Slack
/// rounds edit times to whole seconds, so an edit in the second of the post would appear to precede it.
pub fn edit_time(ts: &Ts, edited_ts: Option<&Ts>) -> Ts {
    match edited_ts {
        None => canonical(ts.as_str()),
        Some(edited_ts) if edited_ts.micros() > ts.micros() => canonical(edited_ts.as_str()),
        Some(_) => {
            let after = ts.micros() + 1;
            let after = Ts::parse(&format!("{}.{:06}", after / 1_000_000, after % 1_000_000));
            after.unwrap_or_else(|_| canonical(ts.as_str()))
        }
    }
}

/// A short hash that distinguishes contents.
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
    fn an_event_wins_over_a_copy_without_a_clock_and_versions_of_other_content_differ() {
        let event = ContentVersion::new(&ts("100.000000"), &ts("100.000000"), "a");
        let history = ContentVersion::new(&ts("100.000000"), &zero(), "a");
        assert!(event > history);
        assert_ne!(event, ContentVersion::new(&ts("100.000000"), &ts("100.000000"), "b"));
    }

    #[test]
    fn an_edit_comes_after_its_message_even_if_its_time_is_earlier() {
        assert_eq!(edit_time(&ts("0.000000"), None), zero());
        for (message, edited, expected) in [
            ("0100.000000", "99.000000", "100.000001"),
            ("100.400000", "100.000000", "100.400001"),
            ("100.400000", "0101.000000", "101.000000"),
            ("100.999999", "100.000000", "101.000000"),
            ("999999999999.999999", "1.000000", "999999999999.999999"),
        ] {
            assert_eq!(edit_time(&ts(message), Some(&ts(edited))), ts(expected), "{message} {edited}");
        }
    }

    #[test]
    fn the_contested_suffix_of_the_register_is_not_part_of_the_version() {
        let version = ContentVersion::new(&ts("1.000000"), &ts("2.000000"), "a");
        assert_eq!(ContentVersion::stored(&format!("{}{CONTESTED}", version.as_str())), version);
    }
}
