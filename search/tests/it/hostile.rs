//! Queries that try to inject operators of the index.

use reader::search::query::SearchQuery;
use search::hits::{self, SearchRequest};

use crate::fixture::{SearchFixture, message, request};

/// Operators of the index, words, and characters of other scripts.
const PIECES: [&str; 35] = [
    "NEAR(", "AND", "OR", "NOT", "\"", "'", "*", "^", "(", ")", "{", "}", "{body}", ":", "body:", "facets:",
    "+", "-", "--", "a", "the", "words", "MATCH", "rank", "\\", "\u{0}", "\u{FEFF}", "\u{D7FF}", "\u{301}",
    "会", "ﾞ", "🎉", "  ", "\n", ";",
];

/// A statement of the index's database, and filters.
const LONG_PIECES: [&str; 5] = ["DROP TABLE", "from:@ana", "in:#general", "has:thread", "before:2030-01-01"];

#[tokio::test]
async fn no_query_injects_operators_into_the_index() {
    let mut random = fastrand::Rng::with_seed(11);
    let fixture = SearchFixture::open().await;
    fixture.channels(&[("C1", "general")]).await;
    fixture.person("U1", "ana").await;
    fixture.store("C1", &[message("1700000000.000100", "a NEAR the words")]).await;
    let index = fixture.caught_up().await;
    let pieces = [&PIECES[..], &LONG_PIECES].concat();
    let mut answered = 0;
    for _ in 0..5_000 {
        let mut text = String::new();
        for _ in 0..random.usize(1..12) {
            text += pieces[random.usize(..pieces.len())];
            if random.bool() {
                text.push(' ');
            }
        }
        let Ok(query) = SearchQuery::parse(&text) else { continue };
        let request = SearchRequest { query, limit: 5, is_ranked: random.bool(), ..request("x") };
        match hits::search(&*fixture.archive, &index, request).await {
            Ok(_) => answered += 1,
            Err(hits::SearchError::Resolve(error)) if error.is_unknown_name() => {}
            Err(error) => panic!("{text:?}: {error}"),
        }
    }
    assert!(answered > 2_000, "{answered}");
    assert_eq!(fixture.found(&index, "NEAR words").await, ["1700000000.000100"]);
}
