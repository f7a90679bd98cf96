//! The pages about a channel and about people, and the lists of a channel's threads and days.

use std::sync::Arc;

use axum::http::Method;
use ports::archive::ArchiveExt;
use rules::membership::ChannelMembers;
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use viewer::access::{ViewerAccess, ViewerPassword};

use crate::fixture::{LateChanges, ViewerFixture, link_with_rel, send_request, timestamps};

const HOSTILE: &str = "<img src=x onerror=alert(1)>";

/// As Slack sends it in a text.
const ESCAPED: &str = "&lt;img src=x onerror=alert(1)&gt;";

#[tokio::test]
async fn the_page_of_a_person_has_their_names_marks_and_links_to_what_they_wrote() {
    let fixture = ViewerFixture::open();
    let described = |name: &str, title: &str| {
        json!({ "name": "ana", "real_name": "Ana Lima", "tz": "Europe/Lisbon",
        "is_restricted": true, "profile": { "display_name": name, "real_name": "Ana Lima", "title": title } })
    };
    fixture.account("U1", "1700000001.000000", described("Annie", "Writer")).await;
    fixture.account("U1", "1700000002.000000", described(HOSTILE, "Editor & writer")).await;
    fixture.post("C1", "1700001000.000000", "hello <@U1>").await;
    let page = fixture.page("/u/T1/U1").await;
    for part in [
        "<h1><bdi>&lt;img src=x onerror=alert(1)&gt;</bdi> <span class=\"mark\">guest</span></h1>",
        "Editor &amp; writer",
        "<dt>Also called</dt><dd><bdi>Ana Lima</bdi></dd>",
        "<dt>Formerly</dt><dd><bdi>Annie</bdi></dd>",
        "Europe/Lisbon",
        "href=\"/search?q=from:U1\"",
        "href=\"/files?from=U1\"",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("<img src=x"), "{page}");
    let channel = fixture.page("/c/T1/C1").await;
    assert_eq!(channel.matches("href=\"/u/T1/U1\"").count(), 2, "the author and the mention: {channel}");
    for missing in ["/u/T1/U9", "/u/T9/U1", "/u/T1/nobody", "/u/T1/U1%2F.."] {
        assert_eq!(fixture.get(missing).await.status, 404, "{missing}");
    }
    // An author of whom nothing is known has no page.
    fixture.message("C1", json!({ "ts": "1700001001.000000", "user": "U9", "text": "who" })).await;
    assert!(!fixture.page("/c/T1/C1").await.contains("/u/T1/U9"));
}

#[tokio::test]
async fn people_are_listed_by_name_and_found_by_a_part_of_any_name() {
    let fixture = ViewerFixture::open();
    assert!(fixture.page("/people").await.contains("The archive knows no people yet."));
    let named = |name: &str, real: &str| json!({ "name": "x", "real_name": real, "profile": { "display_name": name } });
    fixture.account("U1", "1700000001.000000", named("zoe", "Zoe Ray")).await;
    fixture.account("U2", "1700000002.000000", named("Annie", "Ana Lima")).await;
    fixture.account("U3", "1700000003.000000", named(HOSTILE, "Kim")).await;
    fixture.account("U4", "1700000004.000000", json!({ "name": "bot", "is_bot": true })).await;
    fixture
        .account("U5", "1700000005.000000", json!({ "name": [null], "real_name": 7, "profile": [] }))
        .await;
    let people = |page: &str| -> Vec<String> {
        page.split("href=\"/u/T1/").skip(1).map(|link| link[..2].to_owned()).collect()
    };
    let all = fixture.page("/people").await;
    assert!(all.contains("5 people") && all.contains(ESCAPED) && !all.contains("<img src=x"), "{all}");
    assert_eq!(people(&all), ["U5", "U3", "U2", "U4", "U1"], "{all}");
    assert!(all.contains("<span class=\"mark\">app</span>"), "{all}");
    for (called, found) in [("lima", vec!["U2"]), ("NI", vec!["U2"]), ("kim", vec!["U3"]), ("nobody", vec![])]
    {
        assert_eq!(people(&fixture.page(&format!("/people?q={called}")).await), found, "{called}");
    }
}

#[tokio::test]
async fn a_calendar_links_the_days_with_messages_and_the_months_next_to_it() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    let empty = fixture.page("/c/T1/C1/calendar").await;
    assert!(empty.contains("There are no messages here."), "{empty}");
    let post = async |day: &str| {
        let ts = format!("{}.000000", day.parse::<jiff::Timestamp>().unwrap().as_second());
        fixture.post("C1", &ts, "hello").await;
        ts
    };
    post("2026-09-30T23:59:59Z").await;
    let root = post("2026-11-01T00:00:00Z").await;
    post("2026-11-30T23:59:59Z").await;
    // A reply is on no page of its day.
    fixture.reply("C1", "1794600000.000000", &root, "a reply").await;
    let days = |page: &str| -> Vec<String> {
        page.split("/c/T1/C1?day=").skip(1).map(|link| link[..10].to_owned()).collect()
    };
    let has = |page: &str, month: &str| page.contains(&format!("/c/T1/C1/calendar?month={month}\""));
    let newest = fixture.page("/c/T1/C1/calendar").await;
    assert!(newest.contains("<caption>November 2026</caption>"), "{newest}");
    assert_eq!(days(&newest), ["2026-11-01", "2026-11-30"], "{newest}");
    assert!(has(&newest, "2026-10") && !has(&newest, "2026-12"), "{newest}");
    let between = fixture.page("/c/T1/C1/calendar?month=2026-10").await;
    assert!(
        days(&between).is_empty() && has(&between, "2026-09") && between.contains("rel=\"next\""),
        "{between}"
    );
    let first = fixture.page("/c/T1/C1/calendar?month=2026-09").await;
    assert_eq!(days(&first), ["2026-09-30"], "{first}");
    assert!(!has(&first, "2026-08"), "{first}");
    for far in ["9999-12", "0001-01"] {
        assert_eq!(fixture.get(&format!("/c/T1/C1/calendar?month={far}")).await.status, 200, "{far}");
    }
    for wrong in ["2026-13", "november", "2026-11-01", "-9999-01"] {
        assert_eq!(fixture.get(&format!("/c/T1/C1/calendar?month={wrong}")).await.status, 400, "{wrong}");
    }
    assert_eq!(fixture.get("/c/T1/C9/calendar").await.status, 404);
}

#[tokio::test]
async fn the_panel_of_a_channel_shows_what_is_known_and_nothing_else() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.post("C1", "1700001000.000000", "hello").await;
    let empty = fixture.page("/c/T1/C1/info").await;
    for absent in ["Topic", "Purpose", "Formerly", "Members", "Pinned", "Bookmarks"] {
        assert!(!empty.contains(&format!(">{absent}<")), "{absent}: {empty}");
    }
    assert!(
        empty.contains("<aside aria-label=\"About the channel\">") && empty.contains("data-ts="),
        "{empty}"
    );
    assert!(empty.contains("href=\"/files?channel=C1\"") && empty.contains("href=\"/c/T1/C1/threads\""));

    let event = |kind: &str, field: &str, text: &str, ts: &str| {
        json!({ "type": "message", "subtype": kind, "channel": "C1", "channel_type": "channel", "user": "U1",
            field: text, "text": "changed", "ts": ts, "event_ts": ts })
    };
    fixture.index(&event("channel_topic", "topic", ESCAPED, "1700002000.000000")).await;
    fixture.index(&event("channel_purpose", "purpose", "All of <@U5>", "1700002001.000000")).await;
    fixture
        .index(&json!({ "type": "channel_rename", "event_ts": "1700002002.000000",
            "channel": { "id": "C1", "name": "everyone", "created": 1_700_000_001 } }))
        .await;
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
    let members: Vec<UserId> = (1..=250).map(|n| UserId::parse(&format!("U{n}")).unwrap()).collect();
    fixture.person("U5", "Zoë <b>").await;
    let as_of = Ts::parse("1700003000.000000").unwrap();
    let list = ChannelMembers { as_of, members: members.into_iter().collect() };
    for update in list.rows(&team, &channel).unwrap() {
        fixture.archive().write(&update).await.unwrap();
    }
    let page = fixture.page("/c/T1/C1/info").await;
    for part in [
        "<dt>Topic</dt><dd dir=\"auto\">&lt;img src=x onerror=alert(1)&gt;</dd>",
        "<dt>Purpose</dt><dd dir=\"auto\">All of @Zoë",
        "<dt>Formerly</dt><dd><bdi>#general</bdi></dd>",
        "<dt>Members</dt><dd>250</dd>",
        "and 50 more",
        "Zoë &lt;b&gt;",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert_eq!(fixture.get("/c/T1/C9/info").await.status, 404);
}

#[tokio::test]
async fn threads_are_listed_by_their_newest_reply_in_pages() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.person("U1", "Ana").await;
    for n in 0..60 {
        let root = format!("{}.000000", 1_700_001_000 + n);
        // The root of one thread is not in the archive.
        if n != 30 {
            fixture.post("C1", &root, &format!("question {n} {ESCAPED}")).await;
        }
        fixture.reply("C1", &format!("{}.000000", 1_700_002_000 + n), &root, &format!("answer {n}")).await;
    }
    fixture.index_messages().await;
    let page = fixture.page("/c/T1/C1/threads").await;
    let first = timestamps(&page);
    assert_eq!((first.len(), first[0], first[49]), (50, "1700001059.000000", "1700001010.000000"));
    assert!(page.contains("question 59 &lt;img") && !page.contains("<img src=x"), "{page}");
    assert!(page.contains("Its first message is not in this archive. </span>answer 30"), "{page}");
    assert!(page.contains("href=\"/t/T1/C1/1700001059.000000\"") && page.contains("1 reply"));
    let next = link_with_rel(&page, "next").unwrap();
    let last = fixture.page(&next).await;
    assert_eq!((timestamps(&last).len(), timestamps(&last)[9]), (10, "1700001000.000000"));
    assert_eq!(link_with_rel(&last, "next"), None);
    for (path, status) in [
        ("/c/T1/C1/threads?before=x", 400),
        ("/c/T1/C1/threads?before=0000000000.000001", 200),
        ("/c/T1/C1/threads?before=99999999999.000000", 200),
        ("/c/T1/C9/threads", 404),
    ] {
        assert_eq!(fixture.get(path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_list_of_threads_says_that_the_index_is_behind() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "hello").await;
    fixture.index_messages().await;
    assert!(!fixture.page("/c/T1/C1/threads").await.contains("behind"));
    let late = Arc::new(LateChanges(fixture.changes()));
    let router = fixture.router_with(ViewerAccess::All, late);
    let host = [("host", "localhost")];
    let page = send_request(router, Method::GET, "/c/T1/C1/threads", &host, "").await.body;
    assert!(page.contains("<p class=\"note\">The index is 7 messages behind.</p>"), "{page}");
}

#[tokio::test]
async fn a_list_of_threads_needs_the_index() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "hello").await;
    fixture.break_index();
    assert_eq!(fixture.get("/c/T1/C1/threads").await.status, 503);
    assert_eq!(fixture.get("/c/T1/C1/info").await.status, 200);
}

#[tokio::test]
async fn readers_with_the_password_can_sign_out_and_the_operator_has_nothing_to_sign_out_of() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "hello").await;
    assert!(!fixture.page("/c/T1/C1").await.contains("/logout"));
    let router = fixture.router_for(ViewerAccess::Password(ViewerPassword::new("secret words").unwrap()));
    let host = ("host", "localhost:3002");
    let form = [host, ("content-type", "application/x-www-form-urlencoded")];
    let answer = send_request(router.clone(), Method::POST, "/login", &form, "password=secret+words").await;
    let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
    let page = send_request(router, Method::GET, "/c/T1/C1", &[host, ("cookie", &cookie)], "").await.body;
    assert!(page.contains("<form class=\"signed-in\" action=\"/logout\" method=\"post\">"), "{page}");
}
