//! The gaps of a workspace, for readers: facts gathered from the archive and joined by
//! [`projection`](rules::gap::projection).

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key, query_all};
use rules::filled::{self, FilledSpan};
use rules::gap::Reason;
use rules::gap::closing::GapState;
pub use rules::gap::closing::UnreadSpan;
use rules::gap::projection::{Gap, between, ended, oldest_first, posted_at, recorded};
use rules::gap::run::{RunSpan, unpadded};
use rules::{message, version};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::history;

/// Channels that are asked when events came again after a lost token: a row or few of each.
const MAX_CHANNELS: usize = 2_000;

/// Messages looked at to find one that came as it was posted. Only those that were edited, or that came with a reply or a
/// reaction, are passed over.
const MAX_MESSAGES: usize = 500;

/// Read in pages of this, the first of which is smaller: nearly always the first row decides.
const PAGE: usize = 25;
const FIRST_PAGE: usize = 5;

/// A gap and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GapProgress {
    /// The gap.
    pub gap: Gap,
    /// Whether it goes on, and whether history has filled it since.
    pub state: GapState,
    /// In how many channels something is missing, if it is about all of them.
    pub channels_left: Option<usize>,
}

/// The gaps of a workspace and how they stand, oldest first.
pub async fn progress(archive: &dyn Archive, team: &TeamId) -> Result<Vec<GapProgress>, ArchiveError> {
    let gaps = read(archive, team).await?;
    let facts = history::facts(archive, team, &gaps).await?;
    let progress = gaps.into_iter().map(|gap| {
        let (state, channels_left) = facts.state(&gap);
        GapProgress { gap, state, channels_left }
    });
    Ok(progress.collect())
}

/// The spans that are to be read of Slack's history to fill the gaps of a workspace, at most `limit` of them; `now` is a time
/// that is not later than now by Slack's clock. What Slack refused to show is left out for a day, or until the app joins the
/// channel.
pub async fn wanted(
    archive: &dyn Archive,
    team: &TeamId,
    now: &Ts,
    limit: usize,
) -> Result<Vec<UnreadSpan>, ArchiveError> {
    let gaps = read(archive, team).await?;
    let mut facts = history::facts(archive, team, &gaps).await?;
    for (channel, refused) in facts.not_let_in() {
        if joined_after(archive, team, &channel, &refused).await?.is_some() {
            facts.let_in(&channel);
        }
    }
    Ok(facts.wanted(&gaps, now, limit))
}

/// The gaps of a workspace, oldest first.
pub async fn read(archive: &dyn Archive, team: &TeamId) -> Result<Vec<Gap>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::gaps(team))).await?;
    let runs = query_all(archive, Query::partition(key::runs(team))).await?;
    let runs: Vec<RunSpan> = runs.iter().filter_map(RunSpan::read).collect();
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

/// The gaps of every workspace and how they stand.
///
/// # Errors
/// As [`progress`].
pub async fn progress_of_all(archive: &dyn Archive) -> Result<Vec<(TeamId, GapProgress)>, ArchiveError> {
    let mut gaps = Vec::new();
    for row in query_all(archive, Query::partition(key::TEAMS)).await? {
        if let Ok(team) = TeamId::parse(&row.key.timestamp) {
            gaps.extend(progress(archive, &team).await?.into_iter().map(|gap| (team.clone(), gap)));
        }
    }
    gaps.sort_by(|(_, one), (_, other)| one.gap.cmp(&other.gap));
    Ok(gaps)
}

/// When the app is known to have been in a channel again: it was told to have joined, or a message was delivered from
/// there. The second is for a join that was missed, since it may have come in a time without events.
pub(crate) async fn back_in(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    from: &Ts,
) -> Result<Vec<Ts>, ArchiveError> {
    let join = joined_after(archive, team, channel, from).await?;
    let post = first_post(archive, team, channel, from).await?;
    Ok(join.into_iter().chain(post).collect())
}

/// When the app was first told after this time that it has joined a channel.
async fn joined_after(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    from: &Ts,
) -> Result<Option<Ts>, ArchiveError> {
    let joins = key::joins(team, channel);
    let after = Some(ItemKey::new(joins.clone(), from.padded()));
    let join = archive.query(&Query { after, limit: 1, ..Query::partition(joins) }).await?;
    Ok(join.items.first().and_then(|join| unpadded(&join.key.timestamp)))
}

/// When events are known to have come again: the first message from any channel, and the first event that a later run of
/// ingest took.
async fn back_at_work(
    archive: &dyn Archive,
    team: &TeamId,
    runs: &[RunSpan],
    from: &Ts,
) -> Result<Vec<Ts>, ArchiveError> {
    let mut signs: Vec<Ts> = runs.iter().map(|run| run.first.clone()).collect();
    for channel in history::marked(archive, team).await?.iter().take(MAX_CHANNELS) {
        signs.extend(first_post(archive, team, channel, from).await?);
    }
    Ok(signs)
}

/// The first message after this time that came as it was posted. Messages from history prove nothing, so the search goes
/// on behind the span that they fill.
pub(crate) async fn first_post(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
    from: &Ts,
) -> Result<Option<Ts>, ArchiveError> {
    let partition = key::messages(team, channel);
    let after = Some(ItemKey::new(partition.clone(), from.as_str()));
    let mut query = Query { after, limit: FIRST_PAGE, ..Query::partition(partition.clone()) };
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
            behind_span = spans.filter(|span| span.interval().contains(ts.micros())).map(last_key).max();
            if behind_span.is_some() {
                break;
            }
        }
        query.after = match (behind_span, page.next) {
            (Some(last), _) => Some(ItemKey::new(partition.clone(), last)),
            (None, Some(next)) if looked_at < MAX_MESSAGES => Some(next),
            (None, Some(_) | None) => return Ok(None),
        };
        query.limit = PAGE;
    }
}

/// When a message was posted whose content is from Slack's history.
fn from_history(row: &Item) -> Option<Ts> {
    let is_from_history = message::stored_version(row)?.clock() == version::zero();
    is_from_history.then(|| Ts::parse(&row.key.timestamp).ok()).flatten()
}

/// The greatest key that a message of a span can have. Ten digits of seconds, as every timestamp since 2001 has.
fn last_key(span: &FilledSpan) -> String {
    let micros = span.to.micros() - 1;
    format!("{:010}.{:06}", micros / 1_000_000, micros % 1_000_000)
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
    Ok(filled::spans(&facts))
}

#[cfg(test)]
#[path = "gaps_tests.rs"]
mod tests;
