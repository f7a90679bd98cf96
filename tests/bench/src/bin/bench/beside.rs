//! A backlog of messages drained by `annalist up`, alone and with channel and file jobs queued as well.

use std::sync::Arc;
use std::time::Instant;

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::binaries::binaries;
use ::tests::harness::process;
use anyhow::ensure;
use ports::queue::QueueName;
use tokio::process::Command;

use crate::observer::Observer;
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, median, row};
use crate::slack::{self, DirectorySize};
use crate::{Settings, channels, drain, files, machine, progress};

const FILES: usize = 1_000;
/// Number of channels that the channel events are spread over.
const CHANNELS: usize = 1_000;

/// Drains the backlog with and without the other jobs, once per round.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    progress("beside: making requests");
    let api = slack::start(DirectorySize::default()).await?;
    let mut pool = Pool::generate(&mut Workload::new(Shape::default()), settings.backlog)?;
    let (mut alone, mut busy_runs) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("beside: round {round}"));
        for (busy, runs) in [(false, &mut alone), (true, &mut busy_runs)] {
            Pool::sign_again(&mut pool);
            runs.push(run(&pool, settings, &api, busy).await?);
        }
    }
    let (alone, busy) = (median(alone), median(busy_runs));
    Ok(BenchSection {
        title: "Messages beside channels and files",
        method: format!(
            "{} message events queued, then drained by `annalist up`: alone, and with {} channel events and \
             {FILES} files of 10 KB queued as well, the files at the limit of 3,000 a minute. Timed until the \
             message events are done. Medians of {} rounds.",
            settings.backlog,
            channels::EVENTS,
            settings.rounds
        ),
        columns: &["messages", "ev/s"],
        rows: vec![row("alone", &[alone]), row("beside", &[busy])],
        goals: vec![Goal::at_least("messages beside channels and files", busy / alone, 0.9, " ×")],
    })
}

async fn run(pool: &Arc<Pool>, settings: &Settings, api: &str, busy: bool) -> anyhow::Result<f64> {
    let data = machine::data_folder()?;
    drain::fill(data.path(), pool, settings).await?;
    if busy {
        channels::fill(data.path(), CHANNELS).await?;
        files::queue_small(data.path(), api, FILES).await?;
    }
    let observer = Observer::open(data.path())?;
    let mut command = Command::new(&binaries().annalist);
    command.args(["up", "--listen", "127.0.0.1:0", "--slack-api-url", api, "--files-per-minute", "3000"]);
    // `bench existence` measures the cost of the check.
    command.args(["--existence-check", "off"]);
    command.arg("--data").arg(data.path()).env("SLACK_BOT_TOKEN", slack::TOKEN);
    let started = Instant::now();
    let up = process::serve(&mut command).await;
    observer.wait_until_drained(QueueName::Events).await?;
    let elapsed = started.elapsed();
    let rows = observer.rows()?;
    ensure!(rows >= pool.rows(pool.len()), "{rows} rows instead of {}", pool.rows(pool.len()));
    up.process.stop().await;
    Ok(pool.len() as f64 / elapsed.as_secs_f64())
}
