//! The provider with which people sign in, and the cookies of a sign-in.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::http::HeaderMap;
use oidc::claims::IdTokenClaims;
use oidc::client::{OidcClient, OidcSettings, SignInSecrets};
use serde::{Deserialize, Serialize};
use slack::ids::{TeamId, UserId};

use super::cookies::{SealingKey, are_equal, only_value};
use super::identity::NotAdmitted;
use super::people::PeopleSettings;
use super::session::{Session, SessionOwner};

/// The cookie of a browser that is at the provider.
const LOGIN_COOKIE: &str = "annalist_login";

/// The cookie of a session. The prefix, which needs https, keeps other hosts of the domain from setting it.
const SESSION_COOKIE: &str = "__Host-annalist_session";
const PLAIN_SESSION_COOKIE: &str = "annalist_session";

/// The time for a sign-in at the provider.
const LOGIN_LIFE_S: i64 = 600;

/// Maximum number of sign-ins that are remembered as done. Each was at the provider.
const MAX_SPENT: usize = 10_000;

/// How people sign in.
pub struct SignInSettings {
    /// This archive at the provider.
    pub client: OidcSettings,
    /// The claim with the name of a person, for the file of people.
    pub user_claim: String,
    /// Claims of which one admits a person who is not in the file of people.
    pub required: Vec<(String, String)>,
}

/// The provider.
pub struct SignIn {
    pub(crate) client: OidcClient,
    user_claim: String,
    required: Vec<(String, String)>,
    is_https: bool,
    session_key: SealingKey,
    login_key: SealingKey,
    spent: Mutex<BTreeMap<String, i64>>,
}

/// What a browser keeps while it is at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartedSignIn {
    state: String,
    nonce: String,
    verifier: String,
    /// The page to go to.
    pub(crate) next: String,
    expires_s: i64,
}

impl StartedSignIn {
    /// A sign-in with these random texts.
    pub(crate) fn new(secrets: SignInSecrets, next: String, now_s: i64) -> Self {
        let SignInSecrets { state, nonce, verifier } = secrets;
        Self { state, nonce, verifier, next, expires_s: now_s.saturating_add(LOGIN_LIFE_S) }
    }

    /// The random texts.
    pub(crate) fn secrets(&self) -> SignInSecrets {
        let [state, nonce, verifier] = [&self.state, &self.nonce, &self.verifier].map(Clone::clone);
        SignInSecrets { state, nonce, verifier }
    }
}

impl SignIn {
    /// A provider. It is called when someone signs in.
    pub fn new(settings: SignInSettings) -> Self {
        let SignInSettings { client, user_claim, required } = settings;
        let is_https = client.redirect_uri.starts_with("https://");
        let client = OidcClient::new(client);
        let session_key = SealingKey(client.derived_key("annalist session v1"));
        let login_key = SealingKey(client.derived_key("annalist sign-in v1"));
        Self { client, user_claim, required, is_https, session_key, login_key, spent: Mutex::default() }
    }

    /// Whether people sign in with Slack.
    pub(crate) fn is_slack(&self) -> bool {
        self.client.settings().issuer.is_slack()
    }

    /// The session of a request. A cookie that is forged or over is no session.
    pub(crate) fn session(&self, headers: &HeaderMap, now_s: i64) -> Option<Session> {
        Session::from_cookie(only_value(headers, self.session_cookie())?, &self.session_key, now_s)
    }

    /// The header that gives a browser this session.
    pub(crate) fn session_header(&self, session: &Session, now_s: i64) -> String {
        self.header(
            self.session_cookie(),
            &session.cookie(&self.session_key),
            "/",
            session.remaining_s(now_s),
        )
    }

    /// The header that takes a browser's session away.
    pub(crate) fn no_session_header(&self) -> String {
        self.header(self.session_cookie(), "", "/", 0)
    }

    /// The header that a browser gets when it goes to the provider.
    pub(crate) fn login_header(&self, started: &StartedSignIn) -> String {
        self.header(LOGIN_COOKIE, &self.login_key.seal(started), "/login", LOGIN_LIFE_S)
    }

    /// The header that ends the sign-in.
    pub(crate) fn no_login_header(&self) -> String {
        self.header(LOGIN_COOKIE, "", "/login", 0)
    }

    fn session_cookie(&self) -> &'static str {
        if self.is_https { SESSION_COOKIE } else { PLAIN_SESSION_COOKIE }
    }

    /// Lax: a browser sends the cookie on the way back from the provider, which is another site.
    fn header(&self, name: &str, value: &str, path: &str, life_s: i64) -> String {
        let secure = if self.is_https { "; Secure" } else { "" };
        format!("{name}={value}; Path={path}; HttpOnly; SameSite=Lax; Max-Age={life_s}{secure}")
    }

    /// The sign-in to which a browser returns with this state. Each counts once.
    pub(crate) fn finish(&self, headers: &HeaderMap, state: &str, now_s: i64) -> Option<StartedSignIn> {
        let started: StartedSignIn = self.login_key.open(only_value(headers, LOGIN_COOKIE)?)?;
        let is_valid = started.expires_s > now_s && are_equal(started.state.as_bytes(), state.as_bytes());
        (is_valid && self.spend(&started, now_s)).then_some(started)
    }

    /// Whether a sign-in counts for the first time.
    fn spend(&self, started: &StartedSignIn, now_s: i64) -> bool {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.len() >= MAX_SPENT {
            spent.retain(|_, expires_s| *expires_s > now_s);
        }
        // One that is not remembered could be repeated.
        spent.len() < MAX_SPENT && spent.insert(started.state.clone(), started.expires_s).is_none()
    }

    /// Who signs in, according to the provider.
    pub(crate) async fn owner(
        &self,
        claims: &IdTokenClaims,
        people: &PeopleSettings,
    ) -> Result<SessionOwner, NotAdmitted> {
        if let Some((team, user)) = claims.slack_ids() {
            let ids = TeamId::parse(team).ok().zip(UserId::parse(user).ok());
            return ids.map(|(team, user)| SessionOwner::Person(team, user)).ok_or(NotAdmitted::Refused);
        }
        let name = claims.user_name(&self.user_claim);
        if let Some(name) = name
            && people.find(name).await.is_some()
        {
            return Ok(SessionOwner::Name(name.to_owned()));
        }
        let is_admitted = self.required.iter().any(|(claim, value)| claims.has(claim, value));
        let name = name.or(claims.text("sub")).filter(|_| is_admitted).ok_or(NotAdmitted::NotListed)?;
        Ok(SessionOwner::Admitted(name.to_owned()))
    }
}
