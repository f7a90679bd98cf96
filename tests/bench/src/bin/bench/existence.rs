//! A backlog drained by one `message-writer` with and without the existence check, in pairs of runs.

use std::sync::Arc;

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::binaries::binaries;
use ::tests::harness::process;
use anyhow::ensure;
use ports::queue::QueueName;
use tokio::process::Command;

use crate::observer::Observer;
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, RunCost, median, row};
use crate::{Settings, drain, machine, progress, slack};

/// Minimum throughput with the check, as a share of the throughput without it.
const LEAST_SHARE: f64 = 0.95;

/// Drains the same backlog in both modes, once per round. The first mode alternates.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    progress("existence: making requests");
    let shape = Shape::default();
    let (channels, users) = (shape.channels, shape.users);
    let api = slack::start_for(&shape).await?;
    let mut pool = Pool::generate(&mut Workload::new(shape), settings.backlog)?;
    let (mut off, mut enforce) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("existence: round {round}"));
        let modes = if round.is_multiple_of(2) { ["enforce", "off"] } else { ["off", "enforce"] };
        for mode in modes {
            Pool::sign_again(&mut pool);
            let runs = if mode == "off" { &mut off } else { &mut enforce };
            runs.push(run(&pool, settings, &api, mode).await?);
        }
    }
    let shares = off.iter().zip(&enforce).map(|(off, enforce)| enforce.per_second / off.per_second);
    let share = median(shares.collect());
    let row = |what: &str, runs: &[RunCost]| {
        let cost = RunCost::median(runs);
        row(what, &[cost.per_second, cost.cpu_us])
    };
    Ok(BenchSection {
        title: "What the existence check costs",
        method: format!(
            "{} events of {users} people in {channels} channels queued with no worker; then one `message-writer`, timed \
             from its start until the queue is empty: with a Slack to ask, whose answers it knows after its first batch, \
             and without. Medians of {} pairs, each in one run; the goal is for the median of the pairs' ratios.",
            settings.backlog, settings.rounds
        ),
        columns: &["existence check", "ev/s", "CPU µs/ev"],
        rows: vec![row("off", &off), row("enforce", &enforce)],
        goals: vec![Goal::at_least("throughput with the check", share, LEAST_SHARE, " ×")],
    })
}

async fn run(pool: &Arc<Pool>, settings: &Settings, api: &str, mode: &str) -> anyhow::Result<RunCost> {
    let data = machine::data_folder()?;
    drain::fill(data.path(), pool, settings).await?;
    let observer = Observer::open(data.path())?;
    let mut command = Command::new(binaries().worker("message-writer"));
    command.args(["--slack-api-url", api, "--existence-check", mode]).arg("--data").arg(data.path());
    let writer = process::worker(command.env("SLACK_BOT_TOKEN", slack::TOKEN));
    let cost = observer.drain(QueueName::Events, pool.len(), writer).await?;
    let rows = observer.rows()?;
    ensure!(rows == pool.rows(pool.len()), "{rows} rows instead of {}", pool.rows(pool.len()));
    Ok(cost)
}
