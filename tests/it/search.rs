//! `annalist search`, from signed requests to the hits: real processes on one data folder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use embedded::Database;
use jiff::tz::TimeZone;
use ports::archive::{ArchiveExt, ItemKey, Update};
use ports::clock::SystemClock;
use reader::search::query::SearchQuery;
use rules::history;
use search::hits::{self, SearchRequest};
use search::index::SearchIndex;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId};
use testkit::corpus::{Model, TEAM, event};
use tests::harness::binaries::binaries;
use tests::harness::client::{RetryDelays, deliver};
use tests::harness::command::{annalist, annalist_at, json_lines, wait_until_idle};
use tests::harness::load::RunningLoad;
use tests::harness::process;
use tokio::process::Command;
use workers::store::store_history;

const DEADLINE: Duration = Duration::from_secs(30);
const CHANNEL: &str = "C0GENERAL";
const TS: &str = "1700000000.000100";
const SENDERS: usize = 4;
/// Scaled minute of Slack's retries.
const MINUTE: Duration = Duration::from_millis(20);

fn posted(ts: &str, text: &str) -> Value {
    event::posted(CHANNEL, &event::message(ts, "U01", text))
}

/// Searches until something is found, because a follower may be behind for a moment.
async fn found(data: &Path, query: &str) -> Value {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(hit) = json_lines(data, &["search", query]).await.pop() {
            return hit;
        }
        assert!(Instant::now() < until, "{query} was never found");
    }
}

/// Random queries with words of the sent messages and with filters on messages.
fn queries(model: &Model, count: usize, random: &mut fastrand::Rng) -> Vec<String> {
    let texts: Vec<&str> = model
        .channels
        .values()
        .flat_map(|messages| messages.values())
        .map(|message| &*message.text)
        .collect();
    let channel = model.channels.keys().next().unwrap();
    let (within, without) = (format!("in:{channel}"), format!("-in:{channel}"));
    let marks = ["has:thread", "is:thread", "is:edited", "is:deleted", "-is:edited", &within, &without, ""];
    let mut queries = Vec::with_capacity(count);
    while queries.len() < count {
        let words: Vec<&str> = texts[random.usize(..texts.len())].split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let one = words[random.usize(..words.len())];
        let part: String = one.chars().take(random.usize(2..6)).collect();
        let begin = random.usize(..words.len());
        let phrase = words[begin..words.len().min(begin + 3)].join(" ");
        let term = match random.u8(..4) {
            0 => format!("{part}*"),
            1 => format!("\"{phrase}\""),
            2 => format!("-{one}"),
            _ => one.to_owned(),
        };
        let query = format!("{term} {}", marks[random.usize(..marks.len())]);
        // Punctuation alone is not a query.
        queries.extend(SearchQuery::parse(&query).is_ok().then_some(query));
    }
    queries
}

/// The hits of each query, by the current index.
async fn all_found(data: &Path, queries: &[String]) -> Vec<Vec<String>> {
    let database = Database::open_existing(data, SystemClock::shared()).unwrap();
    let (archive, index) = (database.archive(), SearchIndex::open(&data.join("index.db")).await.unwrap());
    let mut found = Vec::with_capacity(queries.len());
    for query in queries {
        let request = SearchRequest {
            query: SearchQuery::parse(query).unwrap(),
            teams: vec![TeamId::parse(TEAM).unwrap()],
            zone: TimeZone::UTC,
            limit: usize::MAX,
            is_ranked: false,
            with_deleted: false,
            before: None,
            hidden: Arc::default(),
        };
        let hits = hits::search(&*archive, &index, request).await.unwrap().hits;
        // Within a second, the order is that in which the messages were indexed.
        let mut hits: Vec<String> =
            hits.iter().map(|hit| format!("{}/{}", hit.location.channel, hit.ts)).collect();
        hits.sort();
        found.push(hits);
    }
    database.close().await;
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_follow_posts_edits_and_deletions_while_up_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let up = process::up(data).await;
    let linked = event::message(TS, "U01", "the first <https://example.com|text>");
    // Without blocks the markup in the text counts.
    let linked = event::with_fields(linked, [("blocks", Value::Null)]);
    deliver(up.address, TEAM, &[event::posted(CHANNEL, &linked)]).await;
    let hit = found(data, "first").await;
    assert_eq!(
        hit,
        json!({
            "team_id": TEAM, "channel_id": CHANNEL, "channel_name": null, "ts": TS, "thread_ts": null, "user": "U01",
            "user_id": "U01", "user_name": "U01", "time": "2023-11-14T22:13:20.000100Z",
            "text": "the first <https://example.com|text>",
            "snippet": [{ "text": "the ", "match": false }, { "text": "first", "match": true },
                { "text": " text (https://example.com)", "match": false }],
            "permalink": format!("https://slack.com/archives/{CHANNEL}/p1700000000000100"),
            "deleted": false, "updated_ts": null,
        })
    );

    let before = event::message(TS, "U01", "the first text");
    let after = event::edited(&before, "1700000100.000000", "another text");
    deliver(up.address, TEAM, &[event::changed(CHANNEL, &before, &after, "1700000100.000100")]).await;
    assert_eq!(found(data, "another").await["updated_ts"], "2023-11-14T22:15:00.000000Z");
    assert!(json_lines(data, &["search", "first"]).await.is_empty());
    assert!(json_lines(data, &["search", "another", "-text"]).await.is_empty());

    deliver(up.address, TEAM, &[event::deleted(CHANNEL, &after, "1700000200.000100")]).await;
    assert_eq!(found(data, "another is:deleted").await["deleted"], true);
    assert!(json_lines(data, &["search", "another"]).await.is_empty());
    assert_eq!(json_lines(data, &["search", "another", "--include-deleted"]).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_follower_leaves_an_index_like_a_new_one_and_a_backup_contains_no_index() {
    kill_followers(6, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: cargo test --workspace --test it -- --ignored follower"]
async fn a_follower_killed_fifty_times_leaves_an_index_like_a_new_one() {
    kill_followers(50, 500).await;
}

/// Kills `up` `kills` times under load, and compares the hits of `query_count` queries with those of a new
/// index.
async fn kill_followers(kills: usize, query_count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let file = folder.path().join("a.tar");
    let mut random = fastrand::Rng::with_seed(20_261_123);
    let mut up = process::up(&*data).await;
    let mut load = RunningLoad::start(up.address, SENDERS, 17, &RetryDelays::slack(MINUTE));
    for _ in 0..kills {
        load.wait_for_acks(1 + random.usize(..120)).await;
        up.process.sigkill().await;
        up = process::up(&*data).await;
        load.set_server(up.address);
    }
    load.wait_for_acks(1).await;
    let sent = load.stop().await;
    wait_until_idle(&*data, DEADLINE).await;
    up.process.stop().await;
    let index = annalist_at(&*data, &["index"]).await;
    assert!(index.code == Some(0) && index.stdout.contains("messages can be found"), "{index:?}");
    let queries = queries(&sent.model, query_count, &mut random);
    let followed = all_found(&data, &queries).await;
    let found = followed.iter().filter(|hits| !hits.is_empty()).count();
    assert!(found > query_count / 4, "{found} of {query_count} queries found something");
    let rebuilt = annalist_at(&*data, &["index", "--rebuild"]).await;
    assert_eq!(rebuilt.stdout, index.stdout);
    assert_eq!(all_found(&data, &queries).await, followed);

    let (archive, restored) = (file.to_str().unwrap(), copy.to_str().unwrap());
    assert_eq!(annalist_at(&*data, &["backup", archive]).await.code, Some(0));
    assert_eq!(annalist(&["restore", archive, "--data", restored]).await.code, Some(0));
    assert!(!copy.join("index.db").exists(), "an index is in no backup");
    // The old index refers to rows by numbers that have changed.
    std::fs::copy(data.join("index.db"), copy.join("index.db")).unwrap();
    assert_eq!(annalist_at(&*copy, &["index"]).await.code, Some(0));
    assert_eq!(all_found(&copy, &queries).await, followed);
}

#[tokio::test]
async fn an_invalid_query_is_one_line_and_no_hit_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let up = process::up(data).await;
    deliver(up.address, TEAM, &[posted(TS, "here")]).await;
    found(data, "here").await;
    let long = "x".repeat(100_000);
    for (query, expected) in [
        ("from:@missing", "no person is called @missing"),
        ("in:#nowhere", "no channel #nowhere"),
        ("before:2026-02-30", "not a date"),
        ("is:late", "is: takes"),
        ("\" * \" - ()", "nothing to look for"),
        (long.as_str(), "shorten it"),
    ] {
        annalist_at(data, &["search", query]).await.assert_refused(2, expected);
    }
    // A lone surrogate, as bytes.
    let mut command = Command::new(&binaries().annalist);
    command.env_clear().arg("search").arg(OsStr::from_bytes(b"\xED\xA0\x80")).arg("--data").arg(data);
    let half = command.output().await.unwrap();
    let stderr = String::from_utf8(half.stderr).unwrap();
    assert_eq!((half.status.code(), half.stdout.as_slice()), (Some(2), &[][..]), "{stderr}");
    assert!(stderr.contains("UTF-8") && stderr.lines().count() == 1, "{stderr}");
    let nothing = annalist_at(data, &["search", "elsewhere"]).await;
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(0), "Nothing was found.\n"));
    let text = annalist_at(data, &["search", "HERE"]).await.stdout;
    assert!(text.contains("    *here*\n") && text.ends_with("1 message.\n"), "{text}");

    // A file instead of the folder, and a folder instead of the index file.
    let blocked =
        annalist_at(data, &["search", "here", "--index", data.join("annalist.db").to_str().unwrap()]).await;
    assert!(blocked.code == Some(1) && blocked.stderr.lines().count() == 1, "{blocked:?}");
    std::fs::create_dir_all(data.join("elsewhere/index.db")).unwrap();
    let folder =
        annalist_at(data, &["search", "here", "--index", data.join("elsewhere").to_str().unwrap()]).await;
    assert!(folder.code == Some(1) && folder.stderr.contains("cannot open the search index"), "{folder:?}");
}

/// Stores `messages` messages with `words` words each; no word occurs twice.
async fn fill(data: &Path, messages: usize, words: usize) {
    let database = Database::open(data, SystemClock::shared()).unwrap();
    let archive = database.archive();
    let (team, channel) = (TeamId::parse(TEAM).unwrap(), ChannelId::parse(CHANNEL).unwrap());
    archive.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
    let read = |number: usize| {
        let words: Vec<String> = (0..words).map(|word| format!("w{number}x{word}")).collect();
        let ts = format!("{}.000100", 1_700_000_000 + number);
        let raw = to_raw_value(&event::message(&ts, "U01", &words.join(" "))).unwrap();
        history::read(&team, &channel, &raw).unwrap()
    };
    for first in (0..messages).step_by(1_000) {
        let some: Vec<_> = (first..messages.min(first + 1_000)).map(read).collect();
        for stored in store_history(&*archive, &some).await {
            stored.unwrap();
        }
    }
    drop(archive);
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexing_on_a_full_disk_is_one_line_until_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let (data, index) = (folder.path().join("data"), folder.path().join("index"));
    std::fs::create_dir(&data).unwrap();
    fill(&data, 100, 1_000).await;
    // The maximum size of a file in blocks of 512 bytes: in one case not even a new index fits, in the other
    // some messages do.
    for blocks in ["80", "400"] {
        let mut command = Command::new("/bin/sh");
        // If the signal is ignored, a write beyond the limit fails as on a full disk.
        command
            .args(["-c", r#"trap '' XFSZ; ulimit -S -f "$1"; shift; exec "$@""#, "sh", blocks])
            .env_clear();
        command.arg(&binaries().annalist).arg("index").arg("--data").arg(&data).arg("--index").arg(&index);
        let full = command.output().await.unwrap();
        let stderr = String::from_utf8(full.stderr).unwrap();
        assert_eq!(full.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("search index") && stderr.lines().count() == 1, "{stderr}");
    }
    let index = index.to_str().unwrap();
    let indexed = annalist_at(&*data, &["index", "--index", index]).await;
    assert!(indexed.stdout.starts_with("100 messages can be found"), "{indexed:?}");
    let hits = json_lines(&*data, &["search", "w99x999", "--index", index]).await;
    assert_eq!(hits.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_reports_how_far_the_index_is_behind() {
    const MESSAGES: usize = 12_000;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    fill(data, MESSAGES, 10).await;
    let behind = annalist_at(data, &["search", "w11999x1"]).await.succeeded();
    let number = behind
        .stderr
        .strip_prefix("index is ")
        .and_then(|rest| rest.strip_suffix(" messages behind: `annalist index` brings it up to date\n"));
    let number: usize = number.expect(&behind.stderr).replace(',', "").parse().unwrap();
    assert!((1..MESSAGES).contains(&number), "{behind:?}");
    assert_eq!(annalist_at(data, &["index"]).await.code, Some(0));
    let found = annalist_at(data, &["search", "w11999x1"]).await;
    assert!(found.stdout.ends_with("1 message.\n") && found.stderr.is_empty(), "{found:?}");
}
