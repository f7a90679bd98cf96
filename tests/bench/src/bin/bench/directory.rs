//! The sync of a large directory by a `channel-indexer` at startup.

use std::path::Path;
use std::time::{Duration, Instant};

use ::tests::harness::binaries::binaries;
use ::tests::harness::process;
use anyhow::ensure;
use tokio::process::Command;

use crate::observer::Observer;
use crate::report::{BenchSection, Goal, median_of, mib, row};
use crate::slack::{self, DirectorySize};
use crate::{Settings, machine, progress};

const SIZE: DirectorySize = DirectorySize { channels: 10_000, users: 20_000 };
const DEADLINE: Duration = Duration::from_secs(120);

struct DirectoryRun {
    seconds: f64,
    cpu_seconds: f64,
    peak_mib: f64,
}

/// Syncs into a new folder, then again into the same folder.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let url = slack::start(SIZE).await?;
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("directory: round {round}"));
        let data = machine::data_folder()?;
        first.push(run(data.path(), &url, 1).await?);
        again.push(run(data.path(), &url, 2).await?);
    }
    let [first, again] = [first, again].map(|runs| DirectoryRun {
        seconds: median_of(&runs, |run| run.seconds),
        cpu_seconds: median_of(&runs, |run| run.cpu_seconds),
        peak_mib: median_of(&runs, |run| run.peak_mib),
    });
    let row = |what: &str, run: &DirectoryRun| row(what, &[run.seconds, run.cpu_seconds, run.peak_mib]);
    Ok(BenchSection {
        title: "Bringing in the directory",
        method: format!(
            "{} channels and {} people, from a Slack in the same machine that answers at once: from the start of a \
             `channel-indexer` to its finished sync, the other side's time included. Then again on the same folder, \
             where nothing is new. Medians of {} rounds.",
            SIZE.channels, SIZE.users, settings.rounds
        ),
        columns: &["folder", "seconds", "CPU seconds", "RSS peak MiB"],
        rows: vec![row("new", &first), row("the same", &again)],
        goals: vec![
            Goal::at_most("a directory is brought in within", first.seconds, 5.0, " s"),
            Goal::at_most("memory of it", first.peak_mib, 100.0, " MiB"),
        ],
    })
}

/// Starts an indexer on this folder for the nth time and waits for its sync.
async fn run(data: &Path, url: &str, nth: usize) -> anyhow::Result<DirectoryRun> {
    let started = Instant::now();
    let mut command = Command::new(binaries().worker("channel-indexer"));
    command.args(["--slack-api-url", url]).arg("--data").arg(data).env("SLACK_BOT_TOKEN", slack::TOKEN);
    let indexer = process::worker(&mut command).await;
    let observer = Observer::open(data)?;
    indexer.wait_for_log("the directory is synced", DEADLINE).await;
    let elapsed = started.elapsed();
    let usage = indexer.usage();
    let (channels, users) = (observer.rows_of("channel")?, observer.rows_of("user")?);
    ensure!(channels == SIZE.channels, "{channels} channels after sync {nth}");
    ensure!(users == SIZE.users, "{users} people after sync {nth}");
    indexer.stop().await;
    Ok(DirectoryRun {
        seconds: elapsed.as_secs_f64(),
        cpu_seconds: usage.cpu.as_secs_f64(),
        peak_mib: mib(usage.peak_rss_kib),
    })
}
