//! A backlog filled through `ingest` with no worker, then drained by one `message-writer`: alone, and
//! concurrently with a search index that follows the archive, a statistician, and an import.

use std::path::Path;
use std::sync::Arc;

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::binaries::binaries;
use ::tests::harness::process::{self, Process};
use anyhow::ensure;

use ports::queue::QueueName;
use tokio::process::Command;

use crate::driver::{DrivenLoad, drive};
use crate::import::export::{self, USUAL_SPREAD};
use crate::observer::{DEADLINE, Observer};
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, RunCost};
use crate::{Settings, machine, progress};

/// The process that uses the archive at the same time.
#[derive(Debug, Clone, Copy)]
enum ConcurrentWork {
    Nothing,
    Index,
    Statistician,
    /// At the lowest priority.
    PoliteImport,
    Import,
}

impl ConcurrentWork {
    const ALL: [Self; 5] = [Self::Nothing, Self::Index, Self::Statistician, Self::PoliteImport, Self::Import];

    fn title(self) -> &'static str {
        match self {
            Self::Nothing => "alone",
            Self::Index => "beside a search index that follows",
            Self::Statistician => "beside a statistician",
            Self::PoliteImport => "beside `nice -n 19 annalist import`",
            Self::Import => "beside `annalist import`",
        }
    }

    /// Starts the process. It is still running when the backlog is drained.
    async fn start(self, data: &Path, export: &Path) -> Option<Process> {
        match self {
            Self::Nothing => None,
            Self::Index => Some(follow(data).await),
            Self::Statistician => Some(statistician(data).await),
            Self::PoliteImport => {
                let mut command = Command::new("nice");
                command.args(["-n", "19"]).arg(&binaries().annalist);
                Some(import(command, data, export))
            }
            Self::Import => Some(import(Command::new(&binaries().annalist), data, export)),
        }
    }
}

/// Fills and drains the backlog, once per round and kind of concurrent work.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    progress("drain: making requests");
    let mut pool = Pool::generate(&mut Workload::new(Shape::default()), settings.backlog)?;
    let folder = machine::data_folder()?;
    let export = folder.path().join("export.zip");
    export::write(&export, settings.rows, USUAL_SPREAD)?;
    let mut runs: [Vec<RunCost>; 5] = Default::default();
    for round in 1..=settings.rounds {
        progress(&format!("drain: round {round}"));
        for (runs, concurrent) in runs.iter_mut().zip(ConcurrentWork::ALL) {
            Pool::sign_again(&mut pool);
            runs.push(run(&pool, settings, concurrent, &export).await?);
        }
    }
    let costs = runs.map(|runs| RunCost::median(&runs));
    let [alone, followed, counted, polite, import] = costs.map(|cost| cost.per_second);
    Ok(BenchSection {
        title: "Draining a backlog",
        method: format!(
            "{} events queued through `ingest` with no worker; then one `message-writer`, timed from its start until \
             the queue is empty: alone, beside `annalist index --follow` on the same folder, beside a `statistician`, and beside an \
             import of an export of {} messages into it, which goes on longer. CPU is the writer's. Medians of {} interleaved rounds.",
            settings.backlog, settings.rows, settings.rounds
        ),
        columns: &["", "ev/s", "CPU µs/ev", "RSS peak MiB"],
        rows: ConcurrentWork::ALL
            .iter()
            .zip(&costs)
            .map(|(concurrent, cost)| cost.row(concurrent.title()))
            .collect(),
        goals: vec![
            Goal::at_least("a backlog drains at", alone, 30_000.0, " ev/s"),
            Goal::at_least("… beside a search index that follows", followed / alone, 0.9, " ×"),
            Goal::at_least("… beside a statistician", counted / alone, 0.98, " ×"),
            Goal::at_least("… beside a polite import", polite / alone, 0.98, " ×"),
            Goal::at_least("… beside an import", import / alone, 0.8, " ×"),
        ],
    })
}

/// Queues every request of the pool.
pub(crate) async fn fill(data: &Path, pool: &Arc<Pool>, settings: &Settings) -> anyhow::Result<()> {
    let ingest = process::ingest(data).await;
    let load = DrivenLoad::whole(pool, settings.connections());
    let driven = drive(ingest.address, pool, load, None).await?;
    ensure!(driven.acked == pool.len(), "only {} of {} were acked", driven.acked, pool.len());
    ingest.process.stop().await;
    Ok(())
}

/// Starts a search index and waits until it has caught up. It continues to follow the archive.
async fn follow(data: &Path) -> Process {
    let mut command = Command::new(&binaries().annalist);
    command.args(["index", "--follow", "--data"]).arg(data).env_clear();
    let follower = Process::start(&mut command);
    follower.wait_for_output("can be found", DEADLINE).await;
    follower
}

/// Starts a statistician.
async fn statistician(data: &Path) -> Process {
    let mut command = Command::new(binaries().worker("statistician"));
    command.arg("--data").arg(data).env_clear();
    process::worker(&mut command).await
}

fn import(mut command: Command, data: &Path, export: &Path) -> Process {
    command.args(["import", "--no-files"]).arg(export).arg("--data").arg(data).env_clear();
    Process::start(&mut command)
}

async fn run(
    pool: &Arc<Pool>,
    settings: &Settings,
    concurrent: ConcurrentWork,
    export: &Path,
) -> anyhow::Result<RunCost> {
    let data = machine::data_folder()?;
    fill(data.path(), pool, settings).await?;
    let other = concurrent.start(data.path(), export).await;
    let observer = Observer::open(data.path())?;
    let queued = observer.backlog(QueueName::Events)?;
    ensure!(queued == pool.len(), "{queued} of {} are queued", pool.len());
    let writer = process::message_writer(data.path());
    let cost = observer.drain(QueueName::Events, pool.len(), writer).await?;
    if let Some(other) = other {
        other.sigkill().await;
    }
    let rows = observer.rows()?;
    let is_complete = match concurrent {
        ConcurrentWork::Nothing | ConcurrentWork::Index | ConcurrentWork::Statistician => {
            rows == pool.rows(pool.len())
        }
        ConcurrentWork::PoliteImport | ConcurrentWork::Import => rows > pool.rows(pool.len()),
    };
    ensure!(is_complete, "{rows} rows instead of {}", pool.rows(pool.len()));
    Ok(cost)
}
