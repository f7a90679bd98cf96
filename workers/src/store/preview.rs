//! An archive that returns the results that writes would have, and writes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use ports::archive::{
    Archive, ArchiveError, Attributes, ErasureFacts, Item, ItemKey, Page, Query, Update, WriteAdmission,
    WriteOutcome, erasure,
};
use slack::ids::TeamId;

/// Reads from another archive, or from an empty one, and returns the results that writes would have had. It
/// does not remember them.
pub struct PreviewArchive {
    inner: Option<Arc<dyn Archive>>,
}

impl PreviewArchive {
    /// The erasures in the workspaces of these updates, one read after the other.
    async fn erasures(&self, updates: &[&Update]) -> Result<Vec<ErasureFacts>, ArchiveError> {
        let teams: BTreeSet<TeamId> =
            updates.iter().filter_map(|update| erasure::covered_team(&update.key)).collect();
        let mut facts = Vec::with_capacity(teams.len());
        for team in &teams {
            facts.push(ErasureFacts::load(self, team).await?);
        }
        Ok(facts)
    }

    /// A preview of writes to this archive; `None` if it does not exist yet.
    pub fn new(inner: Option<Arc<dyn Archive>>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl Archive for PreviewArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        let keys: Vec<&ItemKey> = updates.iter().map(|update| &update.key).collect();
        let (stored, erasures) = match (self.get_all(&keys).await, self.erasures(updates).await) {
            (Ok(stored), Ok(erasures)) => (stored, erasures),
            (Err(error), _) | (_, Err(error)) => return vec![Err(error); updates.len()],
        };
        let outcome = |(update, stored): (&&Update, Option<Item>)| {
            let admissions = erasures.iter().map(|facts| facts.admit(update, stored.as_ref()));
            for admission in admissions {
                if let WriteAdmission::Refuse { mark, .. } = admission {
                    return Ok(WriteOutcome::Rejected(mark));
                }
            }
            let applied = update.apply(stored.as_ref().map(|stored| &stored.attributes));
            let nothing = || Item { key: update.key.clone(), attributes: Attributes::new() };
            Ok(match applied {
                Some(_) => WriteOutcome::Applied,
                None => WriteOutcome::Rejected(stored.unwrap_or_else(nothing)),
            })
        };
        updates.iter().zip(stored).map(outcome).collect()
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        match &self.inner {
            Some(inner) => inner.get(key).await,
            None => Ok(None),
        }
    }

    async fn get_all(&self, keys: &[&ItemKey]) -> Result<Vec<Option<Item>>, ArchiveError> {
        match &self.inner {
            Some(inner) => inner.get_all(keys).await,
            None => Ok(vec![None; keys.len()]),
        }
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        match &self.inner {
            Some(inner) => inner.query(query).await,
            None => Ok(Page::default()),
        }
    }

    async fn delete_unchanged(&self, _expected: &Item) -> Result<bool, ArchiveError> {
        Ok(false)
    }

    async fn erase(&self, _key: &ItemKey) -> Result<bool, ArchiveError> {
        Ok(false)
    }

    async fn expire(&self, _key: &ItemKey) -> Result<bool, ArchiveError> {
        Ok(false)
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        match &self.inner {
            Some(inner) => inner.ready().await,
            None => Ok(()),
        }
    }
}
