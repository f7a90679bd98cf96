//! Faults that no call triggers: clocks jump, leases end early.

use std::sync::Arc;

use tokio::time::sleep;

use super::ledger::Ledger;
use super::world::{FaultKind, World};

/// Runs until the faults are over.
pub(super) async fn inject(world: Arc<World>, ledger: Arc<Ledger>) {
    tokio::select! {
        biased;
        () = world.wait_until_calm() => {}
        () = clocks_jump(&world, &ledger) => {}
        () = leases_end(&world, &ledger) => {}
    }
    ledger.clock_jumped();
}

async fn clocks_jump(world: &World, ledger: &Ledger) {
    loop {
        sleep(world.random_millis(5_000..300_000)).await;
        if world.is_enabled(FaultKind::ClockJump) {
            // Mostly less than a minute; sometimes far beyond the maximum age of a signature, or of any lease.
            let span_ms = match world.random_below(10) {
                0..7 => 60_000,
                7..9 => 900_000,
                _ => 4 * 3_600_000,
            };
            let offset_ms = i64::try_from(world.random_below(2 * span_ms)).unwrap_or(0)
                - i64::try_from(span_ms).unwrap_or(0);
            world.fault(FaultKind::ClockJump, "world", || format!("{offset_ms} ms from the truth"));
            world.set_offset_ms(offset_ms);
            ledger.clock_jumped();
        }
    }
}

async fn leases_end(world: &World, ledger: &Ledger) {
    loop {
        sleep(world.random_millis(1_000..30_000)).await;
        if world.is_enabled(FaultKind::Redelivered) {
            ledger.end_random_lease();
        }
    }
}
