//! Routes requests to handlers, with the middleware for all requests.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::uri::PathAndQuery;
use axum::http::{StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::time::timeout;

use crate::access::identity::{IdentityError, Presented};
use crate::access::{Admission, ViewerAccess};
use crate::access_log::OpenedRoute;
use crate::answer::{NOT_NOW, PageError, error_page, notice_response, program_error, redirect_to};
use crate::assets::{self, Asset};
use crate::handlers::{about, feeds, figures, links, messages, search, site};
use crate::login;
use crate::page_thread::{PAGE_TIMEOUT, on_page_thread};
use crate::pages::login::query_value;
use crate::state::{Viewer, ViewerState, reader_of};
use crate::{file_bytes, headers, live};

/// Returns the router of all pages. Except for the log-in, they only accept GET and HEAD.
pub fn router(mut viewer: Viewer) -> Router {
    let programs = std::mem::take(&mut viewer.programs);
    let state = Arc::new(ViewerState::new(viewer));
    let mut router: Router<Arc<ViewerState>> = Router::new()
        .route("/", get(site::channels))
        .route("/c/{team}/{channel}", get(messages::timeline))
        .route("/c/{team}/{channel}/feed.xml", get(feeds::of_channel))
        .route("/c/{team}/{channel}/info", get(about::info))
        .route("/c/{team}/{channel}/threads", get(about::threads))
        .route("/c/{team}/{channel}/calendar", get(about::calendar))
        .route("/people", get(about::people))
        .route("/u/{team}/{user}", get(about::person))
        .route("/t/{team}/{channel}/{ts}", get(messages::thread))
        .route("/r/{team}/{channel}/{ts}", get(messages::versions))
        .route("/archives/{channel}", get(links::channel_link))
        .route("/archives/{channel}/{ts}", get(links::permalink))
        .route("/search", get(search::search))
        .route("/search/feed.xml", get(feeds::of_search))
        .route("/files", get(site::files))
        .route("/files/{team}/{file}", get(file_bytes::file))
        .route("/canvas/{team}/{file}", get(site::canvas))
        .route("/pictures/{team}/{hash}", get(file_bytes::picture))
        .route("/stats", get(figures::figures))
        .route("/coverage", get(site::coverage))
        .fallback(links::fallback)
        .layer(middleware::from_fn_with_state(Arc::clone(&state), limit_concurrency))
        .route("/c/{team}/{channel}/live", get(live::live))
        .merge(login::routes());
    for asset in assets::ALL {
        router = router.route(&format!("/static/{}", asset.file_name()), get(async || served(asset)));
    }
    router
        .route("/favicon.ico", get(async || served(&assets::ICON)))
        .route("/robots.txt", get(async || "User-agent: *\nDisallow: /\n"))
        .with_state(Arc::clone(&state))
        .merge(programs)
        .layer(middleware::from_fn_with_state(state, admit))
        .layer(middleware::from_fn(headers::add))
}

/// Serves an asset. Its name changes with its content.
fn served(asset: &'static Asset) -> Response {
    let cache_control = "public, max-age=31536000, immutable";
    ([(CONTENT_TYPE, asset.content_type), (CACHE_CONTROL, cache_control)], asset.content()).into_response()
}

/// Finds out who makes a request, before any handler. Refuses requests from pages of other sites and from
/// unauthenticated users.
async fn admit(State(state): State<Arc<ViewerState>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_open = matches!(path, "/login" | "/login/start" | "/login/callback" | "/logout" | "/favicon.ico")
        || path.starts_with("/static/");
    let presented = match state.access.check_request(request.uri(), request.headers(), &*state.clock) {
        Admission::Granted(Presented::Token(token)) => Presented::Token(token),
        Admission::Granted(_) | Admission::LoginNeeded | Admission::WrongCookie if is_open => {
            return next.run(request).await;
        }
        Admission::Granted(presented) => presented,
        Admission::LoginNeeded => return login_needed(request.uri()),
        Admission::WrongCookie => {
            state.guesses.answer_wrong().await;
            return login::without_cookie(login_needed(request.uri()));
        }
        Admission::WrongToken => return wrong_token(),
        Admission::WrongKey => {
            state.guesses.answer_wrong().await;
            return (
                StatusCode::UNAUTHORIZED,
                "The key of this feed is wrong: copy the link of the page again.\n",
            )
                .into_response();
        }
        Admission::WrongHost => {
            return notice_response(
                StatusCode::MISDIRECTED_REQUEST,
                "Unknown host name",
                "This archive does not have the host name in the address bar. Use --viewer-host NAME to allow it.",
            );
        }
        Admission::UserMissing if is_for_programs(request.uri().path()) => {
            return program_error(StatusCode::FORBIDDEN, "a proxy names the users of this archive: ask it");
        }
        Admission::UserMissing => {
            return notice_response(
                StatusCode::FORBIDDEN,
                "Unknown user",
                "A proxy names the users of this archive. Open it at the proxy's address.",
            );
        }
    };
    let renewed = renewed_session(&state, &presented);
    let is_for_programs = is_for_programs(request.uri().path());
    let opened = state.logs_access.then(|| OpenedRoute::of(&request));
    let (label, via);
    request.extensions_mut().insert(presented.clone());
    match state.admissions.identify(presented, &*state.clock).await {
        Ok(identity) => match reader_of(&state, identity).await {
            Ok(reader) => {
                (label, via) = (reader.label.clone(), reader.via);
                request.extensions_mut().insert(state.reader_archive(&reader.sight));
                request.extensions_mut().insert(reader);
            }
            Err(error) if is_for_programs => return not_now(&error),
            Err(error) => return error.into_response(),
        },
        Err(IdentityError::Archive(error)) if is_for_programs => return not_now(&error),
        Err(IdentityError::Archive(error)) => return PageError::from(error).into_response(),
        Err(IdentityError::WrongToken) => return wrong_token(),
        Err(_) if is_for_programs => return wrong_token(),
        Err(error) => return not_identified(&state, &error, request.uri()),
    };
    let mut response = next.run(request).await;
    if let Some(opened) = opened {
        opened.log(&label, via, response.status());
    }
    if let Some(cookie) = renewed
        && is_page(&response)
        && let Ok(cookie) = cookie.parse()
    {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// The header that renews the session of a request, if that is due.
fn renewed_session(state: &ViewerState, presented: &Presented) -> Option<String> {
    let (ViewerAccess::SignIn(provider), Presented::Session(session)) =
        (&state.access.authentication, presented)
    else {
        return None;
    };
    let now_s = state.clock.now().seconds();
    Some(provider.session_header(&session.renewed(now_s)?, now_s))
}

/// The response to someone who was recognised and may not read. A session that does not count any more ends.
fn not_identified(state: &ViewerState, error: &IdentityError, uri: &Uri) -> Response {
    match &state.access.authentication {
        ViewerAccess::SignIn(provider) => {
            ([(SET_COOKIE, provider.no_session_header())], login_needed(uri)).into_response()
        }
        ViewerAccess::All | ViewerAccess::Password(_) | ViewerAccess::Header(_) => {
            notice_response(StatusCode::FORBIDDEN, "Not admitted", &error.to_string())
        }
    }
}

/// Whether an address is for programs, which do not follow a redirect to a form.
fn is_for_programs(path: &str) -> bool {
    path == "/mcp" || path.starts_with("/api/") || path.starts_with("/c/") && path.ends_with("/live")
}

fn login_needed(uri: &Uri) -> Response {
    if is_for_programs(uri.path()) {
        return wrong_token();
    }
    redirect_to_login(uri)
}

/// The response to a program that does not say who it is.
pub fn wrong_token() -> Response {
    let line = "no valid token came with this request: annalist token create makes one";
    ([(WWW_AUTHENTICATE, "Bearer")], program_error(StatusCode::UNAUTHORIZED, line)).into_response()
}

fn not_now(error: &dyn std::error::Error) -> Response {
    tracing::warn!(%error, "cannot answer a program");
    program_error(StatusCode::SERVICE_UNAVAILABLE, NOT_NOW)
}

fn redirect_to_login(uri: &Uri) -> Response {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let next =
        PathAndQuery::try_from(path).map_or_else(|_| "/".to_owned(), |path| query_value(path.as_str()));
    redirect_to(&format!("/login?next={next}"))
}

/// Limits the number of concurrent pages, and the time for each.
async fn limit_concurrency(State(state): State<Arc<ViewerState>>, request: Request, next: Next) -> Response {
    let page = on_page_thread(&state.page_slots, || next.run(request));
    let Ok(answer) = timeout(PAGE_TIMEOUT, page).await else {
        let line = "This page takes too long at the moment. Try again later.";
        return error_page(StatusCode::SERVICE_UNAVAILABLE, "Not now", line);
    };
    let Some(answer) = answer else {
        let line = "This page cannot be made: the log of this program says more.";
        return error_page(StatusCode::INTERNAL_SERVER_ERROR, "Not now", line);
    };
    if answer.status() == StatusCode::BAD_REQUEST && !is_page(&answer) {
        return error_page(StatusCode::BAD_REQUEST, "Invalid request", "This address cannot be read.");
    }
    answer
}

fn is_page(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|content_type| content_type.as_bytes().starts_with(b"text/html"))
}
