//! A proxy between a client and AWS that injects the faults of networks and services.

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

/// A fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProxyFault {
    /// The request never arrives.
    Cut,
    /// The request is executed, and the response never arrives.
    LostAnswer,
    /// The request is executed, and half of the response arrives.
    HalfAnAnswer,
    /// The service returns an internal error.
    Unavailable,
    /// The service throttles the request.
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

/// A proxy on this machine. It breaks every second request of each operation, with the faults in turn, until
/// each fault was injected `rounds` times, and forwards all other requests.
pub struct Proxy {
    /// The URL for clients.
    pub endpoint: String,
    state: Arc<ProxyState>,
    server: JoinHandle<()>,
}

#[derive(Debug, Clone)]
pub struct ForwardedRequest {
    /// The method, such as `POST`.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The operation, such as `AmazonSQS.CreateQueue`; missing for S3.
    pub target: Option<String>,
    /// The content type, such as `application/x-amz-json-1.0`.
    pub content_type: String,
    /// The body, as text.
    pub body: String,
}

struct ProxyState {
    upstream: SocketAddr,
    rounds: usize,
    breaking: AtomicBool,
    seen: Mutex<ProxyLog>,
}

#[derive(Default)]
struct ProxyLog {
    requests: BTreeMap<String, usize>,
    /// Faults to inject once.
    next: BTreeMap<&'static str, ProxyFault>,
    /// The forwarded requests, if they are recorded.
    passed: Option<Vec<ForwardedRequest>>,
    /// The number of requests of each operation since faults are injected.
    positions: BTreeMap<String, usize>,
    broken: BTreeSet<(String, ProxyFault)>,
}

impl Proxy {
    /// Starts a proxy in front of this endpoint, which must be plain http on this machine.
    ///
    /// # Panics
    /// If it is not.
    pub async fn in_front_of(endpoint: &str, rounds: usize) -> Self {
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

    /// Injects this fault into the next request of this operation, independently of all others.
    pub fn break_next(&self, operation: &'static str, fault: ProxyFault) {
        self.state.seen().next.insert(operation, fault);
    }

    /// Starts to record forwarded requests, and discards earlier records.
    pub fn record(&self) {
        self.state.seen().passed = Some(Vec::new());
    }

    pub fn recorded(&self) -> Vec<ForwardedRequest> {
        self.state.seen().passed.clone().unwrap_or_default()
    }

    /// Stops injecting faults.
    pub fn stop_faults(&self) {
        self.state.breaking.store(false, Ordering::Relaxed);
    }

    /// Resumes injecting faults.
    pub fn resume_faults(&self) {
        self.state.breaking.store(true, Ordering::Relaxed);
    }

    /// The number of received requests of each operation.
    pub fn requests(&self) -> BTreeMap<String, usize> {
        self.state.seen().requests.clone()
    }

    /// The operations, each with the faults that were injected.
    pub fn injected_faults(&self) -> BTreeSet<(String, ProxyFault)> {
        self.state.seen().broken.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl ProxyState {
    fn seen(&self) -> std::sync::MutexGuard<'_, ProxyLog> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fault for the next request of an operation, if any.
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
        let position = seen.positions.entry(operation.to_owned()).or_default();
        let (turn, spared) = (*position / 2, *position % 2 == 1);
        *position += 1;
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
            // A cut connection ends with an error, which is intended.
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
        passed.push(ForwardedRequest::from_request(&head, &body));
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

impl ForwardedRequest {
    fn from_request(head: &hyper::http::request::Parts, body: &Bytes) -> Self {
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
    // This server sets the response's framing itself, except for the length in the response to a HEAD
    // request.
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

/// `UpdateItem`, `SendMessageBatch`, `PutObject`; some S3 requests contain no name, hence `S3 HEAD`, `S3 POST
/// uploads`.
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
