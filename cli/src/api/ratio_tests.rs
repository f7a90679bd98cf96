//! What readers cost, compared with what the same costs without them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use testkit::memory::watched::WatchedArchive;
use tower::ServiceExt;
use viewer::access::ViewerAccess;

use super::api_tests::{by_header, get, served, served_from};
use crate::fixture::{CliFixture, message_args, output};
use crate::read;
use crate::search::{SearchSource, SearchableArchive};
use crate::zone::Zone;

/// Messages of the archive.
const MESSAGES: i64 = 20_000;

/// Messages of these that are in the channel that is private now.
const PRIVATE: i64 = MESSAGES / 20 * 19;

/// Of many rounds, the fastest counts: other programs only make them slower.
const ROUNDS: usize = 40;

async fn fastest(mut round: impl AsyncFnMut()) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        round().await;
        best = best.min(started.elapsed());
    }
    best.as_secs_f64()
}

async fn page(router: &Router, path: &str) {
    let answer = get(router, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
}

fn timestamps(from: i64, count: i64) -> Vec<String> {
    (from..from + count).map(|n| format!("{}.000000", 1_700_000_000 + n)).collect()
}

async fn indexed(fixture: &CliFixture) {
    let zone = Zone::from_args(&message_args("C1", "1.000000").read.zone);
    let index = fixture.data().data.data.join("index.db");
    let source = Arc::new(SearchSource::new(&fixture.backend, index, Duration::ZERO));
    let sight = reader::access::Sight::Everything;
    let archive = SearchableArchive::for_reader(source, fixture.backend.archive(), sight, None, &zone);
    archive.activity(true).await.unwrap();
}

/// The memory of this process that is in use.
fn resident_bytes() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4_096.0
}

#[ignore = "measures for a minute: run it alone"]
#[tokio::test(flavor = "multi_thread")]
async fn readers_cost_little_more_than_the_operator() {
    let (whole, reduced) = (CliFixture::open().await, CliFixture::open().await);
    for fixture in [&whole, &reduced] {
        fixture.channel("T1", "C1", "1700000000.000000", "general").await;
        for part in timestamps(1, MESSAGES - PRIVATE).chunks(500) {
            fixture.post_all("T1", "C1", part).await;
        }
    }
    whole.channel("T1", "C2", "1700000000.000000", "secret").await;
    for part in timestamps(1, PRIVATE).chunks(500) {
        whole.post_all("T1", "C2", part).await;
    }
    let (ts, made_private) = ("1700090000.000000", "channel_convert_to_private");
    whole.channel_notice("T1", "C2", ts, made_private, ("purpose", "none")).await;
    indexed(&whole).await;
    indexed(&reduced).await;

    let (operator, restricted) = (served(&whole, ViewerAccess::All, 0), served(&whole, by_header(), 0));
    let without = served(&reduced, by_header(), 0);
    let mut of_operator = fastest(async || page(&operator, "/c/T1/C1").await).await;
    let mut of_restricted = fastest(async || page(&restricted, "/c/T1/C1").await).await;
    println!(
        "a page: {of_operator:.5} s, restricted {of_restricted:.5} s: {:.2}",
        of_restricted / of_operator
    );
    let is_page_fast = of_restricted <= 1.3 * of_operator;

    of_operator = fastest(async || page(&without, "/search?q=words").await).await;
    of_restricted = fastest(async || page(&restricted, "/search?q=words").await).await;
    println!(
        "a search: {of_operator:.5} s, of 95 % hidden {of_restricted:.5} s: {:.2}",
        of_restricted / of_operator
    );
    let is_search_fast = of_restricted <= 2.0 * of_operator;

    let mut args = message_args("C1", ts).read;
    args.limit = std::num::NonZeroUsize::new(1_000);
    let channel = read::ChannelArgs { channel: "C2".to_owned(), read: args };
    let args = read::MessagesArgs {
        channel,
        since: None,
        until: None,
        flat: false,
        figures: false,
        with_names: false,
    };
    let archive = whole.archive();
    let command =
        fastest(async || drop(output(async |out| read::messages(archive, &args, out).await).await.unwrap()));
    let command = command.await;
    let api = fastest(async || page(&operator, "/api/v1/messages?channel=C2&limit=1000").await).await;
    println!("1,000 messages: the command {command:.5} s, the API {api:.5} s: {:.2}", api / command);
    let is_api_fast = api <= 1.2 * command;

    let watched = Arc::new(WatchedArchive::new(whole.backend.archive()));
    let router = served_from(&whole, watched.clone(), by_header(), 0);
    page(&router, "/c/T1/C1").await;
    let mut streams = Vec::new();
    let before = resident_bytes();
    for n in 0..100 {
        let request =
            Request::builder().uri("/c/T1/C1/live?after=1700090000.000000").header("host", "localhost");
        let request = request.header("x-user", format!("reader {n}")).body(Body::empty()).unwrap();
        let mut response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.body_mut().frame().await.unwrap().unwrap();
        streams.push(tokio::spawn(async move { response.body_mut().frame().await }));
    }
    let read_before = watched.read().len();
    // Some looks for changes.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (memory, reads) = (resident_bytes() / before, watched.read().len() - read_before);
    println!("100 streams: memory {memory:.2}, reads while nothing comes {reads}");
    for stream in streams {
        stream.abort();
    }
    assert!(is_page_fast && is_search_fast && is_api_fast && memory <= 1.25 && reads == 0);
}
