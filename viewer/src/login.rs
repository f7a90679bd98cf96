//! Asks for the password.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Form, Query, Request, State};
use axum::http::header::{CONNECTION, HeaderValue, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::time::{sleep, timeout};

use crate::access::{COOKIE_NAME, ViewerAccess};
use crate::answer::{PageError, html, said, see};
use crate::links::ServedLinks;
use crate::pages::login;
use crate::router::ViewerState;

/// A wrong password is answered after this time, so that guessing takes for ever.
const PAUSE: Duration = Duration::from_secs(1);

/// A log-in that is not there whole by then is given up, with its connection: who sends one need not be known. A wrong password
/// waits for a part of this time.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest form: a password, and an address to go to.
const MAX_FORM_BYTES: usize = 8 * 1024;

/// The form, and where it is sent.
pub(crate) fn routes() -> Router<Arc<ViewerState>> {
    Router::new()
        .route("/login", get(form).post(log_in))
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .layer(middleware::from_fn(in_time))
}

/// Ends the connection of who takes longer.
async fn in_time(request: Request, next: Next) -> Response {
    timeout(TIMEOUT, next.run(request)).await.unwrap_or_else(|_| {
        let late =
            said(StatusCode::REQUEST_TIMEOUT, "Too late", "The password did not come in time. Try again.");
        ([(CONNECTION, "close")], late).into_response()
    })
}

/// The password, and where to go then.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct LoginForm {
    password: String,
    next: String,
}

/// The form.
async fn form(State(state): State<Arc<ViewerState>>, Query(asked): Query<LoginForm>) -> Response {
    match state.access.readers {
        ViewerAccess::Password(_) => html(login::page(local(&asked.next), None, &ServedLinks)),
        ViewerAccess::All | ViewerAccess::Header(_) => see("/"),
    }
}

/// Compares the password, and gives the browser a cookie.
async fn log_in(
    State(state): State<Arc<ViewerState>>,
    headers: HeaderMap,
    Form(LoginForm { password, next }): Form<LoginForm>,
) -> Response {
    let ViewerAccess::Password(expected) = &state.access.readers else {
        return PageError::missing("There is no log-in.").into_response();
    };
    let Ok(_place) = state.logins.try_acquire() else {
        return said(
            StatusCode::TOO_MANY_REQUESTS,
            "Not now",
            "Too many people log in at once. Try again soon.",
        );
    };
    let next = local(&next);
    if !expected.is(&password) {
        sleep(PAUSE).await;
        let page = login::page(next, Some("This is not the password."), &ServedLinks);
        return (StatusCode::FORBIDDEN, html(page)).into_response();
    }
    let is_https = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let secure = if is_https { "; Secure" } else { "" };
    let cookie = format!("{COOKIE_NAME}={}; Path=/; HttpOnly; SameSite=Strict{secure}", expected.cookie());
    let mut response = see(next);
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// The path, if it is one of this site.
pub(crate) fn local(path: &str) -> &str {
    let is_local = path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { path } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_in_leads_nowhere_else() {
        assert_eq!(local("/c/T1/C1?around=1.000000"), "/c/T1/C1?around=1.000000");
        for path in
            ["", "//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nb", "javascript:x"]
        {
            assert_eq!(local(path), "/", "{path}");
        }
    }
}
