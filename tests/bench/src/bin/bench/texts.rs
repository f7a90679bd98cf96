//! Long texts of patterns that begin markup and do not end it: the time of each reader grows with their length.

use std::time::{Duration, Instant};

use ::testkit::long_texts::{PATTERNS, text_of};
use anyhow::ensure;

use crate::connection::Connection;
use crate::import::export::{self, TEAM};
use crate::report::{BenchSection, Goal, row};
use crate::watched::annalist;
use crate::{machine, pages, progress};

/// The lengths of the texts. Slack's limit is 40,000 characters, each of which it may escape as five; a forged
/// event has a megabyte.
const BYTES: [usize; 2] = [262_144, 1_048_576];

/// How much longer the long texts are.
const FACTOR: f64 = 4.0;

/// The readers that are measured.
const READERS: [&str; 6] = [
    "`annalist index`",
    "`messages`",
    "`search`",
    "pages",
    "`export --format markdown`",
    "`export --format html`",
];

/// Measures each reader with one message of each pattern, short and long.
pub(crate) async fn measure() -> anyhow::Result<BenchSection> {
    let mut times = Vec::new();
    for bytes in BYTES {
        progress(&format!("texts: {bytes} bytes"));
        times.push(read(bytes).await?);
    }
    let (mut rows, mut worst): (_, f64) = (Vec::new(), 0.0);
    for (number, reader) in READERS.into_iter().enumerate() {
        let [short, long] = [0, 1].map(|size: usize| times[size][number].as_secs_f64());
        worst = worst.max(long / short);
        rows.push(row(reader, &[short, long, long / short]));
    }
    Ok(BenchSection {
        title: "Long texts",
        method: format!(
            "A message of each of {} patterns, such as `<`, `](` and `*a `, repeated to {} and to {} bytes, each in a channel of its own. \
             Seconds for all of them; `messages` and pages are one process or request for each channel. Reading each character once takes \
             {FACTOR} times as long, comparing each with all others {} times.",
            PATTERNS.len(),
            BYTES[0],
            BYTES[1],
            FACTOR * FACTOR,
        ),
        columns: &["", "256 KiB s", "1 MiB s", "×"],
        rows,
        goals: vec![Goal::at_most("four times the text takes", worst, 1.5 * FACTOR, " × as long")],
    })
}

/// Returns the time of each reader.
async fn read(bytes: usize) -> anyhow::Result<Vec<Duration>> {
    let data = machine::data_folder()?;
    let outside = machine::data_folder()?;
    let zip = outside.path().join("export.zip");
    // A row has each character twice, in the text and in the event, which escape a backslash as two and as four.
    let length = |pattern: &str| if pattern.contains('\\') { bytes / 2 } else { bytes };
    let text = |pattern: &&str| format!("needle {} end", text_of(pattern, length(pattern)));
    let texts: Vec<String> = PATTERNS.iter().map(text).collect();
    export::write_texts(&zip, &texts)?;
    let path = |name: &str| outside.path().join(name).to_string_lossy().into_owned();
    annalist(data.path(), &["import", &path("export.zip"), "--team", TEAM]).await?;
    let mut times = vec![annalist(data.path(), &["index", "--rebuild"]).await?.time];
    let started = Instant::now();
    for number in 0..PATTERNS.len() {
        annalist(data.path(), &["messages", &export::channel_id(number)]).await?;
    }
    times.push(started.elapsed());
    let searched = annalist(data.path(), &["search", "needle", "--limit", "100", "--json"]).await?;
    let hits = searched.printed.lines().count();
    ensure!(hits == PATTERNS.len(), "{hits} hits of {} messages", PATTERNS.len());
    times.push(searched.time);

    let server = pages::serve(data.path()).await;
    let started = Instant::now();
    for number in 0..PATTERNS.len() {
        let mut connection = Connection::open(server.address).await?;
        let path = format!("/c/{TEAM}/{}", export::channel_id(number));
        let status = connection.exchange(pages::request(&path).as_bytes()).await?;
        ensure!(status == 200, "{path}: {status}");
    }
    times.push(started.elapsed());
    server.process.sigkill().await;
    for format in ["markdown", "html"] {
        let to = path(format);
        times.push(annalist(data.path(), &["export", "--format", format, "--out", &to]).await?.time);
    }
    Ok(times)
}
