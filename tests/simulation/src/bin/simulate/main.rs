//! `simulate --seeds 10000` runs the fleet on virtual time, once per seed, and prints a table of the injected
//! faults and the violations. `simulate --seed N --trace` shows one seed step by step.

mod table;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Parser;
use simulation::{Lateness, SeedOutcome, WorkspacesSize};

use table::SeedsSummary;

/// Number of steps shown for a failed seed.
const LAST_STEPS: usize = 40;

/// Number of failed seeds shown with their last steps. The others are shown with the violation only.
const SHOWN: usize = 5;

/// Runs the whole fleet on virtual time; a seed determines every fault.
#[derive(Parser)]
struct SimulateArgs {
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    seeds: u64,
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// Run only this seed
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
    /// Print every step of the seed
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Play this number of workspaces for days, some of which fail
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(WorkspacesSize::MIN_WORKSPACES as i64..=10_000),
        conflicts_with = "trace"
    )]
    workspaces: Option<u32>,
    /// Number of days of a seed of many workspaces
    #[arg(long, value_name = "D", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=31))]
    days: u32,
    /// Number of seeds to run concurrently
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    let args = SimulateArgs::parse();
    let out = &mut io::stdout().lock();
    let done = match (args.workspaces, args.seed) {
        (Some(workspaces), _) => run_workspaces(&args, workspaces, out),
        (None, Some(seed)) => run_seed(seed, args.trace, out),
        (None, None) => run_seeds(&args, out),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

/// Runs one seed. Returns whether every invariant held.
fn run_seed(seed: u64, trace: bool, out: &mut dyn Write) -> io::Result<bool> {
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

/// Plays seeds of many workspaces and writes a line for each. Returns whether every invariant held in all of
/// them.
fn run_workspaces(args: &SimulateArgs, workspaces: u32, out: &mut dyn Write) -> io::Result<bool> {
    let size = WorkspacesSize { workspaces: workspaces as usize, days: args.days };
    let first = args.seed.unwrap_or(args.first);
    let seeds = first..first.saturating_add(if args.seed.is_some() { 1 } else { args.seeds });
    let outcomes = Mutex::new(BTreeMap::new());
    simulation::for_each_seed(seeds, args.threads, |seed| {
        let began = Instant::now();
        let alone = simulation::run_workspaces_alone(seed, size);
        let outcome = simulation::run_workspaces(seed, size, &alone, None);
        let timed = (alone.lateness, outcome, began.elapsed());
        outcomes.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, timed);
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    writeln!(
        out,
        "{:>8}{:>10}{:>21}{:>16}{:>16}{:>9}   (in brackets: without the workspaces that fail)",
        "seed", "events", "message, p99 ms", "file, s", "sync, s", "time s"
    )?;
    for (seed, (alone, outcome, took)) in &outcomes {
        let of = |together: f64, alone: f64| format!("{together:.1} ({alone:.1})");
        let Lateness { messages, files, syncs } = outcome.lateness;
        writeln!(
            out,
            "{seed:>8}{:>10}{:>21}{:>16}{:>16}{:>9.1}",
            outcome.events,
            of(1e3 * messages.as_secs_f64(), 1e3 * alone.messages.as_secs_f64()),
            of(files.as_secs_f64(), alone.files.as_secs_f64()),
            of(syncs.as_secs_f64(), alone.syncs.as_secs_f64()),
            took.as_secs_f64()
        )?;
        if let Some(finding) = &outcome.finding {
            writeln!(out, "seed {seed}: {finding}")?;
        }
    }
    Ok(outcomes.values().all(|(_, outcome, _)| outcome.finding.is_none()))
}

/// Runs several seeds. Returns whether every invariant held in all of them.
fn run_seeds(args: &SimulateArgs, out: &mut dyn Write) -> io::Result<bool> {
    let began = Instant::now();
    let seeds = args.first..args.first.saturating_add(args.seeds);
    let summary = Mutex::new(SeedsSummary::default());
    simulation::for_each_seed(seeds, args.threads, |seed| {
        let outcome = simulation::run(seed, None, false);
        summary.lock().unwrap_or_else(PoisonError::into_inner).add(seed, outcome);
    });
    let summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (index, (seed, finding)) in summary.findings().enumerate() {
        writeln!(out, "seed {seed}: {finding}")?;
        if index < SHOWN {
            write_last_steps(seed, out)?;
        }
        writeln!(out, "again: cargo run --release -p simulation --bin simulate -- --seed {seed} --trace")?;
    }
    summary.write(began.elapsed(), out)?;
    Ok(summary.findings().next().is_none())
}

/// Runs the seed again with a trace and writes the last steps. The second run is identical.
fn write_last_steps(seed: u64, out: &mut dyn Write) -> io::Result<()> {
    let SeedOutcome { trace, .. } = simulation::run(seed, None, true);
    for line in trace.iter().skip(trace.len().saturating_sub(LAST_STEPS)) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}
