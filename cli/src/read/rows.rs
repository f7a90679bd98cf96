//! Pages of rows as readers see them, oldest first.

use serde_json::Value;
use shared::archive::{Archive, ArchiveError, Item, ItemKey, Query};

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
}

impl<'a> Rows<'a> {
    /// All visible rows.
    pub(super) fn all(
        archive: &'a dyn Archive,
        query: Query,
        project: impl Fn(&Item) -> Option<Value> + 'a,
    ) -> Self {
        let query = Some(Query { limit: PAGE, descending: false, ..query });
        Self { archive, query, project: Box::new(project), remaining: usize::MAX }
    }

    /// Keeps only the newest `limit`. Answers how many there are, at most `limit`.
    pub(super) async fn keep_newest(&mut self, limit: usize) -> Result<usize, ArchiveError> {
        self.remaining = limit;
        let Some(query) = &mut self.query else { return Ok(0) };
        let mut backwards = Query { descending: true, after: None, ..query.clone() };
        let mut found = 0;
        loop {
            let page = self.archive.query(&backwards).await?;
            for item in &page.items {
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
                None => return Ok(found),
            }
        }
    }

    /// The next rows; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Value>>, ArchiveError> {
        let Some(query) = self.query.as_mut().filter(|_| self.remaining > 0) else { return Ok(None) };
        let page = self.archive.query(query).await?;
        match page.next {
            Some(next) => query.after = Some(next),
            None => self.query = None,
        }
        let mut rows: Vec<Value> = page.items.iter().filter_map(|item| (self.project)(item)).collect();
        rows.truncate(self.remaining);
        self.remaining -= rows.len();
        Ok(Some(rows))
    }
}

/// A row that is known by its key, where readers see it.
pub(super) async fn row(archive: &dyn Archive, key: &ItemKey) -> Result<Option<Value>, ArchiveError> {
    Ok(archive.get(key).await?.as_ref().and_then(shared::rules::project::message))
}
