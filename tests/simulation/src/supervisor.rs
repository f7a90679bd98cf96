//! Starts processes, kills them, drains them, and starts them again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use process::config::backfill::BackfillMode;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::fleet::{RunningProcess, Surroundings};
use super::schedule::Life;
use super::sender::Doors;
use super::world::{FaultKind, Invariant};

/// A process that was asked to end has ended by then, or Docker kills it.
const DRAIN_DEADLINE: Duration = Duration::from_secs(10);

/// What a life comes to.
enum LifeEnd {
    Killed,
    Drained,
    /// The simulation is over.
    Over,
}

/// Keeps one process of the fleet going until `over` is closed.
pub(super) async fn supervise(all: Arc<Surroundings>, doors: Arc<Doors>, place: usize, over: Arc<Semaphore>) {
    let world = &all.world;
    let backfill = if all.fills_at_once { BackfillMode::Gaps } else { BackfillMode::Off };
    for life in 1.. {
        let last_step = if world.has(FaultKind::Killed) { 1 + world.below(600) } else { 0 };
        let life = Life::new(format!("up{place}.{life}"), last_step);
        world.note(&life.name, || "starts".into());
        let mut running = all.start(&life, backfill);
        doors.open(place, &life, running.router.clone());
        let lifetime = world.millis(1_000..240_000);
        let end = tokio::select! {
            biased;
            () = life.died() => LifeEnd::Killed,
            _ = over.acquire() => LifeEnd::Over,
            () = end_of(&all, &life, lifetime) => if life_ends_well(&all) { LifeEnd::Drained } else { LifeEnd::Killed },
        };
        doors.close(place);
        match end {
            LifeEnd::Over => return drain(&all, &life, &mut running).await,
            LifeEnd::Drained => {
                world.fault(FaultKind::Drained, &life.name, || "asked to end".into());
                tokio::select! {
                    biased;
                    () = life.died() => {}
                    () = drain(&all, &life, &mut running) => {}
                }
            }
            LifeEnd::Killed => {}
        }
        // From here on nothing that is left of it does anything.
        life.die();
        running.tasks.abort_all();
        sleep(world.millis(50..20_000)).await;
    }
}

/// Resolves when this life's time has come.
async fn end_of(all: &Surroundings, life: &Life, lifetime: Duration) {
    let world = &all.world;
    sleep(lifetime).await;
    if !world.has(FaultKind::Killed) && !world.has(FaultKind::Drained) {
        std::future::pending::<()>().await;
    }
    world.note(&life.name, || "its time has come".into());
}

fn life_ends_well(all: &Surroundings) -> bool {
    let world = &all.world;
    let drained = world.has(FaultKind::Drained) && (!world.has(FaultKind::Killed) || world.percent(50));
    if !drained {
        world.fault(FaultKind::Killed, "world", || "between two calls".into());
    }
    drained
}

/// Asks a process to end, and holds it to its deadline.
pub(super) async fn drain(all: &Surroundings, life: &Life, running: &mut RunningProcess) {
    for (_, stop) in &running.parts {
        stop.send_replace(true);
    }
    let mut left: BTreeSet<&str> = running.parts.iter().map(|(part, _)| *part).collect();
    let ended = timeout(DRAIN_DEADLINE, async {
        while let Some(ended) = running.tasks.join_next().await {
            match ended {
                Ok(part) => left.retain(|other| *other != part),
                Err(_) => all.world.broke(Invariant::Bounded, format!("a part of {} panicked", life.name)),
            }
        }
    });
    if ended.await.is_err() {
        let (name, deadline_s) = (&life.name, DRAIN_DEADLINE.as_secs());
        let what = format!("{left:?} of {name} had not ended {deadline_s} s after it was asked to");
        all.world.broke(Invariant::Bounded, what);
    }
}
