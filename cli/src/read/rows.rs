//! Pages of rows as readers see them, oldest first.

use serde_json::Value;
use shared::archive::{Archive, ArchiveError, Item, ItemKey, Partition, Query};
use shared::slack::ids::Ts;

use super::range::TimeRange;

/// Rows read at once: what a command holds in memory.
const PAGE: usize = 256;

/// What readers see of an item; `None` for what they do not.
type Project<'a> = Box<dyn Fn(&Item) -> Option<Value> + 'a>;

/// The visible rows of a query.
pub(super) struct Rows<'a> {
    archive: &'a dyn Archive,
    query: Option<Query>,
    project: Project<'a>,
    remaining: usize,
    /// Rows from this key on are left out, and nothing behind it is read.
    until: Option<String>,
}

impl<'a> Rows<'a> {
    /// All visible rows.
    pub(super) fn all(
        archive: &'a dyn Archive,
        query: Query,
        project: impl Fn(&Item) -> Option<Value> + 'a,
    ) -> Self {
        let query = Some(Query { limit: PAGE, descending: false, ..query });
        Self { archive, query, project: Box::new(project), remaining: usize::MAX, until: None }
    }

    /// Keeps only the messages of a time.
    pub(super) fn within(mut self, range: &TimeRange) -> Self {
        if let Some(query) = &mut self.query
            && let Partition::Item(partition) = &query.partition
        {
            query.after = range.after().map(|after| ItemKey::new(partition.clone(), after));
            self.until = range.until.as_ref().map(Ts::to_string);
        }
        self
    }

    /// Keeps only the newest `limit`. Answers how many there are, at most `limit`.
    pub(super) async fn keep_newest(&mut self, limit: usize) -> Result<usize, ArchiveError> {
        self.remaining = limit;
        let Some(query) = &mut self.query else { return Ok(0) };
        let mut backwards = Query { descending: true, after: None, ..query.clone() };
        if let (Some(until), Partition::Item(partition)) = (&self.until, &query.partition) {
            backwards.after = Some(ItemKey::new(partition.clone(), until.clone()));
        }
        let first = query.after.take();
        let mut found = 0;
        loop {
            let page = self.archive.query(&backwards).await?;
            for item in &page.items {
                if first.as_ref().is_some_and(|first| item.key.timestamp <= first.timestamp) {
                    query.after = first;
                    return Ok(found);
                }
                if (self.project)(item).is_none() {
                    continue;
                }
                if found == limit {
                    query.after = Some(item.key.clone());
                    return Ok(found);
                }
                found += 1;
            }
            match page.next {
                Some(next) => backwards.after = Some(next),
                None => {
                    query.after = first;
                    return Ok(found);
                }
            }
        }
    }

    /// The key that the next rows come after.
    pub(super) fn after(&self) -> Option<&str> {
        self.query.as_ref()?.after.as_ref().map(|key| key.timestamp.as_str())
    }

    /// The next rows; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Value>>, ArchiveError> {
        let Some(query) = self.query.as_mut().filter(|_| self.remaining > 0) else { return Ok(None) };
        let page = self.archive.query(query).await?;
        match page.next {
            Some(next) => query.after = Some(next),
            None => self.query = None,
        }
        let is_later = |item: &&Item| self.until.as_ref().is_some_and(|until| item.key.timestamp >= *until);
        if page.items.last().as_ref().is_some_and(is_later) {
            self.query = None;
        }
        let shown = page.items.iter().filter(|item| !is_later(item));
        let mut rows: Vec<Value> = shown.filter_map(|item| (self.project)(item)).collect();
        rows.truncate(self.remaining);
        self.remaining -= rows.len();
        Ok(Some(rows))
    }
}

/// A row that is known by its key, where readers see it.
pub(super) async fn row(archive: &dyn Archive, key: &ItemKey) -> Result<Option<Value>, ArchiveError> {
    Ok(archive.get(key).await?.as_ref().and_then(shared::rules::project::message))
}
