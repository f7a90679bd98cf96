//! What is erased binds those that write: they know the facts of a workspace for some seconds, instead of reading them before
//! each write. Those who wrote a fact wait until every writer knows it, and then erase what they find.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{
    Archive, ArchiveError, ErasureFacts, Item, ItemKey, Page, Query, Update, WriteOutcome, erasure,
};
use ports::clock::{SharedClock, TimestampMs};
use slack::ids::TeamId;

use super::DynamoArchive;

/// How long facts are taken as known. They are one small query for each workspace: at this pace a process that never rests
/// sends 86,400 a month, about $0.01, and who erases waits for a minute.
pub const ERASURE_REFRESH: Duration = Duration::from_secs(30);

/// An archive that writes nothing that is erased.
pub(crate) struct BoundArchive {
    inner: DynamoArchive,
    clock: SharedClock,
    /// The facts of each workspace, and when they were asked for. Held while they are, so that many writes ask once.
    known: tokio::sync::Mutex<HashMap<TeamId, KnownFacts>>,
}

#[derive(Clone)]
struct KnownFacts {
    facts: Arc<ErasureFacts>,
    asked_at: TimestampMs,
}

impl BoundArchive {
    /// An archive that is bound by the facts in it. This clock says when they are asked for again.
    pub(crate) fn new(inner: DynamoArchive, clock: SharedClock) -> Self {
        Self { inner, clock, known: tokio::sync::Mutex::default() }
    }

    /// The facts that cover each of these updates, as far as they are known now.
    async fn covered(&self, updates: &[&Update]) -> Result<Vec<Option<Arc<ErasureFacts>>>, ArchiveError> {
        let of_update = updates.iter().map(|update| erasure::team(&update.key));
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
        let asked_at = self.clock.now();
        let is_fresh = |known: &&KnownFacts| {
            asked_at >= known.asked_at && asked_at.since(known.asked_at) < ERASURE_REFRESH
        };
        if let Some(known) = known.get(team).filter(is_fresh) {
            return Ok(Arc::clone(&known.facts));
        }
        let facts = Arc::new(ErasureFacts::stored(&self.inner, team).await?);
        known.insert(team.clone(), KnownFacts { facts: Arc::clone(&facts), asked_at });
        Ok(facts)
    }

    /// Writes what is not covered, each in its order.
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
                Some(facts) => {
                    let erased = self.inner.erase_uncovered(&update.key, facts).await;
                    erased.map(|()| WriteOutcome::Rejected(Item::erased(update.key.clone())))
                }
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
        // A process may stand still for longer than is waited for it.
        let late = match self.covered(updates).await {
            Ok(late) => late,
            Err(error) => return vec![Err(error); updates.len()],
        };
        let late = updates.iter().zip(covered.iter().zip(late));
        for ((update, _), outcome) in
            late.zip(&mut outcomes).filter(|((_, (before, now)), _)| before.is_none() && now.is_some())
        {
            let erased = self.inner.erase(&update.key).await;
            *outcome = erased.map(|_| WriteOutcome::Rejected(Item::erased(update.key.clone())));
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

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.inner.ready().await
    }
}
