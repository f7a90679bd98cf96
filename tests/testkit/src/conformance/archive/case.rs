//! The helpers of the cases: one archive, with short names for the usual steps.

use std::time::Duration;

use ports::archive::{
    Archive, ArchiveError, Attributes, ErasureFact, Guard, Item, ItemKey, Page, Query, Update, WriteOutcome,
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{ArchiveFixture, ArchiveTraits};

/// A fixture in use.
pub(super) struct ArchiveCase {
    pub(super) fixture: ArchiveFixture,
    pub(super) traits: ArchiveTraits,
}

/// The item most cases use.
pub(super) fn key() -> ItemKey {
    ItemKey::new("message#T1#C1", "1700000000.000100")
}

/// A JSON object as attributes.
pub(super) fn attributes(json: Value) -> Attributes {
    match json {
        Value::Object(attributes) => attributes,
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            panic!("{other} is not an object")
        }
    }
}

/// An update under a guard that sets attributes.
pub(super) fn update(key: ItemKey, guard: Guard, set: Value) -> Update {
    Update { guard, set: attributes(set), ..Update::new(key) }
}

pub(super) fn greater(version: &str) -> Guard {
    Guard::Greater { register: "version".into(), version: version.into() }
}

pub(super) fn less(version: &str) -> Guard {
    Guard::Less { register: "version".into(), version: version.into() }
}

pub(super) fn unchanged(expected: Option<&str>, version: &str) -> Guard {
    let expected = expected.map(str::to_owned);
    Guard::Unchanged { register: "version".into(), expected, version: version.into() }
}

pub(super) fn timestamps(items: &[Item]) -> Vec<&str> {
    items.iter().map(|item| item.key.timestamp.as_str()).collect()
}

/// Applies one update as a backend does.
pub(super) async fn apply_once(archive: &dyn Archive, update: &Update) -> Result<WriteOutcome, ArchiveError> {
    let mut outcomes = archive.apply_once(&[update]).await;
    assert_eq!(outcomes.len(), 1, "one result per update");
    outcomes.remove(0)
}

impl ArchiveCase {
    /// Writes once, as a backend does, without a second write after a refused update.
    pub(super) async fn write(&self, update: Update) -> WriteOutcome {
        apply_once(&*self.fixture.archive, &update).await.unwrap()
    }

    /// Writes an update that must be applied.
    pub(super) async fn apply(&self, update: Update) {
        assert_eq!(self.write(update).await, WriteOutcome::Applied);
    }

    /// Writes an update that must be refused. Returns the stored item in the answer.
    pub(super) async fn refuse(&self, update: Update) -> Item {
        match self.write(update).await {
            WriteOutcome::Rejected(stored) => stored,
            WriteOutcome::Applied => panic!("the update was applied"),
        }
    }

    /// Writes facts, and advances the clock until the archive must have noticed them.
    pub(super) async fn write_facts(&self, facts: &[ErasureFact]) {
        self.write_fact_updates(&facts.iter().map(ErasureFact::update).collect::<Vec<_>>()).await;
    }

    /// As [`ArchiveCase::write_facts`], for facts of any kind.
    pub(super) async fn write_fact_updates(&self, facts: &[Update]) {
        for fact in facts {
            self.apply(fact.clone()).await;
        }
        self.fixture.clock.advance(self.traits.erasure_lag);
    }

    /// Sets attributes of an item unconditionally.
    pub(super) async fn put(&self, key: ItemKey, set: Value) {
        self.apply(update(key, Guard::Always, set)).await;
    }

    pub(super) async fn get(&self, key: &ItemKey) -> Option<Item> {
        self.fixture.archive.get(key).await.unwrap()
    }

    /// Asserts the attributes of an item.
    pub(super) async fn expect(&self, key: &ItemKey, expected: Value) {
        let expected = Item { key: key.clone(), attributes: attributes(expected) };
        assert_eq!(self.get(key).await, Some(expected));
    }

    pub(super) async fn page(&self, query: &Query) -> Page {
        let page = self.fixture.archive.query(query).await.unwrap();
        assert!(page.items.len() <= query.limit, "a page is longer than its limit");
        page
    }

    /// All pages of a query.
    pub(super) async fn query(&self, mut query: Query) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            let page = self.page(&query).await;
            items.extend(page.items);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return items,
            }
        }
    }

    /// Asserts the items of a query over the index on `parent`, at the latest when the index's lag has
    /// passed.
    pub(super) async fn expect_children(&self, query: Query, expected: &[ItemKey]) {
        let began = Instant::now();
        loop {
            let found = self.query(query.clone()).await;
            let mut keys: Vec<ItemKey> = found.into_iter().map(|item| item.key).collect();
            if !self.traits.orders_equal_timestamps_of_a_parent {
                let equal = keys.chunk_by_mut(|one, next| one.timestamp == next.timestamp);
                equal.for_each(<[ItemKey]>::sort);
            }
            if keys == expected || began.elapsed() >= self.traits.parent_lag {
                assert_eq!(keys, expected);
                return;
            }
            // A lagging index does not report when it has caught up.
            sleep(Duration::from_millis(50)).await;
        }
    }
}
