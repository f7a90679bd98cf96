//! Runs the whole fleet on virtual time for some hundred seeds; `simulate --seeds 10000` runs more.

use simulation::{
    FaultCounts, FaultKind, Invariant, Mutation, WorkspacesSize, for_each_seed, run, run_workspaces,
    run_workspaces_alone,
};

/// Number of seeds of the ordinary run. They take minutes without optimisation.
const SEEDS: u64 = 300;

/// Maximum number of seeds until a planted bug is found.
const SEEDS_FOR_A_BUG: u64 = 300;

/// Number of threads that run seeds.
const THREADS: usize = 2;

#[test]
fn no_seed_violates_an_invariant() {
    let total = std::sync::Mutex::new(FaultCounts::default());
    for_each_seed(0..SEEDS, THREADS, |seed| {
        let outcome = run(seed, None, false);
        assert_eq!(
            outcome.finding, None,
            "see it with: cargo run --release -p simulation --bin simulate -- --seed {seed} --trace"
        );
        total.lock().unwrap().add(&outcome.tally);
    });
    let total = total.into_inner().unwrap();
    // A fault that is never injected would prove nothing.
    for (kind, label) in FaultKind::ALL {
        assert!(total.injected(kind) > 0, "no seed had this: {label}");
    }
    assert!(total.own_refusals > 0 && total.hidden_histories > 0, "{total:?}");
    assert!(total.outages > 0 && total.long_outages > 0, "{total:?}");
    assert!(total.acked > 20 * SEEDS, "{total:?}");
}

#[test]
fn a_seed_repeats_every_step() {
    for_each_seed(0..12, THREADS, |seed| {
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

/// The size of the run of many workspaces; `simulate --workspaces 300 --days 7` plays more.
const MANY: WorkspacesSize = WorkspacesSize { workspaces: 12, days: 1 };

#[test]
fn workspaces_that_fail_or_take_much_delay_no_other() {
    let alone = run_workspaces_alone(0, MANY);
    let outcome = run_workspaces(0, MANY, &alone, None);
    assert_eq!(outcome.finding, None, "{outcome:?}");
    // Each message takes some calls of 5 ms, and some have files.
    let lateness = alone.lateness;
    assert!(outcome.events > 5_000 && lateness.messages.as_millis() >= 5, "{outcome:?}");
    assert!(lateness.files > lateness.messages && lateness.syncs > lateness.files, "{alone:?}");
    for (mutation, invariant) in [
        (Mutation::SerialLoop, Invariant::Fair),
        (Mutation::SerialSyncs, Invariant::Fair),
        (Mutation::LiveImport, Invariant::Fair),
        (Mutation::WaitOnQueue, Invariant::Lost),
    ] {
        let finding = run_workspaces(0, MANY, &alone, Some(mutation)).finding;
        let found = finding.as_ref().map(|finding| finding.invariant);
        assert_eq!(found, Some(invariant), "{mutation:?}: {finding:?}");
    }
}
