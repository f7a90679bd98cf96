//! Which channel has which name: the ChannelIndex, read from the archive and remembered for a moment. And what a workspace
//! says of itself.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use ports::clock::{SharedClock, TimestampMs};
use rules::channel::index;
use rules::workspace::VALUE;
use slack::ids::{ChannelId, TeamId};

/// A changed name shows within this time. Reading a shard of 350 KB costs 44 read units on DynamoDB, so a busy reader
/// does not ask for every lookup.
const MAX_AGE: Duration = Duration::from_secs(5);

/// The channels of one workspace by id.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WorkspaceChannels(BTreeMap<String, String>);

impl WorkspaceChannels {
    /// What the index calls a channel: a deleted one with `deleted_` in front.
    pub fn name(&self, channel: &ChannelId) -> Option<&str> {
        self.0.get(channel.as_str()).map(String::as_str)
    }

    /// Every channel and its name, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (ChannelId, &str)> {
        self.0.iter().filter_map(|(id, name)| Some((ChannelId::parse(id).ok()?, name.as_str())))
    }

    /// The channels of this name, whatever its case; `#` in front is how people write it.
    pub fn named(&self, name: &str) -> Vec<ChannelId> {
        let name = name.strip_prefix('#').unwrap_or(name).to_lowercase();
        self.iter().filter(|(_, known)| known.to_lowercase() == name).map(|(id, _)| id).collect()
    }
}

/// Reads a workspace's whole index.
pub async fn read(archive: &dyn Archive, team: &TeamId) -> Result<WorkspaceChannels, ArchiveError> {
    let items = query_all(archive, Query::partition(key::channel_index(team))).await?;
    Ok(WorkspaceChannels(index::merged(index::shards(&items))))
}

/// What a workspace is called, and where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceFacts {
    /// Its name.
    pub name: Option<String>,
    /// Its address, such as `https://acme.slack.com/`: what permalinks begin with.
    pub base_url: Option<String>,
}

/// What is known of a workspace. Without a token that is what events told since the first of them.
pub async fn workspace(archive: &dyn Archive, team: &TeamId) -> Result<WorkspaceFacts, ArchiveError> {
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

/// The index for readers that look again and again.
pub struct Directory {
    archive: Arc<dyn Archive>,
    clock: SharedClock,
    known: Mutex<HashMap<TeamId, (TimestampMs, Arc<WorkspaceChannels>)>>,
}

impl Directory {
    /// A directory that knows nothing yet.
    pub fn new(archive: Arc<dyn Archive>, clock: SharedClock) -> Self {
        Self { archive, clock, known: Mutex::default() }
    }

    /// The channels of a workspace, as of a few seconds ago at most.
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
