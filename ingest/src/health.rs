//! Health checks: whether the process is alive, and whether it can accept an event now.

use std::sync::Arc;

use axum::extract::State;
use hyper::StatusCode;
use tokio::time::timeout;

use crate::events::Endpoint;

pub(crate) async fn health_check() -> &'static str {
    "ok"
}

pub(crate) async fn readiness_check(State(endpoint): State<Arc<Endpoint>>) -> (StatusCode, &'static str) {
    let ingest = &endpoint.ingest;
    // The reason is logged and not sent to the client: it may contain paths.
    match timeout(ingest.limits.ready, ingest.queue.ready()).await {
        Ok(Ok(())) => (StatusCode::OK, "ok"),
        Ok(Err(error)) => {
            if let Some(left_out) = endpoint.not_ready.permit_line(ingest.clock.now()) {
                tracing::warn!(%error, left_out, "not ready");
            }
            (StatusCode::SERVICE_UNAVAILABLE, "the queue is unavailable\n")
        }
        Err(_) => {
            if let Some(left_out) = endpoint.not_ready.permit_line(ingest.clock.now()) {
                tracing::warn!(error = "the queue did not answer in time", left_out, "not ready");
            }
            (StatusCode::SERVICE_UNAVAILABLE, "the queue did not answer in time\n")
        }
    }
}
