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
use super::schedule::Life;
use super::world::Invariant;
use testkit::corpus::TEAM;

/// Longer than any lease, backoff or wrong clock lasts.
const DRAINED_WITHIN: Duration = Duration::from_secs(3 * 3_600);

/// Maximum number of replay rounds. A replayed job succeeds unless it is hostile.
const ROUNDS: usize = 4;

/// Waits until every queue is empty, syncs the directory, and replays the quarantine until only hostile jobs
/// are left.
pub(super) async fn repair(all: &SimulationState) {
    let life = Life::new("operator".into(), 0);
    let ProcessDependencies { ports, web, .. } = all.dependencies_for(&life);
    let archive: Arc<dyn Archive> = all.archive.clone();
    wait_until_idle(all).await;
    let sync = DirectorySync::new(web, Arc::clone(&ports.archive), Arc::clone(&ports.queue));
    if let Ok(team) = TeamId::parse(TEAM) {
        let report = sync.sync(&team).await;
        if let Some(failure) = report.failure {
            all.world
                .report_violation(Invariant::Bounded, format!("the directory cannot be synced: {failure}"));
        }
    }
    for round in 0.. {
        wait_until_idle(all).await;
        let listed = quarantine::list(&*archive).await.unwrap_or_default();
        let replayable: Vec<Quarantined> = listed.into_iter().filter(|job| !is_hostile(job)).collect();
        if replayable.is_empty() {
            return;
        }
        if round == ROUNDS {
            let Quarantined { id, reason, .. } = &replayable[0];
            all.world.report_violation(Invariant::Lost, format!("{id} stays in quarantine: {reason}"));
            return;
        }
        for job in replayable {
            all.world.note("operator", || format!("replays {}: {}", job.id, job.reason));
            if let Err(error) = quarantine::replay(&*ports.queue, &*ports.archive, &*ports.clock, &job).await
            {
                all.world
                    .report_violation(Invariant::Lost, format!("{} cannot be replayed: {error}", job.id));
            }
        }
    }
}

/// Whether no worker can ever handle the job.
pub(super) fn is_hostile(job: &Quarantined) -> bool {
    job.payload.contains("\"event_id\":\"EvHostile")
}

/// Waits until every queue is empty.
pub(super) async fn wait_until_idle(all: &SimulationState) {
    let began = Instant::now();
    while !all.ledger.is_idle().await {
        if began.elapsed() > DRAINED_WITHIN {
            let what = format!("a queue is not empty after {} s without faults", DRAINED_WITHIN.as_secs());
            all.world.report_violation(Invariant::Bounded, what);
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
}
