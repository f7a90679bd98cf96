//! The feeds of channels and searches: what they have, and which keys open them.

use axum::Router;
use axum::http::{HeaderName, Method};
use ports::archive::ArchiveExt;
use rules::reader_token::{PresentedToken, ReaderToken};
use serde_json::json;
use slack::ids::Ts;
use tokio::time;
use viewer::access::{ViewerAccess, ViewerPassword};

use crate::fixture::{NOW_MS, ServedAnswer, ViewerFixture, send_request};

const FEED: &str = "/c/T1/C1/feed.xml";

async fn get(router: &Router, path: &str, headers: &[(&str, &str)]) -> ServedAnswer {
    let headers: Vec<(&str, &str)> = headers.iter().copied().chain([("host", "localhost")]).collect();
    send_request(router.clone(), Method::GET, path, &headers, "").await
}

/// The contents of these elements.
fn all<'f>(feed: &'f str, name: &str) -> Vec<&'f str> {
    let (start, end) = (format!("<{name}>"), format!("</{name}>"));
    feed.split(&start).skip(1).filter_map(|rest| Some(rest.split_once(&end)?.0)).collect()
}

#[tokio::test]
async fn a_feed_has_the_fifty_newest_messages_of_a_channel() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.person("U1", "Ana & Bo").await;
    for n in 0..70 {
        let fields = json!({ "ts": format!("{}.000000", 1_700_001_000 + n), "text": format!("number {n}"), "user": "U1" });
        fixture.message("C1", fields).await;
    }
    fixture.delete("C1", "1700001069.000000", "1700002000.000000").await;
    fixture.edit("C1", "1700001068.000000", "1700003000.000000", "]]> &lt;/content&gt; \u{1}edited").await;
    fixture.reply("C1", "1700001080.000000", "1700001000.000000", "a reply").await;
    let answer = fixture.get(FEED).await;
    assert_eq!(answer.header("content-type"), "application/atom+xml; charset=utf-8");
    let feed = &answer.body;
    let (titles, ids) = (all(feed, "title"), all(feed, "id"));
    assert_eq!((titles[0], titles.len(), ids.len()), ("#general", 51, 51), "{feed}");
    assert!(
        titles[1].contains("edited") && titles[2] == "number 67" && titles[50] == "number 19",
        "{titles:?}"
    );
    let distinct: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    assert!(ids[1].starts_with("http://localhost:3002/c/T1/C1?around=1700001068.000000"), "{}", ids[1]);
    assert_eq!(all(feed, "name")[0], "Ana &amp; Bo");
    assert_eq!(all(feed, "updated")[1], "2023-11-14T23:03:20Z");
    assert_eq!(feed.matches("</content>").count(), 50);
    assert!(!feed.contains('\u{1}') && !feed.contains("number 69") && !feed.contains("a reply"), "{feed}");
    let router = fixture.router();
    let known = get(&router, FEED, &[]).await.header("etag").to_owned();
    for (known, status) in [(known.as_str(), 304), ("\"other\"", 200)] {
        let again = get(&router, FEED, &[("if-none-match", known)]).await;
        assert_eq!((again.status.as_u16(), again.body.is_empty()), (status, status == 304), "{known}");
    }
    let secure = get(&router, FEED, &[("x-forwarded-proto", "https")]).await;
    assert!(all(&secure.body, "id")[0].starts_with("https://localhost/c/T1/C1/feed.xml"), "{}", secure.body);
    assert_eq!(get(&router, "/c/T1/C9/feed.xml", &[]).await.status, 404);
}

#[tokio::test]
async fn a_feed_of_a_search_has_its_newest_hits() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    for (n, text) in ["deploy one", "other", "deploy two"].iter().enumerate() {
        fixture.post("C1", &format!("{}.000000", 1_700_001_000 + n), text).await;
    }
    fixture.reply("C1", "1700001009.000000", "1700001000.000000", "deploy three").await;
    fixture.index_messages().await;
    let feed = fixture.get("/search/feed.xml?q=deploy+in:general").await.body;
    assert_eq!(
        all(&feed, "title"),
        ["deploy in:general", "deploy three", "deploy two", "deploy one"],
        "{feed}"
    );
    assert!(all(&feed, "id")[1].contains("/t/T1/C1/1700001009.000000#t1700001009.000000"), "{feed}");
    for invalid in [
        "/search/feed.xml",
        "/search/feed.xml?q=+",
        "/search/feed.xml?q=before:never",
        "/search/feed.xml?q=in:nowhere",
    ] {
        assert_eq!(fixture.get(invalid).await.status, 400, "{invalid}");
    }
    let page = fixture.page("/search?q=deploy").await;
    assert!(page.contains("type=\"application/atom+xml\" href=\"/search/feed.xml?q=deploy\""), "{page}");
    let broken = ViewerFixture::open();
    broken.break_index();
    assert_eq!(broken.get("/search/feed.xml?q=deploy").await.status, 503);
}

#[tokio::test]
async fn the_key_of_a_feed_opens_feeds_and_nothing_else() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "text").await;
    let guarded = fixture.router_for(ViewerAccess::Password(ViewerPassword::new("word").unwrap()));
    let form = send_request(
        guarded.clone(),
        Method::POST,
        "/login",
        &[("host", "localhost"), ("content-type", "application/x-www-form-urlencoded")],
        "password=word",
    )
    .await;
    let cookie = form.header("set-cookie").split(';').next().unwrap().to_owned();
    let page = get(&guarded, "/c/T1/C1", &[("cookie", &cookie)]).await.body;
    let link = page.split("application/atom+xml\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let key = link.strip_prefix("/c/T1/C1/feed.xml?key=").unwrap();
    assert!(key.len() == 64 && !cookie.ends_with(key), "{link}");
    let status = async |path: &str| {
        // A wrong key costs a second.
        time::pause();
        let status = get(&guarded, path, &[]).await.status.as_u16();
        time::resume();
        status
    };
    for (path, expected) in [
        (FEED.to_owned(), 303),
        (link.to_owned(), 200),
        (format!("/search/feed.xml?q=text&key={key}"), 200),
        (format!("{FEED}?key={}", &key[1..]), 401),
        (format!("{FEED}?key="), 401),
        (format!("{FEED}?key={key}&key={key}"), 401),
        (format!("{FEED}?key=annalist_x"), 401),
        (format!("/c/T1/C1?key={key}"), 303),
        (format!("/c/T1/C1/info?key={key}"), 303),
        (format!("/search?q=text&key={key}"), 303),
        (format!("/?key={key}"), 303),
    ] {
        assert_eq!(status(&path).await, expected, "{path}");
    }
    let text = format!("annalist_00000000000a_{}", "A".repeat(43));
    let presented = PresentedToken::parse(&text).unwrap();
    let made = Ts::parse(&format!("{}.000000", NOW_MS / 1_000)).unwrap();
    fixture
        .archive()
        .write(&ReaderToken::new(&presented, "feeds", made, None, None).creation())
        .await
        .unwrap();
    assert_eq!(status(&format!("{FEED}?key={text}")).await, 200);
    assert_eq!(status(&format!("/c/T1/C1?key={text}")).await, 303);
    assert_eq!(status(&format!("{FEED}?key=annalist_00000000000b_{}", "A".repeat(43))).await, 401);
    // A proxy decides alone.
    let behind_proxy = fixture.router_for(ViewerAccess::Header(HeaderName::from_static("x-user")));
    assert_eq!(get(&behind_proxy, &format!("{FEED}?key={text}"), &[]).await.status, 403);
    assert_eq!(get(&behind_proxy, &format!("{FEED}?key=x"), &[("x-user", "ana")]).await.status, 200);
}
