//! Searches by names that only messages have: of apps without a row, and of people who never wrote.

use std::sync::Arc;

use reader::access::{HiddenChannels, Sight, VisibleArchive};
use search::hits::{self, SearchRequest};
use serde_json::{Value, json};
use slack::ids::ChannelId;

use crate::fixture::{SearchFixture, message, request, team};

fn of_app(ts: &str, app: &Value) -> Value {
    let mut message = json!({ "type": "message", "subtype": "bot_message", "ts": ts, "text": "built" });
    message.as_object_mut().unwrap().extend(app.as_object().unwrap().clone());
    message
}

async fn fixture() -> SearchFixture {
    let fixture = SearchFixture::open().await;
    fixture.channels(&[("C1", "general"), ("C2", "plans")]).await;
    fixture.person("U1", "ana").await;
    let messages = [
        of_app("1700000001.000000", &json!({ "username": "Deploy Bot" })),
        of_app("1700000002.000000", &json!({ "username": "deploy-bot", "bot_id": "B0DEPLOY" })),
        of_app("1700000003.000000", &json!({ "bot_id": "B2", "bot_profile": { "name": "Jenkins" } })),
        message("1700000004.000000", "ask <@U7|oldbob> about <#C9|gone-plans>"),
        message("1700000005.000000", "<@U7> knows"),
    ];
    fixture.store("C1", &messages).await;
    fixture.store("C2", &[of_app("1700000006.000000", &json!({ "username": "Secret App" }))]).await;
    fixture
}

#[tokio::test]
async fn authors_and_mentions_are_found_by_names_that_only_messages_have() {
    let fixture = fixture().await;
    let index = fixture.caught_up().await;
    for (query, seconds) in [
        ("from:@deploy bot", &[2, 1][..]),
        ("from:\"Deploy Bot\" built", &[2, 1]),
        ("from:deploy-bot -from:B0DEPLOY", &[1]),
        ("from:@jenkins", &[3]),
        ("-from:@deploybot is:bot in:general", &[3]),
        ("mentions:@oldbob", &[4]),
        ("mentions:#gone-plans", &[4]),
        ("oldbob", &[4]),
        ("mentions:U7", &[5, 4]),
    ] {
        let expected: Vec<String> =
            seconds.iter().map(|second| format!("170000000{second}.000000")).collect();
        assert_eq!(fixture.found(&index, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn a_name_that_only_hidden_messages_have_is_unknown() {
    let fixture = fixture().await;
    let index = fixture.caught_up().await;
    let answer = async |hidden: &[&str], query: &str| {
        let hidden: HiddenChannels =
            hidden.iter().map(|id| (team(), ChannelId::parse(id).unwrap())).collect();
        let hidden = Arc::new(hidden);
        let sight = Sight::Without(Arc::clone(&hidden));
        let archive = VisibleArchive::new(Arc::clone(&fixture.archive), sight);
        let answer = hits::search(&archive, &index, SearchRequest { hidden, ..request(query) }).await;
        answer.map(|answer| answer.hits.len()).map_err(|error| error.to_string())
    };
    for query in ["from:@secret app", "from:\"Secret App\""] {
        assert_eq!(answer(&[], query).await, Ok(1));
        let called = if query.contains('"') { "Secret App" } else { "@secret" };
        let error = answer(&["C2"], query).await.unwrap_err();
        assert!(
            error.starts_with(&format!("no person is called {called} in this archive; the list")),
            "{error}"
        );
    }
}
