//! The read API, `/api/v1/…`: what the read commands print with `--json`, over HTTP.
//!
//! * [`routes`] is the table of routes and their parameters; [`answers`] runs the commands, [`error`] says why
//!   there is no answer.
//! * [`rate`] limits the calls of each reader.

mod answers;
#[cfg(test)]
mod api_tests;
mod error;
#[cfg(test)]
mod member_tests;
mod rate;
#[cfg(test)]
mod ratio_tests;
mod routes;

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::header::{CONTENT_TYPE, LINK};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use process::config::backend::BackendArgs;
use reader::access::Reader;
use viewer::{ReaderArchive, program_error};

use crate::search::SearchSource;
use crate::zone::Zone;
use answers::Answer;
use error::ApiError;
use routes::{ApiCall, ApiRoute, ROUTES};

pub(crate) use rate::CallLimits;

/// The description of the API in the OpenAPI format.
const OPENAPI: &str = include_str!("openapi.json");

/// Where the routes are.
const ROOT: &str = "/api/v1/";

const NDJSON: &str = "application/x-ndjson";

/// What the API reads.
pub(crate) struct ReadApi {
    pub(crate) search: Arc<SearchSource>,
    pub(crate) zone: Zone,
    pub(crate) backend: BackendArgs,
}

/// Returns the routes of the API. They only accept GET and HEAD.
pub(crate) fn router(api: ReadApi) -> Router {
    let mut router = Router::new();
    for route in &ROUTES {
        let answer =
            async move |State(api): State<Arc<ReadApi>>,
                        Extension(reader): Extension<Reader>,
                        Extension(archive): Extension<ReaderArchive>,
                        uri: Uri| answer(api, route, reader, archive, uri).await;
        router = router.route(&format!("{ROOT}{}", route.name), get(answer));
    }
    router
        .route("/api/v1/openapi.json", get(async || ([(CONTENT_TYPE, "application/json")], OPENAPI)))
        .route("/api/{*path}", any(no_route))
        .method_not_allowed_fallback(async || {
            program_error(StatusCode::METHOD_NOT_ALLOWED, "this archive is only read: use GET")
        })
        .with_state(Arc::new(api))
}

async fn no_route() -> Response {
    program_error(StatusCode::NOT_FOUND, "there is no such address: /api/v1/openapi.json lists them")
}

async fn answer(
    api: Arc<ReadApi>,
    route: &'static ApiRoute,
    reader: Reader,
    archive: ReaderArchive,
    uri: Uri,
) -> Response {
    let asked = Query::<Vec<(String, String)>>::try_from_uri(&uri);
    let call = asked
        .map_err(|_| ApiError::invalid("the parameters cannot be read"))
        .and_then(|Query(asked)| ApiCall::read(route, asked));
    let result = match call {
        Ok(call) => {
            let read =
                move |archive| async move { answers::answer(&api, route, call, &reader, archive).await };
            archive.read(read).await.unwrap_or_else(|| Err(ApiError::too_long()))
        }
        Err(error) => Err(error),
    };
    match result {
        Ok(Answer { body, next }) => {
            let next = next.map(|next| format!("<{ROOT}{}?{next}>; rel=\"next\"", route.name));
            let mut response = ([(CONTENT_TYPE, NDJSON)], body).into_response();
            if let Some(next) = next.and_then(|next| next.parse().ok()) {
                response.headers_mut().insert(LINK, next);
            }
            response
        }
        Err(ApiError { status, line }) => program_error(status, &line),
    }
}
