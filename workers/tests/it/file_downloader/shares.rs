//! One file that many messages share.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Archive, ArchiveExt, ItemKey, Update};
use ports::queue::QueueName;
use ports::queue::job::encode_job;
use serde_json::{Value, json};
use slack::ids::FileId;
use slack_api::Tokens;
use testkit::corpus::{TEAM, event};
use testkit::deliveries;
use testkit::memory::queue::MemoryQueue;
use wiremock::ResponseTemplate;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{DownloaderFixture, answer, bytes, downloads, info, settings, slack, team, with_slack};

#[tokio::test]
async fn a_file_is_stored_and_its_message_has_the_address() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F01", b"hello").await;
    let row = fixture.fetch(&fixture.file("F01", json!({ "size": 5 }))).await;
    let uri = format!("slack/{TEAM}/C01/1700000000.000100/F01");
    let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(
        row,
        json!({ "itemId": format!("file#{TEAM}"), "timestamp": "F01", "type": "file", "team_id": TEAM, "file_id": "F01",
            "name": "F01.bin", "mimetype": "application/octet-stream", "size_bytes": 5, "sha256": sha256, "state": "held",
            "uri": uri, "shares": [{ "channel_id": "C01", "ts": "1700000000.000100" }] })
    );
    assert_eq!(fixture.in_channel("C01").await["files_s3"], json!([uri]));
    assert_eq!(fixture.stored_bytes(), [b"hello"]);
}

#[tokio::test]
async fn the_same_file_in_two_channels_is_requested_once() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F01", b"hello").await;
    let file = fixture.file("F01", json!({}));
    fixture.fetch(&file).await;
    let again = fixture.share("C02", &file).await;
    assert_eq!(fixture.handle(&again).await, JobOutcome::Done);
    assert_eq!(downloads(&slack).await.len(), 1);
    let uris = [
        fixture.in_channel("C01").await["files_s3"].clone(),
        fixture.in_channel("C02").await["files_s3"].clone(),
    ];
    assert_eq!(uris[0], uris[1]);
    assert_eq!(fixture.row("F01").await["shares"].as_array().unwrap().len(), 2);
    assert_eq!(fixture.stored_bytes().len(), 1);
}

#[tokio::test]
async fn a_message_with_many_files_shows_them_in_its_own_order_and_those_without_an_id_are_skipped() {
    let (slack, fixture) = with_slack().await;
    for id in ["F09", "F01"] {
        bytes(&slack, id, id.as_bytes()).await;
    }
    let files = [fixture.file("F09", json!({})), json!({ "name": "no id" }), fixture.file("F01", json!({}))];
    let jobs = fixture.message("C01", &files).await;
    assert_eq!(jobs.skipped, 1);
    for send in jobs.sends.into_iter().rev() {
        assert_eq!(fixture.handle(&deliveries::delivery_of(send)).await, JobOutcome::Done);
    }
    let message = fixture.in_channel("C01").await;
    let uris: Vec<&str> =
        message["files_s3"].as_array().unwrap().iter().map(|uri| uri.as_str().unwrap()).collect();
    assert!(uris[0].ends_with("/F09") && uris[1].ends_with("/F01"), "{uris:?}");
}

#[tokio::test]
async fn without_a_token_no_file_is_requested_and_a_retry_fetches_it_for_every_message() {
    let slack = slack().await;
    let poor = DownloaderFixture::new(&slack.uri(), Tokens::empty(), settings());
    let file = poor.file("F01", json!({}));
    assert_eq!(poor.fetch(&file).await["state"], "pending");
    assert_eq!(poor.in_channel("C01").await["files_verdict"], json!({ "F01": "pending" }));
    let second = poor.share("C02", &file).await;
    assert_eq!(poor.handle(&second).await, JobOutcome::Done);
    assert!(slack.received_requests().await.unwrap().is_empty());

    bytes(&slack, "F01", b"hello").await;
    info(&slack, &json!({ "ok": true, "file": file })).await;
    let rich = poor.another_worker(poor.another_claimant("rich"));
    assert_eq!(rich.handle(&[poor.retry_job("F01").await]).await, [JobOutcome::Done]);
    for channel in ["C01", "C02"] {
        let message = poor.in_channel(channel).await;
        assert!(message["files_s3"].is_array() && message["files_verdict"].is_null(), "{message}");
    }
    assert_eq!(downloads(&slack).await.len(), 1);
}

#[tokio::test]
async fn a_retry_reads_the_current_file_object_from_slack() {
    let (slack, fixture) = with_slack().await;
    let hidden = fixture.file("F01", json!({ "mode": "hidden_by_limit", "url_private": "" }));
    assert_eq!(fixture.fetch(&hidden).await["verdict"], "hidden_by_limit");
    // The workspace has a paid plan now.
    bytes(&slack, "F01", b"hello").await;
    info(&slack, &json!({ "ok": true, "file": fixture.file("F01", json!({ "size": 5 })) })).await;
    let retry = fixture.retry_job("F01").await;
    assert_eq!(fixture.handle(&retry).await, JobOutcome::Done);
    assert_eq!(fixture.row("F01").await["state"], "held");
}

#[tokio::test]
async fn another_message_never_replaces_the_verdict_on_a_file() {
    let (slack, fixture) = with_slack().await;
    let file = fixture.file("F01", json!({}));
    answer(&slack, "F01", ResponseTemplate::new(410).set_body_string("")).await;
    assert_eq!(fixture.fetch(&file).await["verdict"], "gone");
    let stub = fixture.file("F01", json!({ "mode": "hidden_by_limit" }));
    let second = fixture.share("C02", &stub).await;
    assert_eq!(fixture.handle(&second).await, JobOutcome::Done);
    assert_eq!(fixture.row("F01").await["verdict"], "gone");
    assert_eq!(fixture.in_channel("C02").await["files_verdict"], json!({ "F01": "gone" }));
}

#[tokio::test]
async fn a_deleted_file_is_marked_and_kept() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F01", b"hello").await;
    fixture.fetch(&fixture.file("F01", json!({}))).await;
    bytes(&slack, "F02", b"hello").await;
    let clock = ports::clock::ManualClock::starting_at(ports::clock::TimestampMs(1_700_000_010_000));
    let queue = Arc::new(MemoryQueue::new(clock.clone()));
    let writer = MessageWriter::new(fixture.archive.clone(), queue.clone()).timed_by(clock.clone());
    let deleted = |file: Value| {
        let event = json!({ "type": "file_deleted", "file_id": file, "event_ts": "1700000009.000000" });
        deliveries::delivery(&event::envelope(TEAM, "Ev9", &event))
    };
    let jobs = [deleted(json!("F01")), deleted(json!("F02")), deleted(json!("../F")), deleted(json!(null))];
    let outcomes = writer.handle(&jobs).await;
    assert_eq!(outcomes[..2], [JobOutcome::Done, JobOutcome::Done]);
    assert!(outcomes[2..].iter().all(|outcome| matches!(outcome, JobOutcome::Quarantine(_))), "{outcomes:?}");
    let row = fixture.row("F01").await;
    assert_eq!((&row["deleted"], &row["state"]), (&json!(true), &json!("held")));
    assert_eq!(fixture.row("F02").await, Value::Null);
    let unknown = ItemKey::file(&team(), &FileId::parse("F02").unwrap());
    assert_eq!(fixture.archive.get(&unknown).await.unwrap(), None, "it may be a private channel's");
    assert_eq!(fixture.stored_bytes(), [b"hello"]);

    // Every message that shares the file is marked, whether its job comes before or after the deletion.
    let marked = async |channel: &str| fixture.in_channel(channel).await["files"][0]["deleted"].clone();
    let jobs = deliveries::receive_visible(&*queue, QueueName::Files).await;
    assert_eq!(fixture.handle(&jobs[0]).await, JobOutcome::Done);
    let job = fixture.share("C02", &fixture.file("F01", json!({}))).await;
    assert_eq!(fixture.handle(&job).await, JobOutcome::Done);
    for channel in ["C01", "C02"] {
        assert_eq!(marked(channel).await, true, "{channel}");
    }

    // The deletion waits ten minutes for a message of a public channel that shares the file.
    let waiting = deliveries::receive_visible(&*queue, QueueName::Events).await;
    assert_eq!(waiting.len(), 1);
    assert!(matches!(writer.handle(&waiting).await[..], [JobOutcome::Retry(_)]));
    fixture.fetch(&fixture.file("F02", json!({}))).await;
    assert_eq!(writer.handle(&waiting).await, [JobOutcome::Done]);
    assert_eq!(fixture.row("F02").await["deleted"], true);
    clock.advance(Duration::from_secs(600));
    let unknown = deleted(json!("F03"));
    let late =
        ports::queue::Delivery { group: waiting[0].group.clone(), sent_at: waiting[0].sent_at, ..unknown };
    assert_eq!(writer.handle(&[late]).await, [JobOutcome::Done]);
    assert_eq!(fixture.row("F03").await, Value::Null);
}

#[tokio::test]
async fn an_erased_file_is_not_fetched_again() {
    let (slack, fixture) = with_slack().await;
    let file = fixture.file("F01", json!({}));
    let job = fixture.share("C01", &file).await;
    let set_if_absent = [("erased".to_owned(), json!(true))].into_iter().collect();
    let key = ItemKey::file(&team(), &FileId::parse("F01").unwrap());
    fixture.archive.write(&Update { set_if_absent, ..Update::new(key) }).await.unwrap();
    assert_eq!(fixture.handle(&job).await, JobOutcome::Done);
    assert!(slack.received_requests().await.unwrap().is_empty() && fixture.stored_bytes().is_empty());
}

#[tokio::test]
async fn a_malformed_job_is_quarantined_and_a_newer_one_is_retried() {
    let (_slack, fixture) = with_slack().await;
    let good = fixture.share("C01", &fixture.file("F01", json!({}))).await;
    for body in [
        "{\"v\":1,\"event\":{}}".to_owned(),
        "{}".to_owned(),
        encode_job("file", &json!({ "team": "T1" })),
        encode_job("file", &json!([])),
        encode_job(
            "file",
            &json!({ "team": "T1", "channel": "../C", "ts": "1.000000", "object": { "id": "F1" } }),
        ),
        encode_job("image", &json!({ "team": "T1", "user": "U1" })),
        encode_job("image", &json!({ "team": "T1", "url": "https://x/" })),
    ] {
        let outcome = fixture.handle(&ports::queue::Delivery { body: body.clone(), ..good.clone() }).await;
        assert!(matches!(outcome, JobOutcome::Quarantine(_)), "{body}: {outcome:?}");
    }
    let newer = ports::queue::Delivery { body: "{\"v\":2}".into(), ..good };
    assert!(matches!(fixture.handle(&newer).await, JobOutcome::Retry(_)), "a newer worker will know");
}
