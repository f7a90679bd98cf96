//! The helpers of the cases: an archive, and a follower that keeps a copy of its messages.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{ArchiveExt, Attributes, Item, ItemKey, Query, Update, key, query_all};
use ports::changes::{ChangeBatch, ChangeCursor};
use serde_json::Value;
use slack::ids::{ChannelId, TeamId};

use super::{ChangesFixture, ChangesTraits};

/// The channels of the messages. As workers do, a case marks their workspaces and channels first.
pub(super) const CHANNELS: [(&str, &str); 3] = [("T1", "C1"), ("T1", "C2"), ("T2", "C1")];

/// A fixture in use.
pub(super) struct ChangesCase {
    pub(super) fixture: ChangesFixture,
    pub(super) traits: ChangesTraits,
}

/// The key of a message in one of the channels.
pub(super) fn message(channel: usize, ts: &str) -> ItemKey {
    ItemKey::new(partition(channel), ts)
}

fn partition(channel: usize) -> String {
    let (team, channel) = ids(CHANNELS[channel]);
    key::messages(&team, &channel)
}

fn ids((team, channel): (&str, &str)) -> (TeamId, ChannelId) {
    (TeamId::parse(team).unwrap(), ChannelId::parse(channel).unwrap())
}

/// Sets an attribute of an item.
pub(super) fn setting(key: ItemKey, name: &str, value: impl Into<Value>) -> Update {
    let set: Attributes = [(name.to_owned(), value.into())].into_iter().collect();
    Update { set, ..Update::new(key) }
}

/// A process that keeps a copy of the messages, and its cursor with it.
#[derive(Debug, Clone, Default)]
pub(super) struct Follower {
    pub(super) messages: BTreeMap<ItemKey, Attributes>,
    pub(super) cursor: Option<ChangeCursor>,
}

impl ChangesCase {
    pub(super) async fn begin(fixture: ChangesFixture, traits: ChangesTraits) -> Self {
        for (team, channel) in CHANNELS.map(ids) {
            let marks =
                [Update::mark(ItemKey::team(&team)), Update::mark(ItemKey::public_mark(&team, &channel))];
            for mark in marks {
                fixture.archive.write(&mark).await.unwrap();
            }
        }
        Self { fixture, traits }
    }

    pub(super) async fn write(&self, key: ItemKey, text: &str) {
        self.fixture.archive.write(&setting(key, "text", text)).await.unwrap();
    }

    /// The expected copy of a follower: every message that is not erased.
    pub(super) async fn messages(&self) -> BTreeMap<ItemKey, Attributes> {
        let mut messages = BTreeMap::new();
        for channel in 0..CHANNELS.len() {
            let rows = query_all(&*self.fixture.archive, Query::partition(partition(channel))).await.unwrap();
            let kept = rows.into_iter().filter(|row| !row.is_erased());
            messages.extend(kept.map(|row| (row.key, row.attributes)));
        }
        messages
    }

    /// Lets the follower catch up and asserts that its copy equals the archive.
    pub(super) async fn expect_equal(&self, follower: &mut Follower, limit: usize) {
        follower.catch_up(self, limit).await;
        assert_eq!(follower.messages, self.messages().await);
    }
}

impl Follower {
    /// Reads a batch and applies it. Returns whether the batch was empty.
    pub(super) async fn step(&mut self, case: &ChangesCase, limit: usize) -> bool {
        match case.fixture.changes.since(self.cursor.as_ref(), limit).await.unwrap() {
            ChangeBatch::Items { items, next } => {
                assert!(case.traits.by_row, "items instead of spans");
                assert!(items.len() <= limit, "{} items instead of at most {limit}", items.len());
                let keys: BTreeSet<&ItemKey> = items.iter().map(|item| &item.key).collect();
                assert_eq!(keys.len(), items.len(), "an item comes twice in a batch");
                self.cursor = Some(next);
                let is_all = items.is_empty();
                items.into_iter().for_each(|item| self.apply(item));
                is_all
            }
            ChangeBatch::Spans { spans, next } => {
                assert!(!case.traits.by_row, "spans instead of items");
                assert!(spans.len() <= limit, "{} spans instead of at most {limit}", spans.len());
                for span in &spans {
                    let rows = query_all(&*case.fixture.archive, span.query()).await.unwrap();
                    rows.into_iter().for_each(|item| self.apply(item));
                }
                self.cursor = Some(next);
                spans.is_empty()
            }
            ChangeBatch::Rebuild => {
                *self = Self::default();
                false
            }
        }
    }

    /// Reads batches until an empty one. It does so twice, because a message written behind a pass over spans
    /// is in the next pass.
    pub(super) async fn catch_up(&mut self, case: &ChangesCase, limit: usize) {
        for _ in 0..2 {
            while !self.step(case, limit).await {}
        }
    }

    fn apply(&mut self, item: Item) {
        assert!(item.key.item_id.starts_with("message#"), "{:?} is no message", item.key);
        if item.is_erased() {
            assert_eq!(item.attributes.len(), 1, "something is left of {:?}", item.key);
            self.messages.remove(&item.key);
        } else {
            self.messages.insert(item.key, item.attributes);
        }
    }
}
