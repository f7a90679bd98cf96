//! The cache that all processes share: asked after this process's own, and before Slack.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ports::existence::{CacheKey, ExistenceError, Verified};
use tokio::time::timeout;

use super::entity::Entity;
use super::known::Knowledge;
use super::reach::Reach;
use super::subject::Subject;
use super::{Check, answered};

/// How long it may take before Slack is asked instead.
const PATIENCE: Duration = Duration::from_secs(1);

impl Check {
    /// Asks the cache about the triples that this process does not know.
    pub(super) async fn consult_table<'s>(&self, subjects: impl Iterator<Item = &'s Subject>) {
        let now = self.0.clock.now();
        let triples: BTreeMap<CacheKey, [&Entity; 3]> = subjects.flat_map(Subject::keys).collect();
        if triples.is_empty() {
            return;
        }
        let keys: Vec<CacheKey> = triples.keys().cloned().collect();
        let rows = self.in_time(self.0.table.look_up(&keys)).await.unwrap_or_default();
        for (entities, row) in triples.into_values().zip(rows) {
            let Some(verified_at) = row.and_then(|row| row.counts_since(now)) else { continue };
            entities.into_iter().for_each(|entity| self.0.known.found_at(entity.clone(), verified_at));
        }
    }

    /// Keeps the triples that Slack has just confirmed, but for private channels: a row then also vouches that its channel
    /// is not private.
    pub(super) async fn tell_table<'s>(&self, subjects: impl Iterator<Item = &'s Subject>) {
        let triples: BTreeMap<CacheKey, [&Entity; 3]> = subjects.flat_map(Subject::keys).collect();
        let verified = |(key, entities): (CacheKey, [&Entity; 3])| {
            // A triple is as old as the oldest of its three.
            let ages = entities.map(|entity| match self.0.known.get(entity) {
                Some(Knowledge::Found { reach: Some(Reach { private: true, .. }), .. }) => None,
                Some(Knowledge::Found { verified_at, .. }) => Some(verified_at),
                Some(Knowledge::Missing { .. }) | None => None,
            });
            let oldest = ages.into_iter().collect::<Option<Vec<_>>>()?.into_iter().min()?;
            Some((key, Verified::at(oldest)))
        };
        let rows: Vec<(CacheKey, Verified)> = triples.into_iter().filter_map(verified).collect();
        if !rows.is_empty() {
            self.in_time(self.0.table.remember(&rows)).await;
        }
    }

    /// A cache that fails has nothing, which is no reason to wait.
    async fn in_time<T>(&self, asked: impl Future<Output = Result<T, ExistenceError>>) -> Option<T> {
        let answer = match timeout(PATIENCE, asked).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("it did not answer in time".to_owned()),
        };
        match answer {
            Ok(answer) => {
                if self.0.table_fails.swap(false, Ordering::Relaxed) {
                    tracing::info!("the cache of the existence check answers again");
                }
                Some(answer)
            }
            Err(error) => {
                answered("table_failed", 1);
                if !self.0.table_fails.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        error,
                        "the existence check goes on without its cache: Slack is asked more often"
                    );
                }
                None
            }
        }
    }
}
