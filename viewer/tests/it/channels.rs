//! The menu of channels on each page.

use std::sync::Arc;

use axum::http::Method;
use ports::archive::ArchiveExt;
use ports::clock::TimestampMs;
use ports::queue::QueueName;
use ports::queue::waiting::WaitCause;
use rules::history::progress::HistoryProgress;
use rules::waiting::{NewWait, WaitState};
use serde_json::json;
use slack::ids::{TeamId, Ts};
use testkit::corpus::event;
use viewer::access::ViewerAccess;

use crate::fixture::{LateChanges, NOW_MS, ViewerFixture, send_request};

#[tokio::test]
async fn a_channel_called_deleted_keeps_its_name_and_only_a_deleted_one_is_marked() {
    let fixture = ViewerFixture::open();
    for (id, name) in [("C1", "deleted_items"), ("C2", "zebra"), ("C3", "deleted_notes")] {
        fixture.channel(id, name).await;
    }
    fixture.channel_event("channel_deleted", "C3").await;
    fixture.post("C1", "1700001001.000000", "hello").await;
    let page = fixture.page("/c/T1/C1").await;
    assert!(page.contains("#deleted_items") && !page.contains(">#items<"), "{page}");
    let page = fixture.page("/c/T1/C3").await;
    assert!(page.contains("#deleted_notes") && !page.contains("deleted_deleted_notes"), "{page}");
    let position = |name: &str| page.find(&format!(">{name}<")).unwrap_or_else(|| panic!("{name}: {page}"));
    assert!(position("deleted_items") < position("zebra") && position("zebra") < position("deleted_notes"));
}

#[tokio::test]
async fn channels_have_their_marks_and_message_counts() {
    let fixture = ViewerFixture::open();
    for (id, name) in [("C1", "general"), ("C2", "secret"), ("C3", "old"), ("C4", "gone")] {
        fixture.channel(id, name).await;
    }
    fixture.channel_event("channel_archive", "C3").await;
    fixture.channel_event("channel_deleted", "C4").await;
    for n in 0..12 {
        fixture.post("C1", &format!("{}.000000", 1_700_001_000 + n), "text").await;
    }
    fixture.message("C2", json!({ "ts": "1700000001.000000", "text": "public" })).await;
    let page = fixture.page("/c/T1/C1").await;
    let menu_entry = |id: &str| {
        let (_, rest) = page.split_once(&format!("data-channel=\"{id}\"")).unwrap();
        rest.split("</li>").next().unwrap().to_owned()
    };
    assert!(
        menu_entry("C1").contains("aria-current=\"page\"") && menu_entry("C1").contains("12<span"),
        "{}",
        menu_entry("C1")
    );
    assert!(menu_entry("C3").contains("<span class=\"mark\">archived</span>"), "{}", menu_entry("C3"));
    assert!(!menu_entry("C2").contains("class=\"mark\""));
    let deleted = menu_entry("C4");
    assert!(deleted.contains(">gone</bdi> <span class=\"mark\">deleted</span>"), "{deleted}");
    let (_, archived) = page.split_once("<h2 class=\"quiet\">Archived</h2>").unwrap();
    assert!(archived.contains("data-channel=\"C3\"") && !archived.contains("data-channel=\"C1\""));
}

#[tokio::test]
async fn counts_are_marked_while_the_index_is_behind() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    for n in 0..3 {
        fixture.post("C1", &format!("{}.000000", 1_700_001_000 + n), "text").await;
    }
    let late = Arc::new(LateChanges(fixture.changes()));
    for (router, expected) in [
        (fixture.router_with(ViewerAccess::All, late), ">3+<span class=\"unseen\"> messages so far</span>"),
        (fixture.router(), ">3<span class=\"unseen\"> messages</span>"),
    ] {
        // The first pages may come before the count.
        let mut page = String::new();
        for _ in 0..1_000 {
            let host = [("host", "localhost")];
            page = send_request(router.clone(), Method::GET, "/c/T1/C1", &host, "").await.body;
            if page.contains("class=\"count\"") {
                break;
            }
        }
        assert!(page.contains(expected), "{page}");
    }
}

#[tokio::test]
async fn the_keyboard_reaches_whatever_scrolls_sideways() {
    let fixture = ViewerFixture::open();
    let cell = |text: &str| json!({ "type": "raw_text", "text": text });
    let blocks = json!([{ "type": "table", "rows": [[cell("name"), cell("number")]] }]);
    fixture.message("C1", json!({ "ts": "1700001000.000000", "text": "a table", "blocks": blocks })).await;
    fixture.post("C1", "1700001001.000000", "```a long line of code```").await;
    fixture.share("C1", "1700001002.000000", json!({ "id": "F1", "name": "x.txt" }), b"x").await;
    let mut scrolling = 0;
    for path in ["/c/T1/C1", "/coverage"] {
        let page = fixture.page(path).await;
        let tags =
            page.split('<').filter(|tag| tag.starts_with("pre") || tag.contains("class=\"scrolling\""));
        for tag in tags {
            scrolling += 1;
            for attribute in ["tabindex=\"0\"", "aria-label=\"", "role=\""] {
                assert!(tag.contains(attribute), "{path}: <{tag}");
            }
        }
    }
    assert_eq!(scrolling, 3);
}

#[tokio::test]
async fn a_private_or_shared_channel_is_marked_in_the_menu_and_above_its_messages() {
    let fixture = ViewerFixture::open();
    for (id, name) in [("C1", "general"), ("C2", "closed"), ("C3", "partners")] {
        fixture.channel(id, name).await;
        fixture.post(id, "1700000001.000000", "text").await;
    }
    fixture
        .index(&json!({ "type": "message", "subtype": "channel_convert_to_private", "channel": "C2", "channel_type": "channel",
            "user": "U1", "text": "made this channel private", "ts": "1700000002.000000", "event_ts": "1700000002.000000" }))
        .await;
    fixture
        .index(&json!({ "type": "channel_shared", "channel": "C3", "connected_team_id": "T8", "event_ts": "1700000002.000000" }))
        .await;
    for (id, marks) in [("C1", &[][..]), ("C2", &["private"]), ("C3", &["shared"])] {
        let page = fixture.page(&format!("/c/T1/{id}")).await;
        let (_, listed) = page.split_once(&format!("data-channel=\"{id}\"")).unwrap();
        let (_, head) = page.split_once("<header class=\"channel-head\">").unwrap();
        for part in [listed.split("</li>").next().unwrap(), head.split("</header>").next().unwrap()] {
            let shown: Vec<&str> =
                part.split("class=\"mark\">").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
            assert_eq!(shown, marks, "{id}: {part}");
        }
    }
}

#[tokio::test]
async fn the_message_count_of_a_channel_includes_its_former_ids() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "partners").await;
    for (channel, ts) in
        [("C1", "1700001000.000000"), ("C1", "1700001001.000000"), ("C2", "1700001002.000000")]
    {
        fixture.post(channel, ts, "text").await;
    }
    fixture
        .index(&json!({ "type": "channel_id_changed", "old_channel_id": "C1", "new_channel_id": "C2", "event_ts": "1700001001.500000" }))
        .await;
    let page = fixture.page("/c/T1/C1").await;
    let (_, listed) = page.split_once("data-channel=\"C2\"").unwrap();
    assert!(listed.split("</li>").next().unwrap().contains("3<span"), "{listed}");
    assert!(!page.contains("data-channel=\"C1\""));
}

#[tokio::test]
async fn channels_of_several_workspaces_are_listed_below_the_workspace_names() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    let page = fixture.page("/").await;
    assert!(!page.contains("<h2"), "one workspace needs no heading: {page}");
    fixture.index_in("T2", &event::channel_created("C2", "deploys", "1700000001.000000")).await;
    fixture.channel("C3", "old").await;
    fixture.channel_event("channel_archive", "C3").await;
    let page = fixture.page("/").await;
    let order = [
        "<h2 class=\"quiet\"><bdi>T1</bdi></h2>",
        "\"C1\"",
        "<bdi>T2</bdi></h2>",
        "\"C2\"",
        ">Archived</h2>",
        "\"C3\"",
    ];
    let positions = order.map(|part| page.find(part).unwrap_or_else(|| panic!("{part} is not in {page}")));
    assert!(positions.is_sorted(), "{page}");
    let page = fixture.page("/?channels=deploy").await;
    assert!(!page.contains("<bdi>T1</bdi></h2>") && page.contains("<bdi>T2</bdi></h2>"), "{page}");
}

#[tokio::test]
async fn the_filter_works_without_a_script() {
    let fixture = ViewerFixture::open();
    for (id, name) in [("C1", "general"), ("C2", "deploys")] {
        fixture.channel(id, name).await;
        fixture.post(id, "1700000001.000000", "text").await;
    }
    let page = fixture.page("/?channels=DEP").await;
    assert!(page.contains("<form class=\"filter\" action=\"/\""), "the field needs no script: {page}");
    assert!(page.contains("data-channel=\"C2\"") && !page.contains("data-channel=\"C1\""));
    assert!(page.contains("name=\"channels\" type=\"search\" value=\"DEP\""));
    assert!(fixture.page("/?channels=zzz").await.contains("There are no such channels."));
}

#[tokio::test]
async fn a_channel_with_an_invisible_name_has_its_id() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "\u{200b}").await;
    fixture.post("C1", "1700000001.000000", "text").await;
    let page = fixture.page("/c/T1/C1").await;
    assert!(page.contains("<bdi class=\"name\">C1</bdi>") && page.contains("<bdi>#C1</bdi>"), "{page}");
}

#[tokio::test]
async fn an_empty_archive_has_a_page() {
    let fixture = ViewerFixture::open();
    for path in ["/", "/search", "/search?q=word", "/files", "/stats", "/coverage"] {
        let page = fixture.page(path).await;
        assert!(page.contains("<h1>") && page.contains("There are no channels yet."), "{path}: {page}");
    }
    assert_eq!(fixture.get("/stats?team=T9").await.status, 404);
}

#[tokio::test]
async fn pages_say_how_far_the_reading_of_history_is_while_it_goes_on() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    let ts = |micros_ago: i64| {
        let at = NOW_MS * 1_000 - micros_ago;
        Ts::parse(&format!("{}.{:06}", at / 1_000_000, at % 1_000_000)).unwrap()
    };
    let hour = 3_600_000_000;
    for (turn, read, is_shown) in [(2 * hour, 31, false), (hour, 31, true), (1, 40, false)] {
        let progress = HistoryProgress {
            team: TeamId::parse("T1").unwrap(),
            mode: "all".to_owned(),
            channels: 40,
            read,
            unreadable: 0,
            is_restricted: false,
            since: Some(Ts::parse("1756296000.000000").unwrap()),
            turn: ts(turn),
        };
        for update in progress.updates(0) {
            fixture.archive().write(&update).await.unwrap();
        }
        for path in ["/", "/c/T1/C1"] {
            let page = fixture.page(path).await;
            let line = page.contains(r#"id="history-progress""#)
                && page.contains(r#"data-read="31" data-channels="40""#)
                && page.contains("31 of 40 channels read, since 2025-08-27");
            assert_eq!(
                (line, page.contains("history-progress")),
                (is_shown, is_shown),
                "{path} {turn}: {page}"
            );
        }
    }
}

#[tokio::test]
async fn the_coverage_says_since_when_events_of_a_workspace_wait() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    let waits = |queue, first_ms| {
        let mut state = WaitState::new(queue, &TeamId::parse("T1").unwrap());
        let (cause, reason) = (WaitCause::Token, "token_revoked".to_owned());
        let new = NewWait { cause, reason, sent_at_ms: first_ms, bytes: 1, trial: None };
        state.renew_wake();
        state.add(&[new], TimestampMs(first_ms));
        state
    };
    let mut ended = waits(QueueName::Channels, NOW_MS - 7_200_000);
    // The events of one queue no longer wait, and files are not events.
    ended.end(TimestampMs(NOW_MS));
    let states = [ended, waits(QueueName::Files, NOW_MS - 3_600_000)];
    for state in states {
        fixture.archive().write(&state.update().unwrap()).await.unwrap();
    }
    assert!(!fixture.page("/coverage").await.contains("have waited since"));
    let now = waits(QueueName::Events, 1_756_296_000_000);
    fixture.archive().write(&now.update().unwrap()).await.unwrap();
    let page = fixture.page("/coverage").await;
    assert!(page.contains("Events of T1 have waited since ") && page.contains("27 Aug 2025"), "{page}");
}
