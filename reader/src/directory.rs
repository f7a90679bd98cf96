//! The channel names of a workspace: the ChannelIndex, read from the archive. Also the name and address of a
//! workspace.

use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use rules::channel::index;
use rules::workspace::VALUE;
use slack::ids::{ChannelId, TeamId};

/// The channels of one workspace by id.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WorkspaceChannels(BTreeMap<String, String>);

impl WorkspaceChannels {
    /// Returns the name of a channel. The name of a deleted channel starts with `deleted_`.
    pub fn name(&self, channel: &ChannelId) -> Option<&str> {
        self.0.get(channel.as_str()).map(String::as_str)
    }

    /// Iterates over all channels and their names, ordered by id.
    pub fn iter(&self) -> impl Iterator<Item = (ChannelId, &str)> {
        self.0.iter().filter_map(|(id, name)| Some((ChannelId::parse(id).ok()?, name.as_str())))
    }
}

/// Reads the whole index of a workspace.
pub async fn read(archive: &dyn Archive, team: &TeamId) -> Result<WorkspaceChannels, ArchiveError> {
    let items = query_all(archive, Query::partition(key::channel_index(team))).await?;
    Ok(WorkspaceChannels(index::merged(index::shards(&items))))
}

/// The name and address of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceFacts {
    pub name: Option<String>,
    /// Its address, such as `https://acme.slack.com/`. Permalinks start with it.
    pub base_url: Option<String>,
}

impl WorkspaceFacts {
    /// Its name; if only its address is known, as from an export, the name in it: `acme`.
    pub fn shown_name(&self) -> Option<&str> {
        let in_address = || self.base_url.as_deref()?.strip_prefix("https://")?.split('.').next();
        self.name.as_deref().or_else(in_address)
    }
}

/// Reads the name of each workspace to show; its id if nothing else is known.
pub async fn read_shown_names(
    archive: &dyn Archive,
    teams: &[TeamId],
) -> Result<Vec<(TeamId, String)>, ArchiveError> {
    let mut names = Vec::with_capacity(teams.len());
    for team in teams {
        let facts = read_workspace_facts(archive, team).await?;
        names.push((team.clone(), facts.shown_name().unwrap_or(team.as_str()).to_owned()));
    }
    Ok(names)
}

/// Reads the name and address of a workspace. Without a token, the archive only knows what events contained.
pub async fn read_workspace_facts(
    archive: &dyn Archive,
    team: &TeamId,
) -> Result<WorkspaceFacts, ArchiveError> {
    let items = query_all(archive, Query::partition(key::workspace(team))).await?;
    let value = |key: &ItemKey| {
        let row = items.iter().find(|row| row.key == *key);
        row.and_then(|row| row.text(VALUE)).map(str::to_owned)
    };
    Ok(WorkspaceFacts {
        name: value(&ItemKey::workspace_name(team)),
        base_url: value(&ItemKey::workspace_address(team)),
    })
}
