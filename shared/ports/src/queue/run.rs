//! Runs: from when an ingest process began to accept events until it stopped, however it stopped.

use std::fmt;

use serde::{Deserializer, Serialize};

use slack::envelope::text_or_none;

/// Digits of an id: two processes never choose the same.
const DIGITS: usize = 16;

/// Identifies one run of one ingest process. A job whose event Slack delivered at its first try carries the run that
/// accepted it: so the archive learns, with the event itself and from nothing else, when a process was there to accept events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RunId(Box<str>);

impl RunId {
    /// A new run.
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

/// Parses a run id. Invalid values become `None`, because a malformed id must not fail the event.
///
/// # Errors
/// If the input is not JSON at all.
pub(super) fn run_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RunId>, D::Error> {
    Ok(text_or_none(deserializer)?.and_then(|text| RunId::parse(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_another_and_reads_back() {
        let (one, other) = (RunId::begin(), RunId::begin());
        assert_ne!(one, other);
        assert_eq!(RunId::parse(one.as_str()), Some(one));
        for odd in ["", "0123", "0123456789abcdeg", "0123456789ABCDEF", "0123456789abcde#"] {
            assert_eq!(RunId::parse(odd), None, "{odd}");
        }
    }
}
