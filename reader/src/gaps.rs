//! The gaps of a workspace, for readers: facts gathered from the archive and joined by
//! [`projection`](rules::gap::projection).

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key, query_all};
use rules::gap::Reason;
use rules::gap::projection::{Gap, between, ended, oldest_first, posted_at, recorded};
use rules::gap::run::{Seen, unpadded};
use rules::{message, version};
use slack::ids::{ChannelId, TeamId, Ts};

/// Channels that are asked when events came again after a lost token: a row or few of each.
const MAX_CHANNELS: usize = 2_000;

/// Messages looked at to find one that came as it was posted. Only those that were edited, or that came with a reply or a
/// reaction, are passed over.
const MAX_MESSAGES: usize = 500;

/// Read in pages of this: nearly always the first row decides.
const PAGE: usize = 25;

/// The gaps of a workspace, oldest first.
///
/// # Errors
/// As [`Archive::query`].
pub async fn read(archive: &dyn Archive, team: &TeamId) -> Result<Vec<Gap>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::gaps(team))).await?;
    let runs = query_all(archive, Query::partition(key::runs(team))).await?;
    let runs: Vec<Seen> = runs.iter().filter_map(Seen::read).collect();
    let mut gaps = Vec::new();
    for gap in recorded(&rows) {
        let signs = match (gap.reason, &gap.channel) {
            (Reason::Left, Some(channel)) => back_in(archive, team, channel, &gap.from).await?,
            (Reason::Revoked, _) => back_at_work(archive, team, &runs, &gap.from).await?,
            (
                Reason::Downtime
                | Reason::RateLimited
                | Reason::Left
                | Reason::Dropped
                | Reason::Refused
                | Reason::HistoryChanged,
                _,
            ) => Vec::new(),
        };
        gaps.push(ended(gap, signs));
    }
    gaps.extend(between(runs));
    Ok(oldest_first(gaps))
}

/// The gaps of every workspace.
///
/// # Errors
/// As [`read`].
pub async fn read_all(archive: &dyn Archive) -> Result<Vec<(TeamId, Gap)>, ArchiveError> {
    let mut gaps = Vec::new();
    for row in query_all(archive, Query::partition(key::TEAMS)).await? {
        if let Ok(team) = TeamId::parse(&row.key.timestamp) {
            gaps.extend(read(archive, &team).await?.into_iter().map(|gap| (team.clone(), gap)));
        }
    }
    gaps.sort_by(|(_, one), (_, other)| one.cmp(other));
    Ok(gaps)
}

/// When the app is known to have been in a channel again: it was told to have joined, or a message was delivered from
/// there. The second is for a join that was missed, since it may have come in a time without events.
async fn back_in(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    from: &Ts,
) -> Result<Vec<Ts>, ArchiveError> {
    let joins = key::joins(team, channel);
    let after = Some(ItemKey::new(joins.clone(), from.padded()));
    let join = archive.query(&Query { after, limit: 1, ..Query::partition(joins) }).await?;
    let join = join.items.first().and_then(|join| unpadded(&join.key.timestamp));
    let post = first_post(archive, team, channel, from).await?;
    Ok(join.into_iter().chain(post).collect())
}

/// When events are known to have come again: the first message from any channel, and the first event that a later run of
/// ingest took.
async fn back_at_work(
    archive: &dyn Archive,
    team: &TeamId,
    runs: &[Seen],
    from: &Ts,
) -> Result<Vec<Ts>, ArchiveError> {
    let mut signs: Vec<Ts> = runs.iter().map(|run| run.first.clone()).collect();
    let marks = Query { limit: MAX_CHANNELS, ..Query::partition(key::public_marks(team)) };
    for mark in archive.query(&marks).await?.items {
        let Ok(channel) = ChannelId::parse(&mark.key.timestamp) else { continue };
        signs.extend(first_post(archive, team, &channel, from).await?);
    }
    Ok(signs)
}

/// The first message after this time that came as it was posted. Messages from history prove nothing, so the search goes
/// on behind the span that they fill.
async fn first_post(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    from: &Ts,
) -> Result<Option<Ts>, ArchiveError> {
    let partition = key::messages(team, channel);
    let after = Some(ItemKey::new(partition.clone(), from.as_str()));
    let mut query = Query { after, limit: PAGE, ..Query::partition(partition.clone()) };
    let mut spans: Option<Vec<FilledSpan>> = None;
    let mut looked_at = 0;
    loop {
        let page = archive.query(&query).await?;
        let mut behind_span = None;
        for row in &page.items {
            if let Some(posted) = posted_at(row) {
                return Ok(Some(posted));
            }
            looked_at += 1;
            let Some(ts) = from_history(row) else { continue };
            if spans.is_none() {
                spans = Some(filled_spans(archive, team, channel, from).await?);
            }
            let spans = spans.iter().flatten();
            behind_span = spans.filter(|span| span.contains(&ts)).map(FilledSpan::last_key).max();
            if behind_span.is_some() {
                break;
            }
        }
        query.after = match (behind_span, page.next) {
            (Some(last), _) => Some(ItemKey::new(partition.clone(), last)),
            (None, Some(next)) if looked_at < MAX_MESSAGES => Some(next),
            (None, Some(_) | None) => return Ok(None),
        };
    }
}

/// When a message was posted whose content is from Slack's history.
fn from_history(row: &Item) -> Option<Ts> {
    let is_from_history = message::stored_version(row)?.clock() == version::zero();
    is_from_history.then(|| Ts::parse(&row.key.timestamp).ok()).flatten()
}

/// A span of one channel that was filled from history.
struct FilledSpan {
    from: Ts,
    /// Not part of it.
    to: Ts,
}

impl FilledSpan {
    fn contains(&self, ts: &Ts) -> bool {
        (self.from.micros()..self.to.micros()).contains(&ts.micros())
    }

    /// The greatest key that a message in it can have. Ten digits of seconds, as every timestamp since 2001 has.
    fn last_key(&self) -> String {
        let micros = self.to.micros() - 1;
        format!("{:010}.{:06}", micros / 1_000_000, micros % 1_000_000)
    }
}

/// The filled spans of a channel that end after this time.
async fn filled_spans(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    after: &Ts,
) -> Result<Vec<FilledSpan>, ArchiveError> {
    let partition = key::filled(team);
    let after = Some(ItemKey::new(partition.clone(), format!("{channel}#{}", after.padded())));
    // The sign that comes next after `#`: the bound of this channel's keys.
    let until = Some(format!("{channel}$"));
    let facts = query_all(archive, Query { after, until, ..Query::partition(partition) }).await?;
    let span = |fact: &Item| {
        let (_, to) = fact.key.timestamp.rsplit_once('#')?;
        Some(FilledSpan { from: unpadded(fact.text("from")?)?, to: unpadded(to)? })
    };
    Ok(facts.iter().filter_map(span).collect())
}

#[cfg(test)]
#[path = "gaps_tests.rs"]
mod tests;
