//! Reads the jobs that wait aside, and sends them back.

use futures_util::future::join_all;
use metrics::counter;
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key};
use ports::clock::TimestampMs;
use ports::metrics::JOBS_RELEASED;
use ports::queue::job::{Job, Origin, Trial};
use ports::queue::waiting::WaitCause;
use ports::queue::{DedupId, Delivery, GroupId, MessageId, Outgoing, QueueError, QueueName, Receipt};
use rules::waiting::{CAUSE, NewWait, WaitState};
use serde_json::Value;
use slack::ids::TeamId;

use super::aside::{TRIPS, read_state, states};
use super::row::sort_key;
use super::{QuarantineFilter, Quarantined, READ_AT_ONCE, insert, with_origin};
use crate::failure::PortError;
use crate::runtime::Ports;

/// The payloads that a turn reads and sends at most.
const MAX_TURN_BYTES: usize = 16 * 1024 * 1024;

/// The rows that a turn reads at most to find those of one cause among those of others.
const MAX_SCANNED: usize = 1_000;

pub(crate) struct WaitingJob {
    job: Quarantined,
    cause: Option<WaitCause>,
}

/// A page of a workspace's waiting jobs of a queue, in the order of their keys.
async fn page(
    archive: &dyn Archive,
    (queue, team): (QueueName, &TeamId),
    after: Option<ItemKey>,
    until: Option<String>,
    limit: usize,
) -> Result<(Vec<WaitingJob>, Option<ItemKey>), ArchiveError> {
    let query = Query { after, until, limit, ..Query::partition(key::waiting(queue, team)) };
    let page = archive.query(&query).await?;
    Ok((page.items.into_iter().map(|item| WaitingJob::read(queue, item)).collect(), page.next))
}

impl WaitingJob {
    fn read(queue: QueueName, item: Item) -> Self {
        let cause = item.text(CAUSE).and_then(WaitCause::from_label);
        Self { job: Quarantined::read(queue, item), cause }
    }

    /// What it waits for; `None` if the row cannot be read.
    fn cause(&self) -> Option<WaitCause> {
        self.cause.filter(|_| Job::decode(&self.job.payload).is_ok())
    }

    /// It as a job that is set aside now; `None` if the row cannot be read.
    fn as_new(&self) -> Option<NewWait> {
        Some(NewWait {
            cause: self.cause()?,
            reason: self.job.reason.clone(),
            sent_at_ms: self.job.first_seen.0,
            bytes: self.job.payload.len(),
            trial: None,
        })
    }

    /// The message that sends the job back, in a turn or because a person wants it.
    fn message(&self, trial: Option<Trial>) -> Outgoing {
        let trips = self.job.item.attributes.get(TRIPS).and_then(Value::as_u64);
        let trips = trips.and_then(|trips| u32::try_from(trips).ok()).unwrap_or_default();
        // The queue drops a second message with the same id, so each time that the job is set aside needs another.
        let (why, number) = match trial {
            Some(trial) => (&b"trial"[..], trial.turn.to_be_bytes()),
            None => (&b"released"[..], self.job.last_seen.0.to_be_bytes()),
        };
        Outgoing {
            queue: self.job.queue,
            group: GroupId::from(self.job.group.clone()),
            dedup: DedupId::from_parts(&[why, self.job.id.as_bytes(), &number]),
            body: with_origin(&self.job, trips, trial),
        }
    }

    /// Moves a job whose row cannot be read to quarantine.
    async fn quarantine(&self, ports: &Ports) -> Result<(), ArchiveError> {
        let job = &self.job;
        let delivery = Delivery {
            message_id: MessageId(job.message_id().unwrap_or("unknown").to_owned()),
            group: GroupId::from(job.group.clone()),
            body: job.payload.clone(),
            receive_count: u32::try_from(job.attempts).unwrap_or(u32::MAX),
            sent_at: job.first_seen,
            receipt: Receipt(String::new()),
        };
        let reason = format!("the row of a waiting job cannot be read: {}", job.reason);
        insert(ports, job.queue.into(), &delivery, &reason).await?;
        ports.archive.delete_unchanged(&job.item).await.map(drop)
    }
}

/// The jobs of a turn for one cause.
pub(crate) struct TurnJobs {
    /// In the order in which they were first sent.
    pub(crate) jobs: Vec<WaitingJob>,
    /// The sort key after which the next turn begins; empty for the beginning.
    pub(crate) after: String,
}

/// Reads up to `max` jobs that wait for this cause, from the one after the sort key `after` on, or from the
/// beginning if no such job is left. Jobs that wait for their order are only returned while no older job waits for
/// something else. Rows that cannot be read are moved to quarantine.
pub(crate) async fn next_jobs(
    ports: &Ports,
    (queue, team): (QueueName, &TeamId),
    cause: WaitCause,
    after: &str,
    max: usize,
) -> Result<TurnJobs, ArchiveError> {
    let is_order = cause == WaitCause::Order;
    let mut from = (!after.is_empty() && !is_order).then(|| ItemKey::new(key::waiting(queue, team), after));
    let mut is_from_beginning = from.is_none();
    let mut found = TurnJobs { jobs: Vec::new(), after: String::new() };
    let (mut scanned, mut bytes) = (0, 0);
    loop {
        let (jobs, next) = page(&*ports.archive, (queue, team), from, None, READ_AT_ONCE).await?;
        scanned += jobs.len();
        for job in jobs {
            let sort_key = job.job.item.key.timestamp.clone();
            match job.cause() {
                Some(other) if other == cause => {
                    bytes += job.job.payload.len();
                    if found.jobs.len() >= max || (bytes > MAX_TURN_BYTES && !found.jobs.is_empty()) {
                        return Ok(found.in_order());
                    }
                    found.jobs.push(job);
                }
                Some(_) if is_order => return Ok(found.in_order()),
                Some(_) => {}
                None => job.quarantine(ports).await?,
            }
            found.after = sort_key;
        }
        match next {
            Some(_) if scanned >= MAX_SCANNED => return Ok(found.in_order()),
            Some(next) => from = Some(next),
            None if is_from_beginning || !found.jobs.is_empty() => {
                found.after.clear();
                return Ok(found.in_order());
            }
            None => (from, is_from_beginning) = (None, true),
        }
    }
}

impl TurnJobs {
    fn in_order(mut self) -> Self {
        self.jobs.sort_by_cached_key(|job| job.job.order());
        self
    }
}

/// The oldest waiting job, as if it were new. Rows before it that cannot be read are moved to quarantine.
pub(crate) async fn oldest(
    ports: &Ports,
    queue: QueueName,
    team: &TeamId,
) -> Result<Option<NewWait>, ArchiveError> {
    loop {
        let (jobs, _) = page(&*ports.archive, (queue, team), None, None, 1).await?;
        let Some(job) = jobs.into_iter().next() else { return Ok(None) };
        match job.as_new() {
            Some(new) => return Ok(Some(new)),
            None => job.quarantine(ports).await?,
        }
    }
}

/// Whether a job that was first sent before `before` waits for something else than its order.
async fn has_older(
    archive: &dyn Archive,
    (queue, team): (QueueName, &TeamId),
    before: &Origin,
) -> Result<bool, ArchiveError> {
    let until = Some(sort_key(before.sent_at_ms, &before.message_id));
    let mut after = None;
    loop {
        let (jobs, next) = page(archive, (queue, team), after, until.clone(), READ_AT_ONCE).await?;
        if jobs.iter().any(|job| job.cause != Some(WaitCause::Order)) {
            return Ok(true);
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(false),
        }
    }
}

/// Whether jobs of this workspace that are older than a job wait, or may be behind it on the queue: what they
/// write may decide on it.
pub(crate) async fn is_behind_waiting(
    archive: &dyn Archive,
    queue: QueueName,
    team: &TeamId,
    (sent_at, origin): (TimestampMs, Option<&Origin>),
) -> Result<bool, ArchiveError> {
    let state = read_state(archive, queue, team).await?;
    match origin {
        // It was sent back behind the older jobs of its group.
        Some(origin) => Ok(state.waits && has_older(archive, (queue, team), origin).await?),
        None => Ok(state.holds(sent_at)),
    }
}

/// Whether waiting jobs of this workspace are tried again soon, so that events need not try.
pub(crate) async fn is_tried_aside(archive: &dyn Archive, team: &TeamId, now: TimestampMs) -> bool {
    let keys = [QueueName::Events, QueueName::Channels].map(|queue| ItemKey::waiting(queue, team));
    // If the archive fails, the event fails too.
    let rows = archive.get_all(&[&keys[0], &keys[1]]).await.unwrap_or_default();
    rows.iter().flatten().filter_map(WaitState::read).any(|state| state.waits && !state.is_overdue(now))
}

/// Sends jobs back to their queue, and removes the row of each that was sent.
pub(crate) async fn send_back(
    ports: &Ports,
    jobs: Vec<(Option<Trial>, WaitingJob)>,
) -> Result<(), PortError> {
    let messages = jobs.iter().map(|(trial, job)| job.message(*trial)).collect();
    let sent = ports.queue.send(messages).await;
    let removals = jobs.iter().zip(&sent).filter(|(_, sent)| sent.is_ok()).map(async |((_, job), _)| {
        // A row that changed belongs to a job that has come back already.
        ports.archive.delete_unchanged(&job.job.item).await?;
        counter!(JOBS_RELEASED, "queue" => job.job.queue.spec().label).increment(1);
        Ok::<_, ArchiveError>(())
    });
    for removed in join_all(removals).await {
        removed?;
    }
    Ok(sent.into_iter().collect::<Result<(), QueueError>>()?)
}

/// Sends the waiting jobs that match back to their queues now, and tells `sent` after each page how many. A job
/// whose cause persists is set aside again.
///
/// # Errors
/// The queue or the archive failed; what was sent before has left its rows.
pub async fn release(
    ports: &Ports,
    filter: &QuarantineFilter,
    mut sent: impl FnMut(usize),
) -> Result<(), PortError> {
    for state in states(&*ports.archive).await? {
        let Some(queue) = QueueName::from_label(&state.queue).filter(|queue| filter.includes(*queue)) else {
            continue;
        };
        let mut after = None;
        loop {
            let (jobs, next) = page(&*ports.archive, (queue, &state.team), after, None, READ_AT_ONCE).await?;
            let matches = |job: &WaitingJob| job.cause().is_some() && filter.matches(&job.job);
            let jobs: Vec<_> = jobs.into_iter().filter(matches).map(|job| (None, job)).collect();
            let count = jobs.len();
            send_back(ports, jobs).await?;
            sent(count);
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(())
}
