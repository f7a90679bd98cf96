//! What a row is about.

use std::fmt;

use slack::ids::{ChannelId, TeamId, UserId};

/// `{team}#{user}#{channel}`, of valid ids only: none of them can hold the separator.
///
/// There is a row only where all three are known. What an event does not name is not checked, and has no row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey(String);

impl CacheKey {
    /// The key of a person in a channel of a workspace.
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
