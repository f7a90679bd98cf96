//! Finds people who posted before a time, so that their later messages are not their first ones.

use std::collections::BTreeSet;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use rules::figures::message::CountedMessage;
use rules::figures::rollup;
use slack::ids::TeamId;

use super::people::People;
use super::rollups::Rollups;
use crate::concurrent::read_all;
use crate::joined::JoinedChannel;
use crate::range::ts_from_micros;

/// Rows per page. An active person is found on the first page.
const PAGE: usize = 256;

/// Maximum number of rows that are read in total, deleted messages included. Reading them takes about a
/// second. If there are more rows before the period, the first-time posters may stay unknown.
const MAX_ROWS: usize = 50_000;

/// Reads the first messages of a workspace's people that the statistician found.
pub(super) struct FirstPostReader<'a> {
    pub(super) archive: &'a dyn Archive,
    pub(super) team: &'a TeamId,
    pub(super) rollups: &'a Rollups,
}

impl FirstPostReader<'_> {
    /// Returns the candidates who wrote before a time, and removes every candidate whose case is decided. A
    /// first message only counts if it still exists: after an erasure, the person may have other early
    /// messages.
    pub(super) async fn resolve_candidates(
        &self,
        people: &People,
        before: i64,
        candidates: &mut BTreeSet<&str>,
    ) -> Result<BTreeSet<String>, ArchiveError> {
        let is_complete = self.rollups.are_all_counted_before(before);
        let mut earlier: Vec<(String, ItemKey)> = Vec::new();
        for row in &query_all(self.archive, Query::partition(key::first_posts(self.team))).await? {
            let id = row.key.timestamp.as_str();
            let Some((channel, ts)) = rollup::first_post(row).filter(|_| candidates.contains(id)) else {
                continue;
            };
            if ts.micros() < before {
                earlier.push((id.to_owned(), ItemKey::message(self.team, &channel, &ts)));
            } else if is_complete {
                candidates.remove(id);
            }
        }
        let keys: Vec<&ItemKey> = earlier.iter().map(|(_, key)| key).collect();
        let reads: Vec<_> = keys.chunks(PAGE).map(|keys| self.archive.get_all(keys)).collect();
        let rows = read_all(reads).await?.into_iter().flatten();
        let mut earlier_posters = BTreeSet::new();
        for ((id, _), row) in earlier.iter().zip(rows) {
            let message = row.as_ref().and_then(CountedMessage::read);
            let is_theirs =
                |message: &CountedMessage<'_>| message.author == Some(id) && !people.is_bot(message);
            if message.as_ref().is_some_and(is_theirs) {
                candidates.remove(id.as_str());
                earlier_posters.insert(id.clone());
            }
        }
        Ok(earlier_posters)
    }
}

/// Returns the candidates who wrote before a time, in microseconds since the Unix epoch; `None` if that needs
/// more than [`MAX_ROWS`] rows. Reads the channels backwards, one page of each in turn.
pub(super) async fn wrote_before(
    channels: &[JoinedChannel<'_>],
    people: &People,
    before: i64,
    mut candidates: BTreeSet<&str>,
) -> Result<Option<BTreeSet<String>>, ArchiveError> {
    let mut found = BTreeSet::new();
    let mut rows_read = 0;
    let mut pending: Vec<(&JoinedChannel<'_>, Query)> = channels
        .iter()
        .map(|channel| {
            let until = Some(ts_from_micros(before).to_string());
            let query = Query::partition(channel.current_location().messages());
            (channel, Query { limit: PAGE, descending: true, until, ..query })
        })
        .collect();
    while !pending.is_empty() && !candidates.is_empty() {
        if rows_read >= MAX_ROWS {
            return Ok(None);
        }
        let mut next_pending = Vec::with_capacity(pending.len());
        for (channel, mut query) in pending {
            let page = channel.query(&query).await?;
            rows_read += page.items.len();
            for message in page.items.iter().filter_map(CountedMessage::read) {
                if let Some(author) = message.author.filter(|_| !people.is_bot(&message))
                    && candidates.remove(author)
                {
                    found.insert(author.to_owned());
                }
            }
            if let Some(next) = page.next {
                query.after = Some(next);
                next_pending.push((channel, query));
            }
        }
        pending = next_pending;
    }
    Ok(Some(found))
}
