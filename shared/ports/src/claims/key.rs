//! What is claimed, and by whom. What comes from outside is part of a key only where its shape was checked.

use std::fmt;

use slack::ids::{ChannelId, FileId, TeamId, Ts};

/// The key of a claim: a file and the message it is in, or a question and what is done about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey(Box<str>);

impl ClaimKey {
    /// `{file_id}_{ts}`: a file, in the message of this time.
    pub fn of_file(file: &FileId, ts: &Ts) -> Self {
        Self(format!("{file}_{ts}").into())
    }

    /// `{team}_{channel}_{ts}_q{attempt}`: the answering of a question. A workspace's id begins as no file's does. Each attempt
    /// has a claim of its own: one that is completed is remembered for hours, and would refuse the next.
    pub fn of_question(team: &TeamId, channel: &ChannelId, ts: &Ts, attempt: u32) -> Self {
        Self(format!("{team}_{channel}_{ts}_q{attempt}").into())
    }

    /// `{team}_{channel}_{ts}_r{attempt}`: the posting of an answer.
    pub fn of_answer(team: &TeamId, channel: &ChannelId, ts: &Ts, attempt: u32) -> Self {
        Self(format!("{team}_{channel}_{ts}_r{attempt}").into())
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

/// Who claims: an instance of a function or a process, and which of its claims it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimOwner(Box<str>);

impl ClaimOwner {
    /// The owner of an instance's claim of this number.
    pub fn of(instance: &str, number: u64) -> Self {
        Self(format!("{instance}/{number}").into())
    }

    /// An owner as it is stored.
    pub fn stored(text: &str) -> Self {
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
    fn each_attempt_at_a_question_has_a_claim_of_its_own() {
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        let ts = Ts::parse("1620000000.000200").unwrap();
        let keys = [
            ClaimKey::of_question(&team, &channel, &ts, 0),
            ClaimKey::of_question(&team, &channel, &ts, 1),
            ClaimKey::of_answer(&team, &channel, &ts, 0),
        ];
        assert_eq!(
            keys.each_ref().map(ClaimKey::as_str),
            ["T1_C1_1620000000.000200_q0", "T1_C1_1620000000.000200_q1", "T1_C1_1620000000.000200_r0",]
        );
    }

    #[test]
    fn a_file_is_claimed_for_each_message_it_is_in() {
        let file = FileId::parse("F0123ABCD").unwrap();
        let key = |ts: &str| ClaimKey::of_file(&file, &Ts::parse(ts).unwrap());
        assert_eq!(key("1620000000.000200").as_str(), "F0123ABCD_1620000000.000200");
        assert_ne!(key("1620000000.000200"), key("1620000000.000201"));
    }
}
