//! Who wrote before a time: their later messages are not their first ones.

use std::collections::BTreeSet;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use rules::figures::message::CountedMessage;
use rules::figures::rollup;
use slack::ids::TeamId;

use super::counting::People;
use super::rollups::Rollups;
use crate::concurrent::read_all;
use crate::joined::JoinedChannel;
use crate::range::ts_of;

/// Rows read at once: an active person is found on the first page.
const PAGE: usize = 256;

/// Rows that are looked at in total, deleted messages included: a second or so. In an archive with more of them before the
/// period it may stay unknown who is new.
const MAX_ROWS: usize = 50_000;

/// The first messages of a workspace's people, as the statistician found them.
pub(super) struct FirstPostReader<'a> {
    pub(super) archive: &'a dyn Archive,
    pub(super) team: &'a TeamId,
    pub(super) rollups: &'a Rollups,
}

impl FirstPostReader<'_> {
    /// Settles who of the candidates wrote before a time, and who did not, and leaves those of whom it cannot be said. Answers
    /// who did. A first message counts only if it is still there: one that was erased may not have been the only one.
    ///
    /// # Errors
    /// As [`Archive::query`].
    pub(super) async fn settle(
        &self,
        people: &People,
        before: i64,
        candidates: &mut BTreeSet<&str>,
    ) -> Result<BTreeSet<String>, ArchiveError> {
        let is_settled = self.rollups.are_all_counted_before(before);
        let mut earlier: Vec<(String, ItemKey)> = Vec::new();
        for row in &query_all(self.archive, Query::partition(key::first_posts(self.team))).await? {
            let id = row.key.timestamp.as_str();
            let Some((channel, ts)) = rollup::first_post(row).filter(|_| candidates.contains(id)) else {
                continue;
            };
            if ts.micros() < before {
                earlier.push((id.to_owned(), ItemKey::message(self.team, &channel, &ts)));
            } else if is_settled {
                candidates.remove(id);
            }
        }
        let keys: Vec<&ItemKey> = earlier.iter().map(|(_, key)| key).collect();
        let reads: Vec<_> = keys.chunks(PAGE).map(|keys| self.archive.get_all(keys)).collect();
        let rows = read_all(reads).await?.into_iter().flatten();
        let mut old = BTreeSet::new();
        for ((id, _), row) in earlier.iter().zip(rows) {
            let message = row.as_ref().and_then(CountedMessage::read);
            let is_theirs =
                |message: &CountedMessage<'_>| message.author == Some(id) && !people.is_bot(message);
            if message.as_ref().is_some_and(is_theirs) {
                candidates.remove(id.as_str());
                old.insert(id.clone());
            }
        }
        Ok(old)
    }
}

/// Which of these people wrote before a time, in microseconds since the Unix epoch; `None` if that cannot be said without
/// reading more than is reasonable. Channels are read backwards, a page of each in turn.
///
/// # Errors
/// As [`ports::archive::Archive::query`].
pub(super) async fn wrote_before(
    channels: &[JoinedChannel<'_>],
    people: &People,
    before: i64,
    mut candidates: BTreeSet<&str>,
) -> Result<Option<BTreeSet<String>>, ArchiveError> {
    let mut found = BTreeSet::new();
    let mut looked_at = 0;
    let mut ahead: Vec<(&JoinedChannel<'_>, Query)> = channels
        .iter()
        .map(|channel| {
            let until = Some(ts_of(before).to_string());
            let query = Query::partition(channel.main().messages());
            (channel, Query { limit: PAGE, descending: true, until, ..query })
        })
        .collect();
    while !ahead.is_empty() && !candidates.is_empty() {
        if looked_at >= MAX_ROWS {
            return Ok(None);
        }
        let mut further = Vec::with_capacity(ahead.len());
        for (channel, mut query) in ahead {
            let page = channel.query(&query).await?;
            looked_at += page.items.len();
            for message in page.items.iter().filter_map(CountedMessage::read) {
                if let Some(author) = message.author.filter(|_| !people.is_bot(&message))
                    && candidates.remove(author)
                {
                    found.insert(author.to_owned());
                }
            }
            if let Some(next) = page.next {
                query.after = Some(next);
                further.push((channel, query));
            }
        }
        ahead = further;
    }
    Ok(Some(found))
}
