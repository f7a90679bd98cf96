//! Tests of the router and the server with a scripted queue.

mod answers;
mod apps;
mod hostile;
mod pressure;
mod queue;
mod refused;
mod served;
mod socket;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::response::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, StatusCode};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::run::RunId;
use ports::requests::OpenRequests;
use ports::reread::Reread;
use secrecy::SecretString;
use slack::signature::SigningSecrets;
use tower::ServiceExt;

use self::queue::{Behaviour, TestQueue};
use crate::{EVENTS_PATH, Ingest, IngestLimits, router};

const TIMESTAMP: &str = "x-slack-request-timestamp";
const SIGNATURE: &str = "x-slack-signature";
const RETRY_NUM: &str = "x-slack-retry-num";
const RETRY_REASON: &str = "x-slack-retry-reason";

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
            secrets: Some(Arc::new(Reread::fixed(secrets("current,next").into()))),
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
    signed_with("current", NOW_S, body)
}

/// A request signed with this secret in this second.
fn signed_with(secret: &str, sent_s: i64, body: impl Into<Vec<u8>>) -> Request<Body> {
    let body = body.into();
    let signature = secrets(secret).sign(sent_s, &body);
    let request = with_header(unsigned(body), TIMESTAMP, sent_s.to_string());
    with_header(request, SIGNATURE, signature)
}

/// A request without a signature.
fn unsigned(body: impl Into<Body>) -> Request<Body> {
    Request::post(EVENTS_PATH).header(CONTENT_TYPE, "application/json").body(body.into()).unwrap()
}

/// A request that Slack sends again.
fn retried(request: Request<Body>, number: &str, reason: &str) -> Request<Body> {
    with_header(with_header(request, RETRY_NUM, number), RETRY_REASON, reason)
}

/// The request with a header, which replaces one with the same name.
fn with_header(mut request: Request<Body>, name: &'static str, value: impl AsRef<[u8]>) -> Request<Body> {
    request.headers_mut().insert(name, HeaderValue::from_bytes(value.as_ref()).unwrap());
    request
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
