//! The list of all channels that the archive has rows of.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::channel::index::DELETED_PREFIX;
use rules::view::ChannelView;
use slack::ids::{ChannelId, TeamId};

use crate::directory;
use crate::joined::ChannelOfTeam;

/// The order of a channel list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelOrder {
    Id,
    /// By name, deleted channels last.
    Name,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedChannel {
    /// Its location; if several workspaces share it, the one in the first of them.
    pub location: ChannelOfTeam,
    /// Its name in the ChannelIndex. Channels without a name come last.
    pub name: Option<String>,
}

/// The channels of several workspaces, grouped by workspace.
#[derive(Debug)]
pub struct ChannelList {
    channels: Vec<ListedChannel>,
    teams: BTreeMap<ChannelId, Vec<TeamId>>,
}

impl ChannelList {
    /// Reads the list.
    pub async fn read(
        archive: &dyn Archive,
        teams: &[TeamId],
        order: ChannelOrder,
    ) -> Result<Self, ArchiveError> {
        let mut list = Self { channels: Vec::new(), teams: BTreeMap::new() };
        for team in teams {
            let named = directory::read(archive, team).await?;
            let mut channels: Vec<(ChannelId, Option<String>)> =
                named.iter().map(|(channel, name)| (channel, Some(name.to_owned()))).collect();
            if order == ChannelOrder::Name {
                let mut deleted = BTreeSet::new();
                for (channel, name) in &channels {
                    let location = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
                    if is_deleted(archive, &location, name.as_deref()).await? {
                        deleted.insert(channel.clone());
                    }
                }
                channels.sort_by_cached_key(|(channel, name)| {
                    (deleted.contains(channel), name.as_deref().unwrap_or_default().to_lowercase())
                });
            }
            // Messages of a channel may be stored although no event contained its name.
            let marks = query_all(archive, Query::partition(key::public_marks(team))).await?;
            let ids = marks.iter().filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok());
            channels.extend(ids.filter(|id| named.name(id).is_none()).map(|id| (id, None)));
            for (channel, name) in channels {
                let channel_teams = list.teams.entry(channel.clone()).or_default();
                channel_teams.push(team.clone());
                if channel_teams.len() == 1 {
                    let location = ChannelOfTeam { team: team.clone(), channel };
                    list.channels.push(ListedChannel { location, name });
                }
            }
        }
        Ok(list)
    }

    /// The channels, each once.
    pub fn channels(&self) -> &[ListedChannel] {
        &self.channels
    }

    /// The workspaces that have a channel with this id, in the order of the request.
    pub fn teams_of(&self, channel: &ChannelId) -> &[TeamId] {
        self.teams.get(channel).map_or(&[], Vec::as_slice)
    }

    /// Returns the id under which a channel continues according to its snapshot, if the list contains that
    /// id.
    pub fn successor(&self, location: &ChannelOfTeam, snapshot: &ChannelView) -> Option<ChannelId> {
        let next = snapshot.next_id()?;
        self.teams_of(&next).contains(&location.team).then_some(next)
    }
}

/// Whether a channel is deleted, given its name in the ChannelIndex. A name with the prefix may be the
/// channel's own, so its snapshot decides.
pub async fn is_deleted(
    archive: &dyn Archive,
    location: &ChannelOfTeam,
    name: Option<&str>,
) -> Result<bool, ArchiveError> {
    if !name.is_some_and(|name| name.starts_with(DELETED_PREFIX)) {
        return Ok(false);
    }
    Ok(location.newest(archive).await?.is_some_and(|newest| newest.is_deleted()))
}
