//! Keeps writers from writing erased data. They cache the erasure facts of a workspace instead of reading them
//! before each write. The process that wrote a fact waits until every writer has read it, and then erases what it
//! finds.
//!
//! Whoever writes a fact through this archive, applied or not, changes one row afterwards: `meta#erasures` / `last`.
//! A process reads that row every [`ERASURE_REFRESH`], and the facts of a workspace only if it has changed since it
//! read them. It reads the row before the facts: so either it reads the new fact, or it finds the row changed the
//! next time.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{
    Archive, ArchiveError, ErasureFacts, FactCover, Item, ItemKey, Page, Query, Update, WriteOutcome,
    erasure, rows,
};
use ports::clock::{SharedClock, TimestampMs};
use slack::ids::TeamId;

use super::DynamoArchive;

/// How long a process may not know of a fact. At this interval, one that is always busy reads 86,400 rows a month,
/// about $0.01, and an erasure waits for a minute.
pub const ERASURE_REFRESH: Duration = Duration::from_secs(30);

/// How long the facts of a workspace are used if nothing says that they have changed: the process that wrote one
/// may have been killed before it said so. Until it is repeated, nothing is erased.
const FACTS_USED_FOR: Duration = Duration::from_secs(3_600);

/// An archive that rejects updates of erased data.
pub(crate) struct BoundArchive {
    inner: DynamoArchive,
    clock: SharedClock,
    /// What identifies the last change of any fact, as it was read. Locked during a read, so that concurrent writes
    /// read once.
    last: tokio::sync::Mutex<Option<LastChange>>,
    known: Mutex<HashMap<TeamId, Arc<tokio::sync::Mutex<Option<KnownFacts>>>>>,
}

#[derive(Clone)]
struct LastChange {
    /// The stamp of the row; `None` if there is no row.
    stamp: Option<String>,
    read_at: TimestampMs,
}

/// The facts of a workspace.
struct KnownFacts {
    facts: Arc<ErasureFacts>,
    /// The last change of any fact before they were read.
    stamp: Option<String>,
    read_at: TimestampMs,
}

/// Whether what was read then may still be used.
fn is_fresh(read_at: TimestampMs, now: TimestampMs, used_for: Duration) -> bool {
    now >= read_at && now.since(read_at) < used_for
}

impl BoundArchive {
    /// An archive that obeys its own erasure facts. `clock` decides when they are read again.
    pub(crate) fn new(inner: DynamoArchive, clock: SharedClock) -> Self {
        Self { inner, clock, last: tokio::sync::Mutex::default(), known: Mutex::default() }
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

    /// The stamp of the last change of a fact.
    async fn last_change(&self) -> Result<Option<String>, ArchiveError> {
        let mut last = self.last.lock().await;
        let now = self.clock.now();
        if let Some(last) = last.as_ref().filter(|last| is_fresh(last.read_at, now, ERASURE_REFRESH)) {
            return Ok(last.stamp.clone());
        }
        let stamp = self.inner.table.read(&ItemKey::last_erasure()).await?.and_then(|row| row.stamp);
        *last = Some(LastChange { stamp: stamp.clone(), read_at: now });
        Ok(stamp)
    }

    async fn facts(&self, team: &TeamId) -> Result<Arc<ErasureFacts>, ArchiveError> {
        let stamp = self.last_change().await?;
        let of_team = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(team.clone()).or_default())
        };
        let mut known = of_team.lock().await;
        let now = self.clock.now();
        let is_known =
            |known: &&KnownFacts| known.stamp == stamp && is_fresh(known.read_at, now, FACTS_USED_FOR);
        if let Some(known) = known.as_ref().filter(is_known) {
            return Ok(Arc::clone(&known.facts));
        }
        let facts = Arc::new(ErasureFacts::load(&self.inner, team).await?);
        *known = Some(KnownFacts { facts: Arc::clone(&facts), stamp, read_at: now });
        Ok(facts)
    }

    /// Tells every process that facts have changed, if one of these updates is a fact.
    async fn note_facts(&self, updates: &[&Update]) -> Result<(), ArchiveError> {
        let is_fact = |update: &&Update| update.key.item_id.starts_with(rows::ERASURE.prefix());
        if updates.iter().any(is_fact) {
            self.inner.write_one(&Update::mark(ItemKey::last_erasure())).await?;
        }
        Ok(())
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
        if let Err(error) = self.note_facts(updates).await {
            return vec![Err(error); updates.len()];
        }
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
