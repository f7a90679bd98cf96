//! An operator who repairs the fleet after the faults: replays the quarantined jobs and syncs the directory
//! once more.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::Archive;
use slack::ids::TeamId;
use tokio::time::{Instant, sleep};
use workers::directory::DirectorySync;
use workers::quarantine::{self, Quarantined};

use super::fleet::{ProcessDependencies, SimulationState};
use super::questions;
use super::schedule::Life;
use super::world::Invariant;
use testkit::corpus::TEAM;

/// Longer than any lease, backoff or wrong clock lasts.
const DRAINED_WITHIN: Duration = Duration::from_secs(3 * 3_600);

/// How long the operator waits for the queues before looking into the quarantine all the same: a question may
/// wait for its author, whose event is there.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// How the reason begins if the existence check takes an event for a forged one.
const TAKEN_FOR_FORGED: &str = "Slack does not know";

/// Maximum number of replay rounds. A replayed job succeeds unless it is hostile.
const ROUNDS: usize = 4;

/// Waits until every queue is empty, or for an hour, syncs the directory, and replays the quarantine until every
/// queue is empty and only hostile jobs are left.
pub(super) async fn repair(all: &SimulationState) {
    let life = Life::new("operator".into(), 0);
    let ProcessDependencies { ports, web, .. } = all.dependencies_for(&life);
    let archive: Arc<dyn Archive> = all.archive.clone();
    all.ledger.restore_max_receives();
    is_idle_within(all, PATIENCE).await;
    questions::ask_refused_again(all).await;
    let sync = DirectorySync::new(web, Arc::clone(&ports.archive), Arc::clone(&ports.queue));
    if let Ok(team) = TeamId::parse(TEAM) {
        let report = sync.sync(&team).await;
        if let Some(failure) = report.failure {
            all.world
                .report_violation(Invariant::Bounded, format!("the directory cannot be synced: {failure}"));
        }
    }
    for round in 0.. {
        let is_idle = is_idle_within(all, PATIENCE).await;
        let listed = quarantine::list(&*archive).await.unwrap_or_default();
        let replayable: Vec<Quarantined> = listed.into_iter().filter(|job| !is_hostile(job)).collect();
        if replayable.is_empty() {
            if is_idle {
                return;
            }
            wait_until_idle(all).await;
            continue;
        }
        if round == ROUNDS {
            let Quarantined { id, reason, .. } = &replayable[0];
            all.world.report_violation(Invariant::Lost, format!("{id} stays in quarantine: {reason}"));
            return;
        }
        for job in replayable {
            all.world.note("operator", || format!("replays {}: {}", job.id, job.reason));
            if job.reason.starts_with(TAKEN_FOR_FORGED) {
                let what = format!("{} is genuine but is in quarantine: {}", job.id, job.reason);
                all.world.report_violation(Invariant::Genuine, what);
            }
            if let Err(error) = quarantine::replay(&*ports.queue, &*ports.archive, &*ports.clock, &job).await
            {
                all.world
                    .report_violation(Invariant::Lost, format!("{} cannot be replayed: {error}", job.id));
            }
        }
    }
}

/// Checks after an outage that no job was quarantined because of it: when it ends, jobs go on by themselves.
pub(super) async fn check_waiting(all: &SimulationState) {
    let listed = quarantine::list(&*all.archive).await.unwrap_or_default();
    let given_up = listed.iter().find(|job| {
        ["token", "cannot be reached", "could not say", "has waited"]
            .iter()
            .any(|why| job.reason.contains(why))
    });
    if let Some(Quarantined { id, reason, .. }) = given_up {
        let what = format!("{id} is in quarantine because Slack could not be asked: {reason}");
        all.world.report_violation(Invariant::Lost, what);
    }
}

/// Whether no worker can ever handle the job.
pub(super) fn is_hostile(job: &Quarantined) -> bool {
    job.payload.contains("\"event_id\":\"EvHostile")
}

/// Waits until every queue is empty.
pub(super) async fn wait_until_idle(all: &SimulationState) {
    if !is_idle_within(all, DRAINED_WITHIN).await {
        let what = format!("a queue is not empty after {} s without faults", DRAINED_WITHIN.as_secs());
        all.world.report_violation(Invariant::Bounded, what);
    }
}

/// Waits until every queue is empty; false if that takes longer than this.
async fn is_idle_within(all: &SimulationState, limit: Duration) -> bool {
    let began = Instant::now();
    while !all.ledger.is_idle().await {
        if began.elapsed() > limit {
            return false;
        }
        sleep(Duration::from_secs(1)).await;
    }
    true
}
