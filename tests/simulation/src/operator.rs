//! A person who looks after the fleet once the trouble is over: jobs that a bug has quarantined are replayed, and the
//! directory is synced once more.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::Archive;
use slack::ids::TeamId;
use tokio::time::{Instant, sleep};
use workers::directory::DirectorySync;
use workers::quarantine::{self, Quarantined};

use super::fleet::{ProcessDependencies, Surroundings};
use super::schedule::Life;
use super::world::Invariant;
use testkit::corpus::TEAM;

/// Leases, backoffs, and a clock that was wrong: none of them lasts longer.
const DRAINED_WITHIN: Duration = Duration::from_secs(3 * 3_600);

/// A replayed job succeeds, unless it is one of those that never do.
const ROUNDS: usize = 4;

/// Waits until nothing waits, replays the quarantine, syncs, and waits again.
pub(super) async fn set_right(all: &Surroundings) {
    let life = Life::new("operator".into(), 0);
    let ProcessDependencies { ports, web, .. } = all.seen_by(&life);
    let archive: Arc<dyn Archive> = all.archive.clone();
    until_idle(all).await;
    let sync = DirectorySync::new(web, Arc::clone(&ports.archive), Arc::clone(&ports.queue));
    // The token of a made-up workspace is made up too.
    if let Ok(team) = TeamId::parse(TEAM) {
        let report = sync.sync(&team).await;
        if let Some(failure) = report.failure {
            all.world.broke(Invariant::Bounded, format!("the directory cannot be synced: {failure}"));
        }
    }
    for round in 0.. {
        until_idle(all).await;
        let listed = quarantine::list(&*archive).await.unwrap_or_default();
        let replayable: Vec<Quarantined> = listed.into_iter().filter(|job| !is_hostile(job)).collect();
        if replayable.is_empty() {
            return;
        }
        if round == ROUNDS {
            let Quarantined { id, reason, .. } = &replayable[0];
            all.world.broke(Invariant::Lost, format!("{id} stays in quarantine: {reason}"));
            return;
        }
        for job in replayable {
            all.world.note("operator", || format!("replays {}: {}", job.id, job.reason));
            if let Err(error) = quarantine::replay(&*ports.queue, &*ports.archive, &*ports.clock, &job).await
            {
                all.world.broke(Invariant::Lost, format!("{} cannot be replayed: {error}", job.id));
            }
        }
    }
}

/// Whether no worker will ever do it.
pub(super) fn is_hostile(job: &Quarantined) -> bool {
    job.payload.contains("\"event_id\":\"EvHostile")
}

/// Waits until nothing waits on any queue.
pub(super) async fn until_idle(all: &Surroundings) {
    let began = Instant::now();
    while !all.ledger.is_idle().await {
        if began.elapsed() > DRAINED_WITHIN {
            let what = format!("something still waits after {} s without faults", DRAINED_WITHIN.as_secs());
            all.world.broke(Invariant::Bounded, what);
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
}
