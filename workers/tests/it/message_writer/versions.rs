//! The stored data of each version of a message: text, files, reactions and thread.

use ports::queue::QueueName;
use serde_json::json;
use testkit::corpus::{TEAM, event};
use workers::runtime::{JobOutcome, Worker};

use super::{TS, WriterFixture};
use testkit::deliveries::delivery;

#[tokio::test]
async fn a_tombstone_that_arrives_alone_stores_the_last_text_and_the_thread() {
    let fixture = WriterFixture::new();
    let root = event::reply(TS, TS, "U01", "the root");
    let last = event::edited(&root, "1700000003.000000", "the root at last");
    fixture.store(&[event::changed("C01", &last, &event::tombstone(&last), "1700000005.000000")]).await;
    let row = fixture.message("C01", TS).await.unwrap();
    assert_eq!((&row["deleted"], &row["text"]), (&json!(true), &json!("the root at last")));
    assert_eq!(row["thread_ts"], TS);
    assert!(row["parent"].is_string());
    // The original message was missed too, and arrives late.
    fixture.store(&[event::posted("C01", &root)]).await;
    assert_eq!(fixture.message("C01", TS).await.unwrap()["text"], "the root at last");
    assert_eq!(fixture.revisions(TS).await, ["the root"]);
}

#[tokio::test]
async fn a_broadcast_stores_a_root_that_was_never_seen() {
    let fixture = WriterFixture::new();
    let root = event::reply(TS, TS, "U01", "the root");
    let reply = event::reply("1700000009.000000", TS, "U02", "to everyone");
    let broadcast = event::subtyped(reply, "thread_broadcast", json!({ "root": root }));
    fixture.store(&[event::posted("C01", &broadcast)]).await;
    let row = fixture.message("C01", TS).await.unwrap();
    assert_eq!((&row["text"], &row["thread_ts"]), (&json!("the root"), &json!(TS)));
}

#[tokio::test]
async fn reactions_listed_in_a_message_are_added_and_never_removed() {
    let fixture = WriterFixture::new();
    let listing = |users: &[&str]| {
        let reactions = json!([{ "name": "tada", "users": users, "count": users.len() }]);
        event::with_fields(event::message(TS, "U01", "party"), [("reactions", reactions)])
    };
    fixture
        .store(&[
            event::posted("C01", &event::message("1700000000.000001", "U01", "opens the channel")),
            event::reaction_removed("C01", TS, "U03", "tada", "1700000001.000000"),
            event::changed("C01", &listing(&["U02", "U03"]), &listing(&["U04"]), "1700000002.000000"),
        ])
        .await;
    let row = fixture.message("C01", TS).await.unwrap();
    assert_eq!(row["reactions"], json!([{ "name": "tada", "count": 2, "users": ["U02", "U04"] }]));
}

#[tokio::test]
async fn every_version_is_kept_even_if_slack_marks_no_edit() {
    let fixture = WriterFixture::new();
    let posted = event::bot_message(TS, "B01", "deploys", "deploy 10%");
    let with_text = |text: &str| event::with_fields(posted.clone(), [("text", text.into())]);
    fixture
        .store(&[
            event::posted("C01", &posted),
            event::changed("C01", &posted, &with_text("deploy 50%"), "1700000001.000000"),
            event::changed("C01", &with_text("deploy 50%"), &with_text("done"), "1700000002.000000"),
        ])
        .await;
    let row = fixture.message("C01", TS).await.unwrap();
    assert_eq!((row["text"].as_str(), row.get("updated_ts")), (Some("done"), None));
    assert_eq!(fixture.revisions(TS).await, ["deploy 10%", "deploy 50%"]);
}

#[tokio::test]
async fn edits_within_one_second_are_all_kept() {
    let fixture = WriterFixture::new();
    let (ts, second) = ("1700000000.400000", "1700000000.000000");
    let versions = ["v0", "v1", "v2"].map(|text| event::message(ts, "U01", text));
    let edited = |number: usize, text: &str| event::edited(&versions[number], second, text);
    fixture
        .store(&[
            event::posted("C01", &versions[0]),
            event::changed("C01", &versions[0], &edited(0, "v1"), "1700000000.700000"),
            event::changed("C01", &edited(0, "v1"), &edited(1, "v2"), "1700000000.900000"),
        ])
        .await;
    let row = fixture.message("C01", ts).await.unwrap();
    assert_eq!((&row["text"], &row["updated_ts"]), (&json!("v2"), &json!("2023-11-14T22:13:20.000000Z")));
    assert_eq!(fixture.revisions(ts).await, ["v0", "v1"]);
}

#[tokio::test]
async fn a_deleted_file_keeps_its_name_and_the_version_that_had_it() {
    let fixture = WriterFixture::new();
    let shared = event::file_share(TS, "U01", "see", &["F70"]);
    let deleted =
        event::with_fields(shared.clone(), [("files", json!([{ "id": "F70", "mode": "tombstone" }]))]);
    fixture
        .store(&[
            event::posted("C01", &shared),
            event::changed("C01", &shared, &deleted, "1700000005.000000"),
        ])
        .await;
    let row = fixture.message("C01", TS).await.unwrap();
    let file = &row["files"][0];
    assert_eq!(
        (&file["name"], &file["title"], &file["deleted"], &file["mode"]),
        (&json!("F70.txt"), &json!("F70"), &json!(true), &json!("tombstone"))
    );
    assert!(row["raw_event"].as_str().unwrap().contains("tombstone"));
    let revisions = fixture.rows(format!("revision#{TEAM}#C01#{TS}")).await;
    assert!(revisions.iter().any(|version| version["files"] == shared["files"]), "{revisions:?}");
    assert_eq!(fixture.revisions(TS).await, ["see"]);
}

#[tokio::test]
async fn half_a_character_removes_no_other_data() {
    let fixture = WriterFixture::new();
    let cut = |event: &serde_json::Value| event.to_string().replace("CUT", r"\ud83d");
    let job = |event: &serde_json::Value| {
        let body = event::envelope(TEAM, "EvCut", event);
        delivery(&cut(&serde_json::from_str(&body).unwrap()))
    };
    let shared = event::file_share(TS, "U01", "text CUT", &["F70"]);
    let shared =
        event::with_fields(shared, [("files", json!([{ "id": "F70", "name": "a.txt", "preview": "CUT" }]))]);
    let person = event::with_fields(
        event::user_change("U01", "ana", "1700000002.000000"),
        [(
            "user",
            json!({ "id": "U01", "name": "ana", "profile": { "display_name": "Ana", "status_text": "CUT" } }),
        )],
    );
    for event in [event::posted("C01", &shared), person] {
        assert_eq!(fixture.writer.handle(&[job(&event)]).await, [JobOutcome::Done]);
    }
    let row = fixture.message("C01", TS).await.unwrap();
    assert_eq!(row["text"], "text \u{fffd}");
    assert_eq!(row["files"], json!([{ "id": "F70", "name": "a.txt", "preview": "\u{fffd}" }]));
    assert_eq!(fixture.sent_to(QueueName::Files).await.len(), 1, "its bytes are fetched");
    let people = fixture.rows(format!("user#{TEAM}")).await;
    assert_eq!((&people[0]["name"], &people[0]["display_name"]), (&json!("ana"), &json!("Ana")));
}

#[tokio::test]
async fn an_object_with_a_repeated_key_is_quarantined() {
    let fixture = WriterFixture::new();
    let message = event::with_fields(event::message(TS, "U01", "x"), [("user_team", "T0TWICE".into())]);
    let changed = event::changed("C01", &message, &message, "1700000002.000000");
    let body = event::envelope(TEAM, "Ev1", &changed)
        .replace(r#""user_team":"T0TWICE""#, r#""user_team":"T0TWICE","user_team":"T0TWICE""#);
    let outcomes = fixture.writer.handle(&[delivery(&body)]).await;
    assert!(matches!(outcomes.as_slice(), [JobOutcome::Quarantine(_)]), "{outcomes:?}");
    assert_eq!(fixture.message("C01", TS).await, None);
}
