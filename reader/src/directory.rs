//! The channel names of a workspace: the ChannelIndex, read from the archive and cached for a few seconds.
//! Also the name and address of a workspace.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use ports::clock::{SharedClock, TimestampMs};
use rules::channel::index;
use rules::workspace::VALUE;
use slack::ids::{ChannelId, TeamId};

/// The maximum delay until a changed name is visible. Reading a shard of 350 KB costs 44 read units on
/// DynamoDB, so a busy reader must not read it for every lookup.
const MAX_AGE: Duration = Duration::from_secs(5);

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

    /// Returns the channels with this name, ignoring case. The name may start with `#`.
    pub fn channels_with_name(&self, name: &str) -> Vec<ChannelId> {
        let name = name.strip_prefix('#').unwrap_or(name).to_lowercase();
        self.iter().filter(|(_, known)| known.to_lowercase() == name).map(|(id, _)| id).collect()
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
    /// Its name.
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

/// A cached index, for readers that look up names often.
pub struct Directory {
    archive: Arc<dyn Archive>,
    clock: SharedClock,
    known: Mutex<HashMap<TeamId, (TimestampMs, Arc<WorkspaceChannels>)>>,
}

impl Directory {
    /// Returns an empty cache.
    pub fn new(archive: Arc<dyn Archive>, clock: SharedClock) -> Self {
        Self { archive, clock, known: Mutex::default() }
    }

    /// Returns the channels of a workspace, at most a few seconds old.
    pub async fn channels(&self, team: &TeamId) -> Result<Arc<WorkspaceChannels>, ArchiveError> {
        let now = self.clock.now();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read_at, channels)) = known().get(team)
            && now.since(*read_at) < MAX_AGE
        {
            return Ok(Arc::clone(channels));
        }
        let channels = Arc::new(read(&*self.archive, team).await?);
        known().insert(team.clone(), (now, Arc::clone(&channels)));
        Ok(channels)
    }
}
