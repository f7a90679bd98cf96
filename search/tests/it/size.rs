//! The size of the index.

use serde_json::{Value, json};

use crate::fixture::{SearchFixture, message};

/// Number of different words of a large workspace; a word is as frequent as its rank requires.
const WORDS: f64 = 50_000.0;

const MESSAGES: usize = 5_000;

/// The size of the bench's goal. What an index has once counts more in a small archive than in a large one.
const MAX_BYTES_PER_MESSAGE: u64 = 300;

#[tokio::test]
async fn an_index_takes_at_most_300_bytes_a_message() {
    let fixture = SearchFixture::open().await;
    let mut random = fastrand::Rng::with_seed(3);
    let messages: Vec<Value> = (0..MESSAGES)
        .map(|number| {
            let words =
                (0..random.usize(3..30)).map(|_| format!("w{:x}", (random.f64() * WORDS.ln()).exp() as u64));
            let text = words.collect::<Vec<_>>().join(" ");
            let mut message = message(&format!("{}.000100", 1_700_000_000 + 30 * number), &text);
            message["user"] = json!(format!("U{:05}", random.usize(..500)));
            if number % 5 == 0 {
                message["reactions"] = json!([{ "name": "tada", "users": ["U1"], "count": 1 }]);
            }
            if number % 10 == 0 {
                message["username"] = json!("Deploy Bot");
                message["text"] = json!(format!("<@U{:05}|person{}> {text}", number % 500, number % 500));
            }
            message
        })
        .collect();
    for messages in messages.chunks(1_000) {
        fixture.store("C1", messages).await;
    }
    let index = fixture.caught_up().await;
    index.optimize().await.unwrap();
    let bytes = std::fs::metadata(fixture.file()).unwrap().len();
    assert!(bytes / MESSAGES as u64 <= MAX_BYTES_PER_MESSAGE, "{} bytes a message", bytes / MESSAGES as u64);
}
