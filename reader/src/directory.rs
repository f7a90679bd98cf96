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
