//! Live events while `annalist up` reads Slack's history.

use std::time::Duration;

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::binaries::binaries;
use ::tests::harness::process;
use anyhow::ensure;
use ports::queue::QueueName;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::driver::{DrivenLoad, SendingPace, drive};
use crate::observer::Observer;
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, figure, median_of};
use crate::slack::{self, PAGE_MESSAGES};
use crate::{Settings, machine, progress};

/// Events per second: a fraction of what `up` takes, so that the latency is not that of a queue.
const PER_SECOND: u64 = 2_000;

/// Slack permits 50 calls a minute, so that the last page is read long after the load has ended.
const PAGES: usize = 60;

/// How long the process may take to ask for the first page.
const FIRST_PAGE: Duration = Duration::from_secs(60);

struct FillingRun {
    ack_p50_ms: f64,
    ack_p99_ms: f64,
    lag_p50_ms: f64,
    lag_p99_ms: f64,
    pages: usize,
}

/// Drives the same load with and without history to read, once per round.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let count = usize::try_from(PER_SECOND * seconds(settings))?;
    let mut pool = Pool::generate(&mut Workload::new(Shape::default()), count)?;
    let (mut alone, mut filling) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("filling: round {round}"));
        for (mode, runs) in [("off", &mut alone), ("all", &mut filling)] {
            Pool::sign_again(&mut pool);
            runs.push(run(&pool, settings, mode).await?);
        }
    }
    let row = |what: &str, runs: &[FillingRun]| {
        let figures: [fn(&FillingRun) -> f64; 5] = [
            |run| run.ack_p50_ms,
            |run| run.ack_p99_ms,
            |run| run.lag_p50_ms,
            |run| run.lag_p99_ms,
            |run| run.pages as f64,
        ];
        let medians = figures.into_iter().map(|of| figure(median_of(runs, of)));
        std::iter::once(what.to_owned()).chain(medians).collect::<Vec<_>>()
    };
    let ratio = |of: fn(&FillingRun) -> f64| median_of(&filling, of) / median_of(&alone, of);
    Ok(BenchSection {
        title: "Live events while history is read",
        method: format!(
            "`annalist up`, {PER_SECOND} events/s for {} s over {} connections, with nothing to read and with {PAGES} pages of \
             {PAGE_MESSAGES} messages of history, at Slack's 50 calls a minute. Latency counts from the moment a \
             request was due, lag from an ack until another process reads the row. Medians of {} rounds.",
            seconds(settings),
            settings.connections,
            settings.rounds
        ),
        columns: &["history", "ack p50 ms", "ack p99 ms", "lag p50 ms", "lag p99 ms", "pages"],
        rows: vec![row("none", &alone), row("being read", &filling)],
        goals: vec![
            Goal::at_most("acks while history is read, p99", ratio(|run| run.ack_p99_ms), 1.25, " ×"),
            Goal::at_most("rows while history is read, p99", ratio(|run| run.lag_p99_ms), 1.25, " ×"),
        ],
    })
}

/// Long enough for some pages: one comes every 1.2 s.
fn seconds(settings: &Settings) -> u64 {
    settings.seconds * 4
}

async fn run(pool: &std::sync::Arc<Pool>, settings: &Settings, mode: &str) -> anyhow::Result<FillingRun> {
    let data = machine::data_folder()?;
    let history = slack::start_with_history(PAGES, PAGE_MESSAGES).await?;
    let mut command = Command::new(&binaries().annalist);
    command.args([
        "up",
        "--listen",
        "127.0.0.1:0",
        "--existence-check",
        "off",
        "--slack-api-url",
        &history.url,
    ]);
    command
        .arg("--data")
        .arg(data.path())
        .env("SLACK_BOT_TOKEN", slack::TOKEN)
        .env("ANNALIST_BACKFILL", mode);
    let server = process::serve(&mut command).await;
    let observer = Observer::open(data.path())?;
    let first = if mode == "off" { "conversations.list" } else { "conversations.history" };
    let begun = async {
        while history.calls(first) == 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(FIRST_PAGE, begun).await?;
    let before = history.calls("conversations.history");
    let pace = SendingPace::PerSecond(PER_SECOND);
    let max_duration = Some(Duration::from_secs(seconds(settings)));
    let load = DrivenLoad { max_duration, pace, ..DrivenLoad::whole(pool, settings.connections()) };
    let (samples, sampled) = mpsc::unbounded_channel();
    let driving = drive(server.address, pool, load, Some(samples));
    let (driven, lags) = tokio::join!(driving, observer.measure_lags(pool, sampled));
    let (driven, lags) = (driven?, lags?);
    let pages = history.calls("conversations.history") - before;
    ensure!((pages > 0) == (mode == "all"), "{pages} pages were read with --backfill {mode}");
    ensure!(driven.refused == 0, "{} events were refused", driven.refused);
    observer.wait_until_drained(QueueName::Events).await?;
    server.process.sigkill().await;
    Ok(FillingRun {
        ack_p50_ms: driven.latencies.percentile(50),
        ack_p99_ms: driven.latencies.percentile(99),
        lag_p50_ms: lags.percentile(50),
        lag_p99_ms: lags.percentile(99),
        pages,
    })
}
