//! Jobs that wait for something outside themselves: rows `waiting#{queue}#{team}`, which look like those of the
//! quarantine. [`rules::waiting`] is their state; [`crate::runtime`] sends them back.
//!
//! A job is set aside in this order: the state, its row, the wake job, the ack. A crash between two steps
//! repeats them when the job is received again, unless it succeeds then: so a wake must find its row anyway.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use metrics::counter;
use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Query, WriteOutcome, key, query_all};
use ports::metrics::JOBS_SET_ASIDE;
use ports::queue::job::Origin;
use ports::queue::waiting::WaitCause;
use ports::queue::{Delivery, GroupId, QueueError, QueueName, QueueRef};
use rules::waiting::{CAUSE, NewWait, WaitState};
use slack::ids::TeamId;

use super::bounds::{self, Keeping};
use super::row::{JobRow, origin_of};
use super::{erased, insert_all};
use crate::failure::PortError;
use crate::runtime::Ports;

/// The jobs of a workspace and queue that wait at most. Slack delivers 30,000 events an hour to an app, so this
/// is more than a day of the busiest workspace. Beyond it, jobs are quarantined.
const MAX_JOBS: u64 = 1_000_000;

/// The bytes of these jobs.
const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// Workspaces without a token and without rows whose jobs wait at the same time: an attacker with a signing secret
/// can name any number of them, and each costs a trial a minute.
const MAX_STRANGERS: usize = 1_000;

/// Attempts to change a state while other processes change it too.
const ATTEMPTS: u32 = 50;

pub(super) const TRIPS: &str = "trips";

/// A job to set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aside<'d> {
    /// The job.
    pub(crate) delivery: &'d Delivery,
    pub(crate) cause: WaitCause,
    /// Why, for people.
    pub(crate) reason: &'d str,
}

/// Sets jobs aside; returns one result per job, in their order. A job that has waited for `longest`, or is
/// beyond the bounds, is quarantined instead.
pub(crate) async fn set_aside(
    ports: &Ports,
    queue: QueueRef,
    jobs: &[Aside<'_>],
    longest: Duration,
) -> Vec<Result<(), PortError>> {
    let pairs: Vec<(&Delivery, &str)> = jobs.iter().map(|job| (job.delivery, job.reason)).collect();
    let dropped = match erased::drop_erased(&*ports.archive, queue, &pairs).await {
        Ok(dropped) => dropped,
        Err(error) => return vec![Err(error.into()); jobs.len()],
    };
    let mut results = vec![Ok(()); jobs.len()];
    let mut by_team: BTreeMap<Option<TeamId>, Vec<usize>> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate().filter(|(index, _)| !dropped[*index]) {
        by_team.entry(team_of_group(&job.delivery.group)).or_default().push(index);
    }
    for (team, indexes) in by_team {
        let of_team: Vec<Aside<'_>> = indexes.iter().map(|index| jobs[*index]).collect();
        let written = match &team {
            Some(team) => set_aside_of_team(ports, queue, team, &of_team, longest).await,
            None => quarantine(ports, queue, &of_team.iter().map(|job| (*job, "")).collect::<Vec<_>>()).await,
        };
        for (index, written) in indexes.into_iter().zip(written) {
            results[index] = written;
        }
    }
    results
}

/// The workspace of a job: each group begins with it.
pub(crate) fn team_of_group(group: &GroupId) -> Option<TeamId> {
    TeamId::parse(group.as_str().split('#').next()?).ok()
}

async fn set_aside_of_team(
    ports: &Ports,
    queue: QueueRef,
    team: &TeamId,
    jobs: &[Aside<'_>],
    longest: Duration,
) -> Vec<Result<(), PortError>> {
    let result = async {
        let state = read_state(&*ports.archive, queue.name, team).await?;
        let refusals = refusals(ports, &state, jobs, longest).await?;
        Ok::<_, ArchiveError>((state, refusals))
    };
    let (state, refusals) = match result.await {
        Ok(result) => result,
        Err(error) => return vec![Err(error.into()); jobs.len()],
    };
    let refused: Vec<(Aside<'_>, &str)> =
        jobs.iter().zip(&refusals.whys).filter_map(|(job, why)| Some((*job, why.as_deref()?))).collect();
    let mut quarantined = quarantine(ports, queue, &refused).await.into_iter();
    let kept: Vec<Aside<'_>> =
        jobs.iter().zip(&refusals.whys).filter(|(_, why)| why.is_none()).map(|(job, _)| *job).collect();
    let mut written = keep(ports, queue, state, &kept, refusals.is_stranger).await.into_iter();
    refusals
        .whys
        .iter()
        .map(|why| if why.is_some() { quarantined.next() } else { written.next() }.unwrap_or(Ok(())))
        .collect()
}

/// Why jobs are quarantined instead: one entry per job.
struct Refusals {
    whys: Vec<Option<String>>,
    /// Whether the workspace has neither a token nor rows.
    is_stranger: bool,
}

async fn refusals(
    ports: &Ports,
    state: &WaitState,
    jobs: &[Aside<'_>],
    longest: Duration,
) -> Result<Refusals, ArchiveError> {
    let (archive, now) = (&*ports.archive, ports.clock.now());
    let has_no_token = jobs.iter().any(|job| job.cause == WaitCause::NoToken);
    let is_stranger = has_no_token && archive.get(&ItemKey::team(&state.team)).await?.is_none();
    let is_crowded = is_stranger && !state.waits && strangers(archive).await? >= MAX_STRANGERS;
    let mut kept = Vec::new();
    if is_stranger {
        // Together they may take what the quarantine may.
        let new = jobs.iter().filter(|job| Origin::of(&job.delivery.body).is_none());
        let sizes: Vec<_> = new.map(|job| (None, job.delivery.body.len())).collect();
        kept = bounds::keep(archive, now, &sizes).await?;
    }
    let mut kept = kept.into_iter();
    let (mut count, mut bytes) = (state.added_jobs, state.added_bytes);
    let whys = jobs.iter().map(|job| {
        if let Some(origin) = Origin::of(&job.delivery.body) {
            let days = longest.as_secs() / (24 * 3_600);
            return (origin.sent_at().plus(longest) < now)
                .then(|| format!("it has waited for more than {days} d"));
        }
        if is_stranger && (is_crowded || kept.next() != Some(Keeping::Whole)) {
            return Some("too many jobs of unknown workspaces wait".to_owned());
        }
        if job.cause == WaitCause::Bulk {
            return None;
        }
        count = count.saturating_add(1);
        bytes = bytes.saturating_add(u64::try_from(job.delivery.body.len()).unwrap_or(u64::MAX));
        (count > MAX_JOBS || bytes > MAX_BYTES).then(|| "too many jobs of its workspace wait".to_owned())
    });
    Ok(Refusals { whys: whys.collect(), is_stranger })
}

/// The number of workspaces whose jobs wait although the archive does not know them.
async fn strangers(archive: &dyn Archive) -> Result<usize, ArchiveError> {
    let states = states(archive).await?;
    Ok(states.iter().filter(|state| state.stranger && state.waits).count())
}

async fn quarantine(
    ports: &Ports,
    queue: QueueRef,
    jobs: &[(Aside<'_>, &str)],
) -> Vec<Result<(), PortError>> {
    let reasons: Vec<String> = jobs
        .iter()
        .map(
            |(job, why)| {
                if why.is_empty() { job.reason.to_owned() } else { format!("{} ({why})", job.reason) }
            },
        )
        .collect();
    let jobs: Vec<(&Delivery, &str)> =
        jobs.iter().zip(&reasons).map(|((job, _), reason)| (job.delivery, reason.as_str())).collect();
    insert_all(ports, queue, &jobs)
        .await
        .into_iter()
        .map(|written| written.map_err(PortError::from))
        .collect()
}

/// Writes the state, then the rows of these jobs, then sends the wake.
async fn keep(
    ports: &Ports,
    queue: QueueRef,
    state: WaitState,
    jobs: &[Aside<'_>],
    is_stranger: bool,
) -> Vec<Result<(), PortError>> {
    if jobs.is_empty() {
        return Vec::new();
    }
    let team = state.team.clone();
    let new: Vec<NewWait> = jobs.iter().map(new_wait).collect();
    let state = match add(ports, state, &new, is_stranger).await {
        Ok(state) => state,
        Err(error) => return vec![Err(error.into()); jobs.len()],
    };
    let rows = jobs.iter().map(async |job| {
        let origin = Origin::of(&job.delivery.body);
        let trips =
            origin.as_ref().map_or(0, |origin| origin.trips) + u32::from(job.cause == WaitCause::Redelivered);
        let row = JobRow {
            partition: key::waiting(queue.name, &team),
            kind: "waiting",
            extra: vec![(CAUSE, job.cause.label().into()), (TRIPS, trips.into())],
        };
        row.put(ports, queue, job.delivery, job.reason, origin, true).await.map_err(PortError::from)
    });
    let mut results = join_all(rows).await;
    let noted = async {
        // A wake may have found no row, and have ended.
        let mut now = read_state(&*ports.archive, queue.name, &team).await?;
        if !now.waits || new.iter().any(|job| !now.causes.contains_key(&job.cause)) {
            now = add(ports, state, &new, is_stranger).await?;
        }
        if !now.heard {
            send_wake(ports, queue.name, &now).await?;
        }
        Ok::<_, PortError>(())
    };
    if let Err(error) = noted.await {
        results
            .iter_mut()
            .filter(|written| written.is_ok())
            .for_each(|written| *written = Err(error.clone()));
    }
    for (job, _) in jobs.iter().zip(&results).filter(|(_, written)| written.is_ok()) {
        let label = queue.name.spec().label;
        counter!(JOBS_SET_ASIDE, "queue" => label, "cause" => job.cause.label()).increment(1);
    }
    results
}

/// Adds jobs to a state.
async fn add(
    ports: &Ports,
    state: WaitState,
    new: &[NewWait],
    is_stranger: bool,
) -> Result<WaitState, ArchiveError> {
    let now = ports.clock.now();
    let change = |state: &mut WaitState| {
        if !state.waits || state.is_overdue(now) {
            state.renew_wake();
        }
        state.stranger |= is_stranger;
        state.add(new, now);
    };
    change_state(&*ports.archive, state, change).await
}

fn new_wait(job: &Aside<'_>) -> NewWait {
    let origin = Origin::of(&job.delivery.body);
    let trial = origin.as_ref().and_then(|origin| origin.trial);
    NewWait {
        cause: job.cause,
        reason: job.reason.to_owned(),
        sent_at_ms: origin.unwrap_or_else(|| origin_of(job.delivery)).sent_at_ms,
        bytes: job.delivery.body.len(),
        trial,
    }
}

/// Sends the latest wake. A wake that is on the queue already is not sent twice within minutes, and a second
/// one does no harm: a turn begins with a change of the state, which only one of them makes.
pub(crate) async fn send_wake(ports: &Ports, queue: QueueName, state: &WaitState) -> Result<(), QueueError> {
    ports.queue.send(vec![state.wake_job().message(queue)]).await.into_iter().collect()
}

/// The state of a workspace's waiting jobs of a queue. A state that cannot be read begins anew.
pub(crate) async fn read_state(
    archive: &dyn Archive,
    queue: QueueName,
    team: &TeamId,
) -> Result<WaitState, ArchiveError> {
    let row = archive.get(&ItemKey::waiting(queue, team)).await?;
    Ok(row.as_ref().and_then(WaitState::read).unwrap_or_else(|| WaitState::new(queue, team)))
}

pub(crate) async fn states(archive: &dyn Archive) -> Result<Vec<WaitState>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::waiting_states())).await?;
    Ok(rows.iter().filter_map(WaitState::read).collect())
}

/// Changes a state; returns what is stored now.
pub(crate) async fn change_state(
    archive: &dyn Archive,
    mut state: WaitState,
    change: impl Fn(&mut WaitState),
) -> Result<WaitState, ArchiveError> {
    for _ in 0..ATTEMPTS {
        let mut changed = state.clone();
        change(&mut changed);
        match store_state(archive, &changed).await? {
            Ok(stored) => return Ok(stored),
            Err(newer) => state = newer,
        }
    }
    Err(ArchiveError::Unavailable("the state of waiting jobs keeps changing".into()))
}

/// Stores a state unless it has changed since it was read: then the error is the state as it is now.
pub(crate) async fn store_state(
    archive: &dyn Archive,
    state: &WaitState,
) -> Result<Result<WaitState, WaitState>, ArchiveError> {
    let Some(update) = state.update() else { return Ok(Ok(state.clone())) };
    Ok(match archive.write(&update).await? {
        WriteOutcome::Applied => Ok(state.stored()),
        WriteOutcome::Rejected(row) => Err(WaitState::read(&row).unwrap_or_else(|| state.unread(&row))),
    })
}
