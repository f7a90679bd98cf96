//! Durable acks: compares `ingest` with the bare handler and with the handler that commits once per event.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::process::{self, ServerProcess};
use tokio::process::Command;

use crate::driver::{DrivenLoad, drive};
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, median_of, mib, row};
use crate::{Settings, machine, progress};

/// More acks per second than any server that stores reaches here. A run ends early if its pool is used up.
const POOL_PER_SECOND: usize = 60_000;
/// Requests before the clock starts.
const WARM_UP: usize = 2_000;

const SYSTEMS: [System; 3] = [System::Bare, System::CommitPerEvent, System::Ingest];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Bare,
    CommitPerEvent,
    Ingest,
}

impl System {
    fn title(self) -> &'static str {
        match self {
            Self::Bare => "bare axum handler: HMAC only, nothing stored",
            Self::CommitPerEvent => "the same, one SQLite commit per event (WAL, FULL)",
            Self::Ingest => "`ingest`: durable queue, group commit (WAL, FULL)",
        }
    }

    async fn start(self, data: &Path) -> anyhow::Result<ServerProcess> {
        let this_program = std::env::current_exe()?;
        Ok(match self {
            Self::Bare => process::serve(Command::new(this_program).arg("serve-bare")).await,
            Self::CommitPerEvent => {
                let mut command = Command::new(this_program);
                process::serve(command.arg("serve-commit-per-event").arg("--data").arg(data)).await
            }
            Self::Ingest => process::ingest(data).await,
        })
    }

    fn row(self, run: AcksRun) -> Vec<String> {
        let mut row = row(
            self.title(),
            &[run.per_second, run.p50_ms, run.p99_ms, run.cpu_us, run.idle_mib, run.peak_mib],
        );
        row.push(format!("{:.0}", run.refused));
        row
    }
}

#[derive(Debug, Clone, Copy)]
struct AcksRun {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us: f64,
    idle_mib: f64,
    peak_mib: f64,
    refused: f64,
}

/// Runs the systems alternately and compares their medians.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    progress("acks: making requests");
    let count = WARM_UP + POOL_PER_SECOND * usize::try_from(settings.seconds)?;
    let mut pool = Pool::generate(&mut Workload::new(Shape::default()), count)?;
    let mut runs = SYSTEMS.map(|_| Vec::new());
    for round in 1..=settings.rounds {
        for (system, runs) in SYSTEMS.iter().zip(&mut runs) {
            progress(&format!("acks: round {round}, {}", system.title()));
            Pool::sign_again(&mut pool);
            let run = run(*system, &pool, settings).await?;
            progress(&system.row(run).join(" | "));
            runs.push(run);
        }
    }
    let [bare, commit, ingest] = runs.map(|runs| median_run(&runs));
    let rows = SYSTEMS.iter().zip([bare, commit, ingest]).map(|(system, run)| system.row(run)).collect();
    Ok(BenchSection {
        title: "Durable acks",
        method: format!(
            "{} connections in a closed loop, driver and server on the same machine, {} s per run, medians of {} \
             interleaved rounds, each on a new folder. CPU is the server's.",
            settings.connections, settings.seconds, settings.rounds
        ),
        columns: &[
            "system",
            "ev/s",
            "p50 ms",
            "p99 ms",
            "CPU µs/ev",
            "RSS idle MiB",
            "RSS peak MiB",
            "refused",
        ],
        rows,
        goals: vec![
            Goal::at_least(
                "acks per second / bare handler's",
                ingest.per_second / bare.per_second,
                0.30,
                " ×",
            ),
            Goal::at_least(
                "acks per second / one commit per event's",
                ingest.per_second / commit.per_second,
                6.0,
                " ×",
            ),
            Goal::at_most("p99 / one commit per event's", ingest.p99_ms / commit.p99_ms, 1.0 / 3.0, " ×"),
            Goal::at_most("CPU per acked event / bare handler's", ingest.cpu_us / bare.cpu_us, 4.0, " ×"),
        ],
    })
}

async fn run(system: System, pool: &Arc<Pool>, settings: &Settings) -> anyhow::Result<AcksRun> {
    let data = machine::data_folder()?;
    let server = system.start(data.path()).await?;
    let idle = server.process.usage();
    let load = |range, time| DrivenLoad {
        range,
        repeat: system == System::Bare,
        max_duration: time,
        ..DrivenLoad::whole(pool, settings.connections())
    };
    let warm_up_time = Some(Duration::from_millis(500));
    drive(server.address, pool, load(0..WARM_UP, warm_up_time), None).await?;
    let before = server.process.usage();
    let driven =
        drive(server.address, pool, load(WARM_UP..pool.len(), Some(settings.load_time())), None).await?;
    let after = server.process.usage();
    server.process.sigkill().await;
    Ok(AcksRun {
        per_second: driven.per_second(),
        p50_ms: driven.latencies.percentile(50),
        p99_ms: driven.latencies.percentile(99),
        cpu_us: (after.cpu - before.cpu).as_secs_f64() * 1e6 / driven.acked as f64,
        idle_mib: mib(idle.rss_kib),
        peak_mib: mib(after.peak_rss_kib),
        refused: driven.refused as f64,
    })
}

fn median_run(runs: &[AcksRun]) -> AcksRun {
    let median = |figure: fn(&AcksRun) -> f64| median_of(runs, figure);
    AcksRun {
        per_second: median(|run| run.per_second),
        p50_ms: median(|run| run.p50_ms),
        p99_ms: median(|run| run.p99_ms),
        cpu_us: median(|run| run.cpu_us),
        idle_mib: median(|run| run.idle_mib),
        peak_mib: median(|run| run.peak_mib),
        refused: median(|run| run.refused),
    }
}
