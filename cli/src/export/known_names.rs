//! Caches the names of people across channels, because most people write in several.

use std::collections::HashMap;

use ports::archive::Archive;
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use slack::ids::TeamId;

/// Names by the workspaces in which they were looked up.
pub(super) struct NameCache<'a> {
    archive: &'a dyn Archive,
    by_teams: HashMap<Vec<TeamId>, DisplayNames<'a>>,
}

impl<'a> NameCache<'a> {
    pub(super) fn new(archive: &'a dyn Archive) -> Self {
        Self { archive, by_teams: HashMap::new() }
    }

    /// Removes and returns the names of a channel's workspaces. [`NameCache::keep`] puts them back.
    pub(super) fn take(&mut self, channel: &JoinedChannel<'_>) -> DisplayNames<'a> {
        let teams = channel.teams();
        self.by_teams.remove(&teams).unwrap_or_else(|| DisplayNames::for_teams(self.archive, teams))
    }

    /// Stores the names of a channel's workspaces.
    pub(super) fn keep(&mut self, channel: &JoinedChannel<'_>, names: DisplayNames<'a>) {
        self.by_teams.insert(channel.teams(), names);
    }
}
