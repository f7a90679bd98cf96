//! Canvases: found by their words, through the messages that share them.

use ports::archive::{ArchiveExt, ItemKey};
use serde_json::{Value, json};
use slack::ids::FileId;
use testkit::canvas;

use crate::fixture::{SearchFixture, message, team};

const FIRST: &str = "1700000000.000100";
const SECOND: &str = "1700000000.000200";

fn sharing(ts: &str, text: &str) -> Value {
    let mut message = message(ts, text);
    message["files"] = json!([{ "id": "F1", "mode": "quip", "name": "Plan" }]);
    message
}

async fn edit(fixture: &SearchFixture, channel: &str, ts: &str, updated: u64, text: &str) {
    for update in canvas::version((channel, ts), "F1", "Launch plan", updated, text).1 {
        fixture.archive.write(&update).await.unwrap();
    }
}

#[tokio::test]
async fn a_canvas_is_found_by_the_words_of_its_newest_version_in_every_channel_that_shares_it() {
    for fixture in [SearchFixture::open().await, SearchFixture::by_day().await] {
        fixture.channels(&[("C1", "general"), ("C2", "random")]).await;
        fixture.store("C1", &[sharing(FIRST, "have a look")]).await;
        fixture.store("C2", &[sharing(SECOND, "rockets here too")]).await;
        edit(&fixture, "C1", FIRST, 100, "the rockets\nfly on Monday").await;
        edit(&fixture, "C2", SECOND, 100, "the rockets\nfly on Monday").await;
        let index = fixture.caught_up().await;
        assert_eq!(fixture.found(&index, "rockets fly").await, [SECOND, FIRST]);
        let hits = fixture.hits(&index, "\"rockets fly\" in:#general").await;
        let [hit] = hits.as_slice() else { panic!("{hits:?}") };
        assert_eq!((hit.text.as_str(), hit.canvas.as_ref().map(FileId::as_str)), ("Launch plan", Some("F1")));
        assert!(hit.snippet.iter().any(|part| part.is_match && part.text.contains("rockets")), "{hit:?}");
        assert_eq!(hit.permalink, "https://slack.com/docs/T1/F1");
        // A message that matches by itself is the hit.
        let hits = fixture.hits(&index, "rockets").await;
        let canvases: Vec<bool> = hits.iter().map(|hit| hit.canvas.is_some()).collect();
        assert_eq!(canvases, [false, true]);
        assert_eq!(fixture.hits(&index, "launch").await.len(), 2, "by its name");
        assert_eq!(fixture.found(&index, "look -rockets").await, Vec::<String>::new());

        // An older version comes late, then a newer one.
        edit(&fixture, "C1", FIRST, 50, "an old draft").await;
        edit(&fixture, "C1", FIRST, 200, "会議室 on Tuesday").await;
        let index = fixture.caught_up().await;
        assert_eq!(fixture.found(&index, "draft").await, Vec::<String>::new());
        assert_eq!(fixture.found(&index, "議室 tuesday").await, [FIRST]);
        assert_eq!(fixture.found(&index, "monday").await, Vec::<String>::new(), "read from the archive");
    }
}

#[tokio::test]
async fn a_canvas_whose_text_or_message_is_erased_is_not_found() {
    let fixture = SearchFixture::open().await;
    fixture.store("C1", &[sharing(FIRST, "have a look"), sharing(SECOND, "here too")]).await;
    for ts in [FIRST, SECOND] {
        edit(&fixture, "C1", ts, 100, "MARKER").await;
    }
    let index = fixture.caught_up().await;
    assert_eq!(fixture.found(&index, "marker").await, [SECOND, FIRST]);
    fixture.erase(FIRST).await;
    assert_eq!(fixture.found(&index, "marker").await, [SECOND], "before the index follows");
    assert_eq!(fixture.found(&fixture.caught_up().await, "marker").await, [SECOND]);
    let text = ItemKey::canvas_text(&team(), &FileId::parse("F1").unwrap());
    let text = fixture.archive.get(&text).await.unwrap().unwrap();
    assert!(fixture.archive.delete_unchanged(&text).await.unwrap());
    assert_eq!(fixture.found(&index, "marker").await, Vec::<String>::new());
    assert_eq!(fixture.found(&index, "too").await, [SECOND], "the message stays");
}

#[tokio::test]
async fn the_canvas_of_a_channel_is_found_without_a_message_and_is_not_counted_as_one() {
    for fixture in [SearchFixture::open().await, SearchFixture::by_day().await] {
        fixture.channels(&[("C1", "general")]).await;
        fixture.store("C1", &[message(SECOND, "hello")]).await;
        let created = "1600000000.000000";
        edit(&fixture, "C1", created, 100, "house rules").await;
        let index = fixture.caught_up().await;
        for query in ["rules", "in:#general rules", "has:file in:#general"] {
            let hits = fixture.hits(&index, query).await;
            let [hit] = hits.as_slice() else { panic!("{query}: {hits:?}") };
            assert_eq!((hit.ts.as_str(), hit.text.as_str()), (created, "Launch plan"), "{query}");
            assert_eq!(hit.canvas.as_ref().map(FileId::as_str), Some("F1"));
        }
        let counts = index.message_counts().await.unwrap();
        assert_eq!(counts.into_values().collect::<Vec<_>>(), [1]);
        // A message may come later under the same timestamp.
        fixture.store("C1", &[message(created, "first")]).await;
        let index = fixture.caught_up().await;
        assert_eq!(index.message_counts().await.unwrap().into_values().collect::<Vec<_>>(), [2]);
        assert!(fixture.hits(&index, "first").await[0].canvas.is_none());
        fixture.erase(created).await;
        let index = fixture.caught_up().await;
        assert_eq!(fixture.found(&index, "rules").await, Vec::<String>::new());
        assert_eq!(index.message_counts().await.unwrap().into_values().collect::<Vec<_>>(), [1]);
    }
}
