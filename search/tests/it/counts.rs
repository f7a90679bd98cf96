//! Counts of messages and replies match the archive.

use reader::joined::ChannelOfTeam;
use serde_json::json;
use slack::ids::{ChannelId, Ts};

use crate::fixture::{SearchFixture, message, team};

fn location(channel: &str) -> ChannelOfTeam {
    ChannelOfTeam { team: team(), channel: ChannelId::parse(channel).unwrap() }
}

#[tokio::test]
async fn replies_are_counted_by_their_root_and_channel() {
    let fixture = SearchFixture::open().await;
    let reply = |ts: &str, root: &str| json!({ "type": "message", "ts": ts, "thread_ts": root, "user": "U2", "text": "to it" });
    let mut broadcast = reply("1700001004.000000", "1700001001.000000");
    broadcast["subtype"] = "thread_broadcast".into();
    let root = reply("1700001001.000000", "1700001001.000000");
    fixture.store("C1", &[root, message("1700001002.000000", "alone")]).await;
    fixture.store("C1", &[reply("1700001003.000000", "1700001001.000000"), broadcast]).await;
    fixture.store("C2", &[reply("1700001005.000000", "1700001001.000000")]).await;
    let index = fixture.caught_up().await;
    let roots =
        ["1700001001.000000", "1700001002.000000", "1700001003.000000"].map(|ts| Ts::parse(ts).unwrap());
    let thread_sizes = async |channels: &[&str]| {
        let locations: Vec<ChannelOfTeam> = channels.iter().map(|channel| location(channel)).collect();
        let sizes = index.thread_sizes(&locations, &roots).await.unwrap();
        sizes.iter().map(|(root, size)| format!("{root} {} {}", size.replies, size.last)).collect::<Vec<_>>()
    };
    assert_eq!(thread_sizes(&["C1"]).await, ["1700001001.000000 2 1700001004.000000"]);
    assert_eq!(thread_sizes(&["C1", "C2"]).await, ["1700001001.000000 3 1700001005.000000"]);
    assert_eq!(thread_sizes(&["C9"]).await, [""; 0]);
    assert_eq!(thread_sizes(&[]).await, [""; 0]);
    let counts = async || index.message_counts().await.unwrap().into_iter().collect::<Vec<_>>();
    assert_eq!(counts().await, [(location("C1"), 4), (location("C2"), 1)]);
    fixture.erase("1700001002.000000").await;
    fixture.caught_up().await;
    assert_eq!(counts().await, [(location("C1"), 3), (location("C2"), 1)]);
}

#[tokio::test]
async fn a_time_is_used_by_a_channels_own_messages_that_are_no_replies() {
    let fixture = SearchFixture::open().await;
    let reply = json!({ "type": "message", "ts": "1700003000.000000", "thread_ts": "1700001000.000000", "user": "U2",
        "text": "to it" });
    fixture
        .store("C1", &[message("1700001000.000000", "root"), reply, message("1700005999.999999", "late")])
        .await;
    fixture.store("C2", &[message("1700004000.000000", "elsewhere")]).await;
    let index = fixture.caught_up().await;
    let bounds: Vec<Ts> =
        (0..=6).map(|n| Ts::parse(&format!("{}.000000", 1_700_000_000 + n * 1_000)).unwrap()).collect();
    let used = async |channels: &[&str]| {
        let locations: Vec<ChannelOfTeam> = channels.iter().map(|channel| location(channel)).collect();
        let used = index.are_used(&locations, &bounds).await.unwrap();
        used.iter().map(|is_used| if *is_used { 'x' } else { '-' }).collect::<String>()
    };
    assert_eq!(used(&["C1"]).await, "-x---x");
    assert_eq!(used(&["C1", "C2"]).await, "-x--xx");
    assert_eq!(used(&["C9"]).await, "------");
    assert_eq!(used(&[]).await, "------");
    assert_eq!(index.are_used(&[location("C1")], &[]).await.unwrap(), [false; 0]);
}

#[tokio::test]
async fn threads_are_listed_by_their_newest_reply_and_each_once() {
    let fixture = SearchFixture::open().await;
    let reply = |at: i64, micros: i64, root: i64| {
        json!({ "type": "message", "ts": format!("{at}.{micros:06}"), "thread_ts": format!("{root}.000000"),
            "user": "U2", "text": "to it" })
    };
    // Several newest replies are of one second, and every thread has earlier replies between those of others.
    let at = |n: i64| 1_700_001_000 + n;
    let mut replies = Vec::new();
    for root in 0..23 {
        replies.push(reply(at(50 + root), 0, at(root)));
        replies.push(reply(at(200 + (root * 7) % 23 / 3), (root * 5) % 23, at(root)));
    }
    fixture.store("C1", &replies).await;
    fixture.store("C2", &[reply(at(300), 0, at(1)), reply(at(301), 0, at(40))]).await;
    let index = fixture.caught_up().await;
    let mut expected: Vec<(i64, String)> = (0..23)
        .map(|root| {
            let newest = &replies[2 * root + 1]["ts"];
            let newest = Ts::parse(newest.as_str().unwrap()).unwrap();
            (newest.micros(), format!("{}.000000", at(i64::try_from(root).unwrap())))
        })
        .collect();
    expected.sort_by_key(|(newest, _)| std::cmp::Reverse(*newest));
    for limit in [1, 2, 5, 22, 23, 50] {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = index.recent_threads(&[location("C1")], before.as_ref(), limit).await.unwrap();
            assert!(!page.threads.is_empty() && page.threads.len() <= limit, "{limit}: {page:?}");
            found.extend(page.threads.iter().map(|(root, size)| {
                assert_eq!(size.replies, 2);
                (size.last.micros(), root.to_string())
            }));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{limit}");
    }
    let both = index.recent_threads(&[location("C1"), location("C2")], None, 2).await.unwrap();
    let roots: Vec<&str> = both.threads.iter().map(|(root, _)| root.as_str()).collect();
    assert_eq!(roots, ["1700001040.000000", "1700001001.000000"]);
    for nothing in [&[][..], &[location("C9")]] {
        assert_eq!(index.recent_threads(nothing, None, 5).await.unwrap().threads, []);
    }
}
