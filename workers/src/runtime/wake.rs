//! Sends jobs back that wait aside, turn by turn: see [`rules::waiting`]. A wake job is on the queue as long as
//! a job of its workspace waits; between its turns it is invisible.

use std::collections::BTreeMap;
use std::time::Duration;

use ports::archive::ArchiveError;
use ports::clock::TimestampMs;
use ports::queue::job::{Job, Payload, Trial};
use ports::queue::waiting::{WaitCause, Wake};
use ports::queue::{Delivery, QueueName, Receipt};
use rules::waiting::{NEXT_TURN, WaitState};
use slack::ids::TeamId;

use super::Ports;
use super::context::Context;
use crate::failure::PortError;
use crate::quarantine::{aside, turns};

/// While the queue holds more messages than this, nothing is sent back. SQS FIFO looks for groups among the
/// first 120,000 messages: beyond them, waiting jobs would block those of other workspaces.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html>
const FULL_QUEUE: u64 = 5_000;

/// While the queue holds this many messages, no job of a bulk is sent back: it would be in front of live work.
const BUSY_QUEUE: u64 = 1_000;

/// The wait until the depth of a full queue is read again.
const FULL: Duration = Duration::from_secs(5);

/// After this number of receives, a wake is replaced, so that it becomes no dead letter, also on a queue whose owner
/// allows few of them.
const MAX_RECEIVES: u32 = 3;

/// The longest time that a wake is invisible: a state may change meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What follows from a wake.
pub(super) enum NextTurn {
    /// Nothing: it is acked.
    Never,
    /// Another turn, after this time.
    After(Duration),
}

/// The wake in a message, if it is one.
pub(super) fn read(delivery: &Delivery) -> Option<Option<Wake>> {
    // Every other group belongs to something else.
    if !delivery.group.as_str().ends_with("#wake") {
        return None;
    }
    let Payload::Wake(raw) = Job::decode(&delivery.body).ok()?.payload else { return None };
    Some(serde_json::from_str(raw.get()).ok())
}

/// Makes the turn of a wake.
pub(super) async fn handle(context: &Context, delivery: &Delivery, wake: Option<Wake>) -> NextTurn {
    let (ports, queue) = (&context.ports, context.queue_ref());
    let Some(wake) = wake else {
        tracing::warn!(%queue, group = %delivery.group, "a wake cannot be read");
        return NextTurn::Never;
    };
    make_turn(ports, queue.name, delivery, &wake).await.unwrap_or_else(|error| {
        tracing::warn!(%queue, group = %delivery.group, %error, "waiting jobs could not be sent back");
        NextTurn::After(FULL)
    })
}

/// Acks wakes, or puts them back until their next turn.
pub(super) async fn conclude(context: &Context, turns: Vec<(Receipt, NextTurn)>) {
    let queue = context.queue_ref();
    let (mut ended, mut waits) = (Vec::new(), Vec::new());
    for (receipt, next) in turns {
        match next {
            NextTurn::Never => ended.push(receipt),
            NextTurn::After(wait) => waits.push((receipt, wait.min(LONGEST_WAIT))),
        }
    }
    let mut results = Vec::new();
    if !ended.is_empty() {
        results.extend(context.ports.queue.ack(queue, &ended).await);
    }
    if !waits.is_empty() {
        results.extend(context.ports.queue.change_visibility(queue, &waits).await);
    }
    for error in results.into_iter().filter_map(Result::err) {
        tracing::warn!(%queue, %error, "a wake comes back when its lease ends");
    }
}

async fn make_turn(
    ports: &Ports,
    queue: QueueName,
    delivery: &Delivery,
    wake: &Wake,
) -> Result<NextTurn, PortError> {
    let archive = &*ports.archive;
    let state = aside::read_state(archive, queue, &wake.team).await?;
    // A wake that was replaced goes on until the other has made a turn: that one may be delayed for longer than the next
    // replacement takes, or the process that replaced it may have died before it sent it.
    let is_latest = state.wake == wake.number;
    if !state.waits || (!is_latest && state.heard) {
        return Ok(NextTurn::Never);
    }
    if delivery.receive_count >= MAX_RECEIVES {
        // Only the latest is replaced: if each were, their number would double again and again.
        let is_replaced = !is_latest || renew(ports, queue, &state).await?;
        return Ok(if is_replaced { NextTurn::Never } else { NextTurn::After(Duration::ZERO) });
    }
    let now = ports.clock.now();
    let until_due = state.until_due(now);
    if !until_due.is_zero() {
        return Ok(NextTurn::After(until_due));
    }
    let depth = ports.queue.depth(queue.into()).await?;
    let depth = depth.waiting + depth.in_flight;
    if depth > FULL_QUEUE {
        return Ok(NextTurn::After(FULL));
    }
    let mut state = state;
    state.heard |= is_latest;
    if !state.evaluate(now) {
        return Ok(NextTurn::After(NEXT_TURN));
    }
    let jobs = plan_turn(ports, queue, &mut state, (now, depth)).await?;
    if jobs.is_empty() {
        if state.causes.is_empty() {
            match turns::oldest(ports, queue, &wake.team).await? {
                None => state.end(now),
                // Its state was lost.
                Some(job) => state.add(&[job], now),
            }
        }
        return Ok(match aside::store_state(archive, &state).await? {
            Ok(stored) if !stored.waits => NextTurn::Never,
            Ok(stored) => NextTurn::After(stored.until_due(now)),
            Err(_) => NextTurn::After(Duration::ZERO),
        });
    }
    state.begin_turn(now);
    match aside::store_state(archive, &state).await? {
        Ok(stored) => {
            tracing::info!(%queue, team = %wake.team, jobs = jobs.len(), "sent waiting jobs back");
            let trial = |cause| (cause != WaitCause::Bulk).then_some(Trial { cause, turn: stored.turn });
            let jobs = jobs.into_iter().map(|(cause, job)| (trial(cause), job)).collect();
            turns::send_back(ports, jobs).await?;
            Ok(NextTurn::After(NEXT_TURN))
        }
        Err(_) => Ok(NextTurn::After(Duration::ZERO)),
    }
}

/// Chooses the jobs of the next turn. A cause without jobs is removed.
async fn plan_turn(
    ports: &Ports,
    queue: QueueName,
    state: &mut WaitState,
    (now, depth): (TimestampMs, u64),
) -> Result<Vec<(WaitCause, turns::WaitingJob)>, ArchiveError> {
    let team = state.team.clone();
    let mut turn = Vec::new();
    for (cause, size, after) in state.due(now) {
        if cause == WaitCause::Bulk && depth >= BUSY_QUEUE {
            state.put_off(cause, now.plus(FULL));
            continue;
        }
        let found = turns::next_jobs(ports, (queue, &team), cause, &after, size).await?;
        if found.jobs.is_empty() && found.after.is_empty() {
            state.found_none(cause, now);
            continue;
        }
        state.plan(cause, found.jobs.len(), found.after, now);
        turn.extend(found.jobs.into_iter().map(|job| (cause, job)));
    }
    Ok(turn)
}

/// Sends wakes of a queue again that may be lost, for example with it.
pub(super) async fn rouse(ports: &Ports, queue: QueueName, states: &[WaitState]) -> Result<(), PortError> {
    let now = ports.clock.now();
    for state in states {
        if state.is_overdue(now) {
            renew(ports, queue, state).await?;
        } else if state.has_just_ended(now)
            && let Some(job) = turns::oldest(ports, queue, &state.team).await?
        {
            let mut begun = state.clone();
            begun.add(&[job], now);
            renew(ports, queue, &begun).await?;
        }
    }
    Ok(())
}

/// Replaces a wake that was received too often.
pub(super) async fn replace(ports: &Ports, queue: QueueName, wake: Option<Wake>) -> Result<(), PortError> {
    let Some(wake) = wake else { return Ok(()) };
    let state = aside::read_state(&*ports.archive, queue, &wake.team).await?;
    if state.waits && state.wake == wake.number {
        renew(ports, queue, &state).await?;
    }
    Ok(())
}

/// Sends another wake, unless the state has changed since it was read; returns whether it did.
async fn renew(ports: &Ports, queue: QueueName, state: &WaitState) -> Result<bool, PortError> {
    let mut renewed = state.clone();
    renewed.renew_wake();
    if let Ok(stored) = aside::store_state(&*ports.archive, &renewed).await? {
        aside::send_wake(ports, queue, &stored).await?;
        return Ok(true);
    }
    Ok(false)
}

/// Records that these jobs, which had waited aside, wait no longer.
pub(super) async fn pass(ports: &Ports, queue: QueueName, passed: Vec<(TeamId, Trial)>) {
    let mut by_team: BTreeMap<TeamId, Vec<Trial>> = BTreeMap::new();
    for (team, trial) in passed {
        by_team.entry(team).or_default().push(trial);
    }
    for (team, trials) in by_team {
        let noted = async {
            let state = aside::read_state(&*ports.archive, queue, &team).await?;
            let change = |state: &mut WaitState| trials.iter().for_each(|trial| state.pass(*trial));
            aside::change_state(&*ports.archive, state, change).await
        };
        if let Err(error) = noted.await {
            tracing::warn!(%queue, %team, %error, "the next waiting jobs are sent back later");
        }
    }
}
