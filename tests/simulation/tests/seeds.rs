//! Runs the whole fleet on virtual time for some hundred seeds; `simulate --seeds 10000` runs more.

use std::sync::atomic::{AtomicU64, Ordering};

use simulation::{FaultCounts, FaultKind, Mutation, run};

/// Number of seeds of the ordinary run. It takes seconds, even without optimisation.
const SEEDS: u64 = 300;

/// Maximum number of seeds until a planted bug is found.
const SEEDS_FOR_A_BUG: u64 = 300;

/// Runs every seed once, on two threads. Each seed has its own runtime.
fn each(seeds: u64, seed: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= seeds {
                        return;
                    }
                    seed(number);
                }
            });
        }
    });
}

#[test]
fn no_seed_violates_an_invariant() {
    let total = std::sync::Mutex::new(FaultCounts::default());
    each(SEEDS, |seed| {
        let outcome = run(seed, None, false);
        assert_eq!(
            outcome.finding, None,
            "see it with: cargo run --release -p simulation --bin simulate -- --seed {seed} --trace"
        );
        total.lock().unwrap().add(&outcome.tally);
    });
    let total = total.into_inner().unwrap();
    // A fault that is never injected would prove nothing.
    for kind in FaultKind::ALL {
        assert!(total.injected(kind) > 0, "no seed had this: {}", kind.label());
    }
    assert!(total.acked > 20 * SEEDS, "{total:?}");
}

#[test]
fn a_seed_repeats_every_step() {
    each(12, |seed| {
        let (first, second) = (run(seed, None, true), run(seed, None, true));
        assert!(first.trace.len() > 300, "{} steps", first.trace.len());
        let differing = first.trace.iter().zip(&second.trace).find(|(first, second)| first != second);
        assert_eq!(differing, None, "seed {seed}");
        assert_eq!(first, second, "seed {seed}");
        // Tracing changes nothing.
        assert_eq!(first.tally, run(seed, None, false).tally, "seed {seed}");
    });
    assert_ne!(run(0, None, true).trace, run(1, None, true).trace);
}

#[test]
fn every_planted_bug_is_found() {
    for mutation in Mutation::ALL {
        let found = (0..SEEDS_FOR_A_BUG).find(|seed| run(*seed, Some(mutation), false).finding.is_some());
        assert!(found.is_some(), "{mutation:?} passes {SEEDS_FOR_A_BUG} seeds");
    }
}
