//! The tools over HTTP, at `/mcp`. There are no sessions, so that several processes answer one client, and a revoked
//! token ends at the next call.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::{Extension, Router};
use reader::access::{Reader, Via};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Semaphore;

use super::server::{CallReaders, MAX_CONCURRENT_CALLS, McpServer};
use crate::search::SearchSource;
use crate::zone::Zone;

/// Maximum size of a request: a call with its arguments.
const MAX_REQUEST_BYTES: usize = 1024 * 1024;

/// Returns the route. `origin` is that of the site's own pages; a page of another site gets no answer.
pub(crate) fn router(search: Arc<SearchSource>, zone: Zone, origin: Option<String>) -> Router {
    // The host is checked for all routes.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_allowed_origins(origin)
        .enforce_origin_validation()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_REQUEST_BYTES);
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS));
    let server = move || {
        let readers = CallReaders::OfRequests { search: Arc::clone(&search), zone: zone.clone() };
        Ok(McpServer::new(readers, Arc::clone(&permits)))
    };
    let service = StreamableHttpService::new(server, Arc::new(NeverSessionManager::default()), config);
    Router::new().route_service("/mcp", service).layer(middleware::from_fn(require_token))
}

/// Refuses a session and a proxy's name: a browser sends them without being asked.
async fn require_token(Extension(reader): Extension<Reader>, request: Request, next: Next) -> Response {
    match reader.via {
        Via::Open | Via::Token => next.run(request).await,
        Via::Password | Via::Header | Via::Session => viewer::wrong_token(),
    }
}
