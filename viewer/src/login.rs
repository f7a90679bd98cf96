//! The log-in with a password, and the first page of the sign-in with a provider.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Form, Query, Request, State};
use axum::http::header::{CONNECTION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::time::{sleep, timeout};

use crate::access::{COOKIE_NAME, ViewerAccess};
use crate::answer::{PageError, html, local, notice_response, redirect_to};
use crate::links::ServedLinks;
use crate::pages::login;
use crate::sign_in;
use crate::state::ViewerState;

/// The time from a wrong password until the next password is compared, even if the client of the wrong one is
/// gone: all clients together try at most twenty a second. If all connections of the listener send wrong
/// passwords, the right one waits for seven seconds, which is less than [`LOGIN_TIMEOUT`].
const WRONG_PASSWORD_PAUSE: Duration = Duration::from_millis(50);

/// Timeout for a log-in, after which its connection is closed, because clients are not authenticated yet. It
/// includes the delay after a wrong password.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The attributes of the cookie. A browser keeps it for a year, so that it survives the browser's end, and sends
/// it if a user follows a link from another site, such as Slack. Such a request cannot change anything, because
/// only the log-in does, and the other site cannot read the page, because pages may not be framed.
const COOKIE_ATTRIBUTES: &str = "Path=/; HttpOnly; SameSite=Lax; Max-Age=31536000";

/// Maximum size of the form: a password, and an address to go to.
const MAX_FORM_BYTES: usize = 8 * 1024;

/// Redirects to the log-in form and deletes the browser's cookie, so that an old one costs a second once.
pub(crate) fn without_cookie(to_form: Response) -> Response {
    let cookie = format!("{COOKIE_NAME}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    ([(SET_COOKIE, cookie)], to_form).into_response()
}

/// Returns the routes of the log-in form.
pub(crate) fn routes() -> Router<Arc<ViewerState>> {
    Router::new()
        .route("/login", get(form).post(log_in))
        .merge(sign_in::routes())
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .layer(middleware::from_fn(limit_time))
}

/// Closes the connection of a client that takes too long.
async fn limit_time(request: Request, next: Next) -> Response {
    timeout(LOGIN_TIMEOUT, next.run(request)).await.unwrap_or_else(|_| {
        let notice = notice_response(
            StatusCode::REQUEST_TIMEOUT,
            "Too late",
            "The password did not come in time. Try again.",
        );
        ([(CONNECTION, "close")], notice).into_response()
    })
}

/// The password, and the address to go to after the log-in.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct LoginForm {
    password: String,
    next: String,
}

/// Shows the form.
async fn form(State(state): State<Arc<ViewerState>>, Query(params): Query<LoginForm>) -> Response {
    match &state.access.authentication {
        ViewerAccess::Password(_) => html(login::page(local(&params.next), None, &ServedLinks)),
        ViewerAccess::SignIn(provider) => {
            html(login::sign_in_page(local(&params.next), provider.is_slack(), &ServedLinks))
        }
        ViewerAccess::All | ViewerAccess::Header(_) => redirect_to("/"),
    }
}

/// Checks the password and sets the cookie.
async fn log_in(
    State(state): State<Arc<ViewerState>>,
    headers: HeaderMap,
    Form(LoginForm { password, next }): Form<LoginForm>,
) -> Response {
    let ViewerAccess::Password(expected) = &state.access.authentication else {
        return PageError::missing("There is no log-in.").into_response();
    };
    let next = local(&next);
    let turn = Arc::clone(&state.guesses.turn).lock_owned().await;
    if !expected.matches(&password) {
        tokio::spawn(async move {
            sleep(WRONG_PASSWORD_PAUSE).await;
            drop(turn);
        });
        state.guesses.answer_wrong().await;
        let page = login::page(next, Some("This is not the password."), &ServedLinks);
        return (StatusCode::FORBIDDEN, html(page)).into_response();
    }
    drop(turn);
    let secure = if is_https(&headers) { "; Secure" } else { "" };
    let cookie = format!("{COOKIE_NAME}={}; {COOKIE_ATTRIBUTES}{secure}", state.access.cookie);
    ([(SET_COOKIE, cookie)], redirect_to(next)).into_response()
}

/// Whether the client's address is of `https`, which a proxy in front says.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https")
}
