//! Kills real processes under load and counts the differences in the archive. Its report is a table for
//! `RELIABILITY.md`.

mod fleet;
mod kills;
mod ledger;

use std::io::Write;

use anyhow::Context;
use clap::{Parser, Subcommand};

use ledger::LedgerRow;

/// Kills real processes under load and compares the archive with the acknowledged events
#[derive(Debug, Parser)]
#[command(name = "reliability")]
struct ReliabilityArgs {
    #[command(subcommand)]
    what: ReliabilityCommand,
    /// Seed of the events, the moments and the processes to kill
    #[arg(long, global = true, default_value_t = 20_261_121)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum ReliabilityCommand {
    /// On one folder: half of the kills hit `annalist up`, the others hit parts of a fleet
    Embedded {
        /// Number of SIGKILLs
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..=100_000))]
        kills: u64,
        /// Minimum number of acknowledged events
        #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=5_000_000))]
        events: u64,
    },
    /// On an emulator of AWS: kills hit ingest and workers
    Aws {
        /// Number of SIGKILLs
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
        kills: u64,
        /// Minimum number of acknowledged events
        #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=5_000_000))]
        events: u64,
    },
}

fn main() -> anyhow::Result<()> {
    let args = ReliabilityArgs::parse();
    progress("building the binaries");
    tests::harness::binaries::binaries();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let rows = runtime.block_on(run(&args))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", ledger::HEADER)?;
    for row in &rows {
        writeln!(out, "{row}")?;
    }
    anyhow::ensure!(
        rows.iter().all(LedgerRow::is_clean),
        "something was lost, doubled or out of order: see above"
    );
    Ok(())
}

async fn run(args: &ReliabilityArgs) -> anyhow::Result<Vec<LedgerRow>> {
    match args.what {
        ReliabilityCommand::Embedded { kills, events } => {
            let (first, second) = (kills / 2, kills - kills / 2);
            Ok(vec![
                kills::kill_up(first, events / 2, args.seed).await?,
                kills::kill_fleet_on_folder(second, events - events / 2, args.seed.wrapping_add(1)).await?,
            ])
        }
        ReliabilityCommand::Aws { kills, events } => {
            Ok(vec![kills::kill_fleet_on_aws(kills, events, args.seed).await?])
        }
    }
}

/// Prints progress to standard error: standard output has only the table.
fn progress(what: &str) {
    // Standard error may be closed.
    drop(writeln!(std::io::stderr(), "reliability: {what}"));
}
