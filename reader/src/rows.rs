//! Pages of rows as readers see them, oldest first.

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Partition, Query};
use rules::project;
use serde_json::Value;
use slack::ids::Ts;

use crate::joined::JoinedChannel;
use crate::range::TimeRange;

/// Rows read at once: what a command holds in memory.
const PAGE: usize = 256;

/// What readers see of an item; `None` for what they do not.
type Project<'a> = Box<dyn Fn(&Item) -> Option<Value> + Send + 'a>;

/// Where rows are read.
#[derive(Clone, Copy)]
pub enum RowSource<'a> {
    /// As they are stored.
    Archive(&'a dyn Archive),
    /// In all places of one channel.
    Channel(&'a JoinedChannel<'a>),
}

impl<'a> From<&'a dyn Archive> for RowSource<'a> {
    fn from(archive: &'a dyn Archive) -> Self {
        Self::Archive(archive)
    }
}

impl<'a> From<&'a JoinedChannel<'a>> for RowSource<'a> {
    fn from(channel: &'a JoinedChannel<'a>) -> Self {
        Self::Channel(channel)
    }
}

impl RowSource<'_> {
    async fn query(self, query: &Query) -> Result<Page, ArchiveError> {
        match self {
            Self::Archive(archive) => archive.query(query).await,
            Self::Channel(channel) => channel.query(query).await,
        }
    }
}

/// The visible rows of a query.
pub struct VisibleRows<'a> {
    source: RowSource<'a>,
    query: Option<Query>,
    project: Project<'a>,
    remaining: usize,
}

impl<'a> VisibleRows<'a> {
    /// All visible rows.
    pub fn all(
        source: impl Into<RowSource<'a>>,
        query: Query,
        project: impl Fn(&Item) -> Option<Value> + Send + 'a,
    ) -> Self {
        let query = Some(Query { limit: PAGE, descending: false, ..query });
        Self { source: source.into(), query, project: Box::new(project), remaining: usize::MAX }
    }

    /// Keeps only the messages of a time.
    #[must_use]
    pub fn within(mut self, range: &TimeRange) -> Self {
        if let Some(query) = &mut self.query
            && let Partition::Item(partition) = &query.partition
        {
            query.after = range.after().map(|after| ItemKey::new(partition.clone(), after));
            query.until = range.until.as_ref().map(Ts::to_string);
        }
        self
    }

    /// Keeps only the newest `limit`. Answers how many there are, at most `limit`.
    pub async fn keep_newest(&mut self, limit: usize) -> Result<usize, ArchiveError> {
        self.remaining = limit;
        let Some(query) = &mut self.query else { return Ok(0) };
        let mut backwards = Query { descending: true, after: None, ..query.clone() };
        let first = query.after.take();
        let mut found = 0;
        loop {
            let page = self.source.query(&backwards).await?;
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
    pub fn after(&self) -> Option<&str> {
        self.query.as_ref()?.after.as_ref().map(|key| key.timestamp.as_str())
    }

    /// The next rows; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<Value>>, ArchiveError> {
        let Some(query) = self.query.as_mut().filter(|_| self.remaining > 0) else { return Ok(None) };
        let page = self.source.query(query).await?;
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

/// A message as readers see it.
pub async fn message(channel: &JoinedChannel<'_>, ts: &Ts) -> Result<Option<Value>, ArchiveError> {
    Ok(channel.message(ts).await?.as_ref().and_then(project::message))
}
