//! Tests of the router and the server with a scripted queue.

mod answers;
mod hostile;
mod pressure;
mod queue;
mod refused;
mod served;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::response::Response;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, StatusCode};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::run::RunId;
use process::requests::OpenRequests;
use secrecy::SecretString;
use slack::signature::SigningSecrets;
use tower::ServiceExt;

use self::queue::{Behaviour, TestQueue};
use crate::{EVENTS_PATH, Ingest, IngestLimits, router};

const NOW_S: i64 = 1_700_000_000;
const MESSAGE: &str = r#"{"token":"x","team_id":"T1","type":"event_callback","event_id":"Ev1","event_time":1700000000,
"event":{"type":"message","channel":"C1","channel_type":"channel","user":"U1","text":"hi","ts":"1700000000.000100"}}"#;

/// A body as it is stored: without Slack's verification token.
fn kept(body: &str) -> String {
    body.replace(r#""token":"x""#, r#""token":"""#)
}

/// The run of every router in these tests.
fn run() -> RunId {
    RunId::parse("00000000000000aa").unwrap()
}

fn secrets(list: &str) -> SigningSecrets {
    SigningSecrets::parse(&SecretString::from(list)).unwrap()
}

/// A router with its queue.
struct IngestFixture {
    queue: Arc<TestQueue>,
    ingest: Ingest,
    router: Router,
}

impl IngestFixture {
    fn new(behaviour: Behaviour) -> Self {
        Self::with_limits(behaviour, IngestLimits::default())
    }

    fn with_limits(behaviour: Behaviour, limits: IngestLimits) -> Self {
        let queue = Arc::new(TestQueue::new(behaviour));
        let clock = ManualClock::starting_at(TimestampMs(NOW_S * 1000));
        let ingest = Ingest {
            queue: queue.clone(),
            secrets: secrets("current,next"),
            clock,
            limits,
            open_requests: OpenRequests::default(),
            run: Some(run()),
        };
        Self { queue, router: router(ingest.clone()), ingest }
    }

    async fn send(&self, request: Request<Body>) -> ReceivedAnswer {
        ReceivedAnswer::from_response(self.router.clone().oneshot(request).await.unwrap()).await
    }

    async fn post(&self, body: impl Into<Vec<u8>>) -> ReceivedAnswer {
        self.send(signed(body)).await
    }
}

/// A request signed like one from Slack.
fn signed(body: impl Into<Vec<u8>>) -> Request<Body> {
    let body = body.into();
    let signature = secrets("current").sign(NOW_S, &body);
    unsigned(body).header("x-slack-request-timestamp", NOW_S).header("x-slack-signature", signature).request()
}

/// A request without a signature, to which headers can be added.
fn unsigned(body: impl Into<Body>) -> RequestDraft {
    RequestDraft(
        Request::post(EVENTS_PATH).header(CONTENT_TYPE, "application/json").body(body.into()).unwrap(),
    )
}

struct RequestDraft(Request<Body>);

impl RequestDraft {
    fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.0.headers_mut().append(name, value.to_string().parse().unwrap());
        self
    }

    fn request(self) -> Request<Body> {
        self.0
    }
}

/// The received response.
#[derive(Debug, PartialEq, Eq)]
struct ReceivedAnswer {
    status: StatusCode,
    no_retry: bool,
    body: String,
}

impl ReceivedAnswer {
    async fn from_response(response: Response) -> Self {
        let (head, body) = response.into_parts();
        let no_retry = match head.headers.get("x-slack-no-retry") {
            None => false,
            Some(value) => {
                assert_eq!(value, "1");
                true
            }
        };
        let body = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
        Self { status: head.status, no_retry, body }
    }

    /// The status and whether the response asks Slack not to retry.
    fn verdict(&self) -> (u16, bool) {
        (self.status.as_u16(), self.no_retry)
    }
}
