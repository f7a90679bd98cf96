//! Lists the jobs in quarantine.

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key};
use ports::clock::TimestampMs;
use ports::queue::QueueName;
use ports::queue::topology::QUEUES;
use slack::ids::Ts;

use super::{QuarantineFilter, Quarantined, READ_AT_ONCE, aside, partition};

/// The position of a job among others: the time and the number of its first send; if the message ids of its
/// queue are random, the clock of its event.
pub(super) type JobOrder = (TimestampMs, Option<u64>, Option<Ts>, String);

/// All jobs in quarantine, in the order of [`for_each`].
pub async fn list(archive: &dyn Archive) -> Result<Vec<Quarantined>, ArchiveError> {
    let mut found = Vec::new();
    for_each(archive, &QuarantineFilter::default(), async |job| {
        found.push(job);
        Ok::<(), ArchiveError>(())
    })
    .await?;
    Ok(found)
}

/// The number of jobs in quarantine that match.
pub async fn count_matching(archive: &dyn Archive, filter: &QuarantineFilter) -> Result<u64, ArchiveError> {
    let mut matching = 0;
    for spec in QUEUES.iter().filter(|spec| filter.includes(spec.name)) {
        let mut after = None;
        loop {
            let (jobs, next) = read_page(archive, spec.name, after).await?;
            matching += jobs.iter().filter(|job| filter.matches(job)).count() as u64;
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(matching)
}

/// Reads the jobs in quarantine that match, queue by queue, in the order in which they were first sent:
/// replaying a group in this order preserves its order. Some payloads are in memory at once, never all. `each`
/// may remove its job.
///
/// # Errors
/// As [`Archive::query`], and those of `each`.
pub async fn for_each<E: From<ArchiveError>>(
    archive: &dyn Archive,
    filter: &QuarantineFilter,
    mut each: impl AsyncFnMut(Quarantined) -> Result<(), E>,
) -> Result<(), E> {
    for spec in QUEUES.iter().filter(|spec| filter.includes(spec.name)) {
        // The keys begin with the time of the first send. Jobs of one time are sorted among each other.
        let mut of_one_time: Vec<(JobOrder, ItemKey)> = Vec::new();
        let mut after = None;
        loop {
            let (jobs, next) = read_page(archive, spec.name, after).await?;
            for job in jobs.into_iter().filter(|job| filter.matches(job)) {
                let order = job.order();
                if of_one_time.last().is_some_and(|(last, _)| last.0 != order.0) {
                    in_order(archive, spec.name, std::mem::take(&mut of_one_time), &mut each).await?;
                }
                of_one_time.push((order, job.item.key));
            }
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        in_order(archive, spec.name, of_one_time, &mut each).await?;
    }
    Ok(())
}

/// Sorts these jobs, and reads them again page by page.
async fn in_order<E: From<ArchiveError>>(
    archive: &dyn Archive,
    queue: QueueName,
    mut jobs: Vec<(JobOrder, ItemKey)>,
    each: &mut impl AsyncFnMut(Quarantined) -> Result<(), E>,
) -> Result<(), E> {
    jobs.sort_unstable();
    for jobs in jobs.chunks(READ_AT_ONCE) {
        let keys: Vec<&ItemKey> = jobs.iter().map(|(_, key)| key).collect();
        for item in archive.get_all(&keys).await?.into_iter().flatten() {
            each(Quarantined::read(queue, item)).await?;
        }
    }
    Ok(())
}

/// One page of the jobs of a queue in quarantine, in the order of their keys, and the start of the next page. A
/// payload may be large, so a page is small.
pub async fn read_page(
    archive: &dyn Archive,
    queue: QueueName,
    after: Option<ItemKey>,
) -> Result<(Vec<Quarantined>, Option<ItemKey>), ArchiveError> {
    read_page_of(archive, queue, partition(queue), after).await
}

/// The same of a partition of [`partitions`].
pub(crate) async fn read_page_of(
    archive: &dyn Archive,
    queue: QueueName,
    partition: String,
    after: Option<ItemKey>,
) -> Result<(Vec<Quarantined>, Option<ItemKey>), ArchiveError> {
    let query = Query { after, limit: READ_AT_ONCE, ..Query::partition(partition) };
    let found = archive.query(&query).await?;
    Ok((found.items.into_iter().map(|item| Quarantined::read(queue, item)).collect(), found.next))
}

/// All partitions with jobs that are not on a queue: in quarantine, and aside.
pub(crate) async fn partitions(archive: &dyn Archive) -> Result<Vec<(QueueName, String)>, ArchiveError> {
    let states = aside::states(archive).await?;
    let waiting = states.iter().filter_map(|state| {
        let queue = state.queue()?;
        Some((queue, key::waiting(queue, &state.team)))
    });
    Ok(QUEUES.iter().map(|spec| (spec.name, partition(spec.name))).chain(waiting).collect())
}
