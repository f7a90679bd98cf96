//! A member of a channel that is private now, who signs in with a provider: they see it on pages, in the API, in MCP
//! and live. Who is no member does not.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use oidc::client::OidcSettings;
use oidc::to_base64url;
use ports::archive::ArchiveExt;
use rules::membership::ChannelMembers;
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use tower::ServiceExt;
use viewer::access::ViewerAccess;
use viewer::access::provider::{SignIn, SignInSettings};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::api_tests::{Served, call, filled, send, served, token};
use crate::fixture::CliFixture;

const SECRET_TEXT: &str = "a secret deploy 12";

/// Signs in as this person, and returns the cookie of the session.
async fn signed_in(router: &Router, provider: &MockServer, fixture: &CliFixture, user: &str) -> String {
    let started = send(router, Method::GET, "/login/start", &[], "").await;
    let address = started.header("location");
    let value = |name: &str| address.split_once(&format!("&{name}=")).unwrap().1.split('&').next().unwrap();
    let now_s = fixture.clock().now().seconds();
    let claims = json!({ "iss": provider.uri(), "aud": "7.8", "sub": user, "nonce": value("nonce"), "exp": now_s + 300,
        "iat": now_s, "https://slack.com/team_id": "T1", "https://slack.com/user_id": user });
    let id_token = format!("e30.{}.c2ln", to_base64url(claims.to_string().as_bytes()));
    Mock::given(method("POST"))
        .and(path("/token"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({ "ok": true, "id_token": id_token })))
        .up_to_n_times(1)
        .mount(provider)
        .await;
    let cookie = started.header("set-cookie").split(';').next().unwrap();
    let callback = format!("/login/callback?code=c&state={}", value("state"));
    let answer = send(router, Method::GET, &callback, &[("cookie", cookie)], "").await;
    assert_eq!((answer.status, answer.header("location")), (303, "/"), "{}", answer.body);
    let set = answer.headers.get_all("set-cookie").iter().map(|set| set.to_str().unwrap());
    let session = set.into_iter().find(|set| set.contains("_session=")).unwrap();
    session.split(';').next().unwrap().to_owned()
}

/// The first events of a stream; `None` if there is no such stream.
async fn live(router: &Router, cookie: &str) -> Option<String> {
    let request = Request::builder().uri("/c/T1/C2/live?after=1700000010.000000").header("host", "localhost");
    let request = request.header("cookie", cookie).body(Body::empty()).unwrap();
    let mut response = router.clone().oneshot(request).await.unwrap();
    if response.status() != 200 {
        assert_eq!(response.status(), 404);
        return None;
    }
    let mut received = String::new();
    while !received.contains(SECRET_TEXT) {
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        received += std::str::from_utf8(&frame.into_data().unwrap()).unwrap();
    }
    Some(received)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_sees_a_private_channel_everywhere_and_others_nowhere() {
    let fixture = filled(true).await;
    for user in ["U1", "U2"] {
        fixture.person("T1", user, user).await;
    }
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C2").unwrap());
    let as_of = Ts::parse(&format!("{}.000000", fixture.clock().now().seconds())).unwrap();
    let members = ChannelMembers { as_of, members: [UserId::parse("U1").unwrap()].into() };
    for row in members.rows(&team, &channel).unwrap() {
        fixture.archive().write(&row).await.unwrap();
    }
    let provider = MockServer::start().await;
    let document = json!({
        "issuer": provider.uri(),
        "authorization_endpoint": format!("{}/authorize", provider.uri()),
        "token_endpoint": format!("{}/token", provider.uri()),
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    });
    Mock::given(path("/.well-known/openid-configuration"))
        .respond_with(ResponseTemplate::new(200).set_body_json(document))
        .mount(&provider)
        .await;
    let settings = SignInSettings {
        client: OidcSettings {
            issuer: provider.uri().parse().unwrap(),
            client_id: "7.8".to_owned(),
            client_secret: "hidden".to_owned().into(),
            redirect_uri: "http://localhost:3002/login/callback".to_owned(),
            scope: "openid profile".to_owned(),
        },
        user_claim: "sub".to_owned(),
        required: Vec::new(),
    };
    let router = served(&fixture, ViewerAccess::SignIn(Arc::new(SignIn::new(settings))), 0);
    for (user, is_member) in [("U1", true), ("U2", false)] {
        let cookie = signed_in(&router, &provider, &fixture, user).await;
        let token = token(&fixture, &["--as", user]).await;
        let get = async |address: &str, header: (&str, &str)| -> Served {
            send(&router, Method::GET, address, &[header], "").await
        };
        for header in [("cookie", &*cookie), ("authorization", &*token)] {
            for address in
                ["/c/T1/C2", "/search?q=secret", "/api/v1/messages?channel=C2", "/api/v1/search?q=secret"]
            {
                let answer = get(address, header).await;
                assert_eq!(answer.body.contains("deploy 12"), is_member, "{user} {address}: {}", answer.body);
            }
            assert_eq!(get("/", header).await.body.contains("plans-secret"), is_member, "{user}");
            assert!(get("/c/T1/C1", header).await.body.contains("deploy 12"), "{user}");
        }
        let arguments = json!({ "name": "read_channel", "arguments": { "channel": "C2" } });
        let answer = call(&router, &[("authorization", &token)], "tools/call", arguments).await;
        assert_eq!(answer.body.contains(SECRET_TEXT), is_member, "{user}: {}", answer.body);
        assert_eq!(live(&router, &cookie).await.is_some(), is_member, "{user}");
        assert_eq!(call(&router, &[("cookie", &cookie)], "tools/list", json!({})).await.status, 401);
    }
}
