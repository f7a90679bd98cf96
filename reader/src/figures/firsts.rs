//! Who wrote before a time: their later messages are not their first ones.

use std::collections::BTreeSet;

use ports::archive::{ArchiveError, Query};
use rules::figures::message::CountedMessage;

use super::counting::People;
use crate::joined::JoinedChannel;
use crate::range::ts_of;

/// Rows read at once: an active person is found on the first page.
const PAGE: usize = 256;

/// Rows that are looked at in total, deleted messages included: a second or so. In an archive with more of them before the
/// period it may stay unknown who is new.
const MAX_ROWS: usize = 50_000;

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
