//! Canvases: each edit is another version, as Slack returns it when the downloader learns of the edit.

use std::sync::{Arc, Mutex};

use ports::archive::{Archive, ItemKey};
use ports::clock::{ManualClock, TimestampMs};
use ports::files::FileKey;
use ports::queue::{Delivery, QueueName};
use serde_json::{Value, json};
use slack::ids::{ChannelId, Ts};
use testkit::corpus::{TEAM, event};
use testkit::deliveries;
use testkit::memory::queue::MemoryQueue;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{DownloaderFixture, TS, bytes, downloads, team, with_slack};

/// A canvas as Slack has it now: the time of its last edit, and its page.
#[derive(Clone)]
struct LiveCanvas(Arc<Mutex<(u64, String)>>);

impl LiveCanvas {
    async fn new(slack: &MockServer, fixture: &DownloaderFixture) -> Self {
        let canvas = Self(Arc::default());
        canvas.edit(1, "first");
        let (info, page) = (canvas.clone(), canvas.clone());
        let object = fixture.file("F01", json!({}));
        Mock::given(method("POST"))
            .and(path("/api/files.info"))
            .respond_with(move |_: &Request| {
                let file = info.object(&object);
                ResponseTemplate::new(200).set_body_json(json!({ "ok": true, "file": file }))
            })
            .mount(slack)
            .await;
        Mock::given(method("GET"))
            .and(path("/files/F01"))
            .respond_with(move |_: &Request| {
                let page = page.0.lock().unwrap().1.clone();
                ResponseTemplate::new(200).set_body_raw(page, "text/html; charset=utf-8")
            })
            .mount(slack)
            .await;
        canvas
    }

    fn edit(&self, updated: u64, text: &str) {
        *self.0.lock().unwrap() =
            (updated, format!("<!DOCTYPE html><html><body><p>{text}</p></body></html>"));
    }

    /// The object of the canvas now.
    fn object(&self, file: &Value) -> Value {
        let mut object = file.clone();
        let more = json!({ "name": "Plan", "mode": "quip", "filetype": "quip", "updated": self.0.lock().unwrap().0,
            "mimetype": "application/vnd.slack-docs", "size": 7 });
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    }
}

/// A message-writer with its queue, and the downloader that takes its jobs.
struct Fleet {
    fixture: DownloaderFixture,
    queue: Arc<MemoryQueue>,
    writer: MessageWriter,
}

impl Fleet {
    fn new(fixture: DownloaderFixture) -> Self {
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_010_000));
        let queue = Arc::new(MemoryQueue::new(clock.clone()));
        let writer = MessageWriter::new(fixture.archive.clone(), queue.clone()).timed_by(clock);
        Self { fixture, queue, writer }
    }

    /// Handles an event and all jobs that follow from it.
    async fn handle(&self, event_id: &str, event: &Value) {
        let delivery = deliveries::delivery(&event::envelope(TEAM, event_id, event));
        assert_eq!(self.writer.handle(&[delivery]).await, [JobOutcome::Done], "{event}");
        self.drain().await;
    }

    async fn drain(&self) {
        deliveries::drain(&*self.queue, QueueName::Files, async |jobs: &[Delivery]| {
            let mut done = Vec::new();
            for job in jobs {
                done.push(self.fixture.handle(job).await == JobOutcome::Done);
            }
            done
        })
        .await;
    }

    /// A message that shares the canvas.
    fn share(&self, channel: &str, canvas: &LiveCanvas) -> Value {
        let files = json!([canvas.object(&self.fixture.file("F01", json!({})))]);
        let message = event::message(TS, "U01", "look");
        event::posted(channel, &event::with_fields(message, [("files", files)]))
    }
}

fn changed(at_s: u64) -> Value {
    json!({ "type": "file_change", "file_id": "F01", "file": { "id": "F01" }, "event_ts": format!("{at_s}.000100") })
}

fn edits(row: &Value) -> Vec<u64> {
    let versions = row["versions"].as_array().map_or(&[][..], Vec::as_slice);
    versions.iter().map(|version| version["updated"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn each_edit_of_a_canvas_is_a_version_and_repeated_events_add_none() {
    let (slack, fixture) = with_slack().await;
    let canvas = LiveCanvas::new(&slack, &fixture).await;
    let fleet = Fleet::new(fixture);
    canvas.edit(1_700_000_000, "first");
    let posted = fleet.share("C01", &canvas);
    fleet.handle("Ev1", &posted).await;
    for (number, (updated, text)) in
        [(1_700_000_100, "second"), (1_700_000_200, "third")].into_iter().enumerate()
    {
        canvas.edit(updated, text);
        fleet.handle(&format!("EvEdit{number}"), &changed(updated)).await;
    }
    let row = fleet.fixture.row("F01").await;
    assert_eq!(edits(&row), [1_700_000_000, 1_700_000_100, 1_700_000_200]);
    assert_eq!((&row["state"], &row["uri"]), (&json!("held"), &row["versions"][2]["uri"]));
    for (version, text) in row["versions"].as_array().unwrap().iter().zip(["first", "second", "third"]) {
        let key = FileKey::parse(version["uri"].as_str().unwrap()).unwrap();
        let bytes = String::from_utf8(fleet.fixture.files.published()[&key].to_vec()).unwrap();
        assert!(bytes.contains(text), "{version}: {bytes}");
        assert_eq!(version["size_bytes"], bytes.len());
    }
    assert_eq!(fleet.fixture.in_channel("C01").await["files_s3"], json!([row["uri"]]));

    // The same events again, in another order and under other ids, and another message with an old object.
    let (items, requests) = (fleet.fixture.archive.items(), downloads(&slack).await.len());
    for (id, event) in
        [("EvEdit1", changed(1_700_000_200)), ("Ev8", changed(1_700_000_100)), ("Ev1", posted.clone())]
    {
        fleet.handle(id, &event).await;
    }
    assert_eq!(fleet.fixture.archive.items(), items);
    let mut old = posted;
    old["channel"] = json!("C02");
    fleet.handle("Ev9", &old).await;
    assert_eq!(fleet.fixture.in_channel("C02").await["files_s3"], json!([row["uri"]]));
    assert_eq!(downloads(&slack).await.len(), requests);
}

#[tokio::test]
async fn an_edit_that_is_too_big_is_shown_and_the_earlier_version_stays() {
    let (slack, fixture) = with_slack().await;
    let canvas = LiveCanvas::new(&slack, &fixture).await;
    let fleet = Fleet::new(fixture);
    fleet.handle("Ev1", &fleet.share("C01", &canvas)).await;
    canvas.edit(2, &"x".repeat(100_000));
    fleet.handle("Ev2", &changed(1_700_000_100)).await;
    let row = fleet.fixture.row("F01").await;
    assert_eq!((&row["state"], &row["uri"]), (&json!("held"), &row["versions"][0]["uri"]));
    assert_eq!(row["versions"][1], json!({ "updated": 2, "verdict": "too_big" }));
    canvas.edit(3, "short again");
    fleet.handle("Ev3", &changed(1_700_000_200)).await;
    assert_eq!(edits(&fleet.fixture.row("F01").await), [1, 3]);
}

#[tokio::test]
async fn an_edit_that_could_not_be_fetched_is_shown_until_a_retry_finds_it() {
    let (slack, fixture) = with_slack().await;
    let canvas = LiveCanvas::new(&slack, &fixture).await;
    let fleet = Fleet::new(fixture);
    fleet.handle("Ev1", &fleet.share("C01", &canvas)).await;
    let refused = json!({ "ok": false, "error": "missing_scope", "needed": "files:read" });
    Mock::given(path("/api/files.info"))
        .respond_with(ResponseTemplate::new(200).set_body_json(refused))
        .with_priority(1)
        .up_to_n_times(1)
        .mount(&slack)
        .await;
    canvas.edit(2, "second");
    fleet.handle("Ev2", &changed(1_700_000_100)).await;
    assert_eq!(fleet.fixture.row("F01").await["versions"][1], json!({ "verdict": "failed" }));
    let retry = fleet.fixture.retry_job("F01").await;
    assert_eq!(fleet.fixture.handle(&retry).await, JobOutcome::Done);
    assert_eq!(edits(&fleet.fixture.row("F01").await), [1, 2]);
}

#[tokio::test]
async fn an_error_in_the_place_of_a_canvas_is_not_a_version() {
    let (slack, fixture) = with_slack().await;
    let canvas = LiveCanvas::new(&slack, &fixture).await;
    let fleet = Fleet::new(fixture);
    fleet.handle("Ev1", &fleet.share("C01", &canvas)).await;
    for (updated, page) in [(2, r#"{"ok":false,"error":"internal_error"}"#), (3, ""), (4, "[1, 2, 3]")] {
        *canvas.0.lock().unwrap() = (updated, page.to_owned());
        let retry = fleet.fixture.retry_job("F01").await;
        let outcome = fleet.fixture.handle(&retry).await;
        assert!(matches!(outcome, JobOutcome::Retry(_)), "{page}: {outcome:?}");
    }
    canvas.edit(5, "second");
    let retry = fleet.fixture.retry_job("F01").await;
    assert_eq!(fleet.fixture.handle(&retry).await, JobOutcome::Done);
    assert_eq!(edits(&fleet.fixture.row("F01").await), [1, 5]);
}

#[tokio::test]
async fn a_change_to_another_kind_of_file_asks_slack_nothing_and_an_unknown_file_waits() {
    let (slack, fixture) = with_slack().await;
    bytes(&slack, "F02", b"hello").await;
    let fleet = Fleet::new(fixture);
    fleet.fixture.fetch(&fleet.fixture.file("F02", json!({}))).await;
    let requests = slack.received_requests().await.unwrap().len();
    let mut other = changed(1_700_000_100);
    other["file_id"] = json!("F02");
    fleet.handle("Ev1", &other).await;
    assert_eq!(slack.received_requests().await.unwrap().len(), requests);

    fleet.handle("Ev2", &changed(1_700_000_100)).await;
    let waiting = deliveries::receive_visible(&*fleet.queue, QueueName::Events).await;
    assert!(matches!(fleet.writer.handle(&waiting).await[..], [JobOutcome::Retry(_)]));
    for malformed in [json!(null), json!("../F"), json!(7), json!([]), json!({})] {
        other["file_id"] = malformed;
        let delivery = deliveries::delivery(&event::envelope(TEAM, "Ev3", &other));
        let outcome = fleet.writer.handle(&[delivery]).await;
        assert!(matches!(outcome[..], [JobOutcome::Quarantine(_)]), "{other}: {outcome:?}");
    }
}

#[tokio::test]
async fn an_edit_is_fetched_for_a_message_that_is_not_erased() {
    let (slack, fixture) = with_slack().await;
    let canvas = LiveCanvas::new(&slack, &fixture).await;
    let fleet = Fleet::new(fixture);
    for (id, channel) in [("Ev1", "C01"), ("Ev2", "C02")] {
        fleet.handle(id, &fleet.share(channel, &canvas)).await;
    }
    let first = ItemKey::message(&team(), &ChannelId::parse("C01").unwrap(), &Ts::parse(TS).unwrap());
    fleet.fixture.archive.erase(&first).await.unwrap();
    canvas.edit(2, "second");
    fleet.handle("Ev3", &changed(1_700_000_100)).await;
    assert_eq!(edits(&fleet.fixture.row("F01").await), [1, 2]);
}
