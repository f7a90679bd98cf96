//! Channels that were public and are private now: for every address, a reader who does not see them gets the
//! answer of an archive that does not have them.

use std::collections::{BTreeSet, VecDeque};

use axum::Router;
use axum::http::{HeaderName, Method};
use serde_json::json;
use viewer::access::ViewerAccess;

use crate::fixture::{ServedAnswer, ViewerFixture, send_request};

/// More addresses than the fixture's pages have.
const MAX_ADDRESSES: usize = 2_000;

/// The channel that becomes private has the id `C2`, another id before, and a name like that of another channel.
async fn filled(with_private: bool) -> ViewerFixture {
    let fixture = ViewerFixture::open();
    for (user, name) in [("U1", "Ana"), ("U2", "Bo"), ("U3", "Kim")] {
        fixture.person(user, name).await;
    }
    for (id, name) in [("C1", "general"), ("C3", "plans")] {
        fixture.channel(id, name).await;
    }
    let png = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', 1];
    let file =
        |id: &str, name: &str| json!({ "id": id, "name": name, "size": 9, "url_private": "https://x/" });
    for n in 0..60 {
        let ts = format!("{}.000000", 1_794_500_000 + n * 1_200);
        let user = if n % 3 == 0 { "U1" } else { "U2" };
        let text = format!("deploy number {n} in <#C2|plans-secret> of <@U3>");
        fixture.message("C1", json!({ "ts": ts, "text": text, "user": user })).await;
    }
    fixture.reply("C1", "1794500001.000000", "1794500000.000000", "a reply").await;
    fixture.react("C1", "1794500000.000000", "tada", "U3").await;
    fixture.share("C1", "1794600000.000000", file("F1", "open.png"), &png).await;
    fixture.canvas(("C1", "1794600001.000000"), "F3", "Roadmap", 1_794_600_001, "<p>a deploy</p>").await;
    fixture.prove("C1", "1794528000.000000").await;
    fixture.post("C3", "1794500000.000000", "a message at the same time").await;
    fixture.edit("C3", "1794500000.000000", "1794500100.000000", "a deploy at the same time").await;
    fixture
        .reply("C3", "1794500007.000000", "1794500000.000000", "a reply in a thread of the same time")
        .await;
    fixture.channel_event("channel_left", "C3").await;
    if !with_private {
        return fixture;
    }
    fixture.channel("C4", "plans-secret").await;
    fixture.post("C4", "1794500000.000000", "a deploy under the former id").await;
    let changed = json!({ "type": "channel_id_changed", "old_channel_id": "C4", "new_channel_id": "C2",
        "event_ts": "1794500001.500000" });
    fixture.index(&changed).await;
    for n in 0..30 {
        let ts = format!("{}.000000", 1_794_500_000 + n * 1_800);
        let text = format!("secret deploy number {n}");
        // The first message of `U3` is here.
        fixture.message("C2", json!({ "ts": ts, "text": text, "user": "U3" })).await;
    }
    fixture.reply("C2", "1794500003.000000", "1794500000.000000", "a secret reply").await;
    fixture.edit("C2", "1794503600.000000", "1794503650.000000", "a secret edit").await;
    fixture.delete("C2", "1794505400.000000", "1794505500.000000").await;
    fixture.react("C2", "1794500000.000000", "eyes", "U1").await;
    fixture.share("C2", "1794600000.000000", file("F2", "secret.png"), &png).await;
    fixture
        .canvas(("C2", "1794600002.000000"), "F4", "Secret roadmap", 1_794_600_002, "<p>a deploy</p>")
        .await;
    fixture.channel_event("channel_left", "C2").await;
    fixture.prove("C2", "1794528000.000000").await;
    let converted =
        json!({ "ts": "1794700000.000000", "subtype": "channel_convert_to_private", "text": "made private" });
    fixture.message("C2", converted).await;
    fixture
}

struct Site(Router);

impl Site {
    /// The pages of an archive, indexed and counted.
    async fn open(fixture: &ViewerFixture, readers: ViewerAccess) -> Self {
        fixture.index_messages().await;
        let site = Self(fixture.router_for(readers));
        // A page does not wait for the counts.
        for _ in 0..1_000 {
            if site.get(Method::GET, "/").await.body.contains(">62<span") {
                return site;
            }
        }
        panic!("the messages are not counted");
    }

    async fn get(&self, method: Method, path: &str) -> ServedAnswer {
        let headers = [("host", "localhost:3002"), ("x-user", "bo"), ("range", "bytes=0-3")];
        send_request(self.0.clone(), method, path, &headers, "").await
    }

    /// All addresses that links of pages lead to, from these on.
    async fn crawled(&self, from: &[&str]) -> BTreeSet<String> {
        let mut pending: VecDeque<String> = from.iter().map(|path| (*path).to_owned()).collect();
        let mut found = BTreeSet::new();
        while let Some(path) = pending.pop_front() {
            if !found.insert(path.clone()) {
                continue;
            }
            assert!(found.len() < MAX_ADDRESSES, "{path}");
            let answer = self.get(Method::GET, &path).await;
            let location = answer.header("location").to_owned();
            let links = answer.body.split(['"', ' ']).map(|link| link.replace("&amp;", "&"));
            let links =
                links.chain([location]).filter(|link| link.starts_with('/') && !link.starts_with("/static"));
            // A stream has no end.
            let links = links.filter(|link| !link.contains("/live"));
            // A search can be narrowed in every order; once is enough. The words of a search change only what a
            // browser marks.
            let links = links.filter(|link| !link.starts_with("/search") || link.matches("%20").count() < 2);
            let links = links.map(|link| match link.split_once("q=") {
                Some((page, _)) if page.starts_with("/c/") || page.starts_with("/t/") => {
                    page.trim_end_matches(['&', '?']).to_owned()
                }
                Some(_) | None => link,
            });
            pending.extend(links.map(|link| link.split('#').next().unwrap_or_default().to_owned()));
        }
        found
    }
}

fn header() -> ViewerAccess {
    ViewerAccess::Header(HeaderName::from_static("x-user"))
}

/// Addresses that no link leads to.
const BY_NAME: &[&str] = &[
    "/",
    "/?channels=plans",
    "/?channels=secret",
    "/archives/C2",
    "/archives/C4",
    "/archives/C9",
    "/archives/C2/p1794500000000000",
    "/archives/C2/p1794500003000000?thread_ts=1794500000.000000",
    "/https://example.slack.com/archives/C2/p1794500000000000",
    "/c/T1/C2?around=1794500000.000000",
    "/c/T1/C4?day=2026-11-12",
    "/t/T1/C2/1794500000.000000",
    "/t/T1/C1/1794500003.000000",
    "/r/T1/C2/1794503600.000000",
    "/c/T1/C2/info",
    "/c/T1/C1/info",
    "/c/T1/C2/threads",
    "/c/T1/C1/threads?before=1794500000.500000",
    "/c/T1/C2/calendar",
    "/c/T1/C1/calendar?month=2026-11",
    "/people?q=kim",
    "/u/T1/U3",
    "/u/T1/U9",
    "/files?team=T1&after=F1",
    "/files?page=1",
    "/files?channel=C2",
    "/files?channel=plans-secret",
    "/files?channel=plans",
    "/files?from=kim",
    "/files?q=secret",
    "/files?type=image&state=held",
    "/search?q=deploy&in=C2",
    "/c/T1/C1/feed.xml",
    "/c/T1/C2/feed.xml",
    "/c/T1/C4/feed.xml",
    "/search/feed.xml?q=secret",
    "/search/feed.xml?q=deploy",
    "/search/feed.xml?q=from:kim",
    "/search/feed.xml?q=in:plans-secret",
    "/search/feed.xml?q=in:C2",
    "/search?q=toto:secret",
    "/files/T1/F2",
    "/files/T1/F4?updated=1794600002",
    "/canvas/T1/F4",
    "/stats?week=2026-W46",
    "/stats?week=2026-W47",
    "/stats?month=",
    "/stats?month=2026-11",
    "/stats?month=2026-12",
    "/coverage",
    "/search?q=secret",
    "/search?q=deploy",
    "/search?q=deploy&page=2",
    "/search?q=deploy&page=5",
    "/search?q=-deploy",
    "/search?q=has:thread",
    "/search?q=is:thread",
    "/search?q=has:file",
    "/search?q=is:deleted",
    "/search?q=from:kim",
    "/search?q=from:kim+deploy",
    "/search?q=in:plans",
    "/search?q=in:plans-secret",
    "/search?q=in:plans-secre",
    "/search?q=in:C2",
    "/search?q=in:C4",
    "/search?q=in:C9",
    "/search?q=-in:plans-secret+deploy",
    "/search?q=mentions:plans-secret",
    "/search?q=plans",
    "/search?q=https://example.slack.com/archives/C2/p1794500000000000",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_to_a_restricted_reader_is_that_of_an_archive_without_the_private_channel() {
    let (whole, reduced) = (filled(true).await, filled(false).await);
    let operator = Site::open(&whole, ViewerAccess::All).await;
    let (restricted, expected) = (Site::open(&whole, header()).await, Site::open(&reduced, header()).await);
    let mut addresses = operator.crawled(BY_NAME).await;
    let of_private = addresses.iter().filter(|path| path.contains("/C2") || path.contains("/F2")).count();
    assert!(of_private > 60, "{of_private} addresses of the private channel");
    addresses.extend(expected.crawled(BY_NAME).await);
    for path in &addresses {
        let [answer, wanted] =
            [restricted.get(Method::GET, path).await, expected.get(Method::GET, path).await];
        assert_eq!(
            (answer.status, &answer.headers, &answer.body),
            (wanted.status, &wanted.headers, &wanted.body),
            "{path}"
        );
    }
    for path in ["/c/T1/C2/live", "/c/T1/C4/live?after=1794500000.000000", "/c/T1/C9/live"] {
        let [answer, wanted] =
            [restricted.get(Method::GET, path).await, expected.get(Method::GET, path).await];
        assert_eq!((answer.status.as_u16(), &answer.body), (404, &wanted.body), "{path}");
        assert_eq!(answer.headers, wanted.headers, "{path}");
    }
    for path in BY_NAME {
        let [answer, wanted] =
            [restricted.get(Method::HEAD, path).await, expected.get(Method::HEAD, path).await];
        assert_eq!((answer.status, &answer.headers), (wanted.status, &wanted.headers), "HEAD {path}");
    }
    for site in [&operator, &restricted] {
        let page = site.get(Method::GET, "/c/T1/C1").await.body;
        assert!(page.contains("Complete up to 2026-11-12, compared with Slack."), "{page}");
    }
    let seen = operator.get(Method::GET, "/search?q=secret").await;
    assert!(seen.body.contains("/c/T1/C2?around="), "{}", seen.body);
}

#[tokio::test]
async fn a_channel_that_is_private_now_is_shown_to_everyone_if_the_setting_says_so() {
    let mut fixture = filled(true).await;
    let path = "/c/T1/C2?around=1794500000.000000";
    let read = async |fixture: &ViewerFixture| {
        send_request(
            fixture.router_for(header()),
            Method::GET,
            path,
            &[("host", "localhost"), ("x-user", "bo")],
            "",
        )
        .await
    };
    let hidden = read(&fixture).await;
    assert!(hidden.status == 404 && !hidden.body.contains("secret"), "{}", hidden.body);
    fixture.is_private_for_all = true;
    let shown = read(&fixture).await;
    assert!(shown.status == 200 && shown.body.contains("secret deploy number 1"), "{}", shown.body);
}

#[tokio::test]
async fn a_channel_that_became_public_again_is_shown() {
    let fixture = filled(true).await;
    let converted =
        json!({ "ts": "1794700001.000000", "subtype": "channel_convert_to_public", "text": "made public" });
    fixture.message("C2", converted).await;
    let headers = [("host", "localhost"), ("x-user", "bo")];
    let shown = send_request(fixture.router_for(header()), Method::GET, "/c/T1/C2", &headers, "").await;
    assert!(shown.status == 200 && shown.body.contains("secret deploy number 29"), "{}", shown.body);
}
