//! Receives messages, acks them, and changes their visibility.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::{Statement, params};

use super::cache::Memory;
use super::recent::deduplication_key;
use super::{append, label};
use crate::writer::Transaction;
use ports::clock::TimestampMs;
use ports::lease::{MAX_LEASE, has_ended};
use ports::queue::topology::MAX_RECEIVE_COUNT;
use ports::queue::{BatchResult, DedupId, Delivery, GroupId, MessageId, QueueError, QueueRef, Receipt};

/// A receive of at least this size leaves groups to other receives.
const SHARED_FROM: usize = 64;

/// A large receive leases messages from a stretch of the backlog that contains this multiple of its size:
/// enough to fill it from half of the groups, and for the next receive to find the other half.
const STRETCH: usize = 2;

/// The result of a receive.
pub(super) struct Claimed {
    /// Messages that are now leased to the caller.
    pub(super) deliveries: Vec<Delivery>,
    /// When another message may become visible.
    pub(super) visible_in: Option<Duration>,
    /// Number of messages moved to the dead-letter queue, because they were received too often.
    pub(super) dead_letters: usize,
}

/// The state of a message in the tables.
enum MessageState {
    Gone,
    Invisible { until: TimestampMs, foreign: bool },
    Exhausted,
    Deliverable(Delivery),
}

/// One group of a receive.
struct GroupClaim {
    group: GroupId,
    /// Number of its messages that were checked.
    checked: usize,
    gone: Vec<i64>,
    exhausted: Vec<i64>,
    /// Until when its first remaining message is invisible, and whether because of another process.
    blocked: Option<(TimestampMs, bool)>,
}

/// Leases up to `max` messages, each group up to its first invisible message.
pub(super) fn claim(
    transaction: &Transaction<'_>,
    memory: &mut Memory,
    queue: QueueRef,
    max: usize,
    visibility_timeout: Duration,
    owner: i64,
) -> rusqlite::Result<Claimed> {
    let mut claimed = Claimed { deliveries: Vec::new(), visible_in: None, dead_letters: 0 };
    let visible_at = transaction.now.plus(visibility_timeout.min(MAX_LEASE));
    memory.look_ahead(transaction, queue)?;
    // A round may find only messages that other processes have acked; then there may be more behind them.
    while claimed.deliveries.is_empty() && max > 0 && memory.groups(queue).has_ready() {
        let claims =
            lease_messages(transaction, memory, queue, max, visible_at, owner, &mut claimed.deliveries)?;
        for group in claims {
            for seq in &group.exhausted {
                move_to_dead_letters(transaction, memory, queue, &group.group, *seq)?;
            }
            claimed.dead_letters += group.exhausted.len();
            memory.forget(queue, &group.group, &group.exhausted);
            memory.forget(queue, &group.group, &group.gone);
            match group.blocked {
                Some((until, foreign)) => memory.groups(queue).block(&group.group, until, foreign),
                None => memory.groups(queue).make_ready(&group.group),
            }
        }
    }
    claimed.visible_in = memory.groups(queue).next_wake().map(|until| until.since(transaction.now));
    Ok(claimed)
}

/// Leases messages in the order in which they were sent, regardless of their groups: neighbours share pages,
/// so reading and later deleting them together touches each page once. A large receive that can be half
/// filled from half of the ready groups leaves the others to the next receive, so that consumers share a
/// backlog. It leases no messages beyond its own stretch of the backlog: otherwise groups with few messages
/// would run far ahead of those with many, and every page between them would be written once for each.
fn lease_messages(
    transaction: &Transaction<'_>,
    memory: &mut Memory,
    queue: QueueRef,
    max: usize,
    visible_at: TimestampMs,
    owner: i64,
    deliveries: &mut Vec<Delivery>,
) -> rusqlite::Result<Vec<GroupClaim>> {
    let groups = memory.groups(queue);
    let (mut max_groups, end) = if max >= SHARED_FROM {
        (groups.ready_groups().div_ceil(2), groups.stretch_end(STRETCH.saturating_mul(max)))
    } else {
        (usize::MAX, i64::MAX)
    };
    let mut select = transaction.connection.prepare_cached(SELECT_MESSAGE)?;
    let mut lease = transaction.connection.prepare_cached(LEASE_MESSAGE)?;
    let queue_label = label(queue);
    let mut claims: Vec<GroupClaim> = Vec::new();
    let mut next: BTreeSet<(i64, usize)> = BTreeSet::new();
    while deliveries.len() < max {
        let groups = memory.groups(queue);
        let first_claimed = next.first().map(|(seq, _)| *seq);
        let first_ready = groups.first_ready().filter(|head| *head < end && claims.len() < max_groups);
        if first_ready.is_some_and(|ready| first_claimed.is_none_or(|first| ready < first))
            && let Some(group) = groups.next_ready()
        {
            if let Some(head) = groups.seq_at(&group, 0) {
                next.insert((head, claims.len()));
            }
            let (gone, exhausted) = (Vec::new(), Vec::new());
            claims.push(GroupClaim { group, checked: 0, gone, exhausted, blocked: None });
            continue;
        }
        let Some((seq, index)) = next.pop_first().filter(|(seq, _)| *seq < end) else {
            if max_groups == usize::MAX || deliveries.len() >= max.div_ceil(2) {
                break;
            }
            // Half of the groups did not half fill the receive.
            max_groups = usize::MAX;
            continue;
        };
        let claim = &mut claims[index];
        claim.checked += 1;
        match message_state(&mut select, transaction.now, queue, &claim.group, seq, owner)? {
            MessageState::Gone => claim.gone.push(seq),
            MessageState::Exhausted => claim.exhausted.push(seq),
            MessageState::Invisible { until, foreign } => {
                // No later message of the group may be delivered.
                claim.blocked = claim.blocked.or(Some((until, foreign)));
                continue;
            }
            MessageState::Deliverable(delivery) => {
                lease.execute(params![seq, queue_label, visible_at.0, delivery.receive_count, owner])?;
                memory.lease(seq, claim.group.clone());
                claim.blocked = claim.blocked.or(Some((visible_at, false)));
                deliveries.push(delivery);
            }
        }
        if let Some(following) = memory.groups(queue).seq_at(&claim.group, claim.checked) {
            next.insert((following, index));
        }
    }
    Ok(claims)
}

const SELECT_MESSAGE: &str =
    "SELECT jobs.sent_at_ms, leases.visible_at_ms, leases.receive_count, leases.owner, jobs.body
     FROM jobs LEFT JOIN leases ON leases.seq = jobs.seq WHERE jobs.seq = ?1";

const LEASE_MESSAGE: &str =
    "INSERT INTO leases (seq, queue, visible_at_ms, receive_count, owner) VALUES (?1, ?2, ?3, ?4, ?5)
     ON CONFLICT (seq) DO UPDATE SET (queue, visible_at_ms, receive_count, owner) =
         (excluded.queue, excluded.visible_at_ms, excluded.receive_count, excluded.owner)";

fn message_state(
    select: &mut Statement<'_>,
    now: TimestampMs,
    queue: QueueRef,
    group: &GroupId,
    seq: i64,
    owner: i64,
) -> rusqlite::Result<MessageState> {
    let mut rows = select.query([seq])?;
    let Some(row) = rows.next()? else { return Ok(MessageState::Gone) };
    let sent_at = TimestampMs(row.get(0)?);
    let delay = if queue.dead_letters { Duration::ZERO } else { queue.name.spec().delay };
    let delayed_until = sent_at.plus(delay);
    if !delay.is_zero() && !has_ended(delayed_until, now) {
        return Ok(MessageState::Invisible { until: delayed_until, foreign: false });
    }
    let receive_count: u32 = match row.get::<_, Option<i64>>(1)?.map(TimestampMs) {
        Some(until) if !has_ended(until, now) => {
            let foreign = row.get::<_, i64>(3)? != owner;
            return Ok(MessageState::Invisible { until, foreign });
        }
        Some(_) => row.get(2)?,
        None => 0,
    };
    // Dead letters are not moved again.
    if receive_count >= MAX_RECEIVE_COUNT && !queue.dead_letters {
        return Ok(MessageState::Exhausted);
    }
    let receive_count = receive_count.saturating_add(1);
    Ok(MessageState::Deliverable(Delivery {
        message_id: MessageId(seq.to_string()),
        group: group.clone(),
        body: row.get(4)?,
        receive_count,
        sent_at,
        receipt: Receipt(format!("{seq}-{receive_count}")),
    }))
}

/// Moves a message to the dead-letter queue, as a new message.
fn move_to_dead_letters(
    transaction: &Transaction<'_>,
    memory: &mut Memory,
    queue: QueueRef,
    group: &GroupId,
    seq: i64,
) -> rusqlite::Result<()> {
    let body: String = transaction
        .connection
        .prepare_cached("SELECT body FROM jobs WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0))?;
    delete(transaction, seq)?;
    let dead_letters = QueueRef::dead_letters(queue.name);
    let key = deduplication_key(&DedupId::from_parts(&[label(queue).as_bytes(), &seq.to_be_bytes()]));
    let new_seq = memory.next_seq()?;
    let now_ms = transaction.now.0;
    append(transaction.connection, new_seq, &label(dead_letters), &key, group.as_str(), now_ms, &body)
}

fn delete(transaction: &Transaction<'_>, seq: i64) -> rusqlite::Result<()> {
    transaction.connection.prepare_cached("DELETE FROM leases WHERE seq = ?1")?.execute([seq])?;
    transaction.connection.prepare_cached("DELETE FROM jobs WHERE seq = ?1")?.execute([seq])?;
    Ok(())
}

/// Removes messages whose leases are still valid.
pub(super) fn ack(
    transaction: &Transaction<'_>,
    memory: &mut Memory,
    queue: QueueRef,
    receipts: &[Receipt],
) -> rusqlite::Result<BatchResult> {
    let mut acked = Vec::with_capacity(receipts.len());
    let mut results = Vec::with_capacity(receipts.len());
    let queue_label = label(queue);
    let mut end_lease = transaction.connection.prepare_cached(
        "DELETE FROM leases WHERE seq = ?1 AND receive_count = ?2 AND queue = ?3 AND visible_at_ms > ?4",
    )?;
    let mut delete_job = transaction.connection.prepare_cached("DELETE FROM jobs WHERE seq = ?1")?;
    for receipt in receipts {
        let leased = match parse(receipt) {
            Some((seq, receive_count)) => {
                let ended = end_lease.execute(params![seq, receive_count, queue_label, transaction.now.0])?;
                (ended == 1).then_some(seq)
            }
            None => None,
        };
        results.push(match leased {
            Some(seq) => {
                delete_job.execute([seq])?;
                acked.push(seq);
                Ok(())
            }
            None => Err(QueueError::LeaseLost),
        });
    }
    memory.mark_acked(queue, &acked);
    Ok(results)
}

/// Changes the end of leases that are still valid.
pub(super) fn change_visibility(
    transaction: &Transaction<'_>,
    memory: &mut Memory,
    queue: QueueRef,
    entries: &[(Receipt, Duration)],
) -> rusqlite::Result<BatchResult> {
    let mut results = Vec::with_capacity(entries.len());
    for (receipt, timeout) in entries {
        let changed = match parse(receipt) {
            Some((seq, receive_count)) => {
                let changed = transaction
                    .connection
                    .prepare_cached(
                        "UPDATE leases SET visible_at_ms = ?1
                         WHERE seq = ?2 AND receive_count = ?3 AND queue = ?4 AND visible_at_ms > ?5",
                    )?
                    .execute(params![
                        transaction.now.plus((*timeout).min(MAX_LEASE)).0,
                        seq,
                        receive_count,
                        label(queue),
                        transaction.now.0
                    ])?;
                memory.mark_released(queue, seq);
                changed
            }
            None => 0,
        };
        results.push(if changed == 1 { Ok(()) } else { Err(QueueError::LeaseLost) });
    }
    Ok(results)
}

/// Parses a receipt: the message and its receive count. A later receive invalidates it.
fn parse(receipt: &Receipt) -> Option<(i64, u32)> {
    let (seq, receive_count) = receipt.0.split_once('-')?;
    Some((seq.parse().ok()?, receive_count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use ports::clock::{Clock, SystemClock};
    use ports::queue::{Depth, Outgoing, QueueName, ReceiveRequest};

    use super::*;
    use crate::Database;

    fn job(queue: QueueName, group: &str, number: usize) -> Outgoing {
        Outgoing {
            queue,
            group: GroupId::from_parts(&["T1", group]),
            dedup: DedupId::from_parts(&[&number.to_be_bytes()]),
            body: number.to_string(),
        }
    }

    /// The numbers of the events that the last of several large receives returns.
    async fn received_by(receives: usize, max: usize, jobs: Vec<Outgoing>) -> Vec<usize> {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
        for sent in database.queue().send(jobs).await {
            sent.unwrap();
        }
        let (visibility_timeout, wait) = (Duration::from_secs(60), Duration::ZERO);
        let request = ReceiveRequest { queue: QueueName::Events.into(), max, visibility_timeout, wait };
        let mut received = Vec::new();
        for _ in 0..receives {
            received = database.queue().receive(request).await.unwrap();
        }
        database.close().await;
        received.iter().map(|delivery| delivery.body.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn concurrent_large_receives_share_one_stretch() {
        let group = |number: usize| format!("C{}", number % 30);
        let jobs = || (0..1_000).map(|number| job(QueueName::Events, &group(number), number)).collect();
        for (receives, groups) in [(1, 15), (2, 8)] {
            let received = received_by(receives, 100, jobs()).await;
            let received_groups: BTreeSet<usize> = received.iter().map(|number| number % 30).collect();
            assert!(received.len() >= 50 && received_groups.len() == groups, "{received:?}");
            assert!(received.iter().all(|number| *number < 230), "{received:?}");
        }
    }

    /// A clock that a test sets.
    struct AdjustableClock(AtomicI64);

    impl AdjustableClock {
        fn set(&self, hours: i64, seconds: i64) {
            self.0.store(1_700_000_000_000 + (hours * 3_600 + seconds) * 1_000, Ordering::SeqCst);
        }
    }

    impl Clock for AdjustableClock {
        fn now(&self) -> TimestampMs {
            TimestampMs(self.0.load(Ordering::SeqCst))
        }
    }

    async fn receive(database: &Database, queue: QueueName, max: usize, lease_s: u64) -> Vec<Delivery> {
        let (visibility_timeout, wait) = (Duration::from_secs(lease_s), Duration::ZERO);
        let request = ReceiveRequest { queue: queue.into(), max, visibility_timeout, wait };
        database.queue().receive(request).await.unwrap()
    }

    fn bodies(deliveries: &[Delivery]) -> Vec<&str> {
        deliveries.iter().map(|delivery| delivery.body.as_str()).collect()
    }

    #[tokio::test]
    async fn no_job_waits_for_as_long_as_the_clock_was_ahead() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(AdjustableClock(AtomicI64::new(0))));
        clock.set(3, 0);
        let [own, other] = [(); 2].map(|()| Database::open(folder.path(), clock.clone()).unwrap());
        let (events, stats) = (QueueName::Events, QueueName::Stats);
        let groups =
            [(events, "A"), (events, "A"), (events, "B"), (events, "C"), (events, "D"), (stats, "E")];
        let jobs = groups.iter().zip(1..).map(|((queue, group), number)| job(*queue, group, number));
        for sent in own.queue().send(jobs.collect()).await {
            sent.unwrap();
        }
        // Two are leased and one backs off; another process has leased one; one waits; one is delayed.
        let leased = receive(&own, events, 3, 60).await;
        let backoff = [(leased[2].receipt.clone(), Duration::from_secs(300))];
        assert_eq!(own.queue().change_visibility(events.into(), &backoff).await, [Ok(())]);
        assert_eq!(bodies(&receive(&other, events, 1, 60).await), ["4"]);
        assert!(receive(&own, stats, 9, 60).await.is_empty());

        clock.set(0, 0);
        for (queue, waiting) in [(events, 5), (stats, 1)] {
            let expected = Depth { waiting, oldest_age_s: Some(0), ..Depth::default() };
            assert_eq!(own.queue().depth(queue.into()).await, Ok(expected));
        }
        assert_eq!(bodies(&receive(&own, events, 9, 60).await), ["1", "2", "3", "4", "5"]);
        assert_eq!(bodies(&receive(&own, stats, 9, 60).await), ["6"]);
        assert!(receive(&other, events, 9, 60).await.is_empty());
        let results = own.queue().ack(events.into(), &[leased[0].receipt.clone()]).await;
        assert_eq!(results, [Err(QueueError::LeaseLost)]);
        clock.set(0, 60);
        assert_eq!(bodies(&receive(&other, events, 9, 60).await), ["1", "2", "3", "4", "5"]);
    }

    #[tokio::test]
    async fn a_lease_outlives_a_small_step_of_the_clock_and_ends_after_ten_minutes() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(AdjustableClock(AtomicI64::new(0))));
        clock.set(0, 300);
        let database = Database::open(folder.path(), clock.clone()).unwrap();
        let jobs = [("A", 1), ("B", 2)].map(|(group, number)| job(QueueName::Events, group, number));
        assert_eq!(database.queue().send(jobs.into()).await, [Ok(()), Ok(())]);
        let received = async |max, lease_s| receive(&database, QueueName::Events, max, lease_s).await.len();
        assert_eq!((received(1, 60).await, received(1, 300).await), (1, 1));
        clock.set(0, 0);
        assert_eq!(received(9, 300).await, 0);
        // The first lease ends within ten minutes, the second would end later.
        clock.set(0, -200);
        assert_eq!(received(9, 300).await, 1);
        clock.set(0, 1_000);
        let longest = receive(&database, QueueName::Events, 9, 3_600).await;
        let renewal = [(longest[1].receipt.clone(), Duration::from_secs(3_600))];
        let renewed = database.queue().change_visibility(QueueName::Events.into(), &renewal).await;
        assert_eq!((longest.len(), renewed, received(9, 300).await), (2, vec![Ok(())], 0));
        clock.set(0, 1_599);
        assert_eq!(received(9, 300).await, 0);
        clock.set(0, 1_600);
        assert_eq!(received(9, 300).await, 2);
    }

    #[tokio::test]
    async fn jobs_on_other_queues_do_not_make_a_large_receive_smaller() {
        let queue =
            |number: usize| if number.is_multiple_of(20) { QueueName::Events } else { QueueName::Files };
        let jobs = (0..2_000).map(|number| job(queue(number), "C1", number)).collect();
        assert_eq!(received_by(1, 100, jobs).await.len(), 100);
    }
}
