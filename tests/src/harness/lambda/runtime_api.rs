//! Lambda's Runtime API for one function: the endpoints that a runtime uses.
//! <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use bytes::Bytes;
use ports::clock::TimestampMs;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use tokio::task::JoinHandle;

/// An invocation of a function.
pub struct Invocation {
    /// The event, as JSON.
    pub payload: String,
    /// The time at which Lambda would end the function.
    pub deadline: TimestampMs,
}

/// The function's result, or the error that it reports.
pub type InvocationResult = Result<Value, Value>;

/// A Runtime API server; it stops when this is dropped.
pub struct RuntimeApi {
    address: SocketAddr,
    invocations: mpsc::UnboundedSender<(Invocation, oneshot::Sender<InvocationResult>)>,
    serving: JoinHandle<()>,
}

struct RuntimeApiState {
    waiting: AsyncMutex<mpsc::UnboundedReceiver<(Invocation, oneshot::Sender<InvocationResult>)>>,
    answers: Mutex<HashMap<String, oneshot::Sender<InvocationResult>>>,
}

impl RuntimeApi {
    /// Starts a server on a free port.
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("it has an address");
        let (invocations, waiting) = mpsc::unbounded_channel();
        let shared =
            Arc::new(RuntimeApiState { waiting: AsyncMutex::new(waiting), answers: Mutex::default() });
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .with_state(shared);
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves until it is dropped");
        });
        Self { address, invocations, serving }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Queues an invocation; the receiver gets the result.
    pub(super) fn queue_invocation(&self, invocation: Invocation) -> oneshot::Receiver<InvocationResult> {
        let (sender, answer) = oneshot::channel();
        self.invocations.send((invocation, sender)).unwrap_or_else(|_| panic!("the API serves"));
        answer
    }
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn next(State(shared): State<Arc<RuntimeApiState>>) -> Response<Body> {
    let (invocation, answer) =
        shared.waiting.lock().await.recv().await.expect("it serves until it is dropped");
    let id = format!("{:032x}", fastrand::u128(..));
    shared.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), answer);
    Response::builder()
        .header("content-type", "application/json")
        .header("lambda-runtime-aws-request-id", id)
        .header("lambda-runtime-deadline-ms", invocation.deadline.0)
        .header(
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:eu-central-1:123456789012:function:annalist-test",
        )
        .header("lambda-runtime-trace-id", "Root=1-5759e988-bd862e3fe1be46a994272793")
        .body(Body::from(invocation.payload))
        .expect("the headers are good ones")
}

async fn response(
    State(shared): State<Arc<RuntimeApiState>>,
    Path(id): Path<String>,
    body: Bytes,
) -> StatusCode {
    shared.send_result(&id, Ok(json(&body)))
}

async fn error(
    State(shared): State<Arc<RuntimeApiState>>,
    Path(id): Path<String>,
    body: Bytes,
) -> StatusCode {
    shared.send_result(&id, Err(json(&body)))
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("a runtime answers with JSON")
}

impl RuntimeApiState {
    fn send_result(&self, id: &str, answer: InvocationResult) -> StatusCode {
        let sender = self.answers.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        // The caller may have given up.
        match sender {
            Some(sender) => {
                drop(sender.send(answer));
                StatusCode::ACCEPTED
            }
            None => StatusCode::NOT_FOUND,
        }
    }
}
