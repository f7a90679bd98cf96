//! What people are called, kept from one channel to the next: most of them write in several.

use std::collections::HashMap;

use ports::archive::Archive;
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use slack::ids::TeamId;

/// Names by the workspaces that they were looked up in.
pub(super) struct NameCache<'a> {
    archive: &'a dyn Archive,
    by_teams: HashMap<Vec<TeamId>, DisplayNames<'a>>,
}

impl<'a> NameCache<'a> {
    /// Nothing is known yet.
    pub(super) fn new(archive: &'a dyn Archive) -> Self {
        Self { archive, by_teams: HashMap::new() }
    }

    /// What is known of a channel's workspaces. [`NameCache::keep`] gives it back.
    pub(super) fn take(&mut self, channel: &JoinedChannel<'_>) -> DisplayNames<'a> {
        let teams = channel.teams();
        self.by_teams.remove(&teams).unwrap_or_else(|| DisplayNames::in_teams(self.archive, teams))
    }

    /// Keeps what is known by now of a channel's workspaces.
    pub(super) fn keep(&mut self, channel: &JoinedChannel<'_>, names: DisplayNames<'a>) {
        self.by_teams.insert(channel.teams(), names);
    }
}
