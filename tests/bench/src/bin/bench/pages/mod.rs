//! Pages of a large archive: first and deep pages of a channel, a thread, a search, and many concurrent
//! readers; then in a browser, and compared with another viewer.

mod paint;
mod peer;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use ::tests::harness::binaries::binaries;
use ::tests::harness::process::{self, ServerProcess};
use anyhow::{Context, ensure};
use embedded::Database;
use ports::archive::{ItemKey, Query, key};
use ports::clock::SystemClock;
use slack::ids::{ChannelId, TeamId, Ts};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::import::export::{self, USUAL_SPREAD};
use crate::report::{BenchSection, Goal, SortedTimes, figure, mib, row};
use crate::watched::annalist;
use crate::{Settings, import, machine, progress};

/// Number of sequential requests for each page.
const REQUESTS: usize = 200;

/// Number of concurrent readers.
const READERS: usize = 16;

/// The channel that is read.
pub(crate) const CHANNEL: &str = "C00001";

/// The times and the size of one page.
pub(crate) struct PageMeasurement {
    pub(crate) times: SortedTimes,
    bytes: usize,
}

/// Reads pages of an archive with `settings.rows` messages.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Vec<BenchSection>> {
    let data = machine::data_folder()?;
    import::fill(data.path(), settings.rows, USUAL_SPREAD).await?;
    annalist(data.path(), &["index"]).await?;
    let middle = middle_of_channel(data.path()).await?;

    let server = serve(data.path()).await;
    let channel = format!("/c/{}/{CHANNEL}", export::TEAM);
    // One request first, so that data that is read once at the start is not counted.
    let _: PageMeasurement = request_page(server.address, "/", 1).await?;
    let before = server.process.usage().rss_kib;
    let mut rows = Vec::new();
    let mut pages = Vec::new();
    let listed = [
        ("the newest messages of a channel", channel.clone()),
        ("messages in its middle", format!("{channel}?around={middle}")),
        ("messages before them", format!("{channel}?before={middle}")),
        ("a thread beside its channel", format!("/t/{}/{CHANNEL}/{middle}", export::TEAM)),
        ("hits of a frequent word", format!("/search?q={}", export::word_of_rank(10))),
    ];
    for (what, path) in &listed {
        progress(&format!("pages: {what}"));
        let page = request_page(server.address, path, REQUESTS).await?;
        let [half, most, greatest] = page.times.summary();
        rows.push(row(*what, &[half, most, greatest, page.bytes as f64 / 1000.0]));
        pages.push(page);
    }
    progress("pages: readers at once");
    let rate =
        pages_per_second(server.address, &format!("{channel}?around={middle}"), settings.load_time()).await?;
    let grown = server.process.usage().peak_rss_kib.saturating_sub(before);
    let in_browser = paint::measure(server.address, &listed).await;
    server.process.sigkill().await;
    let pages = BenchSection {
        title: "Pages",
        method: format!(
            "`annalist view` on {} messages in {} channels. Each page {REQUESTS} times, one after the other, on one connection; then \
             {READERS} connections that read the middle of a channel without a pause: {} pages a second. Memory is what the process took at \
             most, beyond what it had after its first page: {} MiB.",
            settings.rows,
            USUAL_SPREAD.channels,
            figure(rate),
            figure(mib(grown)),
        ),
        columns: &["", "p50 ms", "p95 ms", "greatest ms", "kB"],
        rows,
        goals: vec![
            Goal::at_most("p95 of the first page", pages[0].times.percentile(95), 50.0, " ms"),
            Goal::at_most("p95 of a deep page", pages[1].times.percentile(95), 50.0, " ms"),
            Goal::at_most("the first page", pages[0].bytes as f64 / 1000.0, 100.0, " kB"),
            Goal::at_most("a deep page", pages[1].bytes as f64 / 1000.0, 100.0, " kB"),
            Goal::at_least("pages at 16 connections", rate, 200.0, " a second"),
            Goal::at_most("memory for pages", mib(grown), 30.0, " MiB"),
        ],
    };
    Ok(vec![pages, in_browser, peer::measure(settings).await?])
}

pub(crate) async fn serve(data: &Path) -> ServerProcess {
    serve_with(&binaries().annalist, data).await
}

pub(crate) async fn serve_with(program: &Path, data: &Path) -> ServerProcess {
    let mut command = Command::new(program);
    command.args(["view", "--viewer-listen", "127.0.0.1:0", "--data"]).arg(data);
    process::serve(&mut command).await
}

/// Returns a message in the middle of the channel's time.
async fn middle_of_channel(data: &Path) -> anyhow::Result<Ts> {
    let database = Database::open_existing(data, SystemClock::shared())?;
    let archive = database.archive();
    let partition = key::messages(&TeamId::parse(export::TEAM)?, &ChannelId::parse(CHANNEL)?);
    let first_of = async |after: Option<ItemKey>, descending: bool| {
        let query = Query { after, descending, limit: 1, ..Query::partition(partition.clone()) };
        let page = archive.query(&query).await?;
        let row = page.items.into_iter().next().context("there is no such message")?;
        anyhow::Ok(Ts::parse(&row.key.timestamp)?)
    };
    let (first, last) = (first_of(None, false).await?, first_of(None, true).await?);
    let middle = reader::range::ts_from_micros(first.micros().midpoint(last.micros()));
    let found = first_of(Some(ItemKey::new(partition.clone(), middle.as_str())), false).await?;
    database.close().await;
    Ok(found)
}

pub(crate) fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

pub(crate) async fn request_page(
    address: SocketAddr,
    path: &str,
    count: usize,
) -> anyhow::Result<PageMeasurement> {
    let mut connection = Connection::open(address).await?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        let status = connection.exchange(request(path).as_bytes()).await?;
        times.push(started.elapsed());
        ensure!(status == 200, "{path}: {status}");
    }
    Ok(PageMeasurement { times: SortedTimes::from_unsorted(times), bytes: connection.answer_bytes() })
}

async fn pages_per_second(address: SocketAddr, path: &str, time: Duration) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let request = request(path);
        readers.spawn(async move {
            let mut connection = Connection::open(address).await?;
            let mut pages = 0_u32;
            while started.elapsed() < time {
                ensure!(connection.exchange(request.as_bytes()).await? == 200, "a page failed");
                pages += 1;
            }
            Ok(pages)
        });
    }
    let mut pages = 0;
    while let Some(read) = readers.join_next().await {
        pages += read??;
    }
    Ok(f64::from(pages) / started.elapsed().as_secs_f64())
}
