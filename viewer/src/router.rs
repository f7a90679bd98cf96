//! Which request is answered by what, and what every request passes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::tz::TimeZone;
use ports::archive::Archive;
use ports::clock::SharedClock;
use ports::files::Files;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::access::{Access, Admission};
use crate::answer::{said, see};
use crate::assets::{self, Asset};
use crate::gather::pictures::EmojiBook;
use crate::handlers::{Remembered, links, messages, search, site};
use crate::index::{FreshIndex, IndexSource};
use crate::pages::sidebar::ChannelMenu;
use crate::{bytes_of, headers, login};

/// Pages that are made at once. The others wait: each holds what it read in memory, and the archive answers no faster.
const AT_ONCE: usize = 8;

/// A page that takes longer is given up: on one machine it takes milliseconds, and figures of a large archive some seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Log-ins that are answered at once.
const LOGINS: usize = 4;

/// What pages are made of.
pub struct Viewer {
    /// The rows. Nothing here writes any.
    pub archive: Arc<dyn Archive>,
    /// The bytes of files.
    pub files: Arc<dyn Files>,
    /// The search index.
    pub index: IndexSource,
    /// The time.
    pub clock: SharedClock,
    /// In which zone times are shown, and days begin.
    pub zone: TimeZone,
    /// Who may read.
    pub access: Access,
}

/// What the handlers share.
pub(crate) struct ViewerState {
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) index: FreshIndex,
    pub(crate) clock: SharedClock,
    pub(crate) zone: TimeZone,
    pub(crate) access: Access,
    pub(crate) logins: Semaphore,
    pub(crate) menu: Remembered<ChannelMenu>,
    pub(crate) emoji: Remembered<EmojiBook>,
    places: Semaphore,
}

/// Everything that is served. Only log-ins are sent with anything but GET and HEAD.
pub fn router(viewer: Viewer) -> Router {
    let Viewer { archive, files, index, clock, zone, access } = viewer;
    let state = Arc::new(ViewerState {
        index: FreshIndex::new(index, Arc::clone(&archive)),
        archive,
        files,
        clock,
        zone,
        access,
        logins: Semaphore::new(LOGINS),
        menu: Remembered::default(),
        emoji: Remembered::default(),
        places: Semaphore::new(AT_ONCE),
    });
    let mut router: Router<Arc<ViewerState>> = Router::new()
        .route("/", get(site::channels))
        .route("/c/{team}/{channel}", get(messages::timeline))
        .route("/t/{team}/{channel}/{ts}", get(messages::thread))
        .route("/r/{team}/{channel}/{ts}", get(messages::versions))
        .route("/archives/{channel}", get(links::channel_link))
        .route("/archives/{channel}/{ts}", get(links::permalink))
        .route("/search", get(search::search))
        .route("/files", get(site::files))
        .route("/files/{team}/{file}", get(bytes_of::file))
        .route("/pictures/{team}/{hash}", get(bytes_of::picture))
        .route("/stats", get(site::figures))
        .route("/coverage", get(site::coverage))
        .fallback(links::elsewhere)
        .layer(middleware::from_fn_with_state(Arc::clone(&state), in_turn))
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

/// A file of the pages' own. Its name changes with its content.
fn served(asset: &'static Asset) -> Response {
    let content_type = HeaderValue::from_static(asset.content_type);
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    ([(CONTENT_TYPE, content_type), (CACHE_CONTROL, kept)], asset.content()).into_response()
}

/// Refuses requests from other sites' pages, and those of unknown readers.
async fn admit(State(state): State<Arc<ViewerState>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_open = path == "/login" || path.starts_with("/static/") || path == "/favicon.ico";
    match state.access.admit(request.uri(), request.headers()) {
        Admission::Granted => next.run(request).await,
        Admission::LoginNeeded if is_open => next.run(request).await,
        Admission::LoginNeeded => {
            let asked = request.uri().path_and_query().map_or("/", |asked| asked.as_str());
            let next: String = axum::http::uri::PathAndQuery::try_from(asked).map_or_else(
                |_| "/".to_owned(),
                |asked| asked.as_str().replace('%', "%25").replace('&', "%26"),
            );
            see(&format!("/login?next={}", next.replace('+', "%2B").replace('#', "%23")))
        }
        Admission::WrongHost => said(
            StatusCode::MISDIRECTED_REQUEST,
            "Another site",
            "This archive is not known under the name in the address bar. --viewer-host NAME makes it known.",
        ),
        Admission::Nameless => said(
            StatusCode::FORBIDDEN,
            "Who is there?",
            "This archive is read through a proxy that says who reads. Open it by the proxy's address.",
        ),
    }
}

/// Makes a bounded number of pages at once, each in a bounded time.
async fn in_turn(State(state): State<Arc<ViewerState>>, request: Request, next: Next) -> Response {
    let answer = async {
        let _place = state.places.acquire().await;
        let answer = next.run(request).await;
        let is_page =
            answer.headers().get(CONTENT_TYPE).is_some_and(|of| of.as_bytes().starts_with(b"text/html"));
        if answer.status() == StatusCode::BAD_REQUEST && !is_page {
            return said(StatusCode::BAD_REQUEST, "What is meant?", "This address cannot be read.");
        }
        answer
    };
    timeout(TIMEOUT, answer).await.unwrap_or_else(|_| {
        said(
            StatusCode::SERVICE_UNAVAILABLE,
            "Not now",
            "This page takes too long at the moment. Try again later.",
        )
    })
}
