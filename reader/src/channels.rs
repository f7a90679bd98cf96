//! Every channel that anything is stored of.

use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::channel::fold::DELETED_PREFIX;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId};

use crate::directory;
use crate::joined::ChannelOfTeam;

/// In which order channels are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelOrder {
    /// By id.
    Id,
    /// By name, deleted ones behind the others.
    Name,
}

/// A channel of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedChannel {
    /// Where it is: if several workspaces share it, in the first of them.
    pub place: ChannelOfTeam,
    /// What the ChannelIndex calls it. Channels without a name come last.
    pub name: Option<String>,
}

/// The channels of some workspaces, those of each workspace together.
#[derive(Debug)]
pub struct ChannelList {
    channels: Vec<ListedChannel>,
    teams: BTreeMap<ChannelId, Vec<TeamId>>,
}

impl ChannelList {
    /// Reads it.
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
                channels.sort_by_cached_key(|(_, name)| by_name(name.as_deref()));
            }
            // Messages of a channel may be stored though no event carried its name.
            let marks = query_all(archive, Query::partition(key::public_marks(team))).await?;
            let ids = marks.iter().filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok());
            channels.extend(ids.filter(|id| named.name(id).is_none()).map(|id| (id, None)));
            for (channel, name) in channels {
                let of_channel = list.teams.entry(channel.clone()).or_default();
                of_channel.push(team.clone());
                if of_channel.len() == 1 {
                    let place = ChannelOfTeam { team: team.clone(), channel };
                    list.channels.push(ListedChannel { place, name });
                }
            }
        }
        Ok(list)
    }

    /// The channels, each once.
    pub fn channels(&self) -> &[ListedChannel] {
        &self.channels
    }

    /// The workspaces that have a channel of this id, in their order.
    pub fn teams_of(&self, channel: &ChannelId) -> &[TeamId] {
        self.teams.get(channel).map_or(&[], Vec::as_slice)
    }

    /// The id under which a channel goes on, if that is in the list too. Its snapshot says so.
    pub fn goes_on_as(&self, place: &ChannelOfTeam, snapshot: &Value) -> Option<ChannelId> {
        let next = ChannelId::parse(snapshot["next_channel_id"].as_str()?).ok()?;
        self.teams_of(&next).contains(&place.team).then_some(next)
    }
}

fn by_name(name: Option<&str>) -> (bool, String) {
    let name = name.unwrap_or_default();
    (name.starts_with(DELETED_PREFIX), name.to_lowercase())
}
