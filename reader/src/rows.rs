//! Pages of visible rows, oldest first.

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Partition, Query};
use rules::project;
use rules::view::MessageView;
use slack::ids::Ts;

use crate::joined::JoinedChannel;
use crate::range::TimeRange;

/// Rows per page. A command keeps one page in memory.
const PAGE: usize = 256;

/// Converts an item to the row that readers see; `None` for a hidden item.
type Project<'a, V> = Box<dyn Fn(&Item) -> Option<V> + Send + 'a>;

#[derive(Clone, Copy)]
pub enum RowSource<'a> {
    /// The archive, with rows as stored.
    Archive(&'a dyn Archive),
    /// All locations of one channel.
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

/// The visible rows of a query, as views.
pub struct VisibleRows<'a, V = MessageView> {
    source: RowSource<'a>,
    query: Option<Query>,
    project: Project<'a, V>,
    remaining: usize,
}

impl<'a, V> VisibleRows<'a, V> {
    /// Reads all visible rows of a query.
    pub fn all(
        source: impl Into<RowSource<'a>>,
        query: Query,
        project: impl Fn(&Item) -> Option<V> + Send + 'a,
    ) -> Self {
        let query = Some(Query { limit: PAGE, descending: false, ..query });
        Self { source: source.into(), query, project: Box::new(project), remaining: usize::MAX }
    }

    /// Restricts the rows to a time range.
    #[must_use]
    pub fn within(mut self, range: &TimeRange) -> Self {
        if let Some(query) = &mut self.query
            && let Partition::Item(partition) = &query.partition
        {
            query.after = range.key_before().map(|after| ItemKey::new(partition.clone(), after));
            query.until = range.until.as_ref().map(Ts::to_string);
        }
        self
    }

    /// Restricts the rows to those before a timestamp.
    #[must_use]
    pub fn before(mut self, until: &Ts) -> Self {
        if let Some(query) = &mut self.query {
            query.until = Some(until.to_string());
        }
        self
    }

    /// Restricts the rows to the newest `limit` and returns their number.
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

    /// The timestamp of the key after which the next page starts.
    pub fn after(&self) -> Option<&str> {
        self.query.as_ref()?.after.as_ref().map(|key| key.timestamp.as_str())
    }

    /// Continues after the key with this timestamp, which [`VisibleRows::after`] returned earlier.
    pub fn continue_after(&mut self, after: Option<String>) {
        if let (Some(query), Some(after)) = (&mut self.query, after)
            && let Partition::Item(partition) = &query.partition
        {
            query.after = Some(ItemKey::new(partition.clone(), after));
        }
    }

    /// Whether there may be another page.
    pub fn has_more(&self) -> bool {
        self.query.is_some()
    }

    /// Reads the next page; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Vec<V>>, ArchiveError> {
        let Some(query) = self.query.as_mut().filter(|_| self.remaining > 0) else { return Ok(None) };
        let page = self.source.query(query).await?;
        match page.next {
            Some(next) => query.after = Some(next),
            None => self.query = None,
        }
        let mut rows: Vec<V> = page.items.iter().filter_map(|item| (self.project)(item)).collect();
        rows.truncate(self.remaining);
        self.remaining -= rows.len();
        Ok(Some(rows))
    }
}

/// Reads a message as readers see it.
pub async fn read_message(channel: &JoinedChannel<'_>, ts: &Ts) -> Result<Option<MessageView>, ArchiveError> {
    Ok(channel.message(ts).await?.as_ref().and_then(project::message))
}

/// Reads the root of a thread as readers see it, also one that a retention rule has removed.
pub async fn read_root(channel: &JoinedChannel<'_>, ts: &Ts) -> Result<Option<MessageView>, ArchiveError> {
    Ok(channel.message(ts).await?.as_ref().and_then(project::root))
}
