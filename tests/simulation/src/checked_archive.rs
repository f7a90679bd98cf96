//! An archive that checks each update before storing it.

use std::sync::Arc;

use async_trait::async_trait;
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Query, Update, WriteOutcome};
use serde_json::Value;

use super::mutation::Mutants;
use super::workspaces::Workspaces;
use super::world::{Invariant, World, lock};
use testkit::memory::archive::MemoryArchive;

/// The bot token of the simulated workspace.
pub(super) const BOT_TOKEN: &str = "xoxb-simulated-and-secret";

/// The secret that signs requests.
pub(super) const SIGNING_SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Slack's old verification token, which every envelope contains.
const VERIFICATION_TOKEN: &str = "not-checked-any-more";

/// Stores every update, and reports those that violate an invariant.
pub(super) struct CheckedArchive {
    pub(super) world: Arc<World>,
    pub(super) inner: Arc<MemoryArchive>,
    pub(super) mutants: Mutants,
    /// Notes when rows are stored, if there are several.
    pub(super) workspaces: Option<Arc<Workspaces>>,
}

impl CheckedArchive {
    fn check(&self, update: &Update) {
        for (name, value) in update.set.iter().chain(&update.set_if_absent) {
            if *value == Value::Bool(false) {
                let what = format!("{} of {:?} is an explicit false", name, update.key);
                self.world.report_violation(Invariant::Archive, what);
            }
            if contains_secret(value) {
                self.world.report_violation(
                    Invariant::Secret,
                    format!("{name} of {:?} contains a secret", update.key),
                );
            }
        }
    }

    async fn apply(&self, update: &Update) -> Result<WriteOutcome, ArchiveError> {
        self.check(update);
        let written = self.mutants.update(update);
        let outcome = self.inner.apply_once(&[&*written]).await.remove(0);
        if let (Some(workspaces), Ok(WriteOutcome::Applied)) = (&self.workspaces, &outcome) {
            workspaces.note_stored(update, self.world.true_now());
        }
        self.world.note("archive", || {
            let word = match &outcome {
                Ok(WriteOutcome::Applied) => "applied",
                Ok(WriteOutcome::Rejected(_)) => "rejected",
                Err(_) => "failed",
            };
            format!("write {}/{}: {word}", update.key.item_id, update.key.timestamp)
        });
        outcome
    }
}

fn contains_secret(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            [BOT_TOKEN, SIGNING_SECRET, VERIFICATION_TOKEN].iter().any(|secret| text.contains(secret))
        }
        Value::Array(values) => values.iter().any(contains_secret),
        Value::Object(fields) => fields.values().any(contains_secret),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[async_trait]
impl Archive for CheckedArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        let mut outcomes = Vec::with_capacity(updates.len());
        for update in updates {
            outcomes.push(self.apply(update).await);
        }
        outcomes
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        self.inner.get(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        self.inner.query(query).await
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        let deleted = self.inner.delete_unchanged(expected).await;
        if ["quarantine#", "waiting#"].iter().any(|kind| expected.key.item_id.starts_with(kind))
            && matches!(deleted, Ok(true))
        {
            let payload = expected.text("payload").unwrap_or_default().to_owned();
            lock(&self.world.left_quarantine).insert(expected.key.clone(), payload);
        }
        deleted
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.inner.erase(key).await
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.inner.expire(key).await
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.inner.ready().await
    }
}
