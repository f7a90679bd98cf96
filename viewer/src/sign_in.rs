//! The sign-in with a provider: `/login/start` sends a browser there, `/login/callback` takes it back.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::{HeaderValue, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use oidc::client::{OidcError, SignInSecrets};
use oidc::to_base64url;
use ports::metrics::SIGN_INS;
use serde::Deserialize;

use crate::access::identity::IdentityError;
use crate::access::people::NamedPerson;
use crate::access::provider::{SignIn, StartedSignIn};
use crate::access::session::{Session, SessionOwner};
use crate::access::{COOKIE_NAME, ViewerAccess};
use crate::answer::{PageError, html, local, redirect_to};
use crate::links::ServedLinks;
use crate::pages::login;
use crate::state::ViewerState;

/// Maximum length of a code. Providers' codes have up to about two thousand bytes.
const MAX_CODE_BYTES: usize = 8 * 1024;

/// Maximum length of the address to go to: the cookie that keeps it must fit a browser's 4 KiB.
const MAX_NEXT_BYTES: usize = 2 * 1024;

/// Returns the routes of the sign-in.
pub(crate) fn routes() -> Router<Arc<ViewerState>> {
    Router::new()
        .route("/login/start", get(start))
        .route("/login/callback", get(callback))
        .route("/logout", post(log_out))
}

/// The page to go to after the sign-in.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StartParams {
    next: String,
}

/// Sends the browser to the provider.
async fn start(State(state): State<Arc<ViewerState>>, Query(params): Query<StartParams>) -> Response {
    let ViewerAccess::SignIn(provider) = &state.access.authentication else { return no_sign_in() };
    let Ok(secrets) = random_secrets() else {
        return page(StatusCode::SERVICE_UNAVAILABLE, "There are no random numbers on this machine.");
    };
    match provider.client.authorization_address(&secrets).await {
        Ok(address) => {
            let next = Some(local(&params.next)).filter(|next| next.len() <= MAX_NEXT_BYTES);
            let started =
                StartedSignIn::new(secrets, next.unwrap_or("/").to_owned(), state.clock.now().seconds());
            match HeaderValue::from_str(&address) {
                Ok(address) => {
                    let headers =
                        [(LOCATION, address), (SET_COOKIE, header_value(&provider.login_header(&started)))];
                    (StatusCode::SEE_OTHER, headers).into_response()
                }
                Err(_) => failed(&OidcError::Unavailable("its address is no address".to_owned())),
            }
        }
        Err(error) => failed(&error),
    }
}

/// What a provider sends back. Tokens are not among it: they come from the token endpoint alone.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CallbackParams {
    state: String,
    code: String,
    error: Option<String>,
}

/// Takes the browser back from the provider. The cookie of the sign-in is removed, whatever the outcome.
async fn callback(
    State(state): State<Arc<ViewerState>>,
    headers: HeaderMap,
    params: Result<Query<CallbackParams>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let ViewerAccess::SignIn(provider) = &state.access.authentication else { return no_sign_in() };
    let answer = match params {
        Ok(Query(params)) => sign_in(&state, provider, &headers, &params).await,
        Err(_) => not_valid(),
    };
    let outcome = match answer.status() {
        StatusCode::SEE_OTHER => "signed_in",
        StatusCode::FORBIDDEN => "refused",
        StatusCode::BAD_REQUEST => "invalid",
        _ => "failed",
    };
    metrics::counter!(SIGN_INS, "outcome" => outcome).increment(1);
    with_cookie(answer, &provider.no_login_header())
}

async fn sign_in(
    state: &ViewerState,
    provider: &SignIn,
    headers: &HeaderMap,
    params: &CallbackParams,
) -> Response {
    let now_s = state.clock.now().seconds();
    let Some(started) = provider.finish(headers, &params.state, now_s) else { return not_valid() };
    if let Some(error) = &params.error {
        // The provider's own words are not shown: anyone can write them into an address.
        return page(
            StatusCode::FORBIDDEN,
            match error.as_str() {
                "access_denied" => "The sign-in was cancelled.",
                "temporarily_unavailable" => "The sign-in is not available at the moment. Try again later.",
                _ => "The sign-in was refused.",
            },
        );
    }
    if params.code.is_empty() || params.code.len() > MAX_CODE_BYTES {
        return not_valid();
    }
    let claims = match provider.client.exchange(&params.code, &started.secrets(), now_s).await {
        Ok(claims) => claims,
        Err(error) => return failed(&error),
    };
    let session = match provider.owner(&claims, state.admissions.people()).await {
        Ok(owner) => Session::new(owner, now_s),
        Err(not_admitted) => return page(StatusCode::FORBIDDEN, &not_admitted.to_string()),
    };
    match admit(state, &session.owner).await {
        Ok(()) => with_cookie(redirect_to(local(&started.next)), &provider.session_header(&session, now_s)),
        Err(IdentityError::Archive(error)) => PageError::from(error).into_response(),
        Err(error) => {
            tracing::info!(%error, "a person who signed in may not read");
            page(StatusCode::FORBIDDEN, &error.to_string())
        }
    }
}

/// Checks whether the person may read. Each request checks it again.
async fn admit(state: &ViewerState, owner: &SessionOwner) -> Result<(), IdentityError> {
    let admissions = &state.admissions;
    let named = match owner {
        SessionOwner::Person(team, user) => {
            Some(NamedPerson { team: Some(team.clone()), user: user.clone() })
        }
        SessionOwner::Name(name) | SessionOwner::Admitted(name) => admissions.people().find(name).await,
    };
    match named {
        Some(named) => admissions.admit(&named).await.map(drop),
        None => Ok(()),
    }
}

/// Removes the cookie of this browser.
async fn log_out(State(state): State<Arc<ViewerState>>, headers: HeaderMap) -> Response {
    let cookie = match &state.access.authentication {
        ViewerAccess::SignIn(provider) => provider.no_session_header(),
        ViewerAccess::Password(_) => format!("{COOKIE_NAME}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0"),
        ViewerAccess::All | ViewerAccess::Header(_) => return no_sign_in(),
    };
    // A page of another site may not sign anyone out.
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return page(StatusCode::FORBIDDEN, "Sign out on a page of this archive.");
    }
    with_cookie(redirect_to("/login"), &cookie)
}

fn random_secrets() -> Result<SignInSecrets, getrandom::Error> {
    let random = || {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map(|()| to_base64url(&bytes))
    };
    Ok(SignInSecrets { state: random()?, nonce: random()?, verifier: random()? })
}

fn with_cookie(mut answer: Response, cookie: &str) -> Response {
    answer.headers_mut().append(SET_COOKIE, header_value(cookie));
    answer
}

/// Cookies consist of names, base64url and numbers.
fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

fn no_sign_in() -> Response {
    PageError::missing("There is no sign-in.").into_response()
}

fn not_valid() -> Response {
    page(StatusCode::BAD_REQUEST, "This sign-in is no longer valid. Start again.")
}

fn failed(error: &OidcError) -> Response {
    tracing::warn!(%error, "a sign-in failed");
    match error {
        OidcError::Unavailable(_) => page(
            StatusCode::SERVICE_UNAVAILABLE,
            "The sign-in is not available at the moment. Try again later.",
        ),
        OidcError::Refused(_) => not_valid(),
        OidcError::Claims(_) => {
            page(StatusCode::FORBIDDEN, "The sign-in was refused: it does not belong to this browser.")
        }
    }
}

fn page(status: StatusCode, message: &str) -> Response {
    (status, html(login::failed_page(message, &ServedLinks))).into_response()
}
