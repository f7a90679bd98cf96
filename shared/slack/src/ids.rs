//! Slack's ids and timestamps as types. Text that does not parse never becomes part of a key.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An id or timestamp that does not have Slack's shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {found:?} does not have Slack's shape")]
pub struct InvalidId {
    kind: &'static str,
    found: String,
}

impl InvalidId {
    fn new(kind: &'static str, found: &str) -> Self {
        // A hostile id may be huge; only its start is shown.
        Self { kind, found: found.chars().take(40).collect() }
    }
}

fn has_id_shape(text: &str) -> bool {
    (2..=30).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

macro_rules! slack_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// Accepts `[A-Z0-9]{2,30}`.
            ///
            /// # Errors
            /// [`InvalidId`] for anything else.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                if has_id_shape(text) { Ok(Self(text.into())) } else { Err(InvalidId::new($kind, text)) }
            }

            /// The id as Slack writes it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::parse(&text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::parse(text)
            }
        }
    };
}

slack_id!(
    /// A workspace (`T…`) or an Enterprise organisation (`E…`).
    TeamId,
    "team id"
);
slack_id!(
    /// A conversation. The first letter does not indicate privacy: a converted channel keeps its id.
    ChannelId,
    "channel id"
);
slack_id!(
    /// A human or a bot user.
    UserId,
    "user id"
);

slack_id!(FileId, "file id");

slack_id!(AppId, "app id");

slack_id!(UserGroupId, "user group id");

/// Slack's own user in every workspace, the author of its messages and of the placeholders of deleted ones.
pub const SLACKBOT: &str = "USLACKBOT";

/// A Slack timestamp such as `1620000000.000200`: seconds, a dot, six digits. It identifies a message within
/// its channel ([`Ts::of_message`]), or is a time. It is compared as a number, never parsed into a float.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Ts(Box<str>);

/// Digits before the dot; shorter values are padded with zeros so that versions compare as text.
const SECONDS_DIGITS: usize = 12;

/// Digits before the dot in the timestamp of a message. It is a part of keys, which are compared as text, and
/// ten digits reach from 2001 to 2286.
const MESSAGE_SECONDS_DIGITS: usize = 10;

impl Ts {
    /// The timestamp of a message, as Slack writes it. Accepts `\d{10}\.\d{6}`: of two such texts, the one
    /// that sorts first is the earlier one.
    ///
    /// # Errors
    /// [`InvalidId`] for anything else.
    pub fn of_message(text: &str) -> Result<Self, InvalidId> {
        let is_key = text.find('.') == Some(MESSAGE_SECONDS_DIGITS);
        Self::parse(text)
            .ok()
            .filter(|_| is_key)
            .ok_or_else(|| InvalidId::new("timestamp of a message", text))
    }

    /// A time: a clock, or the bound of an interval. Accepts `\d{1,12}\.\d{6}`.
    ///
    /// # Errors
    /// [`InvalidId`] for anything else.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let valid = text.split_once('.').is_some_and(|(seconds, micros)| {
            (1..=SECONDS_DIGITS).contains(&seconds.len())
                && micros.len() == 6
                && seconds.bytes().chain(micros.bytes()).all(|b| b.is_ascii_digit())
        });
        if valid { Ok(Self(text.into())) } else { Err(InvalidId::new("timestamp", text)) }
    }

    /// The timestamp as Slack writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The timestamp with its seconds padded to twelve digits, so that text order is time order.
    pub fn padded(&self) -> String {
        let mut padded = String::with_capacity(SECONDS_DIGITS + 7);
        let digits_before_point = self.0.len() - 7;
        for _ in digits_before_point..SECONDS_DIGITS {
            padded.push('0');
        }
        padded.push_str(&self.0);
        padded
    }

    /// The timestamp in a text such as [`Ts::padded`] returns, without leading zeros, so that equal times are
    /// equal keys.
    pub fn unpadded(padded: &str) -> Option<Self> {
        let Self(ts) = Self::parse(padded).ok()?;
        let digits = ts.trim_start_matches('0');
        Some(Self(if digits.starts_with('.') { format!("0{digits}").into() } else { digits.into() }))
    }

    /// Microseconds since the Unix epoch.
    pub fn micros(&self) -> i64 {
        self.0
            .bytes()
            .filter(u8::is_ascii_digit)
            .fold(0, |micros, digit| micros * 10 + i64::from(digit - b'0'))
    }
}

impl TryFrom<String> for Ts {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        Self::parse(&text)
    }
}

impl PartialOrd for Ts {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ts {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // In texts of the same length, as nearly all are, the dot is at the same position, so text order is
        // time order.
        if self.0.len() == other.0.len() {
            return self.0.cmp(&other.0);
        }
        // `01.000000` and `1.000000` are the same time but not the same key: the text decides between equal
        // times.
        self.micros().cmp(&other.micros()).then_with(|| self.0.cmp(&other.0))
    }
}

impl fmt::Display for Ts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Ts {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_key_separators_or_lower_case_are_rejected() {
        for hostile in ["", "T", "t123", "T#1", "T1\u{0}", "T 1", "Ｔ１２", &"T".repeat(31)] {
            assert!(TeamId::parse(hostile).is_err(), "{hostile:?}");
        }
        assert!(TeamId::parse("T0123ABCD").is_ok());
        assert!(ChannelId::parse(&"C".repeat(30)).is_ok());
    }

    #[test]
    fn timestamps_keep_slacks_shape_and_compare_as_time() {
        for hostile in
            ["", ".", "1.0", "1.0000000", "1234567890123.000000", "-1.000000", "1.00000a", "１.000000"]
        {
            assert!(Ts::parse(hostile).is_err(), "{hostile:?}");
        }
        let early = Ts::parse("999.000001").unwrap();
        let late = Ts::parse("1620000000.000200").unwrap();
        assert!(early < late);
        assert!(early.padded() < late.padded());
        assert_eq!(late.padded(), "001620000000.000200");
        assert_eq!(late.micros(), 1_620_000_000_000_200);
    }

    #[test]
    fn the_timestamp_of_a_message_has_ten_digits_of_seconds() {
        for hostile in [
            "",
            ".",
            "1.000000",
            "999999999.000000",
            "10000000000.000000",
            "1620000000.0002",
            "162000000a.000200",
        ] {
            assert!(Ts::of_message(hostile).is_err(), "{hostile:?}");
        }
        assert_eq!(Ts::of_message("1620000000.000200"), Ts::parse("1620000000.000200"));
    }

    #[test]
    fn an_invalid_id_is_shown_truncated() {
        let error = TeamId::parse(&"x".repeat(10_000)).unwrap_err();
        assert!(error.to_string().len() < 120);
    }
}
