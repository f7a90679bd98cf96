//! `annalist up` under load: the time from ack to readable row, at fixed rates and at full speed.

use std::time::{Duration, Instant};

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::process;
use anyhow::ensure;
use tokio::sync::mpsc;

use ports::queue::QueueName;

use crate::driver::{DrivenLoad, LoadResult, SendingPace, drive};
use crate::observer::Observer;
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, SortedTimes, figure, mib};
use crate::{Settings, machine, progress};

/// Acks per second that a closed loop cannot exceed while the writer works.
const FLAT_OUT_PER_SECOND: u64 = 40_000;
/// A rate counts as sustained if at most the events of this many seconds are queued when the load ends.
const BACKLOG_S: f64 = 0.5;

struct SustainedRun {
    driven: LoadResult,
    lags: SortedTimes,
    backlog_at_end: usize,
    /// Time from the first request until every event was drained.
    elapsed: Duration,
    cpu: Duration,
    peak_mib: f64,
}

impl SustainedRun {
    /// Returns the events per second until the last event was drained.
    fn end_to_end_per_second(&self) -> f64 {
        self.driven.acked as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the same rate, or zero if the writer fell behind and the queue grew.
    fn sustained_per_second(&self) -> f64 {
        let kept_up = self.backlog_at_end as f64 <= self.driven.per_second() * BACKLOG_S;
        if kept_up { self.end_to_end_per_second() } else { 0.0 }
    }
}

/// Runs each rate once, then a closed loop.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let mut rows = Vec::new();
    let (mut sustained, mut peak_mib) = (0.0_f64, 0.0_f64);
    for rate in &settings.rates {
        progress(&format!("sustained: {rate} events per second"));
        let run = run(SendingPace::PerSecond(*rate), *rate, settings).await?;
        sustained = sustained.max(run.sustained_per_second());
        peak_mib = peak_mib.max(run.peak_mib);
        rows.push(row(&format!("{rate} ev/s offered"), &run));
    }
    progress("sustained: flat out");
    let flat_out = run(SendingPace::ClosedLoop, FLAT_OUT_PER_SECOND, settings).await?;
    rows.push(row("closed loop", &flat_out));
    sustained = sustained.max(flat_out.sustained_per_second());
    peak_mib = peak_mib.max(flat_out.peak_mib);
    Ok(BenchSection {
        title: "From ack to readable row",
        method: format!(
            "`annalist up` on a new folder, {} connections, {} s of load per run. Latency of fixed rates counts from \
             the moment a request was due. Lag is from an ack until another process reads the row, sampled every \
             10 ms and seen every 3 ms. End to end counts until the last event was drained.",
            settings.connections, settings.seconds
        ),
        columns: &[
            "load",
            "acked ev/s",
            "ack p50 ms",
            "ack p99 ms",
            "lag p50 ms",
            "lag p99 ms",
            "queued at end",
            "end to end ev/s",
            "CPU µs/ev",
            "RSS peak MiB",
            "refused",
        ],
        rows,
        goals: vec![
            Goal::at_least("acked → row readable, sustained", sustained, 10_000.0, " ev/s"),
            Goal::at_most("`annalist up` RSS under these loads", peak_mib, 100.0, " MiB"),
        ],
    })
}

async fn run(pace: SendingPace, max_per_second: u64, settings: &Settings) -> anyhow::Result<SustainedRun> {
    let count = usize::try_from(max_per_second * settings.seconds)?;
    let pool = Pool::generate(&mut Workload::new(Shape::default()), count)?;
    let data = machine::data_folder()?;
    let server = process::up(data.path()).await;
    let observer = Observer::open(data.path())?;
    let before = server.process.usage();
    let max_duration = Some(settings.load_time());
    let load = DrivenLoad { max_duration, pace, ..DrivenLoad::whole(&pool, settings.connections()) };
    let (samples, sampled) = mpsc::unbounded_channel();
    let started = Instant::now();
    let driving = async {
        let driven = drive(server.address, &pool, load, Some(samples)).await?;
        anyhow::Ok((driven, observer.backlog(QueueName::Events)?))
    };
    let (driven, lags) = tokio::join!(driving, observer.measure_lags(&pool, sampled));
    let ((driven, backlog_at_end), lags) = (driven?, lags?);
    observer.wait_until_drained(QueueName::Events).await?;
    let elapsed = started.elapsed();
    let after = server.process.usage();
    let (rows, expected) = (observer.rows()?, pool.rows(driven.acked));
    ensure!(rows == expected, "{rows} rows instead of {expected}");
    server.process.sigkill().await;
    Ok(SustainedRun {
        driven,
        lags,
        backlog_at_end,
        elapsed,
        cpu: after.cpu - before.cpu,
        peak_mib: mib(after.peak_rss_kib),
    })
}

fn row(load: &str, run: &SustainedRun) -> Vec<String> {
    let acked = run.driven.acked as f64;
    let count = |count: usize| format!("{count}");
    vec![
        load.to_owned(),
        figure(run.driven.per_second()),
        figure(run.driven.latencies.percentile(50)),
        figure(run.driven.latencies.percentile(99)),
        figure(run.lags.percentile(50)),
        figure(run.lags.percentile(99)),
        count(run.backlog_at_end),
        figure(run.end_to_end_per_second()),
        figure(run.cpu.as_secs_f64() * 1e6 / acked),
        figure(run.peak_mib),
        count(run.driven.refused),
    ]
}
