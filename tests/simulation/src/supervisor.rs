//! Starts, kills, drains and restarts processes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use workers::historian::BackfillMode;

use super::fleet::{RunningProcess, SimulationState};
use super::schedule::Life;
use super::sender::OpenRouters;
use super::world::{FaultKind, Invariant};

/// Docker kills a process that has not ended this long after it was asked to.
const DRAIN_DEADLINE: Duration = Duration::from_secs(10);

enum LifeEnd {
    Killed,
    Drained,
    /// The simulation is over.
    Over,
}

/// Keeps one process of the fleet running until `over` is closed.
pub(super) async fn supervise(
    all: Arc<SimulationState>,
    doors: Arc<OpenRouters>,
    index: usize,
    over: Arc<Semaphore>,
) {
    let world = &all.world;
    let backfill = if all.fills_at_once { BackfillMode::Gaps } else { BackfillMode::Off };
    for life in 1.. {
        let last_step = if world.is_enabled(FaultKind::Killed) { 1 + world.random_below(600) } else { 0 };
        let life = Life::new(format!("up{index}.{life}"), last_step);
        world.note(&life.name, || "starts".into());
        let mut running = all.start(&life, backfill);
        doors.open(index, &life, all.router(&life, &mut running));
        let lifetime = world.random_millis(1_000..240_000);
        let end = tokio::select! {
            biased;
            () = life.died() => LifeEnd::Killed,
            _ = over.acquire() => LifeEnd::Over,
            () = end_of(&all, &life, lifetime) => if life_ends_well(&all) { LifeEnd::Drained } else { LifeEnd::Killed },
        };
        doors.close(index);
        match end {
            LifeEnd::Over => {
                drain(&all, &life, &mut running).await;
                return life.die();
            }
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
        // From here on the remaining tasks of the process do nothing.
        life.die();
        running.tasks.abort_all();
        sleep(world.random_millis(50..20_000)).await;
    }
}

/// Resolves at the end of the lifetime.
async fn end_of(all: &SimulationState, life: &Life, lifetime: Duration) {
    let world = &all.world;
    sleep(lifetime).await;
    if !world.is_enabled(FaultKind::Killed) && !world.is_enabled(FaultKind::Drained) {
        std::future::pending::<()>().await;
    }
    world.note(&life.name, || "its lifetime is over".into());
}

fn life_ends_well(all: &SimulationState) -> bool {
    let world = &all.world;
    let drained = world.is_enabled(FaultKind::Drained)
        && (!world.is_enabled(FaultKind::Killed) || world.chance_percent(50));
    if !drained {
        world.fault(FaultKind::Killed, "world", || "between two calls".into());
    }
    drained
}

/// Asks a process to end, and reports a violation if it misses the deadline.
pub(super) async fn drain(all: &SimulationState, life: &Life, running: &mut RunningProcess) {
    for (_, stop) in &running.parts {
        stop.send_replace(true);
    }
    let mut left: BTreeSet<&str> = running.parts.iter().map(|(part, _)| *part).collect();
    let ended = timeout(DRAIN_DEADLINE, async {
        while let Some(ended) = running.tasks.join_next().await {
            match ended {
                Ok(part) => left.retain(|other| *other != part),
                Err(_) => all
                    .world
                    .report_violation(Invariant::Bounded, format!("a part of {} panicked", life.name)),
            }
        }
    });
    if ended.await.is_err() {
        let (name, deadline_s) = (&life.name, DRAIN_DEADLINE.as_secs());
        let what = format!("{left:?} of {name} had not ended {deadline_s} s after it was asked to");
        all.world.report_violation(Invariant::Bounded, what);
    }
}
