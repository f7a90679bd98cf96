//! Routes requests to handlers, with the middleware for all requests.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::tz::TimeZone;
use ports::archive::Archive;
use ports::clock::SharedClock;
use ports::files::Files;
use reader::access::{Reader, Sight, Via};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::access::{Access, Admission, ViewerAccess};
use crate::answer::{PageError, notice_response, redirect_to};
use crate::assets::{self, Asset};
use crate::handlers::{links, messages, search, site};
use crate::index::IndexSource;
use crate::login;
use crate::state::ViewerState;
use crate::{file_bytes, headers};

/// Maximum number of pages that are rendered concurrently; further requests wait. Each page keeps its data in
/// memory, and more concurrency does not make the archive faster. Each has a blocking thread of the runtime, which
/// needs others for the reads of the pages.
pub const MAX_CONCURRENT_PAGES: usize = 8;

/// Timeout for a page. On one machine a page takes milliseconds, and the figures of a large archive some
/// seconds.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The dependencies and settings of the pages.
pub struct Viewer {
    /// The archive, which is only read.
    pub archive: Arc<dyn Archive>,
    /// The file store.
    pub files: Arc<dyn Files>,
    /// The search index.
    pub index: IndexSource,
    /// The clock.
    pub clock: SharedClock,
    /// The time zone of times and days.
    pub zone: TimeZone,
    /// The access control.
    pub access: Access,
    /// Whether every reader sees the channels that were public and are private now, and not only their members.
    pub is_private_for_all: bool,
}

/// Returns the router of all pages. Except for the log-in, they only accept GET and HEAD.
pub fn router(viewer: Viewer) -> Router {
    let state = Arc::new(ViewerState::new(viewer));
    let mut router: Router<Arc<ViewerState>> = Router::new()
        .route("/", get(site::channels))
        .route("/c/{team}/{channel}", get(messages::timeline))
        .route("/t/{team}/{channel}/{ts}", get(messages::thread))
        .route("/r/{team}/{channel}/{ts}", get(messages::versions))
        .route("/archives/{channel}", get(links::channel_link))
        .route("/archives/{channel}/{ts}", get(links::permalink))
        .route("/search", get(search::search))
        .route("/files", get(site::files))
        .route("/files/{team}/{file}", get(file_bytes::file))
        .route("/canvas/{team}/{file}", get(site::canvas))
        .route("/pictures/{team}/{hash}", get(file_bytes::picture))
        .route("/stats", get(site::figures))
        .route("/coverage", get(site::coverage))
        .fallback(links::fallback)
        .layer(middleware::from_fn_with_state(Arc::clone(&state), limit_concurrency))
        .merge(login::routes());
    for asset in assets::ALL {
        router = router.route(&format!("/static/{}", asset.file_name()), get(async || served(asset)));
    }
    router
        .route("/favicon.ico", get(async || served(&assets::ICON)))
        .route("/robots.txt", get(async || "User-agent: *\nDisallow: /\n"))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), admit))
        .layer(middleware::from_fn(headers::add))
        .with_state(state)
}

/// Serves an asset. Its name changes with its content.
fn served(asset: &'static Asset) -> Response {
    let cache_control = "public, max-age=31536000, immutable";
    ([(CONTENT_TYPE, asset.content_type), (CACHE_CONTROL, cache_control)], asset.content()).into_response()
}

/// Refuses requests from pages of other sites and from unauthenticated users.
async fn admit(State(state): State<Arc<ViewerState>>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_open = path == "/login" || path.starts_with("/static/") || path == "/favicon.ico";
    match state.access.check_request(request.uri(), request.headers()) {
        Admission::Granted if is_open => next.run(request).await,
        Admission::Granted => match reader_of(&state, request.headers()).await {
            Ok(reader) => {
                request.extensions_mut().insert(reader);
                next.run(request).await
            }
            Err(error) => error.into_response(),
        },
        Admission::LoginNeeded | Admission::WrongCookie if is_open => next.run(request).await,
        Admission::LoginNeeded => redirect_to_login(request.uri()),
        Admission::WrongCookie => {
            state.guesses.answer_wrong().await;
            login::without_cookie(redirect_to_login(request.uri()))
        }
        Admission::WrongHost => notice_response(
            StatusCode::MISDIRECTED_REQUEST,
            "Unknown host name",
            "This archive does not have the host name in the address bar. Use --viewer-host NAME to allow it.",
        ),
        Admission::UserMissing => notice_response(
            StatusCode::FORBIDDEN,
            "Unknown user",
            "A proxy names the users of this archive. Open it at the proxy's address.",
        ),
    }
}

/// Returns who makes a request that is allowed.
async fn reader_of(state: &ViewerState, headers: &HeaderMap) -> Result<Reader, PageError> {
    let (label, via) = match &state.access.authentication {
        ViewerAccess::All => {
            let (label, sight) = ("operator".to_owned(), Sight::Everything);
            return Ok(Reader { label, via: Via::Open, person: None, sight });
        }
        ViewerAccess::Password(_) => ("password".to_owned(), Via::Password),
        ViewerAccess::Header(name) => {
            let named = headers.get(name).map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
            (named.unwrap_or_default(), Via::Header)
        }
    };
    Ok(Reader { label, via, person: None, sight: state.sight(None).await? })
}

fn redirect_to_login(uri: &Uri) -> Response {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let next: String = PathAndQuery::try_from(path)
        .map_or_else(|_| "/".to_owned(), |path| path.as_str().replace('%', "%25").replace('&', "%26"));
    redirect_to(&format!("/login?next={}", next.replace('+', "%2B").replace('#', "%23")))
}

/// Limits the number of concurrent pages, and the time for each. Each is made in a thread of its own, so that
/// the work for a page with long texts never stands before an event of the same process.
async fn limit_concurrency(State(state): State<Arc<ViewerState>>, request: Request, next: Next) -> Response {
    let answer = async {
        let slot = Arc::clone(&state.page_slots).acquire_owned().await;
        // Dropped if the client is gone or the time is over; the work then ends at its next wait.
        let (_wanted, unwanted) = oneshot::channel::<()>();
        let runtime = Handle::current();
        let made = spawn_blocking(move || {
            let _slot = slot;
            runtime.block_on(async {
                tokio::select! {
                    answer = next.run(request) => Some(answer),
                    _ = unwanted => None,
                }
            })
        });
        let Ok(Some(answer)) = made.await else {
            return notice_response(
                StatusCode::INTERNAL_SERVER_ERROR,
                "Not now",
                "This page cannot be made: the log of this program says more.",
            );
        };
        let is_page = answer
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|content_type| content_type.as_bytes().starts_with(b"text/html"));
        if answer.status() == StatusCode::BAD_REQUEST && !is_page {
            return notice_response(
                StatusCode::BAD_REQUEST,
                "Invalid request",
                "This address cannot be read.",
            );
        }
        answer
    };
    timeout(PAGE_TIMEOUT, answer).await.unwrap_or_else(|_| {
        notice_response(
            StatusCode::SERVICE_UNAVAILABLE,
            "Not now",
            "This page takes too long at the moment. Try again later.",
        )
    })
}
