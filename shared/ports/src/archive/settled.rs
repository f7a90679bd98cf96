//! Writes to the archive, for all code except backends.

use super::{Archive, ArchiveError, Item, ItemKey, Update, WriteOutcome};

/// Complete writes: if the guard of an update fails, a second update adds the set-if-absent attributes that
/// the item lacks, since one rejected register must not prevent the others from being set. This never creates
/// an item.
pub trait ArchiveExt: Archive {
    /// Applies one update completely. If it is rejected, the outcome has the item as it was when the guard
    /// failed.
    fn write(&self, update: &Update) -> impl Future<Output = Result<WriteOutcome, ArchiveError>> + Send {
        async move {
            let mut outcomes = self.write_all(&[update]).await;
            outcomes
                .pop()
                .unwrap_or_else(|| Err(ArchiveError::Unavailable("a write was not answered".into())))
        }
    }

    /// Applies many updates completely, with at most two calls of the backend. Returns one result per update,
    /// in order.
    fn write_all(
        &self,
        updates: &[&Update],
    ) -> impl Future<Output = Vec<Result<WriteOutcome, ArchiveError>>> + Send {
        async move {
            if updates.is_empty() {
                return Vec::new();
            }
            let mut outcomes = self.apply_once(updates).await;
            let rejected = |outcome: &Result<WriteOutcome, ArchiveError>| match outcome {
                Ok(WriteOutcome::Rejected(stored)) if !stored.attributes.is_empty() => Some(stored.clone()),
                Ok(WriteOutcome::Rejected(_) | WriteOutcome::Applied) | Err(_) => None,
            };
            let left_out: Vec<(usize, Update)> = outcomes
                .iter()
                .enumerate()
                .filter_map(|(index, outcome)| Some((index, updates[index].left_out(&rejected(outcome)?)?)))
                .collect();
            if left_out.is_empty() {
                return outcomes;
            }
            let second: Vec<&Update> = left_out.iter().map(|(_, update)| update).collect();
            for ((index, _), outcome) in left_out.iter().zip(self.apply_once(&second).await) {
                if let Err(error) = outcome {
                    outcomes[*index] = Err(error);
                }
            }
            outcomes
        }
    }

    /// Writes the marks ([`Update::mark`]) that do not exist yet. It reads them first: on AWS a read costs a fifth
    /// of a write, and a write that changes nothing costs as much as any other.
    fn write_marks(&self, marks: &[Update]) -> impl Future<Output = Result<(), ArchiveError>> + Send {
        async move {
            let keys: Vec<&ItemKey> = marks.iter().map(|mark| &mark.key).collect();
            let rows = self.get_all(&keys).await?;
            let is_missing = |row: &Option<Item>, mark: &Update| {
                row.as_ref().is_none_or(|row| mark.left_out(row).is_some())
            };
            let missing = marks.iter().zip(&rows).filter(|(mark, row)| is_missing(row, mark));
            for outcome in self.apply_once(&missing.map(|(mark, _)| mark).collect::<Vec<_>>()).await {
                outcome?;
            }
            Ok(())
        }
    }
}

impl<A: Archive + ?Sized> ArchiveExt for A {}

impl Update {
    /// An update with only the set-if-absent attributes that `stored` lacks; `None` if it lacks none, or if
    /// the item is erased.
    pub fn left_out(&self, stored: &Item) -> Option<Self> {
        let lacks = |name: &str| !stored.attributes.contains_key(name);
        let missing = self.set_if_absent.iter().filter(|(name, _)| lacks(name));
        let set_if_absent: super::Attributes =
            missing.map(|(name, value)| (name.clone(), value.clone())).collect();
        let is_unnecessary = set_if_absent.is_empty() || stored.is_erased();
        (!is_unnecessary).then(|| Self { set_if_absent, ..Self::new(self.key.clone()) })
    }
}
