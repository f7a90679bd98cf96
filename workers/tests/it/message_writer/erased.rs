//! Events about erased people and channels.

use ports::archive::{ArchiveExt, ErasureFact, ErasureScope};
use serde_json::json;
use slack::ids::{ChannelId, Ts, UserId};
use testkit::corpus::event;

use super::{TS, WriterFixture, team};

const UNTIL: &str = "1700000100.000000";

async fn erase(fixture: &WriterFixture, scope: ErasureScope) {
    let fact = ErasureFact { team: team(), scope, until: Ts::parse(UNTIL).unwrap() };
    fixture.archive.write(&fact.update()).await.unwrap();
}

/// Whether any row holds this text.
fn holds(fixture: &WriterFixture, text: &str) -> bool {
    fixture.archive.items().iter().any(|item| item.to_json().to_string().contains(text))
}

#[tokio::test]
async fn no_event_restores_the_messages_of_an_erased_person() {
    let fixture = WriterFixture::new();
    erase(&fixture, ErasureScope::User(UserId::parse("U01").unwrap())).await;
    let first = event::file_share(TS, "U01", "MARKER one", &["F01"]);
    let second = event::edited(&first, "1700000010.000000", "MARKER two");
    let broadcast = event::subtyped(
        event::reply("1700000009.000000", TS, "U02", "to everyone"),
        "thread_broadcast",
        json!({ "root": first }),
    );
    let events = [
        event::changed("C01", &first, &second, "1700000010.000100"),
        event::posted("C01", &first),
        event::replied("C01", &first, "1700000009.000000", "1700000009.000000"),
        event::posted("C01", &broadcast),
        event::reaction_added("C01", TS, "U02", "eyes", "1700000020.000000"),
        event::deleted("C01", &second, "1700000030.000000"),
        event::user_change("U01", "MARKER", "1700000200.000000"),
    ];
    for _ in 0..2 {
        fixture.store(&events).await;
        assert!(!holds(&fixture, "MARKER"));
    }
    assert_eq!(fixture.message("C01", TS).await, None);
    let reply = fixture.message("C01", "1700000009.000000").await.unwrap();
    assert_eq!(reply["text"], "to everyone");
    fixture.store(&[event::posted("C01", &event::message(UNTIL, "U01", "I am back"))]).await;
    assert_eq!(fixture.message("C01", UNTIL).await.unwrap()["text"], "I am back");
}

#[tokio::test]
async fn messages_before_the_erasure_of_a_channel_stay_erased_and_later_ones_are_stored() {
    let fixture = WriterFixture::new();
    erase(&fixture, ErasureScope::Channel(ChannelId::parse("C01").unwrap())).await;
    let first = event::message(TS, "U01", "MARKER");
    let second = event::edited(&first, "1700000200.000000", "MARKER again");
    let events = [
        event::posted("C01", &first),
        event::changed("C01", &first, &second, "1700000200.000100"),
        event::posted("C01", &event::message("1700000100.000001", "U01", "later")),
        event::posted("C02", &event::message(TS, "U01", "elsewhere")),
    ];
    fixture.store(&events).await;
    assert!(!holds(&fixture, "MARKER") && holds(&fixture, "later") && holds(&fixture, "elsewhere"));
}

#[tokio::test]
async fn a_broadcast_reply_does_not_store_the_text_of_its_root() {
    let fixture = WriterFixture::new();
    let root = event::reply(TS, TS, "U01", "the root");
    let reply = event::reply("1700000009.000000", TS, "U02", "to everyone");
    let broadcast = event::subtyped(reply, "thread_broadcast", json!({ "root": root, "later": "field" }));
    fixture.store(&[event::posted("C01", &broadcast)]).await;
    let reply = fixture.message("C01", "1700000009.000000").await.unwrap();
    let raw = reply["raw_event"].as_str().unwrap();
    assert!(!raw.contains("the root") && raw.contains(r#""later":"field""#), "{raw}");
    assert_eq!(fixture.message("C01", TS).await.unwrap()["text"], "the root");
}
