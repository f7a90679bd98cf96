//! Fetches files with a `file-downloader` from a fake Slack on the same machine.

use std::path::Path;
use std::time::{Duration, Instant};

use ::slack::ids::{ChannelId, TeamId, Ts};
use ::testkit::corpus::TEAM;
use ::tests::harness::binaries::binaries;
use ::tests::harness::process::{self, Process};
use anyhow::{Context, ensure};
use embedded::Database;
use ports::clock::SystemClock;
use ports::queue::{Outgoing, QueueName};
use rules::file::row::Share;
use rules::file::{FileJob, FileObject};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::observer::Observer;
use crate::report::{BenchSection, Goal, figure, median, mib, row};
use crate::slack::{self, DirectorySize};
use crate::{Settings, machine, progress};

const SMALL_FILES: usize = 1_000;
const SMALL_BYTES: usize = 10_000;
/// The rate limit. The bench measures how close the downloader comes to it.
const FILES_PER_MINUTE: usize = 3_000;
/// The limiter lets a sixth of a minute's files through at once.
const BURST: usize = FILES_PER_MINUTE / 6;
const LARGE_BYTES: usize = 500 * 1024 * 1024;
/// Number of jobs sent at once: a full transaction.
const SENT_AT_ONCE: usize = 1000;

/// Fetches many small files and one large file.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let api = slack::start(DirectorySize::default()).await?;
    let (mut seconds, mut peaks, mut extra, mut large_seconds) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("files: round {round}"));
        let small = run(&api, SMALL_FILES, SMALL_BYTES).await?;
        seconds.push(small.elapsed.as_secs_f64());
        peaks.push(small.peak_mib);
        let large = run(&api, 1, LARGE_BYTES).await?;
        large_seconds.push(large.elapsed.as_secs_f64());
        extra.push(large.peak_mib - large.idle_mib);
    }
    let (seconds, extra) = (median(seconds), median(extra));
    let allowed = (SMALL_FILES - BURST) as f64 * 60.0 / FILES_PER_MINUTE as f64;
    Ok(BenchSection {
        title: "Fetching files",
        method: format!(
            "{SMALL_FILES} files of {SMALL_BYTES} bytes at {FILES_PER_MINUTE} a minute, then one of {} MiB, each by a \
             `file-downloader` of its own. Medians of {} rounds. The limiter allows {} s for the small ones.",
            LARGE_BYTES / 1024 / 1024,
            settings.rounds,
            figure(allowed)
        ),
        columns: &["files", "seconds", "RSS peak MiB"],
        rows: vec![
            row("small", &[seconds, median(peaks)]),
            row("large (memory beyond idle)", &[median(large_seconds), extra]),
        ],
        goals: vec![
            Goal::at_most("small files, of the time the limiter allows", seconds / allowed, 1.3, " ×"),
            Goal::at_most("memory beyond idle for a large file", extra, 32.0, " MiB"),
        ],
    })
}

struct FilesRun {
    elapsed: Duration,
    idle_mib: f64,
    peak_mib: f64,
}

async fn run(api: &str, files: usize, bytes: usize) -> anyhow::Result<FilesRun> {
    let data = machine::data_folder()?;
    // First on an empty folder, to measure the idle memory.
    queue_jobs(data.path(), &[]).await?;
    let idle = downloader(data.path(), api).await;
    let idle_mib = mib(idle.usage().peak_rss_kib);
    idle.sigkill().await;

    queue_files(data.path(), api, files, bytes).await?;
    let observer = Observer::open(data.path())?;
    let started = Instant::now();
    let downloader = downloader(data.path(), api).await;
    observer.wait_until_drained(QueueName::Files).await?;
    let elapsed = started.elapsed();
    let file_rows = observer.rows_of("file")?;
    ensure!(file_rows == files, "{file_rows} of {files} files are known");
    let stored = stored_bytes(&data.path().join("files"))?;
    ensure!(stored == files * bytes, "{stored} bytes are stored instead of {}", files * bytes);
    let peak_mib = mib(downloader.usage().peak_rss_kib);
    downloader.sigkill().await;
    Ok(FilesRun { elapsed, idle_mib, peak_mib })
}

async fn downloader(data: &Path, api: &str) -> Process {
    let mut command = Command::new(binaries().worker("file-downloader"));
    command.args(["--slack-api-url", api, "--files-per-minute", &FILES_PER_MINUTE.to_string()]);
    process::worker(command.arg("--data").arg(data).env("SLACK_BOT_TOKEN", slack::TOKEN)).await
}

/// Queues the jobs of small files.
pub(crate) async fn queue_small(data: &Path, api: &str, files: usize) -> anyhow::Result<()> {
    queue_files(data, api, files, SMALL_BYTES).await
}

async fn queue_files(data: &Path, api: &str, files: usize, bytes: usize) -> anyhow::Result<()> {
    let jobs: Vec<Outgoing> = (0..files).map(|n| job(api, n, bytes)).collect::<anyhow::Result<_>>()?;
    queue_jobs(data, &jobs).await
}

/// Queues jobs in a data folder, which it makes if it is missing.
pub(crate) async fn queue_jobs(data: &Path, jobs: &[Outgoing]) -> anyhow::Result<()> {
    let database = Database::open(data, SystemClock::shared())?;
    for jobs in jobs.chunks(SENT_AT_ONCE) {
        for sent in database.queue().send(jobs.to_vec()).await {
            sent?;
        }
    }
    database.close().await;
    Ok(())
}

fn job(api: &str, n: usize, bytes: usize) -> anyhow::Result<Outgoing> {
    let url = format!("{}files/{bytes}/F{n:05}", api.trim_end_matches("api/"));
    let object: Value = json!({
        "id": format!("F{n:05}"), "name": format!("file-{n}.bin"), "mimetype": "application/octet-stream",
        "size": bytes, "mode": "hosted", "url_private": url, "url_private_download": url,
    });
    let job = FileJob {
        team: TeamId::parse(TEAM)?,
        share: Share { channel: ChannelId::parse("C01")?, ts: Ts::parse(&format!("1700000000.{n:06}"))? },
        user: None,
        object: FileObject::read(&object).context("a file object")?,
        refresh: false,
        version: None,
    };
    Ok(job.outgoing())
}

fn stored_bytes(folder: &Path) -> anyhow::Result<usize> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            stored_bytes(&entry.path())?
        } else {
            usize::try_from(entry.metadata()?.len())?
        };
    }
    Ok(bytes)
}
