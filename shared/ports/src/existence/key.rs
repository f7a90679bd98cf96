//! The key of a row.

use std::fmt;

use slack::ids::{ChannelId, TeamId, UserId};

/// `{team}#{user}#{channel}`, with valid ids only, which cannot contain the separator.
///
/// A row exists only if all three are known. An id that an event does not contain is not checked and has no
/// row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey(String);

impl CacheKey {
    /// The key of a user in a channel of a workspace.
    pub fn new(team: &TeamId, user: &UserId, channel: &ChannelId) -> Self {
        Self(format!("{team}#{user}#{channel}"))
    }

    /// The key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_exact_stored_form() {
        let team = TeamId::parse("T01234567").unwrap();
        let key = CacheKey::new(
            &team,
            &UserId::parse("U01234567").unwrap(),
            &ChannelId::parse("C01234567").unwrap(),
        );
        assert_eq!(key.as_str(), "T01234567#U01234567#C01234567");
    }
}
