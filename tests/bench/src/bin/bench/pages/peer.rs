//! The same export in slack-export-viewer, <https://github.com/hfaran/slack-export-viewer>.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ::tests::harness::{procfs, python};
use anyhow::{Context, bail, ensure};
use tokio::process::Command;
use tokio::time::sleep;

use super::{CHANNEL, request_page, serve};
use crate::connection::Connection;
use crate::import::export::{self, USUAL_SPREAD};
use crate::report::{BenchSection, Goal, median, mib, ms, row};
use crate::watched::annalist;
use crate::{Settings, machine, progress};

/// Number of messages of the export: the peer keeps all of them in memory.
const MESSAGES: usize = 20_000;

/// The peer reads the whole export before it answers.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Interval between two checks whether the peer answers.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Number of sequential requests for the page.
const REQUESTS: usize = 50;

/// The figures of one viewer.
struct ViewerRun {
    start_ms: f64,
    page_ms: f64,
    page_bytes: usize,
    peak_rss_mib: f64,
}

/// Measures a channel page of an export in both viewers.
pub(super) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let messages = settings.rows.min(MESSAGES);
    let folder = machine::data_folder()?;
    let zip = folder.path().join("export.zip");
    export::write(&zip, messages, USUAL_SPREAD)?;
    progress("pages: a small export in annalist");
    let data = folder.path().join("data");
    let began = Instant::now();
    annalist(&data, &["import", &zip.display().to_string(), "--no-files"]).await?;
    annalist(&data, &["index"]).await?;
    let import = began.elapsed();
    let ours = measure_annalist(&data).await?;
    let row = |what: &str, run: &ViewerRun| {
        row(what, &[run.start_ms, run.page_ms, run.page_bytes as f64 / 1000.0, run.peak_rss_mib])
    };
    let mut section = BenchSection {
        title: "Pages beside slack-export-viewer",
        method: format!(
            "An export of {messages} messages in {} channels. Start: from starting the process to the 200 of a channel's page. Then the page \
             {REQUESTS} times, medians; `annalist view` shows the newest 50 messages, slack-export-viewer the whole channel. Before, `annalist \
             import` and `annalist index` took {:.1} s, once; slack-export-viewer reads the export at each start.",
            USUAL_SPREAD.channels,
            import.as_secs_f64()
        ),
        columns: &["", "start ms", "page ms", "page kB", "RSS peak MiB"],
        rows: vec![row("`annalist view`", &ours)],
        goals: Vec::new(),
    };
    match python::slack_export_viewer() {
        Err(why) => section.method.push_str(&format!(" slack-export-viewer is not installed: {why}.")),
        Ok(program) => {
            progress("pages: the same export in slack-export-viewer");
            let theirs = measure_peer(&program, &zip, folder.path()).await?;
            section.rows.push(row("slack-export-viewer 3.5.0", &theirs));
            let times = theirs.start_ms / ours.start_ms;
            section.goals.push(Goal::at_least(
                "start, beside slack-export-viewer",
                times,
                1.0,
                " times as fast",
            ));
        }
    }
    Ok(section)
}

async fn measure_annalist(data: &Path) -> anyhow::Result<ViewerRun> {
    let path = format!("/c/{}/{CHANNEL}", export::TEAM);
    let began = Instant::now();
    let server = serve(data).await;
    wait_for_answer(server.address, &path).await?;
    let start_ms = ms(began.elapsed());
    let run = read(server.address, &path, start_ms, server.process.pid()).await?;
    server.process.sigkill().await;
    Ok(run)
}

async fn measure_peer(program: &Path, zip: &Path, folder: &Path) -> anyhow::Result<ViewerRun> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut command = Command::new(program);
    command.args(["--no-browser", "--ip", "127.0.0.1", "--port", &port.to_string(), "--archive"]).arg(zip);
    // The peer unpacks the export into TMPDIR and does not remove it.
    command.env_clear().env("TMPDIR", folder).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let began = Instant::now();
    let mut child = command.spawn().context("slack-export-viewer cannot be started")?;
    let pid = child.id().context("slack-export-viewer has ended")?;
    let path = "/channel/channel-1/";
    tokio::select! {
        answered = wait_for_answer(address, path) => answered?,
        ended = child.wait() => bail!("slack-export-viewer has ended: {}", ended?),
    }
    let run = read(address, path, ms(began.elapsed()), pid).await?;
    child.kill().await?;
    Ok(run)
}

/// Waits until the server answers a page.
async fn wait_for_answer(address: SocketAddr, path: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        if let Ok(mut connection) = Connection::open(address).await {
            let status = connection.exchange(super::request(path).as_bytes()).await?;
            ensure!(status == 200, "{path}: {status}");
            return Ok(());
        }
        ensure!(began.elapsed() < START_TIMEOUT, "no answer after {START_TIMEOUT:?}");
        sleep(POLL_INTERVAL).await;
    }
}

async fn read(address: SocketAddr, path: &str, start_ms: f64, pid: u32) -> anyhow::Result<ViewerRun> {
    let (mut times, mut page_bytes) = (Vec::new(), 0);
    for _ in 0..REQUESTS {
        let page = request_page(address, path, 1).await?;
        times.push(page.times.percentile(100));
        page_bytes = page.bytes;
    }
    let usage = procfs::usage(pid).context("the viewer has ended")?;
    Ok(ViewerRun { start_ms, page_ms: median(times), page_bytes, peak_rss_mib: mib(usage.peak_rss_kib) })
}
