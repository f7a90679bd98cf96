//! `simulate --seeds 10000` plays the fleet on virtual time, once per seed, and ends with a table of what was done to it
//! and what came of it. `simulate --seed N --trace` shows one seed step by step.

mod table;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use simulation::SeedOutcome;

use table::SeedsSummary;

/// Steps shown of a seed that failed.
const LAST_STEPS: usize = 40;

/// Number of failing seeds that are shown with their last steps; the others with what was violated.
const SHOWN: usize = 5;

/// Plays the whole fleet on virtual time, with every fault decided by a seed.
#[derive(Parser)]
struct SimulateArgs {
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// This seed alone
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
    /// Print every step of it
    #[arg(long, requires = "seed")]
    trace: bool,
    /// How many seeds at once
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    let args = SimulateArgs::parse();
    let out = &mut io::stdout().lock();
    let done = match args.seed {
        Some(seed) => one(seed, args.trace, out),
        None => many(&args, out),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

/// Whether nothing was violated.
fn one(seed: u64, trace: bool, out: &mut dyn Write) -> io::Result<bool> {
    let began = Instant::now();
    let outcome = simulation::run(seed, None, trace);
    for line in &outcome.trace {
        writeln!(out, "{line}")?;
    }
    let fine = outcome.finding.is_none();
    if let (Some(finding), false) = (&outcome.finding, trace) {
        writeln!(out, "seed {seed}: {finding}")?;
    }
    if !trace {
        let mut summary = SeedsSummary::default();
        summary.add(seed, outcome);
        summary.write(began.elapsed(), out)?;
    }
    Ok(fine)
}

/// Whether nothing was violated in any.
fn many(args: &SimulateArgs, out: &mut dyn Write) -> io::Result<bool> {
    let began = Instant::now();
    let next = AtomicU64::new(args.first);
    let end = args.first.saturating_add(args.seeds);
    let summary = Mutex::new(SeedsSummary::default());
    std::thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let outcome = simulation::run(seed, None, false);
                    summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(seed, outcome);
                }
            });
        }
    });
    let summary = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (place, (seed, finding)) in summary.findings().enumerate() {
        writeln!(out, "seed {seed}: {finding}")?;
        if place < SHOWN {
            last_steps(seed, out)?;
        }
        writeln!(out, "again: cargo run --release -p simulation --bin simulate -- --seed {seed} --trace")?;
    }
    summary.write(began.elapsed(), out)?;
    Ok(summary.findings().next().is_none())
}

/// The same seed again, which does the same, and this time writes down what.
fn last_steps(seed: u64, out: &mut dyn Write) -> io::Result<()> {
    let SeedOutcome { trace, .. } = simulation::run(seed, None, true);
    for line in trace.iter().skip(trace.len().saturating_sub(LAST_STEPS)) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}
