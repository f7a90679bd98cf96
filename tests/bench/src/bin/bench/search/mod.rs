//! Searches an archive into which an export was imported, compared with FTS5 with its default tokenizer and
//! `rg` over the same texts.

mod baselines;
mod queries;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::search::hits::{self, SearchRequest};
use ::search::index::SearchIndex;
use ::testkit::corpus::event;
use ::tests::harness::client::{EventClient, RetryDelays};
use ::tests::harness::process;
use anyhow::{Context, ensure};
use embedded::Database;
use jiff::tz::TimeZone;
use ports::archive::Archive;
use ports::clock::SystemClock;
use reader::search::query::SearchQuery;
use slack::ids::TeamId;
use tokio::time::sleep;

use crate::import::export::{self, USUAL_SPREAD};
use crate::report::{BenchSection, Goal, SortedTimes, figure};
use crate::watched::annalist;
use crate::{Settings, import, machine, progress};

/// The index file in the data folder.
const INDEX_FILE: &str = "index.db";

/// Number of word queries for which a process is started.
const STARTED: usize = 40;

/// Number of new messages that are posted and searched for.
const POSTED: usize = 10;

/// Polling interval for a new message.
const INTERVAL: Duration = Duration::from_millis(5);

const DEADLINE: Duration = Duration::from_secs(60);

/// The time and size of an index rebuild, the time of the import, and the time for a tenth of the messages.
struct Rebuilt {
    time: Duration,
    import_time: Duration,
    tenth_time: Duration,
    bytes_per_message: f64,
}

/// Searches an archive with `settings.rows` messages.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let data = machine::data_folder()?;
    let baselines = machine::data_folder()?;
    let tenth_time = {
        let tenth = machine::data_folder()?;
        import::fill(tenth.path(), settings.rows / 10, USUAL_SPREAD).await?;
        progress("search: making the index of a tenth");
        annalist(tenth.path(), &["index", "--rebuild"]).await?.time
    };
    let started = Instant::now();
    import::fill(data.path(), settings.rows, USUAL_SPREAD).await?;
    let import_time = started.elapsed();
    progress("search: making the index");
    let rebuilt = rebuild(data.path(), settings.rows, import_time, tenth_time).await?;
    let all = queries::queries();
    let words = &all[..queries::WORDS_ALONE];
    progress("search: copying the texts");
    let (texts, lines) = baselines::copy(data.path(), baselines.path())?;
    let time_fts5 = |order: &str| -> anyhow::Result<SortedTimes> {
        let times = words.iter().map(|query| baselines::fts5(&texts, query, order));
        Ok(SortedTimes::from_unsorted(times.collect::<anyhow::Result<_>>()?))
    };
    let database = Database::open_existing(data.path(), SystemClock::shared())?;
    let archive = database.archive();
    let index = SearchIndex::open(&data.path().join(INDEX_FILE)).await?;
    let mut rows = Vec::new();
    let mut add = |what: &str, times: SortedTimes| {
        let count = times.len().to_string();
        rows.push([what.to_owned(), count].into_iter().chain(times.summary().map(figure)).collect());
        times
    };
    progress("search: queries");
    let newest = add("all queries, newest first", search(&*archive, &index, &all, false).await?);
    let ranked = add("all queries, `--rank`", search(&*archive, &index, &all, true).await?);
    add("words alone, newest first", search(&*archive, &index, words, false).await?);
    add("… FTS5, newest first", time_fts5(baselines::NEWEST)?);
    add("words alone, `--rank`", search(&*archive, &index, words, true).await?);
    add("… FTS5, by rank", time_fts5(baselines::BEST)?);
    progress("search: rg");
    let times =
        words[..STARTED].iter().map(|word| baselines::rg(word, &lines)).collect::<anyhow::Result<_>>()?;
    add("words alone, `rg` as a process", SortedTimes::from_unsorted(times));
    progress("search: processes");
    let mut started = Vec::new();
    for query in &words[..STARTED] {
        started.push(annalist(data.path(), &["search", query]).await?.time);
    }
    let started = add("words alone, `annalist search` as a process", SortedTimes::from_unsorted(started));
    progress("search: new messages");
    let fresh = add("a new message, from its 200", new_messages(data.path(), &archive, &index).await?);
    database.close().await;
    Ok(section(settings, rows, &rebuilt, [&newest, &ranked, &started, &fresh]))
}

fn section(
    settings: &Settings,
    rows: Vec<Vec<String>>,
    rebuilt: &Rebuilt,
    [newest, ranked, started, fresh]: [&SortedTimes; 4],
) -> BenchSection {
    BenchSection {
        title: "Search",
        method: format!(
            "{} messages of {} people in {} channels, 16 words each on average, of {} words with Zipf-distributed frequencies. {} fixed \
             queries, each for {} hits with snippets and links, read from the archive in one process; the first {} are words that are all to \
             be there, which FTS5 with its default tokenizer answers too, from a table that holds the texts. `rg` reads them as JSON lines. \
             A new message is posted to `annalist up`, and looked for every {INTERVAL:?}. The index was made by `annalist index` in {} s, and \
             that of a tenth of the messages in {} s.",
            settings.rows,
            export::PEOPLE,
            USUAL_SPREAD.channels,
            export::WORDS,
            queries::QUERIES,
            baselines::SHOWN,
            queries::WORDS_ALONE,
            figure(rebuilt.time.as_secs_f64()),
            figure(rebuilt.tenth_time.as_secs_f64()),
        ),
        columns: &["", "number", "p50 ms", "p95 ms", "greatest ms"],
        rows,
        goals: vec![
            Goal::at_most("p95 of a search", newest.percentile(95), 50.0, " ms"),
            Goal::at_most("p95 of a search with `--rank`", ranked.percentile(95), 100.0, " ms"),
            Goal::at_most("`annalist search`, from start to end, p95", started.percentile(95), 80.0, " ms"),
            Goal::at_most("a new message is found within", fresh.percentile(100), 1_000.0, " ms"),
            Goal::at_most("the index takes", rebuilt.bytes_per_message, 300.0, " bytes a message"),
            Goal::at_most("the index is made within", rebuilt.time.as_secs_f64(), 60.0, " s"),
            Goal::at_most(
                "ten times the messages take",
                rebuilt.time.as_secs_f64() / rebuilt.tenth_time.as_secs_f64(),
                11.0,
                " × as long",
            ),
            Goal::at_most(
                "the index takes, compared with the import,",
                rebuilt.time.as_secs_f64() / rebuilt.import_time.as_secs_f64(),
                2.0,
                " × as long",
            ),
        ],
    }
}

async fn rebuild(
    data: &Path,
    messages: usize,
    import_time: Duration,
    tenth_time: Duration,
) -> anyhow::Result<Rebuilt> {
    let time = annalist(data, &["index", "--rebuild"]).await?.time;
    let bytes = std::fs::metadata(data.join(INDEX_FILE))?.len();
    Ok(Rebuilt { time, import_time, tenth_time, bytes_per_message: bytes as f64 / messages as f64 })
}

/// Times each query.
async fn search(
    archive: &dyn Archive,
    index: &SearchIndex,
    queries: &[String],
    is_ranked: bool,
) -> anyhow::Result<SortedTimes> {
    let mut times = Vec::with_capacity(queries.len());
    for query in queries {
        let started = Instant::now();
        hits::search(archive, index, request(query, is_ranked)?)
            .await
            .with_context(|| format!("the query {query}"))?;
        times.push(started.elapsed());
    }
    Ok(SortedTimes::from_unsorted(times))
}

fn request(query: &str, is_ranked: bool) -> anyhow::Result<SearchRequest> {
    Ok(SearchRequest {
        query: SearchQuery::parse(query)?,
        teams: vec![TeamId::parse(export::TEAM)?],
        zone: TimeZone::UTC,
        limit: baselines::SHOWN,
        is_ranked,
        with_deleted: false,
        before: None,
        hidden: Arc::default(),
    })
}

/// Measures the time from the 200 for a message until a search finds it, while `annalist up` runs.
async fn new_messages(
    data: &Path,
    archive: &Arc<dyn Archive>,
    index: &SearchIndex,
) -> anyhow::Result<SortedTimes> {
    let up = process::up(data).await;
    let mut slack = EventClient::for_address(up.address, RetryDelays::none());
    let mut times = Vec::with_capacity(POSTED);
    for number in 0..POSTED {
        let word = format!("posted{number}");
        let posted =
            event::posted("C00001", &event::message(&format!("1700000000.{number:06}"), "U00001", &word));
        let body = event::envelope(export::TEAM, &format!("Ev{number}"), &posted);
        ensure!(slack.deliver(&body).await.is_ok(), "an event was not acked");
        let acked = Instant::now();
        while hits::search(&**archive, index, request(&word, false)?).await?.hits.is_empty() {
            ensure!(acked.elapsed() < DEADLINE, "a new message was never found");
            sleep(INTERVAL).await;
        }
        times.push(acked.elapsed());
    }
    up.process.sigkill().await;
    Ok(SortedTimes::from_unsorted(times))
}
