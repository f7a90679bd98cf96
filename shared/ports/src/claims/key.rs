//! Keys and owners of claims. Input from outside becomes part of a key only after its format was checked.

use std::fmt;

use slack::ids::{ChannelId, FileId, TeamId, Ts};

/// The key of a claim: a file in a message, an attempt at answering a question or at posting its answer, or
/// a run of retention.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey(Box<str>);

impl ClaimKey {
    /// `{file_id}_{ts}`: a file in the message with this timestamp.
    pub fn for_file(file: &FileId, ts: &Ts) -> Self {
        Self(format!("{file}_{ts}").into())
    }

    /// `{team}_{channel}_{ts}_q{attempt}`: an attempt at answering a question. The first letter of a
    /// workspace id differs from that of a file id. Each attempt has its own claim: a completed claim is
    /// remembered for hours and would block the next attempt.
    pub fn for_question(team: &TeamId, channel: &ChannelId, ts: &Ts, attempt: u32) -> Self {
        Self(format!("{team}_{channel}_{ts}_q{attempt}").into())
    }

    /// `{team}_{channel}_{ts}_r{attempt}`: an attempt at posting an answer.
    pub fn for_answer(team: &TeamId, channel: &ChannelId, ts: &Ts, attempt: u32) -> Self {
        Self(format!("{team}_{channel}_{ts}_r{attempt}").into())
    }

    /// `{team}_retention`: a run of retention.
    pub fn for_retention(team: &TeamId) -> Self {
        Self(format!("{team}_retention").into())
    }

    /// The key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The owner of a claim: an instance of a function or a process, and the number of its claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimOwner(Box<str>);

impl ClaimOwner {
    /// The owner of an instance's claim with this number.
    pub fn new(instance: &str, number: u64) -> Self {
        Self(format!("{instance}/{number}").into())
    }

    /// An owner from its stored form.
    pub fn from_stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The owner as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_at_a_question_has_its_own_claim() {
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        let ts = Ts::parse("1620000000.000200").unwrap();
        let keys = [
            ClaimKey::for_question(&team, &channel, &ts, 0),
            ClaimKey::for_question(&team, &channel, &ts, 1),
            ClaimKey::for_answer(&team, &channel, &ts, 0),
        ];
        assert_eq!(
            keys.each_ref().map(ClaimKey::as_str),
            ["T1_C1_1620000000.000200_q0", "T1_C1_1620000000.000200_q1", "T1_C1_1620000000.000200_r0",]
        );
    }

    #[test]
    fn a_file_has_a_claim_per_message() {
        let file = FileId::parse("F0123ABCD").unwrap();
        let key = |ts: &str| ClaimKey::for_file(&file, &Ts::parse(ts).unwrap());
        assert_eq!(key("1620000000.000200").as_str(), "F0123ABCD_1620000000.000200");
        assert_ne!(key("1620000000.000200"), key("1620000000.000201"));
    }
}
