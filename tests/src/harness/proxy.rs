//! Between a client and AWS: breaks requests in every way a network and a service can.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What may happen to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProxyFault {
    /// It never arrives.
    Cut,
    /// It is carried out, and the answer never arrives.
    LostAnswer,
    /// It is carried out, and half of the answer arrives.
    HalfAnAnswer,
    /// The service fails.
    Unavailable,
    /// The service has had enough for now.
    Throttled,
}

/// Every fault.
pub const FAULTS: [ProxyFault; 5] = [
    ProxyFault::Cut,
    ProxyFault::LostAnswer,
    ProxyFault::HalfAnAnswer,
    ProxyFault::Unavailable,
    ProxyFault::Throttled,
];

/// Listens on this machine and passes on what it does not break: of each operation every second request, with the
/// faults in turn, until each was done `rounds` times. What follows passes.
pub struct Proxy {
    /// Where clients find it.
    pub endpoint: String,
    state: Arc<ProxyState>,
    server: JoinHandle<()>,
}

/// A request that was passed on.
#[derive(Debug, Clone)]
pub struct Passed {
    /// `POST`.
    pub method: String,
    /// With its query.
    pub path: String,
    /// `AmazonSQS.CreateQueue`; S3 has none.
    pub target: Option<String>,
    /// `application/x-amz-json-1.0`.
    pub content_type: String,
    /// Its text.
    pub body: String,
}

struct ProxyState {
    upstream: SocketAddr,
    rounds: usize,
    breaking: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: BTreeMap<String, usize>,
    /// What is to happen once.
    next: BTreeMap<&'static str, ProxyFault>,
    /// What was passed on, where it is written down.
    passed: Option<Vec<Passed>>,
    /// How far each operation is in its turns.
    places: BTreeMap<String, usize>,
    broken: BTreeSet<(String, ProxyFault)>,
}

impl Proxy {
    /// Starts one before this endpoint, which must be plain http on this machine.
    ///
    /// # Panics
    /// If it is not.
    pub async fn before(endpoint: &str, rounds: usize) -> Self {
        let authority = endpoint.strip_prefix("http://").expect("a stack on this machine speaks plain http");
        let authority = authority.trim_end_matches('/').replace("localhost", "127.0.0.1");
        let upstream = authority.parse().expect("an address with a port");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("it listens"));
        let state = Arc::new(ProxyState {
            upstream,
            rounds,
            breaking: AtomicBool::new(true),
            seen: Mutex::default(),
        });
        let server = tokio::spawn(serve(listener, Arc::clone(&state)));
        Self { endpoint, state, server }
    }

    /// The next request of this operation is broken like this, whatever else is.
    pub fn break_next(&self, operation: &'static str, fault: ProxyFault) {
        self.state.seen().next.insert(operation, fault);
    }

    /// From now on writes down what it passes on.
    pub fn record(&self) {
        self.state.seen().passed = Some(Vec::new());
    }

    /// What was written down.
    pub fn recorded(&self) -> Vec<Passed> {
        self.state.seen().passed.clone().unwrap_or_default()
    }

    /// From now on everything passes.
    pub fn mend(&self) {
        self.state.breaking.store(false, Ordering::Relaxed);
    }

    /// From now on requests are broken again.
    pub fn break_again(&self) {
        self.state.breaking.store(true, Ordering::Relaxed);
    }

    /// How many requests of each operation came.
    pub fn requests(&self) -> BTreeMap<String, usize> {
        self.state.seen().requests.clone()
    }

    /// Which operations were broken in which ways.
    pub fn broken(&self) -> BTreeSet<(String, ProxyFault)> {
        self.state.seen().broken.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl ProxyState {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to the next request of an operation.
    fn next(&self, operation: &str) -> Option<ProxyFault> {
        let mut seen = self.seen();
        let number = seen.requests.entry(operation.to_owned()).or_default();
        *number += 1;
        if let Some(fault) = seen.next.remove(operation) {
            return Some(fault);
        }
        if !self.breaking.load(Ordering::Relaxed) {
            return None;
        }
        let place = seen.places.entry(operation.to_owned()).or_default();
        let (turn, spared) = (*place / 2, *place % 2 == 1);
        *place += 1;
        if spared || turn >= self.rounds * FAULTS.len() {
            return None;
        }
        let fault = FAULTS[turn % FAULTS.len()];
        seen.broken.insert((operation.to_owned(), fault));
        Some(fault)
    }
}

async fn serve(listener: TcpListener, state: Arc<ProxyState>) {
    // A listener that fails ends the test that needs it, with a connection error.
    while let Ok((connection, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(Arc::clone(&state), request));
            // A connection that is cut ends with an error, which is the point.
            drop(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(connection), answer)
                    .await,
            );
        });
    }
}

async fn answer(state: Arc<ProxyState>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let operation = operation(request.method(), request.uri().query(), request.headers());
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let fault = state.next(&operation);
    match fault {
        Some(ProxyFault::Cut) => return Err(cut()),
        Some(ProxyFault::Unavailable) => return Ok(failure(&operation, StatusCode::INTERNAL_SERVER_ERROR)),
        Some(ProxyFault::Throttled) => return Ok(throttled(&operation)),
        Some(ProxyFault::LostAnswer | ProxyFault::HalfAnAnswer) | None => {}
    }
    if let Some(passed) = &mut state.seen().passed {
        passed.push(Passed::of(&head, &body));
    }
    let (head, answer) = pass(state.upstream, Request::from_parts(head, body)).await?;
    match fault {
        Some(ProxyFault::LostAnswer) => Err(cut()),
        Some(ProxyFault::HalfAnAnswer) => {
            let half = answer.slice(..answer.len() / 2);
            let pieces = stream::iter([Ok(half), Err(cut())]);
            Ok(Response::from_parts(head, Body::from_stream(pieces)))
        }
        _ => Ok(Response::from_parts(head, Body::from(answer))),
    }
}

impl Passed {
    fn of(head: &hyper::http::request::Parts, body: &Bytes) -> Self {
        let header = |name: &str| Some(head.headers.get(name)?.to_str().ok()?.to_owned());
        Self {
            method: head.method.to_string(),
            path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            target: header("x-amz-target"),
            content_type: header("content-type").unwrap_or_default(),
            body: String::from_utf8_lossy(body).into_owned(),
        }
    }
}

async fn pass(
    upstream: SocketAddr,
    request: Request<Bytes>,
) -> io::Result<(hyper::http::response::Parts, Bytes)> {
    let stream = TcpStream::connect(upstream).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let response = sender.send_request(request.map(Full::new)).await.map_err(io::Error::other)?;
    let (mut head, body) = response.into_parts();
    let has_length = head.headers.contains_key(CONTENT_LENGTH);
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    // The answer's framing is this server's own, except for the length that a HEAD request asks for.
    head.headers.remove(hyper::header::TRANSFER_ENCODING);
    head.headers.remove(hyper::header::CONNECTION);
    if !has_length {
        head.headers.insert(CONTENT_LENGTH, body.len().into());
    }
    Ok((head, body))
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "cut")
}

/// `UpdateItem`, `SendMessageBatch`, `PutObject`; some requests to S3 bear no name, so `S3 HEAD`, `S3 POST uploads`.
fn operation(method: &Method, query: Option<&str>, headers: &HeaderMap) -> String {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    if let Some((_, operation)) = target.and_then(|target| target.rsplit_once('.')) {
        return operation.to_owned();
    }
    let pairs = || query.into_iter().flat_map(|query| query.split('&'));
    if let Some(operation) = pairs().find_map(|pair| pair.strip_prefix("x-id=")) {
        return operation.to_owned();
    }
    match pairs().next() {
        Some(part) => format!("S3 {method} {}", part.split('=').next().unwrap_or(part)),
        None => format!("S3 {method}"),
    }
}

fn is_s3(operation: &str) -> bool {
    operation.starts_with("S3 ") || operation.ends_with("Object") || operation == "UploadPart"
}

fn throttled(operation: &str) -> Response<Body> {
    if is_s3(operation) {
        return failure(operation, StatusCode::SERVICE_UNAVAILABLE);
    }
    json(StatusCode::BAD_REQUEST, "ThrottlingException")
}

fn failure(operation: &str, status: StatusCode) -> Response<Body> {
    if !is_s3(operation) {
        return json(status, "InternalFailure");
    }
    let code = if status == StatusCode::SERVICE_UNAVAILABLE { "SlowDown" } else { "InternalError" };
    let body = format!("<Error><Code>{code}</Code><Message>made up</Message></Error>");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
}

fn json(status: StatusCode, code: &str) -> Response<Body> {
    let mut response =
        Response::new(Body::from(format!("{{\"__type\":\"{code}\",\"message\":\"made up\"}}")));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/x-amz-json-1.0"));
    response
}
