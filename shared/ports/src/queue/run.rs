//! Runs: a run lasts from when an ingest process starts to accept events until it stops or crashes.

use std::fmt;

use serde::Serialize;

/// Digits of an id: enough that two processes never choose the same one.
const DIGITS: usize = 16;

/// Identifies one run of one ingest process. A job whose event Slack delivered at its first attempt carries
/// the run that accepted it: this is how the archive learns, from the event alone, when a process was
/// accepting events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RunId(Box<str>);

impl RunId {
    /// A new random id.
    pub fn begin() -> Self {
        Self(format!("{:016x}", fastrand::u64(..)).into())
    }

    /// Accepts sixteen hexadecimal digits: the id becomes part of a key.
    pub fn parse(text: &str) -> Option<Self> {
        let valid = text.len() == DIGITS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        valid.then(|| Self(text.into()))
    }

    /// The id as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_id_is_unique_and_can_be_parsed() {
        let (one, other) = (RunId::begin(), RunId::begin());
        assert_ne!(one, other);
        assert_eq!(RunId::parse(one.as_str()), Some(one));
        for odd in ["", "0123", "0123456789abcdeg", "0123456789ABCDEF", "0123456789abcde#"] {
            assert_eq!(RunId::parse(odd), None, "{odd}");
        }
    }
}
