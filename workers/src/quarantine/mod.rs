//! Jobs that wait for a person: rows `quarantine#{queue}` in the archive, until they are replayed or dropped.
//!
//! * [`aside`] holds jobs that wait for something else than a person: rows `waiting#{queue}#{team}`.
//! * [`turns`] reads these jobs and sends them back; [`row`] writes the row of either kind.
//! * [`bounds`] limits how many jobs of a day are kept completely, and how many as an outline; [`counted`]
//!   counts the others.
//! * [`erased`] keeps jobs with erased content out.
//! * [`filter`] selects jobs; [`listed`] reads them in order.
//! * [`redaction`] removes secrets from a displayed job; [`Loss`] is the gap that a dropped job leaves.

pub(crate) mod aside;
mod bounds;
mod counted;
mod erased;
mod filter;
mod listed;
mod loss;
pub mod redaction;
mod row;
pub(crate) mod turns;

use futures_util::future::join_all;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Item, ItemKey, Query, Update};
use ports::clock::{Clock, TimestampMs};
use ports::queue::job::{Job, Origin, Trial};
use ports::queue::topology::QUEUES;
use ports::queue::{DedupId, Delivery, GroupId, Outgoing, Queue, QueueError, QueueName, QueueRef};
use rules::waiting::REASON;
use serde_json::Value;
use slack::envelope::Envelope;
use slack::event::EventHeader;
use slack::ids::TeamId;

use crate::runtime::Ports;
use bounds::Keeping;
use listed::JobOrder;
use row::JobRow;

pub use filter::QuarantineFilter;
pub use listed::{count_matching, for_each, list, read_page};
pub(crate) use listed::{partitions, read_page_of};
pub use loss::{Loss, loss};
pub use turns::release as release_waiting;

const FIRST_SEEN: &str = "first_seen";
const LAST_SEEN: &str = "last_seen";
const MESSAGE_ID: &str = "message_id";

/// Jobs read in one query: each may take a mebibyte.
const READ_AT_ONCE: usize = 50;

/// Set if the payload is only an outline of the job.
const WITHHELD: &str = "withheld";

/// A job in quarantine.
#[derive(Debug, Clone)]
pub struct Quarantined {
    /// The ID that people type.
    pub id: String,
    /// The queue it came from, and to which a replay sends it.
    pub queue: QueueName,
    /// Its message group.
    pub group: String,
    /// The reason of the quarantine.
    pub reason: String,
    /// The number of times it was received.
    pub attempts: u64,
    /// When it was sent, in milliseconds since the Unix epoch.
    pub first_seen: TimestampMs,
    /// When it was last quarantined.
    pub last_seen: TimestampMs,
    /// The job, without Slack's verification token. It may contain other secrets: use [`redaction`] to
    /// display it.
    pub payload: String,
    item: Item,
}

/// The reason why a job cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum QuarantineError {
    /// The archive could not be read or written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The job could not be sent.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The body was not kept.
    #[error(
        "its body was not kept, since too much was put in quarantine that day: `annalist quarantine drop` removes it, and \
         `annalist gaps` then shows what is lost"
    )]
    Withheld,
}

/// Quarantines a job. The row's key consists of the job's first sent time and message ID, which a replayed
/// job keeps: if it fails again, it updates its row instead of adding another.
///
/// # Errors
/// If the row may not be durable; the job must then not be acked.
pub async fn insert(
    ports: &Ports,
    queue: QueueRef,
    delivery: &Delivery,
    reason: &str,
) -> Result<(), ArchiveError> {
    insert_all(ports, queue, &[(delivery, reason)]).await.pop().unwrap_or(Ok(()))
}

/// Quarantines many jobs, each with its reason; returns one result per job, in their order. Beyond the daily
/// limit of complete jobs, a row contains an outline of the job, its size and a hash; beyond the limit of
/// such rows, jobs are only counted, and gaps record when something is missing. A replayed job is always kept
/// completely. A job with erased content gets no row.
pub async fn insert_all(
    ports: &Ports,
    queue: QueueRef,
    jobs: &[(&Delivery, &str)],
) -> Vec<Result<(), ArchiveError>> {
    let dropped = match erased::drop_erased(&*ports.archive, queue, jobs).await {
        Ok(dropped) => dropped,
        Err(error) => return vec![Err(error); jobs.len()],
    };
    let kept = jobs.iter().zip(&dropped).filter(|(_, dropped)| !**dropped);
    let kept: Vec<(&Delivery, &str)> = kept.map(|(job, _)| *job).collect();
    let mut written = insert_kept(ports, queue, &kept).await.into_iter();
    let results = dropped.into_iter();
    results.map(|dropped| if dropped { Ok(()) } else { written.next().unwrap_or(Ok(())) }).collect()
}

async fn insert_kept(
    ports: &Ports,
    queue: QueueRef,
    jobs: &[(&Delivery, &str)],
) -> Vec<Result<(), ArchiveError>> {
    let origins: Vec<Option<Origin>> = jobs.iter().map(|(delivery, _)| Origin::of(&delivery.body)).collect();
    let counted = jobs.iter().zip(&origins).filter(|(_, origin)| origin.is_none());
    let sizes: Vec<_> = counted
        .map(|((delivery, _), _)| (aside::team_of_group(&delivery.group), delivery.body.len()))
        .collect();
    let mut kept = match bounds::keep(&*ports.archive, ports.clock.now(), &sizes).await {
        Ok(kept) => kept.into_iter(),
        Err(error) => return vec![Err(error); jobs.len()],
    };
    let mut keep_one = |origin: &Option<Origin>| match origin {
        Some(_) => Keeping::Whole,
        None => kept.next().unwrap_or(Keeping::Outline),
    };
    let keepings: Vec<Keeping> = origins.iter().map(&mut keep_one).collect();
    let excess = jobs.iter().zip(&keepings).filter(|(_, keeping)| **keeping == Keeping::Number);
    let excess: Vec<(&Delivery, &str)> = excess.map(|(job, _)| *job).collect();
    let counted = &counted::count_jobs(ports, queue, &excess).await;
    let rows =
        jobs.iter().zip(origins).zip(keepings).map(|(((delivery, reason), origin), keeping)| async move {
            match keeping {
                Keeping::Number => counted.clone(),
                Keeping::Whole | Keeping::Outline => {
                    let row =
                        JobRow { partition: partition(queue.name), kind: "quarantine", extra: Vec::new() };
                    row.put(ports, queue, delivery, reason, origin, keeping == Keeping::Whole).await
                }
            }
        });
    join_all(rows).await
}

/// The number of jobs in quarantine, including those that were only counted.
pub async fn count(archive: &dyn Archive) -> Result<u64, ArchiveError> {
    let mut jobs = 0;
    for spec in &QUEUES {
        let mut query = Query { limit: READ_AT_ONCE, ..Query::partition(partition(spec.name)) };
        loop {
            let page = archive.query(&query).await?;
            jobs += page.items.iter().map(|row| counted::job_count(row).max(1)).sum::<u64>();
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
    Ok(jobs)
}

/// The job with this ID, if it is in quarantine.
pub async fn find(archive: &dyn Archive, id: &str) -> Result<Option<Quarantined>, ArchiveError> {
    let Some((label, timestamp)) = id.split_once('-') else { return Ok(None) };
    let Some(queue) = QueueName::from_label(label) else { return Ok(None) };
    let item = archive.get(&ItemKey::new(partition(queue), timestamp)).await?;
    Ok(item.map(|item| Quarantined::read(queue, item)))
}

/// Sends a job back to its queue under a new deduplication ID, then removes its row unless the job has failed
/// again meanwhile. A crash in between leaves both, which is harmless.
///
/// # Errors
/// [`QuarantineError`]; the row stays unless both steps succeeded.
pub async fn replay(
    queue: &dyn Queue,
    archive: &dyn Archive,
    clock: &dyn Clock,
    job: &Quarantined,
) -> Result<(), QuarantineError> {
    if job.item.has_flag(WITHHELD) {
        return Err(QuarantineError::Withheld);
    }
    let now_ms = clock.now().0;
    let outgoing = Outgoing {
        queue: job.queue,
        group: GroupId::from(job.group.clone()),
        // Includes a random part: a job may fail and be replayed again within a millisecond, which is another
        // message.
        dedup: DedupId::from_parts(&[
            b"replay",
            job.id.as_bytes(),
            &now_ms.to_be_bytes(),
            &fastrand::u64(..).to_be_bytes(),
        ]),
        body: with_origin(job, 0, None),
    };
    for sent in queue.send(vec![outgoing]).await {
        sent?;
    }
    archive.delete_unchanged(&job.item).await?;
    Ok(())
}

/// Removes a job permanently, after writing the gap that it leaves. Returns whether it was still there
/// unchanged.
pub async fn discard(archive: &dyn Archive, job: &Quarantined) -> Result<bool, ArchiveError> {
    if archive.get(&job.item.key).await?.as_ref() != Some(&job.item) {
        return Ok(false);
    }
    write_loss(archive, job).await?;
    archive.delete_unchanged(&job.item).await
}

/// Writes what shows that the content of a job is missing: a gap, or the state of a file.
async fn write_loss(archive: &dyn Archive, job: &Quarantined) -> Result<(), ArchiveError> {
    if let Some(Loss { team, gap, .. }) = loss(archive, job).await? {
        archive.write(&gap).await?;
        // Readers then find the workspace, even if this is its first row.
        archive.write(&Update::mark(ItemKey::team(&team))).await?;
    } else if job.is_unreadable() {
        loss::note_hours(archive, &[(&job.payload, job.first_seen)]).await?;
    }
    loss::note_missing_file(archive, &job.payload).await
}

/// Removes a job that leaves no gap. Returns whether it was still there unchanged.
pub async fn remove(archive: &dyn Archive, job: &Quarantined) -> Result<bool, ArchiveError> {
    archive.delete_unchanged(&job.item).await
}

fn partition(queue: QueueName) -> String {
    ports::archive::key::quarantine(queue)
}

/// A time as stored in a row: its text order is the order in time.
fn register(time_ms: i64) -> String {
    format!("{time_ms:013}")
}

/// A time of a row. Rows of older versions contain the first one as a number.
fn time(item: &Item, name: &str) -> TimestampMs {
    let text = item.text(name).and_then(|time| time.parse().ok());
    let number = || item.attributes.get(name).and_then(Value::as_i64);
    TimestampMs(text.or_else(number).unwrap_or_default())
}

impl Quarantined {
    fn read(queue: QueueName, item: Item) -> Self {
        let text = |name| item.text(name).unwrap_or_default().to_owned();
        let number = |name| item.attributes.get(name).and_then(Value::as_i64).unwrap_or_default();
        Self {
            id: format!("{queue}-{}", item.key.timestamp),
            queue,
            group: text("group"),
            reason: text(REASON),
            attempts: u64::try_from(number("attempts")).unwrap_or_default(),
            first_seen: time(&item, FIRST_SEEN),
            last_seen: time(&item, LAST_SEEN),
            payload: text("payload"),
            item,
        }
    }

    /// The id that the queue gave the job.
    fn message_id(&self) -> Option<&str> {
        self.item.text(MESSAGE_ID)
    }

    /// The order in which jobs were sent. Within one millisecond, the message number decides on a queue with
    /// sequential IDs, and Slack's clock on a queue with random IDs.
    fn order(&self) -> JobOrder {
        let message_id = self.message_id().unwrap_or_default();
        let clock = || EventHeader::read(Envelope::peek(self.event()?.as_bytes()).ok()?.event?).clock();
        (self.first_seen, message_id.parse().ok(), clock(), message_id.to_owned())
    }

    /// The workspace that its body names.
    pub fn team(&self) -> Option<TeamId> {
        filter::team_of(&self.payload)
    }

    /// Whether it is a request without a readable workspace or event: dropping it makes the whole hour a gap.
    pub fn is_unreadable(&self) -> bool {
        // The outline of another job may look like the outline of a request.
        let carries_events = matches!(self.queue, QueueName::Events | QueueName::Channels);
        carries_events && self.event().is_some() && loss::read(self).is_none()
    }

    /// The request in the job, if it carries one.
    fn event(&self) -> Option<&str> {
        Some(Job::decode(&self.payload).ok()?.event()?.get())
    }
}

/// The job with its origin, so that a second failure updates the row of the first.
fn with_origin(quarantined: &Quarantined, trips: u32, trial: Option<Trial>) -> String {
    let Ok(job) = Job::decode(&quarantined.payload) else { return quarantined.payload.clone() };
    let message_id = quarantined.message_id().unwrap_or_default().to_owned();
    let origin = Some(Origin { sent_at_ms: quarantined.first_seen.0, message_id, trips, trial });
    Job { origin, ..job }.encode().unwrap_or_else(|_| quarantined.payload.clone())
}
