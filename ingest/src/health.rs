//! Health checks: whether the process is alive, and whether it can accept an event now.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use hyper::StatusCode;
use tokio::time::timeout;

use crate::events::Endpoint;

pub(crate) async fn health_check() -> &'static str {
    "ok"
}

pub(crate) async fn readiness_check(
    State(endpoint): State<Arc<Endpoint>>,
) -> (StatusCode, Cow<'static, str>) {
    let ingest = &endpoint.ingest;
    // The reason is logged and not sent to the client: it may contain paths.
    match timeout(ingest.limits.ready, ingest.queue.ready()).await {
        Ok(Ok(())) => match disconnected(&endpoint) {
            None => (StatusCode::OK, "ok".into()),
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why.into()),
        },
        Ok(Err(error)) => {
            if let Some(left_out) = endpoint.not_ready.permit_line(ingest.clock.now()) {
                tracing::warn!(%error, left_out, "not ready");
            }
            (StatusCode::SERVICE_UNAVAILABLE, "the queue is unavailable\n".into())
        }
        Err(_) => {
            if let Some(left_out) = endpoint.not_ready.permit_line(ingest.clock.now()) {
                tracing::warn!(error = "the queue did not answer in time", left_out, "not ready");
            }
            (StatusCode::SERVICE_UNAVAILABLE, "the queue did not answer in time\n".into())
        }
    }
}

/// Why no event can arrive now: the process only has connections of Socket Mode, and none of them is ready.
fn disconnected(endpoint: &Endpoint) -> Option<String> {
    let presence = endpoint.presence.as_ref().filter(|_| endpoint.ingest.secrets.is_none())?;
    let presence = presence.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    (presence.count() == 0).then(|| format!("no connection to Slack: {}\n", presence.reason))
}
