//! Keeps writers from writing erased data. They cache the erasure facts of a workspace for some seconds,
//! instead of reading them before each write. The process that wrote a fact waits until every writer has read
//! it, and then erases what it finds.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{
    Archive, ArchiveError, ErasureFacts, FactCover, Item, ItemKey, Page, Query, Update, WriteOutcome, erasure,
};
use ports::clock::{SharedClock, TimestampMs};
use slack::ids::TeamId;

use super::DynamoArchive;

/// How long facts are cached. Reading them takes one small query per workspace: at this interval, a process
/// that is always busy sends 86,400 a month, about $0.01, and an erasure waits for a minute.
pub const ERASURE_REFRESH: Duration = Duration::from_secs(30);

/// An archive that rejects updates of erased data.
pub(crate) struct BoundArchive {
    inner: DynamoArchive,
    clock: SharedClock,
    /// The facts of each workspace, and when they were read. Locked during a read, so that concurrent writes
    /// read once.
    known: tokio::sync::Mutex<HashMap<TeamId, KnownFacts>>,
}

#[derive(Clone)]
struct KnownFacts {
    facts: Arc<ErasureFacts>,
    read_at: TimestampMs,
}

impl BoundArchive {
    /// An archive that obeys its own erasure facts. `clock` decides when they are read again.
    pub(crate) fn new(inner: DynamoArchive, clock: SharedClock) -> Self {
        Self { inner, clock, known: tokio::sync::Mutex::default() }
    }

    /// The facts that cover each of these updates; `None` for an update that is not erased as far as this
    /// process knows.
    async fn covered(&self, updates: &[&Update]) -> Result<Vec<Option<Arc<ErasureFacts>>>, ArchiveError> {
        let of_update = updates.iter().map(|update| erasure::covered_team(&update.key));
        let teams: Vec<Option<TeamId>> = of_update.collect();
        let mut facts: HashMap<&TeamId, Arc<ErasureFacts>> = HashMap::new();
        for team in teams.iter().flatten().collect::<BTreeSet<_>>() {
            facts.insert(team, self.facts(team).await?);
        }
        let facts = |team: &Option<TeamId>| team.as_ref().and_then(|team| facts.get(team));
        let covers =
            |(update, team): (&&Update, _)| facts(team).filter(|facts| facts.covers(update)).cloned();
        Ok(updates.iter().zip(&teams).map(covers).collect())
    }

    async fn facts(&self, team: &TeamId) -> Result<Arc<ErasureFacts>, ArchiveError> {
        let mut known = self.known.lock().await;
        let read_at = self.clock.now();
        let is_fresh =
            |known: &&KnownFacts| read_at >= known.read_at && read_at.since(known.read_at) < ERASURE_REFRESH;
        if let Some(known) = known.get(team).filter(is_fresh) {
            return Ok(Arc::clone(&known.facts));
        }
        let facts = Arc::new(ErasureFacts::load(&self.inner, team).await?);
        known.insert(team.clone(), KnownFacts { facts: Arc::clone(&facts), read_at });
        Ok(facts)
    }

    /// Removes what an update wrote before this process learned of the facts that cover it.
    async fn take_back(&self, update: &Update, facts: &ErasureFacts) -> BoundWriteResult {
        if facts.cover_update(update) == FactCover::Erased {
            self.inner.erase(&update.key).await?;
        } else {
            self.inner.expire_item(&update.key, facts).await?;
        }
        self.inner.apply_covered(update, facts).await
    }

    /// Writes the updates that are not covered, in order, and refuses the others.
    async fn apply_others(
        &self,
        updates: &[&Update],
        covered: &[Option<Arc<ErasureFacts>>],
    ) -> Vec<BoundWriteResult> {
        let others: Vec<&Update> = updates
            .iter()
            .zip(covered)
            .filter(|(_, covered)| covered.is_none())
            .map(|(update, _)| *update)
            .collect();
        let mut written = self.inner.apply_once(&others).await.into_iter();
        let mut outcomes = Vec::with_capacity(updates.len());
        for (update, covered) in updates.iter().zip(covered) {
            outcomes.push(match covered {
                Some(facts) => self.inner.apply_covered(update, facts).await,
                None => written
                    .next()
                    .unwrap_or_else(|| Err(ArchiveError::Unavailable("a write was not answered".into()))),
            });
        }
        outcomes
    }
}

type BoundWriteResult = Result<WriteOutcome, ArchiveError>;

#[async_trait]
impl Archive for BoundArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<BoundWriteResult> {
        let began = self.clock.now();
        let covered = match self.covered(updates).await {
            Ok(covered) => covered,
            Err(error) => return vec![Err(error); updates.len()],
        };
        let mut outcomes = self.apply_others(updates, &covered).await;
        if self.clock.now().since(began) < ERASURE_REFRESH {
            return outcomes;
        }
        // The process may have been suspended for longer than an erasure waits.
        let late = match self.covered(updates).await {
            Ok(late) => late,
            Err(error) => return vec![Err(error); updates.len()],
        };
        let late = updates.iter().zip(covered.iter().zip(late));
        for ((update, (before, now)), outcome) in late.zip(&mut outcomes) {
            if let (None, Some(facts)) = (before, now) {
                *outcome = self.take_back(update, &facts).await;
            }
        }
        outcomes
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        self.inner.get(key).await
    }

    async fn get_all(&self, keys: &[&ItemKey]) -> Result<Vec<Option<Item>>, ArchiveError> {
        self.inner.get_all(keys).await
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        self.inner.query(query).await
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        self.inner.delete_unchanged(expected).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.inner.erase(key).await
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        match erasure::covered_team(key) {
            Some(team) => self.inner.expire_item(key, &*self.facts(&team).await?).await,
            None => Ok(false),
        }
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.inner.ready().await
    }
}
