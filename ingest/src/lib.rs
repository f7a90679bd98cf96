//! Takes Slack's events in: verifies the signature, routes, puts the event on the queue, and only then answers 200.
//!
//! * [`router`] is all of it as an [`axum::Router`], which knows nothing of listeners.
//! * [`serve`] serves a router on a TCP listener; `lambda::serve` serves it to Lambda.

mod answer;
mod body;
mod connections;
mod counters;
mod events;
mod health;
#[cfg(feature = "aws")]
pub mod lambda;
mod limits;
mod server;
mod stale;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use ports::clock::SharedClock;
use ports::queue::Queue;
use ports::queue::run::RunId;
use process::requests::OpenRequests;
use process::telemetry::throttle;
use slack::signature::SigningSecrets;

pub use limits::IngestLimits;
pub use server::serve;
pub use slack::EVENTS_PATH;

/// Where a load balancer asks whether an event could be taken now.
const READY_PATH: &str = "/readyz";

/// What ingest works with.
#[derive(Clone)]
pub struct Ingest {
    /// Where events are kept before they are acknowledged.
    pub queue: Arc<dyn Queue>,
    /// What a request must be signed with.
    pub secrets: SigningSecrets,
    /// Tells how old a signature is.
    pub clock: SharedClock,
    /// Bounds on what a request may take.
    pub limits: IngestLimits,
    /// Counts requests, so that the workers of the same process let a burst go first.
    pub open_requests: OpenRequests,
    /// Begins with this process, so that the time between two runs shows as a gap. None on Lambda, which is always there:
    /// its functions begin and end as it pleases, and that says nothing about what was missed.
    pub run: Option<RunId>,
}

/// `POST /slack/events`, `GET /healthz` and `GET /readyz`. Install the metrics recorder before: the counters are
/// registered here, once.
pub fn router(ingest: Ingest) -> Router {
    Router::new()
        .route(EVENTS_PATH, post(events::receive))
        .route("/healthz", get(health::alive))
        .route(READY_PATH, get(health::ready))
        .with_state(Arc::new(events::Endpoint::new(ingest)))
}
