//! When the app is known to have been in a channel, and when ingest ran.

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key, query_all};
use rules::filled::{self, FilledSpan};
use rules::gap::closing::HistoryFacts;
use rules::gap::projection::posted_at;
use rules::gap::run::RunSpan;
use rules::{message, version};
use slack::ids::{ChannelId, TeamId, Ts};

/// Maximum number of messages read to find one that was delivered as an event when it was posted. The search
/// for gaps only skips messages that were edited, or that arrived with a reply or a reaction; that for the
/// coverage also skips messages from history.
pub(crate) const MAX_MESSAGES: usize = 500;

/// Maximum number of messages from history that are read in filled spans of one channel, at times when events
/// may have come. Most channels need a few: the app was in them when it began to run, or their first run came
/// after what history filled.
const MAX_FILLED_MESSAGES: usize = 20_000;

/// The page size among them.
const FILLED_PAGE: usize = 500;

/// How long before the first known event of a run and after the last one an event may have come: Slack
/// delivers an event again for an hour, and such an event is of no run.
const AROUND_RUN_MICROS: i64 = 3_600_000_000;

/// Page sizes. The first page is smaller, because the first row is nearly always enough.
pub(crate) const PAGE: usize = 25;
pub(crate) const FIRST_PAGE: usize = 5;

/// Reads the runs of a workspace.
pub(crate) async fn runs(archive: &dyn Archive, team: &TeamId) -> Result<Vec<RunSpan>, ArchiveError> {
    let runs = query_all(archive, Query::partition(key::runs(team))).await?;
    Ok(runs.iter().filter_map(RunSpan::read).collect())
}

/// Removes the refusals of channels that the app has joined since.
pub(crate) async fn forget_refusals_before_joins(
    archive: &dyn Archive,
    team: &TeamId,
    facts: &mut HistoryFacts,
) -> Result<(), ArchiveError> {
    for (channel, refused) in facts.channels_without_app() {
        if joined_after(archive, team, &channel, &refused).await?.is_some() {
            facts.mark_joined(&channel);
        }
    }
    Ok(())
}

/// Returns times after `from` at which the app is known to have been in a channel: the app's join event, and
/// the first message that was delivered from the channel. The message covers a join event that was lost while
/// no events arrived.
pub(crate) async fn presence_signs(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    runs: &[RunSpan],
    from: &Ts,
) -> Result<Vec<Ts>, ArchiveError> {
    let join = joined_after(archive, team, channel, from).await?;
    let post = first_post(archive, team, channel, runs, from).await?;
    Ok(join.into_iter().chain(post).collect())
}

/// Returns the time of the first event after `from` that reports that the app joined the channel.
async fn joined_after(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    from: &Ts,
) -> Result<Option<Ts>, ArchiveError> {
    let joins = key::joins(team, channel);
    let after = Some(ItemKey::new(joins.clone(), from.padded()));
    let join = archive.query(&Query { after, limit: 1, ..Query::partition(joins) }).await?;
    Ok(join.items.first().and_then(|join| Ts::unpadded(&join.key.timestamp)))
}

/// Returns the first message after `from` that was delivered when it was posted. Messages from Slack's
/// history prove nothing. In a span that they fill, the search reads only what is from a time when ingest
/// ran, because no message can have been delivered at any other time.
pub(crate) async fn first_post(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    runs: &[RunSpan],
    from: &Ts,
) -> Result<Option<Ts>, ArchiveError> {
    let partition = key::messages(team, channel);
    let after = Some(ItemKey::new(partition.clone(), from.as_str()));
    let mut query = Query { after, limit: FIRST_PAGE, ..Query::partition(partition.clone()) };
    let mut spans: Option<Vec<FilledSpan>> = None;
    let (mut rows_read, mut filled_read) = (0, 0);
    loop {
        let page = archive.query(&query).await?;
        let mut continues_at = None;
        query.limit = PAGE;
        for row in &page.items {
            if let Some(posted) = posted_at(row) {
                return Ok(Some(posted));
            }
            let Some(ts) = from_history(row) else {
                rows_read += 1;
                continue;
            };
            if spans.is_none() {
                spans = Some(filled_spans(archive, team, channel, from).await?);
            }
            let filled = spans.iter().flatten().filter(|span| span.interval().contains(ts.micros()));
            let Some(end) = filled.map(|span| span.to.micros()).max() else {
                rows_read += 1;
                continue;
            };
            let next = next_run(runs, ts.micros()).filter(|_| filled_read < MAX_FILLED_MESSAGES);
            continues_at = Some(next.map_or(end, |next| next.min(end)));
            if continues_at.is_some_and(|at| at > ts.micros()) {
                break;
            }
            filled_read += 1;
            query.limit = FILLED_PAGE;
            continues_at = None;
        }
        query.after = match (continues_at, page.next) {
            (Some(at), _) => Some(ItemKey::new(partition.clone(), last_key_before(at))),
            (None, Some(next)) if rows_read < MAX_MESSAGES => Some(next),
            (None, Some(_) | None) => return Ok(None),
        };
    }
}

/// The time from which on an event may have come: `micros` itself if ingest may have run then, otherwise the
/// start of the next run.
fn next_run(runs: &[RunSpan], micros: i64) -> Option<i64> {
    let around = runs.iter().map(|run| {
        (run.first.micros() - AROUND_RUN_MICROS, run.last.micros().saturating_add(AROUND_RUN_MICROS))
    });
    around.filter(|(_, to)| *to >= micros).map(|(from, _)| from.max(micros)).min()
}

/// Returns the time of a message whose content is from Slack's history; `None` for any other row.
fn from_history(row: &Item) -> Option<Ts> {
    let is_from_history = message::stored_version(row)?.clock() == version::zero();
    is_from_history.then(|| Ts::parse(&row.key.timestamp).ok()).flatten()
}

/// Returns the greatest key that a message before this time can have, with ten digits of seconds like every
/// timestamp since 2001.
fn last_key_before(micros: i64) -> String {
    let micros = micros - 1;
    format!("{:010}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Returns the filled spans of a channel that end after a time.
async fn filled_spans(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    after: &Ts,
) -> Result<Vec<FilledSpan>, ArchiveError> {
    let partition = key::filled(team);
    let after = Some(ItemKey::new(partition.clone(), format!("{channel}#{}", after.padded())));
    // `$` is the next character after `#`, so this bounds the keys of this channel.
    let until = Some(format!("{channel}$"));
    let facts = query_all(archive, Query { after, until, ..Query::partition(partition) }).await?;
    Ok(filled::spans(&facts))
}

#[cfg(test)]
#[path = "presence_tests.rs"]
mod tests;
