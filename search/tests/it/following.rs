//! The index follows the archive, and its hits show the archive's content.

use std::time::Duration;

use ports::archive::ItemKey;
use rules::channel::fold::FOLDED;
use search::follower::{self, FollowStep};
use serde_json::json;
use slack::ids::{ChannelId, Ts};

use crate::fixture::{SearchFixture, message, request, team};

const TS: &str = "1700000000.000100";

#[tokio::test]
async fn an_edit_and_a_deletion_are_found_once_the_index_has_caught_up() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message(TS, "the first text")]).await;
    let index = fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "first").await, [TS]);

    let mut edited = message(TS, "another text");
    edited["edited"] = json!({ "user": "U1", "ts": "1700000100.000000" });
    fixture.store("C1", &[edited]).await;
    assert!(
        fixture.found(&index, "first").await.is_empty(),
        "the index is behind, and its hit no longer matches"
    );
    fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "another is:edited").await, [TS]);

    let tombstone = json!({ "type": "message", "subtype": "tombstone", "ts": TS, "user": "USLACKBOT" });
    fixture.store("C1", &[tombstone]).await;
    assert!(fixture.found(&index, "another").await.is_empty());
    fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "another is:deleted").await, [TS]);
    let mut with_deleted = request("another");
    with_deleted.with_deleted = true;
    assert_eq!(fixture.answer(&index, with_deleted).await.hits.len(), 1);
}

#[tokio::test]
async fn clear_keeps_changes_of_another_process() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message(TS, "here")]).await;
    let index = fixture.caught_up().await;
    let before = index.cursor().await.unwrap();
    fixture.store("C1", &[message("1700000001.000000", "there")]).await;
    fixture.caught_up().await;
    assert!(!index.clear(before).await.unwrap());
    assert_eq!(index.count().await.unwrap(), 2);
    assert!(index.clear(index.cursor().await.unwrap()).await.unwrap());
    assert_eq!((index.count().await.unwrap(), index.cursor().await.unwrap()), (0, None));
}

#[tokio::test]
async fn an_erased_message_is_not_found_even_while_the_index_is_behind() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message(TS, "a secret"), message("1700000001.000000", "a secret too")]).await;
    let index = fixture.caught_up().await;
    fixture.erase(TS).await;
    assert_eq!(fixture.found(&index, "secret").await, ["1700000001.000000"]);
    fixture.caught_up().await;
    assert_eq!(index.count().await.unwrap(), 1, "its words are gone from the index");
}

#[tokio::test]
async fn a_reply_is_found_and_links_to_its_thread() {
    let fixture = SearchFixture::open().await;
    fixture.channels(&[("C1", "general")]).await;
    fixture.person("U1", "ana").await;
    let mut reply = message("1700000009.000000", "the answer, <@U1>");
    reply["thread_ts"] = TS.into();
    fixture.store("C1", &[message(TS, "the question"), reply]).await;
    let index = fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "has:thread").await, [TS]);
    let hits = fixture.hits(&index, "answer ana").await;
    assert_eq!(hits[0].channel_name.as_deref(), Some("general"));
    assert_eq!((hits[0].author.as_str(), hits[0].text.as_str()), ("ana", "the answer, @ana"));
    assert_eq!(
        hits[0].permalink,
        "https://slack.com/archives/C1/p1700000009000000?thread_ts=1700000000.000100&cid=C1"
    );
}

#[tokio::test]
async fn all_messages_are_found_if_a_second_has_more_messages_than_ids() {
    let fixture = SearchFixture::open().await;
    let ts = |number: usize| format!("1700000000.{number:06}");
    let messages: Vec<_> = (0..700).map(|number| message(&ts(number), "at once")).collect();
    fixture.store("C1", &messages).await;
    fixture
        .store("C1", &[message("1700000001.000000", "later"), message("1600000000.000001", "long ago")])
        .await;
    let index = fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "\"at once\"").await.len(), 700);
    assert_eq!(
        fixture.found(&index, "later after:2023-11-13 before:2023-11-15").await,
        ["1700000001.000000"]
    );
    assert_eq!(fixture.found(&index, "long").await, ["1600000000.000001"]);
}

#[tokio::test]
async fn messages_with_ids_of_a_later_second_are_found_on_their_own_day() {
    let fixture = SearchFixture::open().await;
    // The last second of 2023-11-14.
    let messages: Vec<_> =
        (0..700).map(|number| message(&format!("1700006399.{number:06}"), "at once")).collect();
    fixture.store("C1", &messages).await;
    fixture.store("C1", &[message("1700006400.000000", "at once")]).await;
    let index = fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "once before:2023-11-15").await.len(), 700);
    assert_eq!(fixture.found(&index, "on:2023-11-14").await.len(), 700);
    assert_eq!(fixture.found(&index, "once after:2023-11-14").await, ["1700006400.000000"]);
}

#[tokio::test]
async fn a_root_is_in_a_thread_while_it_has_a_reply_in_any_order_of_indexing() {
    const REPLY: &str = "1700000009.000000";
    let fixture = SearchFixture::open().await;
    let mut reply = message(REPLY, "reply");
    reply["thread_ts"] = TS.into();
    fixture.store("C1", &[reply]).await;
    let index = fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "is:thread").await, [REPLY]);
    assert!(fixture.found(&index, "has:thread").await.is_empty());

    fixture.store("C1", &[message(TS, "root"), message("1700000005.000000", "alone")]).await;
    fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "is:thread").await, [REPLY, TS]);
    assert_eq!(fixture.found(&index, "has:thread").await, [TS]);
    assert_eq!(fixture.found(&index, "root has:thread").await, [TS]);
    assert_eq!(fixture.found(&index, "-is:thread").await, ["1700000005.000000"]);

    fixture.erase(REPLY).await;
    fixture.caught_up().await;
    assert!(fixture.found(&index, "is:thread").await.is_empty());
}

#[tokio::test]
async fn a_new_name_is_found_at_once_as_an_author_and_within_a_minute_in_a_text() {
    let fixture = SearchFixture::open().await;
    fixture.person("U1", "ana").await;
    fixture.store("C1", &[message(TS, "thanks <@U1>")]).await;
    let index = fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "ana").await, [TS]);
    fixture.person("U1", "bea").await;
    assert!(fixture.found(&index, "ana").await.is_empty(), "a hit is compared with the current names");
    assert!(fixture.found(&index, "bea").await.is_empty());
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(fixture.found(&index, "bea").await, [TS]);
    fixture.person("U1", "cleo").await;
    assert_eq!(fixture.found(&index, "from:cleo").await, [TS]);
}

#[tokio::test]
async fn a_hit_shows_whether_its_channel_is_private_now() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[message("1700000000.000100", "a word")]).await;
    let index = fixture.caught_up().await;
    for (second, visibility) in [(1, "public"), (2, "private")] {
        let (channel, at) =
            (ChannelId::parse("C1").unwrap(), Ts::parse(&format!("{second}.000000")).unwrap());
        let key = ItemKey::channel(&team(), &channel, &at);
        fixture.put(key, json!({ "channel_id": "C1", "visibility": visibility, FOLDED: "1" })).await;
        assert_eq!(fixture.hits(&index, "word").await[0].is_private, visibility == "private");
    }
}

#[tokio::test]
async fn a_ranked_search_returns_the_best_hits_first() {
    let fixture = SearchFixture::open().await;
    let long = format!("needle {}", "hay ".repeat(50));
    fixture.store("C1", &[message(TS, "needle needle"), message("1700000001.000000", &long)]).await;
    let index = fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "needle").await, ["1700000001.000000", TS]);
    let mut ranked = request("needle");
    ranked.is_ranked = true;
    let best = fixture.answer(&index, ranked).await;
    assert_eq!(best.hits[0].ts.as_str(), TS);
}

#[tokio::test]
async fn interrupted_and_concurrent_followers_build_the_same_index() {
    let mut random = fastrand::Rng::with_seed(5);
    let fixture = SearchFixture::open().await;
    let words = ["one", "two", "three", "four"];
    for round in 0..50 {
        let messages: Vec<_> = (0..random.usize(1..60))
            .map(|_| {
                let ts = format!("{}.000000", 1_700_000_000 + random.u32(..400));
                let mut message = message(&ts, words[random.usize(..4)]);
                let edited = format!("{}.000000", 1_700_001_000 + random.u32(..10_000));
                message["edited"] = json!({ "user": "U1", "ts": edited });
                message
            })
            .collect();
        fixture.store("C1", &messages).await;
        let (one, other) = (fixture.index().await, fixture.index().await);
        let step = |index| follower::step(index, &*fixture.changes, &*fixture.archive, |_| true);
        // Dropped at any point of its work, like in a crash; the other one continues.
        let cut = async {
            for _ in 0..random.u8(..6) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = cut => {}
            stepped = step(&one) => drop(stepped.unwrap()),
        }
        if round % 3 == 0 {
            let (first, second) = tokio::join!(step(&one), step(&other));
            assert!(matches!(first.unwrap(), FollowStep::Advanced(_) | FollowStep::CaughtUp));
            second.unwrap();
        }
    }
    let followed = fixture.caught_up().await;
    let mut found = Vec::new();
    for word in words {
        found.push(fixture.found(&followed, word).await);
    }
    drop(followed);
    std::fs::remove_file(fixture.file()).unwrap();
    let rebuilt = fixture.caught_up().await;
    for (word, found) in words.iter().zip(found) {
        assert!(!found.is_empty());
        assert_eq!(fixture.found(&rebuilt, word).await, found, "{word}");
    }
}
