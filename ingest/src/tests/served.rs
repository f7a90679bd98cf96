//! The router behind the real server on a real socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ports::queue::job::MAX_EVENT_BYTES;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::server::serve_with_limit;

/// The connection limit; this process opens both ends of each.
const CONNECTIONS: usize = 64;

/// More clients than the connection limit.
const BUSY_CLIENTS: u32 = 80;

struct Served {
    fixture: IngestFixture,
    address: SocketAddr,
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

async fn served(behaviour: Behaviour) -> Served {
    let fixture = IngestFixture::new(behaviour);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (shutdown, requested) = oneshot::channel();
    let serving = tokio::spawn(serve_with_limit(CONNECTIONS, listener, fixture.router.clone(), async move {
        requested.await.unwrap()
    }));
    Served { fixture, address, shutdown, serving }
}

/// A signed request's head, which needs a framing header and an empty line to be complete.
fn head(body: &[u8]) -> String {
    let signature = secrets("current").sign(NOW_S, body);
    format!(
        "POST {EVENTS_PATH} HTTP/1.1\r\nhost: x\r\nx-slack-request-timestamp: {NOW_S}\r\nx-slack-signature: {signature}\r\n"
    )
}

fn whole(body: &str) -> Vec<u8> {
    format!("{}content-length: {}\r\n\r\n{body}", head(body.as_bytes()), body.len()).into_bytes()
}

/// Reads a response that has no body.
async fn answer(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(read).unwrap()
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    rest
}

#[tokio::test]
async fn one_connection_serves_many_events() {
    let served = served(Behaviour::Keep).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(&whole(MESSAGE)).await.unwrap();
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200 "));
    }
    assert_eq!(served.fixture.queue.kept().len(), 3);
}

#[tokio::test]
async fn a_chunked_body_is_accepted() {
    let served = served(Behaviour::Keep).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let (first, second) = MESSAGE.split_at(100);
    let mut request = format!("{}transfer-encoding: chunked\r\n\r\n", head(MESSAGE.as_bytes()));
    for chunk in [first, second, ""] {
        request.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
    }
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200 "));
    assert!(served.fixture.queue.kept()[0].body.contains(&kept(MESSAGE)));
}

#[tokio::test]
async fn a_client_that_sends_too_much_still_receives_the_response() {
    let served = served(Behaviour::Keep).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(&whole(&"x".repeat(4 * MAX_EVENT_BYTES))).await.unwrap();
    let answer = answer(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("x-slack-no-retry: 1\r\n"), "{answer}");
}

#[tokio::test]
async fn an_excessive_content_length_is_answered_before_the_body() {
    let served = served(Behaviour::Keep).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let request = format!("{}content-length: {}\r\n\r\n", head(b""), u64::MAX - 2);
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 413 "));
}

#[tokio::test]
async fn an_oversized_head_is_refused() {
    let served = served(Behaviour::Keep).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let request = format!("{}x-more: {}\r\n\r\n", head(b""), "y".repeat(20 * 1024));
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 431 "));
}

// Time is paused: it advances automatically when all tasks wait, so a client that sends nothing more is cut
// off at once.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_finish_its_head_is_cut_off() {
    let served = served(Behaviour::Keep).await;
    let mut slow = TcpStream::connect(served.address).await.unwrap();
    slow.write_all(b"POST /slack/events HTTP/1.1\r\nhost: x\r\nx-sl").await.unwrap();
    let began = Instant::now();
    let answer = rest(&mut slow).await;
    assert!(!answer.contains("200"), "{answer}");
    assert!(began.elapsed() <= Duration::from_secs(11), "{:?}", began.elapsed());
}

/// Opens connections up to the limit and writes `sent` to each.
async fn fill(served: &Served, sent: &[u8]) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        connections.push(stream);
    }
    connections
}

// On the real clock: with auto-advancing time the server would have no time to accept.
#[tokio::test]
async fn half_open_connections_do_not_block_other_clients() {
    let served = served(Behaviour::Keep).await;
    let half_a_head = b"POST /slack/events HTTP/1.1\r\nhost: x\r\nx-sl".to_vec();
    let half_a_body = format!("{}content-length: 100\r\n\r\n{{", head(b"")).into_bytes();
    for sent in [half_a_head, half_a_body, Vec::new()] {
        let _connections = fill(&served, &sent).await;
        let mut slack_client = TcpStream::connect(served.address).await.unwrap();
        let began = Instant::now();
        slack_client.write_all(&whole(MESSAGE)).await.unwrap();
        assert!(answer(&mut slack_client).await.starts_with("HTTP/1.1 200 "));
        // Slack's timeout: the client must not wait until the half-open connections time out.
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
    assert_eq!(served.fixture.queue.kept().len(), 3);
}

/// Sends a small request shortly after each response, on another connection if the server has closed this
/// one.
async fn keep_busy(address: SocketAddr, request: String, answered: Arc<Semaphore>) {
    loop {
        let Ok(mut stream) = TcpStream::connect(address).await else { continue };
        while stream.write_all(request.as_bytes()).await.is_ok() {
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\nok") && !answer.ends_with(b"missing\n") {
                let Ok(byte) = stream.read_u8().await else { break };
                answer.push(byte);
            }
            answered.add_permits(1);
            // Well within the time after which the server may close an idle connection.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

#[tokio::test]
async fn busy_connections_do_not_block_events() {
    let unsigned = format!("POST {EVENTS_PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    for request in ["GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), unsigned] {
        let served = served(Behaviour::Keep).await;
        let mut busy = tokio::task::JoinSet::new();
        let answered = Arc::new(Semaphore::new(0));
        for _ in 0..BUSY_CLIENTS {
            busy.spawn(keep_busy(served.address, request.clone(), Arc::clone(&answered)));
        }
        // Waits until the clients are connected and have sent further requests.
        answered.acquire_many(2 * BUSY_CLIENTS).await.unwrap().forget();
        for _ in 0..4 {
            let began = Instant::now();
            let delivered = tokio::time::timeout(Duration::from_secs(3), async {
                let mut slack_client = TcpStream::connect(served.address).await.unwrap();
                slack_client.write_all(&whole(MESSAGE)).await.unwrap();
                answer(&mut slack_client).await
            });
            let answer = delivered.await.unwrap_or_else(|_| panic!("blocked by {request}"));
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        }
    }
}

#[tokio::test]
async fn a_refusal_closes_its_connection_and_so_does_any_response_under_load() {
    let served = served(Behaviour::Keep).await;
    for (refused, status) in [
        (format!("POST {EVENTS_PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"), "401"),
        (format!("GET {EVENTS_PATH} HTTP/1.1\r\nhost: x\r\n\r\n"), "405"),
        ("GET /elsewhere HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), "404"),
    ] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(refused.as_bytes()).await.unwrap();
        let answered = rest(&mut stream).await;
        assert!(answered.starts_with(&format!("HTTP/1.1 {status} ")), "{answered}");
        assert!(answered.contains("connection: close\r\n"), "{answered}");
    }
    // All but the last of these are answered while less than three quarters of the connections are in use.
    let mut streams = Vec::new();
    for number in 1..=CONNECTIONS - CONNECTIONS / 4 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(&whole(MESSAGE)).await.unwrap();
        let closes = answer(&mut stream).await.contains("connection: close\r\n");
        assert_eq!(closes, number == CONNECTIONS - CONNECTIONS / 4, "{number}");
        streams.push(stream);
    }
}

#[tokio::test]
async fn a_smuggled_request_is_refused_or_read_as_a_body() {
    let inner = format!("POST {EVENTS_PATH} HTTP/1.1\r\nhost: x\r\n\r\n");
    let signed_inner = head(inner.as_bytes());
    let length = inner.len();
    for framing in [
        // Two framings of the body: RFC 9112, 6.3 requires an error or the use of the chunks alone.
        format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"),
        format!("transfer-encoding: chunked\r\ncontent-length: {length}\r\n"),
        format!("content-length: {length}\r\ncontent-length: 0\r\n"),
        format!("content-length: 0, {length}\r\n"),
        format!("content-length: +{length}\r\n"),
        "transfer-encoding: identity, chunked, identity\r\n".to_owned(),
        "transfer-encoding: xchunked\r\n".to_owned(),
        format!("content-length : {length}\r\n"),
        format!("x: y\r\n content-length: {length}\r\n"),
    ] {
        let served = served(Behaviour::Keep).await;
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let request = format!("{signed_inner}{framing}connection: close\r\n\r\n{inner}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answers = rest(&mut stream).await;
        assert!(!answers.contains("HTTP/1.1 200 "), "{framing}: {answers}");
        assert!(answers.matches("HTTP/1.1").count() <= 1, "{framing}: {answers}");
        assert!(served.fixture.queue.kept().is_empty());
    }
}

#[tokio::test]
async fn a_shutdown_finishes_started_requests_and_accepts_no_new_ones() {
    let served = served(Behaviour::KeepWhenPermitted).await;
    let mut idle = TcpStream::connect(served.address).await.unwrap();
    let mut busy = TcpStream::connect(served.address).await.unwrap();
    busy.write_all(&whole(MESSAGE)).await.unwrap();
    served.fixture.queue.arrived.acquire().await.unwrap().forget();
    served.shutdown.send(()).unwrap();
    // An idle connection is closed at once, which shows that the shutdown has started.
    assert_eq!(rest(&mut idle).await, "");
    assert!(TcpStream::connect(served.address).await.is_err());
    assert!(!served.serving.is_finished());
    served.fixture.queue.gate.add_permits(1);
    let answer = rest(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close\r\n"), "{answer}");
    served.serving.await.unwrap();
    assert_eq!(served.fixture.queue.kept().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_forever() {
    let served = served(Behaviour::Keep).await;
    let mut stuck = TcpStream::connect(served.address).await.unwrap();
    stuck.write_all(&whole(MESSAGE)).await.unwrap();
    assert!(answer(&mut stuck).await.starts_with("HTTP/1.1 200 "));
    stuck.write_all(b"POST /slack/events HTTP/1.1\r\nhost:").await.unwrap();
    served.shutdown.send(()).unwrap();
    let began = Instant::now();
    served.serving.await.unwrap();
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
}
