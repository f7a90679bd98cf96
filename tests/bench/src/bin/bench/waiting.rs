//! Jobs that one `message-writer` sets aside and sends back, against the same jobs stored at once; and its memory
//! while many workspaces wait.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::testkit::corpus::{Shape, TEAM, Workload, event};
use ::tests::harness::binaries::binaries;
use ::tests::harness::client::deliver;
use ::tests::harness::process::{self, Process};
use ::tests::harness::procfs::Usage;
use anyhow::{Context, ensure};
use ports::queue::QueueName;
use tokio::process::Command;
use tokio::time::sleep;

use crate::observer::{DEADLINE, Observer};
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, RunCost, median};
use crate::{Settings, drain, machine, progress, slack};

/// The jobs of a run: they are sent back in twenty turns of two seconds.
const JOBS: usize = 10_000;

/// Workspaces that wait at the same time.
const TEAMS: usize = 500;

/// Each workspace is tried four times meanwhile.
const WAITS: Duration = Duration::from_secs(120);

const INTERVAL: Duration = Duration::from_millis(3);

/// Stores, sets aside and sends back the same jobs, once per round.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    progress("waiting: making requests");
    let shape = Shape::default();
    let api = slack::start_for(&shape).await?;
    let mut pool = Pool::generate(&mut Workload::new(shape), JOBS)?;
    let (mut stored, mut aside, mut back) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("waiting: round {round}"));
        Pool::sign_again(&mut pool);
        stored.push(store(&pool, settings, &api).await?);
        Pool::sign_again(&mut pool);
        let (set_aside, sent_back) = wait(&pool, settings, &api).await?;
        aside.push(set_aside);
        back.push(sent_back);
    }
    progress("waiting: many workspaces");
    let (one, many) = (peak_mib(1, &api).await?, peak_mib(TEAMS, &api).await?);
    let speeds = stored.iter().zip(&aside).map(|(stored, aside)| aside.per_second / stored.per_second);
    let costs = stored.iter().zip(&back).map(|(stored, back)| stored.cpu_us / back.cpu_us);
    let (speed, cost) = (median(speeds.collect()), median(costs.collect()));
    Ok(BenchSection {
        title: "Jobs that wait",
        method: format!(
            "{JOBS} events queued with no worker; then one `message-writer` that stores them, or whose file of tokens has \
             none for their workspace: it sets all of them aside, then gets the token, and stores them. At most 500 are sent back \
             every two seconds, which bounds their speed; what they cost is the CPU time of the process, trials included. Medians of {} \
             rounds. Memory: the peak after {TEAMS} workspaces have waited for {} s, against one.",
            settings.rounds,
            WAITS.as_secs()
        ),
        columns: &["", "ev/s", "CPU µs/ev", "RSS peak MiB"],
        rows: vec![
            RunCost::median(&stored).row("stored at once"),
            RunCost::median(&aside).row("set aside"),
            RunCost::median(&back).row("sent back and stored"),
        ],
        goals: vec![
            Goal::at_least("jobs are set aside at", speed, 0.5, " × the speed of storing"),
            Goal::at_least("storing costs, against sending back and storing,", cost, 0.3, " ×"),
            Goal::at_most("memory for 500 workspaces that wait", many - one, 20.0, " MiB"),
        ],
    })
}

async fn store(pool: &Arc<Pool>, settings: &Settings, api: &str) -> anyhow::Result<RunCost> {
    let data = machine::data_folder()?;
    drain::fill(data.path(), pool, settings).await?;
    let tokens = data.path().join("tokens.json");
    set_token(&tokens, TEAM)?;
    let observer = Observer::open(data.path())?;
    observer.drain(QueueName::Events, pool.len(), writer(data.path(), &tokens, api)).await
}

/// The costs of setting aside, and of sending back.
async fn wait(pool: &Arc<Pool>, settings: &Settings, api: &str) -> anyhow::Result<(RunCost, RunCost)> {
    let data = machine::data_folder()?;
    drain::fill(data.path(), pool, settings).await?;
    let tokens = data.path().join("tokens.json");
    set_token(&tokens, "T0OTHER")?;
    let observer = Observer::open(data.path())?;
    let started = Instant::now();
    let writer = writer(data.path(), &tokens, api).await;
    until(|| Ok(observer.rows_of("waiting")? == pool.len())).await?;
    let before = writer.usage();
    let aside = RunCost::for_events(pool.len(), started.elapsed(), &before);
    set_token(&tokens, TEAM)?;
    until(|| Ok(observer.rows()? > 0)).await?;
    let started = Instant::now();
    until(|| Ok(observer.rows()? == pool.rows(pool.len()) && observer.rows_of("waiting")? == 0)).await?;
    let after = writer.usage();
    let usage = Usage { cpu: after.cpu.saturating_sub(before.cpu), ..after };
    writer.sigkill().await;
    Ok((aside, RunCost::for_events(pool.len(), started.elapsed(), &usage)))
}

/// The peak of a process while this number of workspaces wait.
async fn peak_mib(teams: usize, api: &str) -> anyhow::Result<f64> {
    let data = machine::data_folder()?;
    let ingest = process::ingest(data.path()).await;
    let posted = event::posted("C0GENERAL", &event::message("1700000000.000100", "U0SOMEBODY", "hello"));
    for team in 0..teams {
        deliver(ingest.address, &format!("T0WAITS{team:04}"), std::slice::from_ref(&posted)).await;
    }
    ingest.process.stop().await;
    let tokens = data.path().join("tokens.json");
    set_token(&tokens, "T0OTHER")?;
    let observer = Observer::open(data.path())?;
    let writer = writer(data.path(), &tokens, api).await;
    until(|| Ok(observer.rows_of("waiting")? == teams)).await?;
    sleep(WAITS).await;
    ensure!(observer.rows()? == 0, "a job without a token was stored");
    let usage = writer.usage();
    writer.sigkill().await;
    Ok(RunCost::for_events(teams, WAITS, &usage).peak_mib)
}

fn set_token(file: &Path, team: &str) -> anyhow::Result<()> {
    std::fs::write(file, format!(r#"{{"{team}": "{}"}}"#, slack::TOKEN)).context("cannot write the tokens")
}

async fn writer(data: &Path, tokens: &Path, api: &str) -> Process {
    let mut command = Command::new(binaries().worker("message-writer"));
    command.args(["--slack-api-url", api]).arg("--data").arg(data);
    process::worker(command.env("SLACK_BOT_TOKENS_FILE", tokens)).await
}

async fn until(holds: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let started = Instant::now();
    while !holds()? {
        ensure!(started.elapsed() < DEADLINE, "it takes longer than {DEADLINE:?}");
        sleep(INTERVAL).await;
    }
    Ok(())
}
