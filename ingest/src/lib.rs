//! Receives Slack's events: verifies the signature, routes the event, puts it on the queue, and only then
//! responds with 200.
//!
//! * [`router`] is the complete ingest as an [`axum::Router`], independent of any listener.
//! * [`serve`] serves a router on a TCP listener; `lambda::serve` serves it to Lambda.
//! * [`serve_events`] serves the complete ingest on a TCP listener, and drains it.

mod answer;
mod body;
mod connections;
mod counters;
mod events;
mod health;
#[cfg(feature = "aws")]
pub mod lambda;
mod limits;
mod refused;
mod server;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use ports::clock::SharedClock;
use ports::queue::Queue;
use ports::queue::run::RunId;
use ports::reread::Reread;
use process::requests::OpenRequests;
use process::telemetry::throttle;
use slack::signature::SigningSecrets;
use tokio::net::TcpListener;

pub use limits::IngestLimits;
pub use server::serve;
pub use slack::EVENTS_PATH;

/// The path where a load balancer checks whether ingest can accept an event now.
const READY_PATH: &str = "/readyz";

/// The settings and dependencies of ingest.
#[derive(Clone)]
pub struct Ingest {
    /// The queue that stores events before they are acknowledged.
    pub queue: Arc<dyn Queue>,
    /// The secrets that verify the signature of a request.
    pub secrets: Arc<Reread<SigningSecrets>>,
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

/// `POST /slack/events`, `GET /healthz` and `GET /readyz`. Install the metrics recorder first: this function
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

fn router_of(endpoint: Arc<events::Endpoint>) -> Router {
    Router::new()
        .route(EVENTS_PATH, post(events::receive))
        .route("/healthz", get(health::health_check))
        .route(READY_PATH, get(health::readiness_check))
        .with_state(endpoint)
}
