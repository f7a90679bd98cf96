//! Receives Slack's events: verifies the signature, routes the event, puts it on the queue, and only then
//! responds with 200.
//!
//! * [`router`] is the complete ingest as an [`axum::Router`], independent of any listener.
//! * [`serve`] serves a router on a TCP listener.
//! * [`serve_events`] serves the complete ingest on a TCP listener, and drains it; `serve_with_socket` also keeps
//!   connections of Socket Mode open.

mod answer;
mod body;
mod connections;
mod counters;
mod events;
mod health;
mod limits;
mod refused;
mod server;
mod socket;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::Mutex;

use axum::Router;
use axum::routing::{get, post};
use ports::clock::SharedClock;
use ports::queue::Queue;
use ports::queue::run::RunId;
use ports::requests::OpenRequests;
use ports::reread::Reread;
use ports::throttle;
use slack::signing_table::SigningTable;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use limits::IngestLimits;
pub use server::serve;
pub use slack::EVENTS_PATH;
pub use socket::{AppTokenRefused, ConnectionFailure, FailureCause, SocketHello, SocketMode, check_socket};

/// The path where a load balancer checks whether ingest can accept an event now.
pub const READY_PATH: &str = "/readyz";

/// The settings and dependencies of ingest.
#[derive(Clone)]
pub struct Ingest {
    /// The queue that stores events before they are acknowledged.
    pub queue: Arc<dyn Queue>,
    /// The secrets that verify the signature of a request. Without them no request is accepted: events arrive
    /// over Socket Mode alone.
    pub secrets: Option<Arc<Reread<SigningTable>>>,
    /// The clock that determines the age of a signature.
    pub clock: SharedClock,
    /// Resource limits of requests.
    pub limits: IngestLimits,
    /// Counts requests, so that the workers of the same process wait during a burst.
    pub open_requests: OpenRequests,
    /// The run of this process, so that the time between two runs is detected as a gap. `None` on Lambda,
    /// which is always available: its functions start and stop at any time, which does not mean that events
    /// were missed.
    pub run: Option<RunId>,
}

/// `POST /slack/events` and `POST /slack/events/{app_id}`, `GET /healthz` and `GET /readyz`. Install the metrics recorder first: this function
/// registers the counters.
pub fn router(ingest: Ingest) -> Router {
    router_of(Arc::new(events::Endpoint::new(ingest)))
}

/// Serves [`router`] like [`serve`], and then reports the times of refused requests that still wait. The queue
/// must stay open until then.
pub async fn serve_events(listener: TcpListener, ingest: Ingest, shutdown: impl Future<Output = ()>) {
    let endpoint = Arc::new(events::Endpoint::new(ingest));
    serve(listener, router_of(Arc::clone(&endpoint)), shutdown).await;
    endpoint.refused_times.drain().await;
}

/// The same, with connections of Socket Mode as a second way in, if there is `socket`.
///
/// # Errors
/// If Slack refuses the app-level token at the start.
pub async fn serve_with_socket(
    listener: TcpListener,
    ingest: Ingest,
    socket: Option<SocketMode>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), AppTokenRefused> {
    let Some(mode) = socket else {
        serve_events(listener, ingest, shutdown).await;
        return Ok(());
    };
    let (stop, mut ending) = watch::channel(false);
    let (endpoint, connections) = connect(ingest, mode, stop.subscribe());
    let connecting = async {
        let ended = connections.await;
        stop.send_replace(true);
        ended
    };
    let mut drained = stop.subscribe();
    let serving = serve(listener, router_of(Arc::clone(&endpoint)), socket::stopped(&mut drained));
    let stopping = async {
        tokio::select! {
            () = shutdown => {}
            () = socket::stopped(&mut ending) => {}
        }
        stop.send_replace(true);
    };
    let (ended, (), ()) = tokio::join!(connecting, serving, stopping);
    endpoint.refused_times.drain().await;
    ended
}

/// [`router`] and, as a second way in, connections of Socket Mode, which the future keeps open until `stop` is true. Its error
/// is that of [`serve_with_socket`].
pub fn router_with_socket(
    ingest: Ingest,
    mode: SocketMode,
    stop: watch::Receiver<bool>,
) -> (Router, impl Future<Output = Result<(), AppTokenRefused>> + Send) {
    let (endpoint, connections) = connect(ingest, mode, stop);
    (router_of(endpoint), connections)
}

fn connect(
    ingest: Ingest,
    mode: SocketMode,
    stop: watch::Receiver<bool>,
) -> (Arc<events::Endpoint>, impl Future<Output = Result<(), AppTokenRefused>> + Send) {
    let presence = Arc::new(Mutex::new(socket::Presence::new()));
    let mut endpoint = events::Endpoint::new(ingest);
    endpoint.presence = Some(Arc::clone(&presence));
    let endpoint = Arc::new(endpoint);
    let connections = socket::run(Arc::clone(&endpoint), mode, presence, stop);
    (endpoint, connections)
}

fn router_of(endpoint: Arc<events::Endpoint>) -> Router {
    let router = if endpoint.ingest.secrets.is_some() {
        let of_an_app = format!("{EVENTS_PATH}/{{app_id}}");
        Router::new().route(EVENTS_PATH, post(events::receive)).route(&of_an_app, post(events::receive))
    } else {
        Router::new()
    };
    router
        .route("/healthz", get(health::health_check))
        .route(READY_PATH, get(health::readiness_check))
        .with_state(endpoint)
}
