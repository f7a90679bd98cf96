//! Whether the process lives, and whether it could take an event now.

use std::sync::Arc;

use axum::extract::State;
use hyper::StatusCode;
use tokio::time::timeout;

use crate::events::Endpoint;

pub(crate) async fn alive() -> &'static str {
    "ok"
}

pub(crate) async fn ready(State(endpoint): State<Arc<Endpoint>>) -> (StatusCode, &'static str) {
    let ingest = &endpoint.ingest;
    // The reason goes to the log, not to the client: it may name paths.
    match timeout(ingest.limits.ready, ingest.queue.ready()).await {
        Ok(Ok(())) => (StatusCode::OK, "ok"),
        Ok(Err(error)) => {
            if let Some(left_out) = endpoint.not_ready.pass(ingest.clock.now()) {
                tracing::warn!(%error, left_out, "not ready");
            }
            (StatusCode::SERVICE_UNAVAILABLE, "the queue is unavailable\n")
        }
        Err(_) => {
            if let Some(left_out) = endpoint.not_ready.pass(ingest.clock.now()) {
                tracing::warn!(error = "the queue did not answer in time", left_out, "not ready");
            }
            (StatusCode::SERVICE_UNAVAILABLE, "the queue did not answer in time\n")
        }
    }
}
