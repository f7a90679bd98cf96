//! Searches of a reader who does not see some channels.

use std::sync::Arc;

use reader::access::{HiddenChannels, Sight, VisibleArchive};
use search::hits::{self, SearchAnswer, SearchRequest};
use search::index::SearchIndex;
use serde_json::Value;
use slack::ids::ChannelId;

use crate::fixture::{SearchFixture, message, request, team};

/// `C1` and `C2` have the same messages, `C1` at even seconds.
async fn two_channels() -> (SearchFixture, SearchIndex) {
    let fixture = SearchFixture::open().await;
    fixture.channels(&[("C1", "general"), ("C2", "plans")]).await;
    let messages = |first: u32| -> Vec<Value> {
        (0..100).map(|n| message(&format!("{}.000000", 1_700_000_000 + first + 2 * n), "a deploy")).collect()
    };
    fixture.store("C1", &messages(0)).await;
    fixture.store("C2", &messages(1)).await;
    let index = fixture.caught_up().await;
    (fixture, index)
}

async fn answer_without(
    fixture: &SearchFixture,
    index: &SearchIndex,
    hidden: &[&str],
    query: &str,
) -> Result<SearchAnswer, String> {
    let hidden: HiddenChannels = hidden.iter().map(|id| (team(), ChannelId::parse(id).unwrap())).collect();
    let hidden = Arc::new(hidden);
    let archive = VisibleArchive::new(Arc::clone(&fixture.archive), Sight::Without(Arc::clone(&hidden)));
    let request = SearchRequest { hidden, limit: 5, ..request(query) };
    hits::search(&archive, index, request).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_hidden_channel_has_no_hits_and_no_name() {
    let (fixture, index) = two_channels().await;
    for query in ["deploy", "-word", "in:general"] {
        let answer = answer_without(&fixture, &index, &["C2"], query).await.unwrap();
        let channels: Vec<&str> = answer.hits.iter().map(|hit| hit.location.channel.as_str()).collect();
        assert_eq!(channels, ["C1"; 5], "{query}");
    }
    for query in ["in:plans", "in:plan", "in:C2", "mentions:plans"] {
        let found = answer_without(&fixture, &index, &["C2"], query).await.map(|answer| answer.hits);
        let error = found.unwrap_err();
        assert!(!error.contains("did you mean"), "{query}: {error}");
    }
}

#[tokio::test]
async fn the_names_that_one_reader_may_search_for_are_not_those_of_another() {
    let (fixture, index) = two_channels().await;
    let found = async |hidden: &[&str]| answer_without(&fixture, &index, hidden, "mentions:plans").await;
    for _ in 0..2 {
        assert!(found(&[]).await.is_ok());
        let error = found(&["C2"]).await.unwrap_err();
        assert!(error.starts_with("nothing that can be mentioned is called plans"), "{error}");
    }
}
