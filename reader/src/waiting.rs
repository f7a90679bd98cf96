//! Jobs that wait aside for something outside themselves, such as a token.

use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use ports::clock::TimestampMs;
use ports::queue::QueueName;
use ports::queue::topology::QUEUES;
use ports::queue::waiting::WaitCause;
use rules::waiting::{CAUSE, REASON, WaitState};
use slack::ids::TeamId;

/// Rows of a workspace and queue that are counted at most, so that a count takes a fraction of a second.
const MAX_COUNTED: usize = 10_000;

/// Rows read in one query: each may take a mebibyte.
const READ_AT_ONCE: usize = 100;

/// The jobs of a workspace and queue that wait for the same thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJobs {
    pub team: TeamId,
    pub queue: QueueName,
    pub cause: WaitCause,
    /// How many were counted.
    pub jobs: u64,
    /// Whether there are more.
    pub has_more: bool,
    /// When the oldest of them was sent.
    pub since: TimestampMs,
    /// When the next of them is tried again.
    pub next_try: TimestampMs,
    /// Why they wait.
    pub reason: String,
}

/// Reads what waits in all workspaces.
pub async fn read(archive: &dyn Archive) -> Result<Vec<WaitingJobs>, ArchiveError> {
    let mut waiting = Vec::new();
    for row in query_all(archive, Query::partition(key::waiting_states())).await? {
        if let Some(state) = WaitState::read(&row).filter(|state| state.waits) {
            waiting.extend(count(archive, &state).await?);
        }
    }
    waiting.sort_by(|one, other| {
        (&one.team, one.queue, one.cause).cmp(&(&other.team, other.queue, other.cause))
    });
    Ok(waiting)
}

async fn count(archive: &dyn Archive, state: &WaitState) -> Result<Vec<WaitingJobs>, ArchiveError> {
    let Some(queue) = state.queue() else { return Ok(Vec::new()) };
    let mut query = Query { limit: READ_AT_ONCE, ..Query::partition(key::waiting(queue, &state.team)) };
    let mut counted: BTreeMap<WaitCause, WaitingJobs> = BTreeMap::new();
    let mut rows = 0;
    let has_more = loop {
        let page = archive.query(&query).await?;
        rows += page.items.len();
        for row in &page.items {
            let Some(cause) = row.text(CAUSE).and_then(WaitCause::from_label) else { continue };
            let reason = row.text(REASON).unwrap_or_default();
            let of_cause = state.causes.get(&cause);
            let jobs = counted.entry(cause).or_insert_with(|| WaitingJobs {
                team: state.team.clone(),
                queue,
                cause,
                jobs: 0,
                has_more: false,
                // The rows are in the order in which the jobs were sent.
                since: first_sent(&row.key).unwrap_or_default(),
                next_try: TimestampMs(of_cause.map_or_else(|| state.next_ms(), |cause| cause.next_ms)),
                reason: reason.to_owned(),
            });
            jobs.jobs += 1;
            reason.clone_into(&mut jobs.reason);
        }
        match page.next {
            None => break false,
            Some(_) if rows >= MAX_COUNTED => break true,
            Some(next) => query.after = Some(next),
        }
    };
    Ok(counted.into_values().map(|jobs| WaitingJobs { has_more, ..jobs }).collect())
}

/// The time with which the sort key of a waiting job begins.
fn first_sent(key: &ItemKey) -> Option<TimestampMs> {
    Some(TimestampMs(key.timestamp.split('-').next()?.parse().ok()?))
}

/// Since when events of this workspace have waited, if any does.
pub async fn since(archive: &dyn Archive, team: &TeamId) -> Result<Option<TimestampMs>, ArchiveError> {
    let keys = [QueueName::Events, QueueName::Channels].map(|queue| ItemKey::waiting(queue, team));
    let rows = archive.get_all(&[&keys[0], &keys[1]]).await?;
    let states: Vec<WaitState> = rows.iter().flatten().filter_map(WaitState::read).collect();
    let causes = states.iter().filter(|state| state.waits).flat_map(|state| state.causes.values());
    Ok(causes.filter(|cause| cause.jobs > 0).map(|cause| TimestampMs(cause.first_ms)).min())
}

/// Whether jobs of this workspace have ever waited: it may have nothing else.
pub async fn is_known(archive: &dyn Archive, team: &TeamId) -> Result<bool, ArchiveError> {
    let keys: Vec<ItemKey> = QUEUES.iter().map(|spec| ItemKey::waiting(spec.name, team)).collect();
    Ok(archive.get_all(&keys.iter().collect::<Vec<_>>()).await?.iter().any(Option::is_some))
}
