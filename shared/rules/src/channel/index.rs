//! The ChannelIndex: the name of each channel, in shards that stay below DynamoDB's limit for an item.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::version;
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use slack::ids::{ChannelId, TeamId};

/// A shard of this size takes no more channels. DynamoDB's limit is 400 KB.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html>
pub const SHARD_BYTES: usize = 350_000;

/// The register of a shard: a hash of its map.
pub const VERSION: &str = "version";

/// One item of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    number: u64,
    /// The register as it was read; `None` for a shard that does not exist yet.
    stored: Option<String>,
    names: BTreeMap<String, String>,
    /// The size of its map as JSON.
    bytes: usize,
}

impl Shard {
    fn empty(number: u64) -> Self {
        Self { number, stored: None, names: BTreeMap::new(), bytes: 0 }
    }

    fn insert(&mut self, channel: &str, name: &str) {
        let before = self.names.insert(channel.to_owned(), name.to_owned());
        self.bytes -= before.map_or(0, |before| entry_bytes(channel, &before));
        self.bytes += entry_bytes(channel, name);
    }

    fn remove(&mut self, channel: &str) {
        if let Some(name) = self.names.remove(channel) {
            self.bytes -= entry_bytes(channel, &name);
        }
    }

    fn update(&self, team: &TeamId) -> Update {
        let names: Map<String, Value> =
            self.names.iter().map(|(channel, name)| (channel.clone(), name.as_str().into())).collect();
        let version = version::hash(&Value::Object(names.clone()).to_string());
        Update {
            guard: Guard::Unchanged { register: VERSION.into(), expected: self.stored.clone(), version },
            set: Attributes::from_iter([("channels_map".to_owned(), Value::Object(names))]),
            set_if_absent: text_attributes([("type", "channelindex"), ("team_id", team.as_str())]),
            ..Update::new(ItemKey::channel_index_shard(team, self.number))
        }
    }
}

fn entry_bytes(channel: &str, name: &str) -> usize {
    // Quotes, colon and comma; a character that JSON escapes takes six bytes at most.
    let escaped: usize =
        name.chars().map(|c| if c.is_control() || matches!(c, '"' | '\\') { 6 } else { c.len_utf8() }).sum();
    channel.len() + escaped + 6
}

/// Reads the shards of a workspace, in the order of their numbers. Items that are not shards are skipped.
pub fn shards(items: &[Item]) -> Vec<Shard> {
    let mut shards: Vec<Shard> = items
        .iter()
        .filter_map(|item| {
            let mut shard = Shard::empty(item.key.timestamp.parse().ok()?);
            shard.stored = item.text(VERSION).map(str::to_owned);
            for (channel, name) in item.attributes.get("channels_map")?.as_object()? {
                shard.insert(channel, name.as_str()?);
            }
            Some(shard)
        })
        .collect();
    shards.sort_unstable_by_key(|shard| shard.number);
    shards
}

/// The whole index. If an id is in several shards, the last one counts.
pub fn merged(shards: Vec<Shard>) -> BTreeMap<String, String> {
    shards.into_iter().flat_map(|shard| shard.names).collect()
}

/// The updates that give these channels these names in the index, in the order in which they must be written:
/// an entry that moves is written to its new shard before it leaves the old one, so that readers always find
/// it. Each shard is written at most once, and only if it is unchanged since it was read.
pub fn plan_names(
    team: &TeamId,
    mut shards: Vec<Shard>,
    names: &BTreeMap<ChannelId, String>,
    shard_bytes: usize,
) -> Vec<Update> {
    let before = shards.clone();
    let mut displaced = Vec::new();
    for (channel, name) in names {
        let channel = channel.as_str();
        let mut has_shard = false;
        for shard in shards.iter_mut().filter(|shard| shard.names.contains_key(channel)) {
            shard.insert(channel, name);
            has_shard = shard.bytes <= shard_bytes || shard.names.len() == 1;
            if !has_shard {
                shard.remove(channel);
            }
        }
        if !has_shard {
            displaced.push((channel, name));
        }
    }
    for (channel, name) in displaced {
        let bytes = entry_bytes(channel, name);
        let fits = |shard: &&mut Shard| shard.bytes + bytes <= shard_bytes || shard.names.is_empty();
        match shards.last_mut().filter(fits) {
            Some(shard) => shard.insert(channel, name),
            None => {
                let mut shard = Shard::empty(shards.last().map_or(0, |last| last.number + 1));
                shard.insert(channel, name);
                shards.push(shard);
            }
        }
    }
    let changed = shards.iter().filter(|shard| before.iter().all(|before| before != *shard));
    // Entries only ever move to later shards.
    changed.rev().map(|shard| shard.update(team)).collect()
}

/// The updates that remove a channel from the index. Each shard is written only if it is unchanged since it
/// was read.
pub fn plan_removal(team: &TeamId, mut shards: Vec<Shard>, channel: &ChannelId) -> Vec<Update> {
    shards.retain(|shard| shard.names.contains_key(channel.as_str()));
    shards.iter_mut().for_each(|shard| shard.remove(channel.as_str()));
    shards.iter().map(|shard| shard.update(team)).collect()
}

/// The prefix of a deleted channel's name in the ChannelIndex.
pub const DELETED_PREFIX: &str = "deleted_";

/// A channel's own name, given its name in the ChannelIndex. A channel that is not deleted may have a name
/// with the prefix.
pub fn bare_name(name: &str, is_deleted: bool) -> &str {
    name.strip_prefix(DELETED_PREFIX).filter(|_| is_deleted).unwrap_or(name)
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
