//! Socket Mode against a Slack on a local port.

use std::num::NonZeroU8;
use std::time::Duration;

use ports::queue::QueueName;
use ports::queue::job::MAX_EVENT_BYTES;
use slack_api::socket::{AppToken, SocketApi};
use testkit::fake_slack::{FakeSlack, refusal};
use testkit::fake_socket::{APP_TOKEN, FakeSocket, FromClient, SlackSide};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::{AppTokenRefused, SocketMode, serve_with_socket};

mod answers;
mod faults;

/// How long anything may take, on a machine that is busy compiling.
const DEADLINE: Duration = Duration::from_secs(30);

struct SocketFixture {
    queue: Arc<TestQueue>,
    slack: FakeSlack,
    socket: FakeSocket,
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), AppTokenRefused>>,
}

impl SocketFixture {
    /// One connection, and no signing secret.
    async fn start(behaviour: Behaviour, tickets: usize) -> Self {
        let IngestFixture { queue, ingest, .. } = IngestFixture::new(behaviour);
        Self::start_with(queue, Ingest { secrets: None, ..ingest }, 1, tickets).await
    }

    async fn start_with(queue: Arc<TestQueue>, ingest: Ingest, connections: u8, tickets: usize) -> Self {
        let slack = FakeSlack::start().await;
        slack.set_clock(NOW_S);
        let socket = FakeSocket::start(&slack, tickets).await;
        let api = SocketApi::new(slack.url().parse().unwrap(), AppToken::parse(APP_TOKEN).unwrap());
        let connections = NonZeroU8::new(connections).unwrap();
        let mode = SocketMode { api: Arc::new(api), web: None, connections };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve_with_socket(listener, ingest, Some(mode), async {
            drop(stopped.await);
        }));
        Self { queue, slack, socket, address, stop, serving }
    }

    /// The status and the body of a request without a signature.
    async fn request(&self, head: &str) -> String {
        self.exchange(&format!(
            "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        ))
        .await
    }

    /// The answer to a request of Slack with this body.
    async fn post(&self, body: &str) -> String {
        let signature = secrets("current").sign(NOW_S, body.as_bytes());
        let (path, length) = (EVENTS_PATH, body.len());
        self.exchange(&format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n{TIMESTAMP}: {NOW_S}\r\n{SIGNATURE}: {signature}\r\n\r\n{body}"
        ))
        .await
    }

    async fn exchange(&self, request: &str) -> String {
        use tokio::io::AsyncReadExt;
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// The runs of the stored events.
    fn runs(&self) -> Vec<Option<RunId>> {
        let kept = self.queue.kept();
        let jobs = kept.iter().map(|sent| ports::queue::job::Job::decode(&sent.body).unwrap());
        jobs.filter(|job| job.event().is_some()).map(|job| job.run).collect()
    }
}

fn ack(id: &str) -> FromClient {
    FromClient::Ack(id.to_owned())
}

/// A message in its own second.
fn message(second: u32) -> String {
    MESSAGE
        .replace("Ev1", &format!("Ev{second}"))
        .replace("1700000000.000100", &format!("{}.000100", 1_700_000_000 + second))
}

/// An envelope that is stored by nothing. Its ack shows that the client has read everything before it.
async fn ignored(side: &mut SlackSide, id: &str) {
    side.send_text(&format!(r#"{{"type":"interactive","envelope_id":"{id}","payload":{{}}}}"#)).await;
}

#[tokio::test]
async fn an_event_is_stored_with_the_bytes_of_its_payload_and_then_acked() {
    let mut fixture = SocketFixture::start(Behaviour::Keep, 1).await;
    let mut side = fixture.socket.ready().await;
    side.event("e1", MESSAGE, 0).await;
    assert_eq!(side.received().await, ack("e1"));
    let direct = r#"{"team_id":"T1","type":"event_callback","event_id":"Ev2","event":{"type":"message","channel":"D1"}}"#;
    side.event("e2", direct, 0).await;
    assert_eq!(side.received().await, ack("e2"));
    for hostile in
        ["null", "[]", "{", r#"["events_api"]"#, r#"{"type":"events_api","envelope_id":7,"payload":{}}"#]
    {
        side.send_text(hostile).await;
    }
    ignored(&mut side, "e3").await;
    assert_eq!(side.received().await, ack("e3"));
    let kept = fixture.queue.kept();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].body.contains(&kept_bytes()), "{}", kept[0].body);
    assert_eq!(fixture.slack.calls()[0].token, APP_TOKEN);
    assert!(fixture.request("GET /readyz").await.starts_with("HTTP/1.1 200 "));
    assert!(fixture.request("POST /slack/events").await.starts_with("HTTP/1.1 404 "));
}

fn kept_bytes() -> String {
    kept(MESSAGE)
}

#[tokio::test]
async fn an_event_that_the_queue_refuses_is_not_acked_until_a_redelivery_is_stored() {
    let mut fixture = SocketFixture::start(Behaviour::FailOnce, 1).await;
    let mut side = fixture.socket.ready().await;
    side.event("e1", MESSAGE, 0).await;
    drop(timeout(DEADLINE, fixture.queue.arrived.acquire()).await.unwrap().unwrap());
    ignored(&mut side, "e2").await;
    assert_eq!(side.received().await, ack("e2"));
    side.event("e1", MESSAGE, 1).await;
    assert_eq!(side.received().await, ack("e1"));
    assert_eq!(fixture.runs(), [None], "a retried event may be from a time without a connection");
}

#[tokio::test]
async fn an_event_that_is_too_large_or_refused_at_the_last_attempt_is_a_gap() {
    let mut fixture = SocketFixture::start(Behaviour::FailOnce, 1).await;
    let mut side = fixture.socket.ready().await;
    side.event("e1", MESSAGE, 3).await;
    let large = MESSAGE.replace("\"hi\"", &format!("\"{}\"", "x".repeat(MAX_EVENT_BYTES)));
    side.event("e2", &large, 0).await;
    assert_eq!(side.received().await, ack("e2"), "Slack need not repeat it");
    timeout(DEADLINE, async {
        while fixture.queue.kept().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    let kept = fixture.queue.kept();
    assert!(kept[0].body.contains(r#""refused":{"from":"1700000000.000000""#), "{}", kept[0].body);
}

#[tokio::test]
async fn a_refreshed_connection_is_read_until_its_replacement_is_ready_and_belongs_to_the_same_run() {
    let mut fixture = SocketFixture::start(Behaviour::Keep, 4).await;
    let mut old = fixture.socket.ready().await;
    old.event("e1", &message(1), 0).await;
    assert_eq!(old.received().await, ack("e1"));
    for reason in ["warning", "refresh_requested", "a reason of the future"] {
        old.disconnect(reason).await;
        let mut new = fixture.socket.next().await;
        old.event("e2", &message(2), 0).await;
        assert_eq!(old.received().await, ack("e2"), "{reason}");
        new.send_text(r#"{"type":"hello"}"#).await;
        // It answers a ping first: no time without a connection lies between the two.
        assert_eq!(old.received().await, FromClient::Close(Some(1000)), "{reason}");
        new.event("e3", &message(3), 0).await;
        assert_eq!(new.received().await, ack("e3"), "{reason}");
        old = new;
    }
    let runs = fixture.runs();
    assert!(runs.len() == 7 && runs.iter().all(|run| run.is_some() && *run == runs[0]), "{runs:?}");
}

#[tokio::test]
async fn a_time_without_a_connection_ends_the_run_and_the_next_hello_announces_another() {
    let mut fixture = SocketFixture::start(Behaviour::Keep, 2).await;
    let mut side = fixture.socket.ready().await;
    side.event("e1", &message(1), 0).await;
    assert_eq!(side.received().await, ack("e1"));
    drop(side);
    let mut side = fixture.socket.ready().await;
    side.event("e2", &message(2), 0).await;
    assert_eq!(side.received().await, ack("e2"));
    let runs = fixture.runs();
    assert!(runs[0].is_some() && runs[1].is_some() && runs[0] != runs[1], "{runs:?}");
    let announced = || {
        let kept = fixture.queue.kept();
        kept.into_iter().find(|sent| sent.queue == QueueName::Channels && sent.body.contains(r#""run":{"#))
    };
    let announced = timeout(DEADLINE, async {
        loop {
            if let Some(sent) = announced() {
                break sent.body;
            }
            tokio::task::yield_now().await;
        }
    });
    let announced = announced.await.unwrap();
    let run = runs[1].as_ref().unwrap();
    assert!(announced.contains(run.as_str()) && announced.contains(r#""team_id":"T1""#), "{announced}");
    assert!(announced.contains(r#""at":"1700000001.000000""#), "{announced}");
}

#[tokio::test]
async fn the_reason_for_no_connection_is_shown_by_the_readiness_check() {
    let mut fixture = SocketFixture::start(Behaviour::Keep, 1).await;
    let mut side = fixture.socket.ready().await;
    side.disconnect("link_disabled").await;
    assert_eq!(side.received().await, FromClient::Close(Some(1000)));
    let answer = fixture.request("GET /readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.contains("no connection to Slack: Socket Mode is turned off for this app: turn it on at"),
        "{answer}"
    );
    assert!(fixture.socket.is_quiet());
}

#[tokio::test]
async fn a_token_that_slack_refuses_at_the_start_ends_ingest_with_one_line() {
    for code in ["invalid_auth", "not_allowed_token_type", "missing_scope", "no_permission"] {
        let slack = FakeSlack::start().await;
        slack.plan_answers("apps.connections.open", [refusal(code)]);
        let fixture = IngestFixture::new(Behaviour::Keep);
        let ingest = Ingest { secrets: None, ..fixture.ingest };
        let api = SocketApi::new(slack.url().parse().unwrap(), AppToken::parse(APP_TOKEN).unwrap());
        let mode = SocketMode { api: Arc::new(api), web: None, connections: NonZeroU8::MIN };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ended = serve_with_socket(listener, ingest, Some(mode), std::future::pending());
        let error = timeout(DEADLINE, ended).await.unwrap().unwrap_err().to_string();
        assert!(
            error.contains("app-level token") && error.contains(code) && !error.contains('\n'),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_stop_acks_what_is_in_flight_and_closes_the_connection() {
    let mut fixture = SocketFixture::start(Behaviour::KeepWhenPermitted, 1).await;
    let mut side = fixture.socket.ready().await;
    side.event("e1", MESSAGE, 0).await;
    timeout(DEADLINE, fixture.queue.arrived.acquire()).await.unwrap().unwrap().forget();
    fixture.stop.send(()).unwrap();
    fixture.queue.gate.add_permits(1);
    assert_eq!(side.received().await, ack("e1"));
    assert_eq!(side.received().await, FromClient::Close(Some(1000)));
    timeout(DEADLINE, fixture.serving).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn at_most_64_events_of_a_connection_are_in_flight() {
    let mut fixture = SocketFixture::start(Behaviour::KeepWhenPermitted, 1).await;
    let mut side = fixture.socket.ready().await;
    for number in 0..70 {
        side.event(&format!("e{number}"), &message(number), 0).await;
    }
    timeout(DEADLINE, fixture.queue.arrived.acquire_many(64)).await.unwrap().unwrap().forget();
    // The answer of another task: the connection's task has had its turn.
    assert!(fixture.request("GET /healthz").await.starts_with("HTTP/1.1 200 "));
    assert_eq!(fixture.queue.arrived.available_permits(), 0);
    fixture.queue.gate.add_permits(70);
    for _ in 0..70 {
        assert!(matches!(side.received().await, FromClient::Ack(_)));
    }
    assert_eq!(fixture.queue.kept().len(), 70);
}
