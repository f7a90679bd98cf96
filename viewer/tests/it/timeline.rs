//! A channel's messages: in order, in both directions, by day and by link.

use serde_json::json;

use crate::fixture::{ViewerFixture, link_with_rel, timestamps};

/// Stores three messages a day, starting at midnight.
async fn channel_with_messages(count: i64) -> (ViewerFixture, Vec<String>) {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    let all: Vec<String> = (0..count).map(|n| format!("{}.000100", 1_790_035_200 + n * 28_800)).collect();
    let message = |ts: &String| json!({ "ts": ts, "text": format!("message {ts}") });
    fixture.messages("C1", &all.iter().map(message).collect::<Vec<_>>()).await;
    (fixture, all)
}

#[tokio::test]
async fn every_message_is_on_exactly_one_page_in_each_direction() {
    let (fixture, all) = channel_with_messages(10_033).await;
    let (mut seen, mut path) = (Vec::new(), Some("/c/T1/C1".to_owned()));
    while let Some(next) = path {
        let page = fixture.page(&next).await;
        let mut older: Vec<String> = timestamps(&page).into_iter().map(str::to_owned).collect();
        older.append(&mut seen);
        seen = older;
        path = link_with_rel(&page, "prev");
    }
    assert_eq!(seen, all);
    let (mut seen, mut path) = (Vec::new(), Some(format!("/c/T1/C1?after={}", "1.000000")));
    while let Some(next) = path {
        let page = fixture.page(&next).await;
        seen.extend(timestamps(&page).into_iter().map(str::to_owned));
        path = link_with_rel(&page, "next");
    }
    assert_eq!(seen, all);
    let newest = fixture.page("/c/T1/C1").await;
    assert_eq!(timestamps(&newest), &all[9_983..]);
    assert!(link_with_rel(&newest, "next").is_none() && newest.contains("class=\"timeline from-end\""));
}

#[tokio::test]
async fn a_day_starts_with_its_first_message_and_a_day_without_messages_has_a_note() {
    let (fixture, all) = channel_with_messages(60).await;
    let page = fixture.page("/c/T1/C1?day=2026-09-27").await;
    assert_eq!(timestamps(&page)[0], all[15]);
    assert!(page.contains("Sunday, 27 September 2026") && link_with_rel(&page, "prev").is_some());
    assert!(!page.contains("There are no messages on"));
    let page = fixture.page("/c/T1/C1?day=2020-01-01").await;
    assert!(page.contains("no messages on Wednesday, 1 January 2020: the next ones follow"), "{page}");
    assert_eq!(timestamps(&page)[0], all[0]);
    let page = fixture.page("/c/T1/C1?day=1960-01-01").await;
    assert!(page.contains("no messages on Friday, 1 January 1960: the next ones follow"), "{page}");
    assert_eq!(timestamps(&page)[0], all[0]);
    let page = fixture.page("/c/T1/C1?day=2030-01-01").await;
    assert!(page.contains("and none after it: the last ones follow"), "{page}");
    assert_eq!(timestamps(&page).last(), Some(&all[59].as_str()));
    assert!(link_with_rel(&page, "prev").is_some(), "there is a link back");
}

#[tokio::test]
async fn a_slack_link_redirects_to_the_marked_message() {
    let (fixture, all) = channel_with_messages(133).await;
    let digits = all[60].replace('.', "");
    for path in [
        format!("/archives/C1/p{digits}"),
        format!("/https://acme.slack.com/archives/C1/p{digits}"),
        format!("/search?q=https%3A%2F%2Facme.slack.com%2Farchives%2FC1%2Fp{digits}"),
    ] {
        let target = fixture.redirect_target(&path).await;
        assert_eq!(target, format!("/c/T1/C1?around={0}#m{0}", all[60]), "{path}");
        let page = fixture.page(target.split('#').next().unwrap()).await;
        assert_eq!(timestamps(&page), &all[36..86], "messages before and after it");
        let (before, _) = page.split_once(&format!("id=\"m{}\"", all[60])).unwrap();
        assert!(before.ends_with("class=\"message target\" "), "{before}");
        assert_eq!(page.matches("target").count(), 1);
    }
    assert_eq!(fixture.redirect_target("/archives/C1").await, "/c/T1/C1");
}

#[tokio::test]
async fn replies_are_in_their_thread_and_counted_at_its_root() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    fixture.post("C1", "1700001001.000000", "a root").await;
    fixture.reply("C1", "1700001002.000000", "1700001001.000000", "a reply").await;
    fixture
        .message("C1", json!({ "ts": "1700001003.000000", "thread_ts": "1700001001.000000", "subtype": "thread_broadcast", "text": "for all" }))
        .await;
    fixture.post("C1", "1700001004.000000", "alone").await;
    fixture.reply("C2", "1700001005.000000", "1700001001.000000", "of another channel").await;
    let page = fixture.page("/c/T1/C1").await;
    assert_eq!(timestamps(&page), ["1700001001.000000", "1700001003.000000", "1700001004.000000"]);
    assert_eq!(page.matches("thread-count").count(), 1);
    assert!(page.contains("href=\"/t/T1/C1/1700001001.000000\">2 replies</a>"), "{page}");
    assert!(page.contains("last reply <time datetime=\"2023-11-14T22:30:03Z\""));
    let page = fixture.page("/t/T1/C1/1700001001.000000").await;
    let (timeline, thread) = page.split_once("<aside").unwrap();
    assert_eq!(timestamps(timeline), ["1700001001.000000", "1700001003.000000", "1700001004.000000"]);
    assert_eq!(timestamps(thread), ["1700001001.000000", "1700001002.000000", "1700001003.000000"]);
    // Every link to a reply leads to its thread.
    assert_eq!(
        fixture.redirect_target("/archives/C1/p1700001002000000?thread_ts=1700001001.000000&cid=C1").await,
        "/t/T1/C1/1700001002.000000#t1700001002.000000"
    );
    let page = fixture.page("/t/T1/C1/1700001002.000000").await;
    assert!(page.contains("class=\"message target\" id=\"t1700001002.000000\""), "{page}");
    // Replies of a thread may be from different days, and a thread has no headings for days.
    let (timeline, thread) = page.split_once("<aside").unwrap();
    assert!(thread.contains(">14 Nov 2023, 22:30</time>") && timeline.contains(">22:30</time>"), "{page}");
    assert_eq!(
        fixture.redirect_target("/archives/C1/p1700001003000000").await,
        "/c/T1/C1?around=1700001003.000000#m1700001003.000000"
    );
}

#[tokio::test]
async fn a_long_thread_has_several_pages() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "a root").await;
    let reply = |n: u32| json!({ "ts": format!("{}.000000", 1_700_001_000 + n), "thread_ts": "1700001000.000000", "text": "a reply" });
    fixture.messages("C1", &(1..=205).map(reply).collect::<Vec<_>>()).await;
    let first = fixture.page("/t/T1/C1/1700001000.000000").await;
    let (_, thread) = first.split_once("<aside").unwrap();
    assert_eq!(timestamps(thread).len(), 201);
    let page = fixture.page(&link_with_rel(thread, "next").unwrap()).await;
    let (_, thread) = page.split_once("<aside").unwrap();
    assert_eq!(
        timestamps(thread)[1..],
        [
            "1700001201.000000",
            "1700001202.000000",
            "1700001203.000000",
            "1700001204.000000",
            "1700001205.000000"
        ]
    );
    assert!(thread.contains("First replies"));

    // A link to a reply opens the page that contains it, with replies on both sides.
    fixture.messages("C1", &(206..=450).map(reply).collect::<Vec<_>>()).await;
    for (n, first, last) in [(1, 1, 200), (200, 1, 200), (201, 101, 300), (399, 201, 400), (450, 301, 450)] {
        let to = fixture.redirect_target(&format!("/archives/C1/p{}000000", 1_700_001_000 + n)).await;
        assert_eq!(to, format!("/t/T1/C1/{0}.000000#t{0}.000000", 1_700_001_000 + n));
        let page = fixture.page(to.split('#').next().unwrap()).await;
        let (_, thread) = page.split_once("<aside").unwrap();
        let shown: Vec<String> = (first..=last).map(|n| format!("{}.000000", 1_700_001_000 + n)).collect();
        assert_eq!(timestamps(thread)[1..], shown, "{n}");
        let (before, _) = thread.split_once(&format!("id=\"t{}.000000\"", 1_700_001_000 + n)).unwrap();
        assert!(before.rsplit('<').next().unwrap().contains("class=\"message target"), "{n}: {thread}");
        assert_eq!(thread.contains("First replies"), first > 1, "{n}");
        assert_eq!(link_with_rel(thread, "next").is_some(), last < 450, "{n}");
    }
}

#[tokio::test]
async fn a_channel_that_has_only_replies_can_be_paged_through() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1000000000.000000", "the first").await;
    for n in 1..=300 {
        fixture.reply("C1", &format!("{}.000000", 1_000_000_000 + n), "1000000000.000000", "a reply").await;
    }
    fixture.post("C1", "1000001000.000000", "the last").await;
    let page = fixture.page("/c/T1/C1").await;
    assert_eq!(timestamps(&page), ["1000000000.000000", "1000001000.000000"]);
    assert!(page.contains("The archive begins here."));
}

#[tokio::test]
async fn replies_without_their_root_are_shown_under_a_line_that_leads_to_their_thread() {
    let fixture = ViewerFixture::open();
    fixture.channel("C1", "general").await;
    let root = "1699990000.000100";
    for ts in ["1700000070.000100", "1700000071.000100"] {
        fixture.reply("C1", ts, root, "orphan").await;
    }
    let line = format!(
        "<a href=\"/t/T1/C1/{root}\">Thread from 14 Nov 2023, its first message is not in the archive</a>"
    );
    let page = fixture.page("/c/T1/C1").await;
    assert_eq!(timestamps(&page), ["1700000070.000100", "1700000071.000100"]);
    assert_eq!(page.matches(&line).count(), 1, "{page}");
    assert!(!page.contains("There are no messages here"));
    assert_eq!(
        timestamps(fixture.page(&format!("/t/T1/C1/{root}")).await.split_once("<aside").unwrap().1).len(),
        2
    );

    // Messages between the replies of two such threads.
    fixture.post("C1", "1700000072.000100", "alone").await;
    fixture.reply("C1", "1700000073.000100", root, "later").await;
    fixture.reply("C1", "1700000074.000100", "1699990001.000100", "another").await;
    let page = fixture.page("/c/T1/C1").await;
    assert_eq!(
        (timestamps(&page).len(), page.matches("its first message is not in the archive").count()),
        (5, 3)
    );
    let around = fixture.page("/c/T1/C1?around=1700000071.000100").await;
    assert!(around.contains("target goes-on\" id=\"m1700000071.000100\""), "{around}");
    assert!(fixture.page("/c/T1/C1?after=1700000074.000100").await.contains("There are no newer messages."));
    assert!(fixture.page("/c/T1/C1?before=1700000070.000100").await.contains("There are no older messages."));

    // The root arrives with Slack's history: the replies are in its thread.
    fixture.post("C1", root, "the root").await;
    let page = fixture.page("/c/T1/C1").await;
    assert_eq!(timestamps(&page), [root, "1700000072.000100", "1700000074.000100"]);
}

#[tokio::test]
async fn every_reply_without_its_root_is_on_exactly_one_page_in_each_direction() {
    let fixture = ViewerFixture::open();
    let all: Vec<String> = (0..333).map(|n| format!("{}.000100", 1_700_000_000 + n)).collect();
    let message = |(n, ts): (usize, &String)| match n % 3 {
        0 => json!({ "ts": ts, "text": "a message" }),
        kind => {
            json!({ "ts": ts, "thread_ts": format!("169999000{}.000100", kind + n % 2), "text": "a reply" })
        }
    };
    fixture.messages("C1", &all.iter().enumerate().map(message).collect::<Vec<_>>()).await;
    for (start, rel) in [("/c/T1/C1", "prev"), ("/c/T1/C1?after=1.000000", "next")] {
        let (mut seen, mut path) = (Vec::new(), Some(start.to_owned()));
        while let Some(next) = path {
            let page = fixture.page(&next).await;
            seen.extend(timestamps(&page).into_iter().map(str::to_owned));
            path = link_with_rel(&page, rel);
        }
        seen.sort();
        assert_eq!(seen, all, "{rel}");
    }
}

/// A page reads a limited number of rows. If all of them are replies, it is short or empty, and links to
/// more.
#[tokio::test]
async fn pages_skip_thousands_of_replies_in_both_directions() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1000000000.000000", "the first").await;
    let reply = |n: u32| json!({ "ts": format!("{}.000000", 1_000_000_000 + n), "thread_ts": "1000000000.000000", "text": "a reply" });
    fixture.messages("C1", &(1..=9_000).map(reply).collect::<Vec<_>>()).await;
    fixture.post("C1", "1000009001.000000", "the last").await;
    let everything = ["1000000000.000000", "1000009001.000000"];
    for (start, rel) in [("/c/T1/C1".to_owned(), "prev"), ("/c/T1/C1?after=1.000000".to_owned(), "next")] {
        let (mut seen, mut pages, mut path) = (Vec::new(), 0, Some(start));
        while let Some(next) = path {
            let page = fixture.page(&next).await;
            seen.extend(timestamps(&page).into_iter().map(str::to_owned));
            let back = if rel == "prev" { "next" } else { "prev" };
            assert!(pages == 0 || link_with_rel(&page, back).is_some(), "{next} has a link back: {page}");
            path = link_with_rel(&page, rel);
            pages += 1;
        }
        seen.sort();
        assert_eq!((seen, pages), (everything.map(str::to_owned).to_vec(), 3), "{rel}");
    }
    let newest = fixture.page("/c/T1/C1").await;
    assert!(!newest.contains("The archive begins here."), "{newest}");
    let older = fixture.page(&link_with_rel(&newest, "prev").unwrap()).await;
    assert!(older.contains("Only replies are here; older messages follow."), "{older}");
    let after = fixture.page("/c/T1/C1?after=1000000000.000000").await;
    assert!(after.contains("Only replies are here; newer messages follow."), "{after}");
}

#[tokio::test]
async fn consecutive_joins_and_leaves_are_folded() {
    let fixture = ViewerFixture::open();
    fixture.person("U0", "Ana").await;
    for (n, user) in [0, 1, 0, 2, 3].into_iter().enumerate() {
        let subtype = if n == 2 { "channel_leave" } else { "channel_join" };
        let user = format!("U{user}");
        fixture
            .message(
                "C1",
                json!({ "ts": format!("170000100{n}.000000"), "subtype": subtype, "text": "", "user": user }),
            )
            .await;
    }
    fixture.post("C1", "1700001005.000000", "hello").await;
    fixture.message("C1", json!({ "ts": "1700001006.000000", "subtype": "channel_join", "text": "" })).await;
    let page = fixture.page("/c/T1/C1").await;
    assert!(
        page.contains("<details class=\"folded\"><summary>5 came or left: <bdi>Ana</bdi>, <bdi>U1</bdi>, <bdi>U2</bdi> and 1 more</summary>"),
        "{page}"
    );
    assert_eq!(page.matches("<details").count(), 1, "a single one is not folded");
    let page = fixture.page("/c/T1/C1?around=1700001001.000000").await;
    assert!(page.contains("<details class=\"folded\" open>"), "the requested message is visible");
}
