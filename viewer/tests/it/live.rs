//! Messages that come while a page of a channel is open.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, Request};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::time::timeout;
use tower::ServiceExt;
use viewer::access::ViewerAccess;

use crate::fixture::{ViewerFixture, link_with_rel};

/// An open stream, and what it sent.
struct Stream {
    body: Body,
    received: String,
}

impl Stream {
    /// Opens a stream; the status if there is none.
    async fn open(router: &Router, path: &str, headers: &[(&str, &str)]) -> Result<Self, u16> {
        let mut request = Request::builder().uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        if response.status() != 200 {
            return Err(response.status().as_u16());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(Self { body: response.into_body(), received: String::new() })
    }

    /// Waits until the stream has sent this; panics if it ends or does not send it.
    async fn wait_for(&mut self, expected: &str) {
        let waiting = async {
            while !self.received.contains(expected) {
                let frame = self.body.frame().await.expect("the stream ended").unwrap();
                self.received += std::str::from_utf8(&frame.into_data().unwrap()).unwrap();
            }
        };
        let is_sent = timeout(Duration::from_secs(20), waiting).await.is_ok();
        assert!(is_sent, "{expected} is not in {}", self.received);
    }

    /// Waits until the stream ends.
    async fn wait_for_end(&mut self) {
        let waiting = async {
            while let Some(frame) = self.body.frame().await {
                self.received += std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap();
            }
        };
        timeout(Duration::from_secs(20), waiting).await.expect("the stream goes on");
    }

    fn messages(&self) -> usize {
        self.received.matches("event: message\n").count()
    }
}

fn ts(n: i64) -> String {
    format!("{}.000100", 1_795_000_000 + n)
}

async fn two_channels() -> ViewerFixture {
    let fixture = ViewerFixture::open();
    for (id, name) in [("C1", "general"), ("C2", "plans")] {
        fixture.channel(id, name).await;
        for n in 0..3 {
            fixture.post(id, &ts(n), &format!("message {n}")).await;
        }
    }
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_gets_new_changed_and_deleted_messages_of_its_channel_alone() {
    let fixture = two_channels().await;
    let router = fixture.router();
    let page = fixture.page("/c/T1/C1").await;
    let address = format!("/c/T1/C1/live?after={}", ts(2));
    assert!(page.contains(&format!("data-live=\"{address}\"")), "{page}");
    let mut stream = Stream::open(&router, &address, &[]).await.unwrap();
    stream.wait_for("retry: 5000\n\n").await;

    fixture.post("C2", &ts(3), "not for this page").await;
    fixture.post("C1", &ts(4), "one\n\n```two\nthree```").await;
    stream.wait_for(&format!("id: {}\n", ts(4))).await;
    fixture.edit("C1", &ts(1), &ts(100), "message 1, edited").await;
    stream.wait_for("message 1, edited").await;
    fixture.delete("C1", &ts(2), &ts(101)).await;
    stream.wait_for(&format!("id: {}\n", ts(2))).await;
    // A message that comes late is shown where it belongs.
    fixture.post("C1", &format!("{}5", &ts(1)[..16]), "late").await;
    stream.wait_for("late").await;
    fixture.reply("C1", &ts(5), &ts(4), "a reply").await;
    stream.wait_for("1 reply").await;

    let received = &stream.received;
    assert!(!received.contains("not for this page") && !received.contains("message 0"), "{received}");
    assert!(!received.contains("a reply"), "{received}");
    for event in received.split_terminator("\n\n").filter(|event| event.contains("event: message")) {
        let lines: Vec<&str> = event.lines().collect();
        assert!(
            lines.len() == 3 && lines[2].starts_with("data: ") && lines[2].contains("<article"),
            "{event}"
        );
    }
    assert_eq!(stream.messages(), 5, "{received}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_where_the_page_or_the_last_stream_ended() {
    let fixture = two_channels().await;
    let router = fixture.router();
    for (n, (path, last_id, sent)) in [
        ("/c/T1/C1/live", "", 3),
        ("/c/T1/C1/live?after=1795000000.000100", "", 2),
        ("/c/T1/C1/live?after=1795000000.000100", "1795000001.000100", 1),
        ("/c/T1/C1/live?after=1795000002.000100", "", 0),
    ]
    .into_iter()
    .enumerate()
    {
        let mut stream = Stream::open(&router, path, &[("last-event-id", last_id)]).await.unwrap();
        fixture.post("C1", &ts(3 + i64::try_from(n).unwrap()), &format!("end {n}")).await;
        stream.wait_for(&format!("end {n}")).await;
        assert_eq!(stream.messages(), sent + n + 1, "{path}: {}", stream.received);
    }
    for n in 10..80 {
        fixture.post("C1", &ts(n), "many").await;
    }
    let mut stream = Stream::open(&router, &format!("/c/T1/C1/live?after={}", ts(10)), &[]).await.unwrap();
    stream.wait_for("event: gap\n").await;
    for (path, status) in [
        ("/c/T1/C1/live?after=x", 400),
        ("/c/T1/C9/live", 404),
        ("/c/T9/C1/live", 404),
        ("/c/T1/C1/live?after=1795000000.000100&after=x", 400),
    ] {
        assert_eq!(Stream::open(&router, path, &[]).await.err(), Some(status), "{path}");
    }
    // Only the end of a channel has more to come.
    let newest = fixture.page("/c/T1/C1").await;
    let older = fixture.page(&link_with_rel(&newest, "prev").unwrap()).await;
    assert!(newest.contains("data-live=") && !older.contains("data-live="));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_a_channel_that_becomes_private_ends() {
    let fixture = two_channels().await;
    let readers = || ViewerAccess::Header(HeaderName::from_static("x-user"));
    let router = fixture.router_for(readers());
    let bo = [("x-user", "bo")];
    let mut stream = Stream::open(&router, &format!("/c/T1/C2/live?after={}", ts(2)), &bo).await.unwrap();
    let converted = json!({ "ts": ts(3), "subtype": "channel_convert_to_private", "text": "made private" });
    fixture.message("C2", converted).await;
    // Which channels are private is read at most every two seconds.
    for n in 4..40 {
        if timeout(Duration::from_millis(200), stream.wait_for_end()).await.is_ok() {
            break;
        }
        fixture.post("C2", &ts(n), &format!("secret {n}")).await;
    }
    assert!(stream.received.ends_with("event: end\ndata:\n\n"), "{}", stream.received);
    assert_eq!(Stream::open(&router, "/c/T1/C2/live", &bo).await.err(), Some(404));
    assert_eq!(Stream::open(&router, "/c/T1/C2/live", &[]).await.err(), Some(403));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_streams_is_bounded_for_each_reader_and_for_all() {
    let fixture = two_channels().await;
    let router = fixture.router_for(ViewerAccess::Header(HeaderName::from_static("x-user")));
    let mut streams = Vec::new();
    for n in 0..100 {
        let name = format!("reader {}", n / 6);
        streams.push(Stream::open(&router, "/c/T1/C1/live", &[("x-user", &name)]).await.unwrap());
        if n == 5 {
            let seventh = Stream::open(&router, "/c/T1/C1/live", &[("x-user", &name)]).await;
            assert_eq!(seventh.err(), Some(503));
        }
    }
    let new = [("x-user", "another")];
    assert_eq!(Stream::open(&router, "/c/T1/C1/live", &new).await.err(), Some(503));
    drop(streams.pop());
    assert!(Stream::open(&router, "/c/T1/C1/live", &new).await.is_ok());
}
