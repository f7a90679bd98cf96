//! A provider that listens on this machine, and browsers that sign in there.

use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use oidc::client::OidcSettings;
use oidc::to_base64url;
use serde_json::{Value, json};
use viewer::access::ViewerAccess;
use viewer::access::people::PeopleSettings;
use viewer::access::provider::{SignIn, SignInSettings};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::fixture::{NOW_MS, ServedAnswer, ViewerFixture, send_request};

pub(crate) const NOW_S: i64 = NOW_MS / 1_000;
pub(crate) const SECRET: &str = "hidden-of-client";
pub(crate) const HOST: (&str, &str) = ("host", "localhost");

/// A provider, and an archive whose people sign in there.
pub(crate) struct Provider {
    pub(crate) fixture: ViewerFixture,
    pub(crate) server: MockServer,
    pub(crate) client_secret: String,
    pub(crate) redirect_uri: String,
    pub(crate) required: Vec<(String, String)>,
    pub(crate) people: PeopleSettings,
}

impl Provider {
    pub(crate) async fn open() -> Self {
        let fixture = ViewerFixture::open();
        fixture.post("C1", "1700001000.000000", "text").await;
        let created = "1700000000.000000";
        fixture.account("U1", created, json!({})).await;
        fixture.account("U2", created, json!({ "is_restricted": true })).await;
        fixture.account("U3", created, json!({ "is_bot": true })).await;
        fixture.account("U4", created, json!({ "deleted": true })).await;
        fixture.account("U5", created, json!({ "is_stranger": true })).await;
        let server = MockServer::start().await;
        describe(&server).await;
        Self {
            fixture,
            server,
            client_secret: SECRET.to_owned(),
            redirect_uri: "http://localhost:3002/login/callback".to_owned(),
            required: Vec::new(),
            people: PeopleSettings::default(),
        }
    }

    /// The pages of another process with the same settings.
    pub(crate) fn router(&self) -> Router {
        let client = OidcSettings {
            issuer: self.server.uri().parse().unwrap(),
            client_id: "7.8".to_owned(),
            client_secret: self.client_secret.clone().into(),
            redirect_uri: self.redirect_uri.clone(),
            scope: "openid profile".to_owned(),
        };
        let settings =
            SignInSettings { client, user_claim: "email".to_owned(), required: self.required.clone() };
        let readers = ViewerAccess::SignIn(Arc::new(SignIn::new(settings)));
        self.fixture.router_admitting(readers, self.people.clone(), self.fixture.changes())
    }

    /// Makes the token endpoint answer this, from now on.
    pub(crate) async fn answers(&self, answer: ResponseTemplate) {
        let token = Mock::given(method("POST")).and(path("/token")).respond_with(answer);
        self.server.reset().await;
        describe(&self.server).await;
        token.mount(&self.server).await;
    }

    /// Makes the token endpoint name this person with the nonce of a sign-in.
    pub(crate) async fn names(&self, claims: &Value, nonce: &str) {
        let mut whole = json!({ "iss": self.server.uri(), "aud": "7.8", "sub": "s-1", "nonce": nonce,
            "exp": NOW_S + 300, "iat": NOW_S });
        whole.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        let id_token = format!("e30.{}.c2ln", to_base64url(whole.to_string().as_bytes()));
        let body = json!({ "ok": true, "access_token": "hidden-of-person", "id_token": id_token });
        self.answers(ResponseTemplate::new(200).set_body_json(body)).await;
    }

    /// Goes to the provider and comes back as the person with these claims.
    pub(crate) async fn sign_in(&self, router: &Router, claims: &Value, next: &str) -> ServedAnswer {
        let started = Started::at(router, next).await;
        self.names(claims, &started.nonce).await;
        let answer = started.come_back(router, &format!("code=c-1&state={}", started.state)).await;
        assert_harmless(&answer);
        answer
    }
}

/// Mounts the discovery document.
async fn describe(server: &MockServer) {
    let document = json!({
        "issuer": server.uri(),
        "authorization_endpoint": format!("{}/authorize", server.uri()),
        "token_endpoint": format!("{}/token", server.uri()),
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    });
    Mock::given(path("/.well-known/openid-configuration"))
        .respond_with(ResponseTemplate::new(200).set_body_json(document))
        .mount(server)
        .await;
}

/// A browser that is at the provider.
pub(crate) struct Started {
    pub(crate) cookie: String,
    pub(crate) state: String,
    pub(crate) nonce: String,
}

impl Started {
    pub(crate) async fn at(router: &Router, next: &str) -> Self {
        let answer = get(router, &format!("/login/start?next={next}"), &[]).await;
        assert_eq!(answer.status, 303, "{}", answer.body);
        let address = answer.header("location").to_owned();
        let value = |name: &str| {
            let (_, value) = address.split_once(&format!("&{name}=")).unwrap();
            value.split('&').next().unwrap().to_owned()
        };
        assert!(address.contains("/authorize?response_type=code&client_id=7.8&redirect_uri="), "{address}");
        let cookie = answer.header("set-cookie");
        assert!(cookie.contains("; Path=/login; HttpOnly; SameSite=Lax; Max-Age=600"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { cookie, state: value("state"), nonce: value("nonce") }
    }

    pub(crate) async fn come_back(&self, router: &Router, query: &str) -> ServedAnswer {
        get(router, &format!("/login/callback?{query}"), &[("cookie", &self.cookie)]).await
    }
}

pub(crate) async fn get(router: &Router, path: &str, headers: &[(&str, &str)]) -> ServedAnswer {
    let headers: Vec<(&str, &str)> = headers.iter().copied().chain([HOST]).collect();
    send_request(router.clone(), Method::GET, path, &headers, "").await
}

pub(crate) fn slack(team: &str, user: &str) -> Value {
    json!({ "https://slack.com/team_id": team, "https://slack.com/user_id": user })
}

pub(crate) fn ana() -> Value {
    slack("T1", "U1")
}

/// The cookies that an answer sets.
pub(crate) fn cookies(answer: &ServedAnswer) -> Vec<&str> {
    answer.headers.get_all("set-cookie").iter().map(|cookie| cookie.to_str().unwrap()).collect()
}

/// The cookie of a session, as a browser sends it.
pub(crate) fn session(answer: &ServedAnswer) -> Option<String> {
    let session = cookies(answer).into_iter().find(|cookie| cookie.contains("annalist_session=v1."))?;
    session.split(';').next().map(ToOwned::to_owned)
}

/// No answer repeats a secret or a code, and each removes the cookie of the sign-in.
pub(crate) fn assert_harmless(answer: &ServedAnswer) {
    for hidden in ["hidden", "c-1", "id_token"] {
        assert!(
            !answer.body.contains(hidden) && !answer.header("location").contains(hidden),
            "{}",
            answer.body
        );
    }
    let removed = cookies(answer)
        .into_iter()
        .any(|cookie| cookie.starts_with("annalist_login=; ") && cookie.contains("Max-Age=0"));
    assert!(removed, "{:?}", cookies(answer));
}

/// Whether a page is shown to the browser with this cookie.
pub(crate) async fn is_in(router: &Router, cookie: &str) -> bool {
    let answer = get(router, "/c/T1/C1", &[("cookie", cookie)]).await;
    match answer.status.as_u16() {
        200 => true,
        303 => {
            assert_eq!(answer.header("location"), "/login?next=/c/T1/C1");
            false
        }
        other => panic!("{other}: {}", answer.body),
    }
}
