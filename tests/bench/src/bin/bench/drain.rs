//! A backlog filled through `ingest` with no worker, then drained by one `message-writer`, alone and beside a search index that
//! follows the archive or a statistician that counts it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::binaries::binaries;
use ::tests::harness::process::{self, Process};
use anyhow::ensure;

use ports::queue::QueueName;
use tokio::process::Command;

use crate::driver::{Load, Pace, drive};
use crate::observer::Observer;
use crate::pool::Pool;
use crate::report::{Goal, Section, figure, median, mib};
use crate::{Settings, machine, progress};

pub(crate) const DEADLINE: Duration = Duration::from_secs(300);

struct Run {
    per_second: f64,
    cpu_us: f64,
    peak_mib: f64,
}

/// Fills and works off the backlog, once per round.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Section> {
    progress("drain: making requests");
    let mut pool = Arc::new(Pool::generate(&mut Workload::new(Shape::default()), settings.backlog)?);
    let (mut alone, mut followed, mut counted) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("drain: round {round}"));
        let all = [
            (&mut alone, Beside::Nothing),
            (&mut followed, Beside::Index),
            (&mut counted, Beside::Statistician),
        ];
        for (runs, beside) in all {
            if let Some(pool) = Arc::get_mut(&mut pool) {
                pool.sign();
            }
            runs.push(run(&pool, settings, beside).await?);
        }
    }
    let of = |runs: &[Run], figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
    let row = |what: &str, runs: &[Run]| {
        let figures =
            [of(runs, |run| run.per_second), of(runs, |run| run.cpu_us), of(runs, |run| run.peak_mib)];
        std::iter::once(what.to_owned()).chain(figures.map(figure)).collect()
    };
    let per_second = of(&alone, |run| run.per_second);
    let share = |runs: &[Run]| of(runs, |run| run.per_second) / per_second;
    Ok(Section {
        title: "Draining a backlog",
        method: format!(
            "{} events queued through `ingest` with no worker; then one `message-writer`, timed from its start until \
             the queue is empty: alone, beside `annalist index --follow`, and beside a `statistician` on the same folder. CPU \
             is the writer's. Medians of {} interleaved rounds.",
            settings.backlog, settings.rounds
        ),
        columns: &["", "ev/s", "CPU µs/ev", "RSS peak MiB"],
        rows: vec![
            row("alone", &alone),
            row("beside a search index that follows", &followed),
            row("beside a statistician", &counted),
        ],
        goals: vec![
            Goal::at_least("a backlog drains at", per_second, 30_000.0, " ev/s"),
            Goal::at_least("… beside a search index that follows", share(&followed), 0.9, " ×"),
            Goal::at_least("… beside a statistician", share(&counted), 0.98, " ×"),
        ],
    })
}

/// Queues every request of the pool.
pub(crate) async fn fill(data: &Path, pool: &Arc<Pool>, settings: &Settings) -> anyhow::Result<()> {
    let ingest = process::ingest(data).await;
    let load = Load {
        range: 0..pool.len(),
        again: false,
        time: None,
        pace: Pace::ClosedLoop,
        connections: settings.connections(),
    };
    let driven = drive(ingest.address, pool, load, None).await?;
    ensure!(driven.acked == pool.len(), "only {} of {} were acked", driven.acked, pool.len());
    ensure!(ingest.process.sigterm(Duration::from_secs(30)).await.success(), "ingest did not end well");
    Ok(())
}

/// A search index that has caught up, and goes on to follow.
async fn follow(data: &Path) -> Process {
    let mut command = Command::new(&binaries().annalist);
    command.args(["index", "--follow", "--data"]).arg(data).env_clear();
    let follower = Process::start(&mut command);
    follower.prints("can be found", DEADLINE).await;
    follower
}

/// What runs beside the writer.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    Index,
    Statistician,
}

/// A statistician that works.
async fn statistician(data: &Path) -> Process {
    let mut command = Command::new(binaries().worker("statistician"));
    command.arg("--data").arg(data).env_clear();
    process::worker(&mut command).await
}

async fn run(pool: &Arc<Pool>, settings: &Settings, beside: Beside) -> anyhow::Result<Run> {
    let data = machine::data_folder()?;
    fill(data.path(), pool, settings).await?;
    let follower = match beside {
        Beside::Nothing => None,
        Beside::Index => Some(follow(data.path()).await),
        Beside::Statistician => Some(statistician(data.path()).await),
    };
    let observer = Observer::open(data.path())?;
    let queued = observer.backlog(QueueName::Events)?;
    ensure!(queued == pool.len(), "{queued} of {} are queued", pool.len());
    let started = Instant::now();
    let writer = process::message_writer(data.path()).await;
    observer.wait_until_drained(QueueName::Events, DEADLINE).await?;
    let elapsed = started.elapsed();
    let usage = writer.usage();
    let rows = observer.rows()?;
    ensure!(rows == pool.rows(pool.len()), "{rows} rows instead of {}", pool.rows(pool.len()));
    writer.sigkill().await;
    if let Some(follower) = follower {
        follower.sigkill().await;
    }
    let events = pool.len() as f64;
    Ok(Run {
        per_second: events / elapsed.as_secs_f64(),
        cpu_us: usage.cpu.as_secs_f64() * 1e6 / events,
        peak_mib: mib(usage.peak_rss_kib),
    })
}
