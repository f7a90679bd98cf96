//! The whole fleet on virtual time, some hundred seeds of it; `simulate --seeds 10000` plays more.

use std::sync::atomic::{AtomicU64, Ordering};

use simulation::{FaultCounts, FaultKind, Mutation, run};

/// Seeds of the ordinary run: seconds, even without optimisation.
const SEEDS: u64 = 300;

/// A planted bug is found within this number of seeds.
const SEEDS_FOR_A_BUG: u64 = 300;

/// Every seed once, on two threads; each has a runtime of its own.
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
fn nothing_is_lost_doubled_or_out_of_order_whatever_goes_wrong() {
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
    // A fault that never comes would prove nothing.
    for kind in FaultKind::ALL {
        assert!(total.of(kind) > 0, "no seed had this: {}", kind.label());
    }
    assert!(total.acked > 20 * SEEDS, "{total:?}");
}

#[test]
fn a_seed_does_the_same_again_step_by_step() {
    each(12, |seed| {
        let (first, second) = (run(seed, None, true), run(seed, None, true));
        assert!(first.trace.len() > 300, "{} steps", first.trace.len());
        let differing = first.trace.iter().zip(&second.trace).find(|(first, second)| first != second);
        assert_eq!(differing, None, "seed {seed}");
        assert_eq!(first, second, "seed {seed}");
        // Looking changes nothing.
        assert_eq!(first.tally, run(seed, None, false).tally, "seed {seed}");
    });
    assert_ne!(run(0, None, true).trace, run(1, None, true).trace);
}

#[test]
fn every_bug_on_purpose_is_found() {
    for mutation in Mutation::ALL {
        let found = (0..SEEDS_FOR_A_BUG).find(|seed| run(*seed, Some(mutation), false).finding.is_some());
        assert!(found.is_some(), "{mutation:?} passes {SEEDS_FOR_A_BUG} seeds");
    }
}
