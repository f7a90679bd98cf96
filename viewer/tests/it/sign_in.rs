//! The sign-in with a provider: who gets a session, and when it ends.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use ports::archive::ArchiveExt;
use ports::reread::Reread;
use rules::sign_out;
use serde_json::json;
use slack::ids::{TeamId, Ts, UserId};
use tokio::time;
use viewer::access::people::PeopleTable;
use wiremock::ResponseTemplate;

use crate::fixture::send_request;
use crate::provider::{
    HOST, NOW_S, Provider, SECRET, Started, ana, assert_harmless, cookies, get, is_in, session, slack,
};

#[tokio::test]
async fn a_member_signs_in_and_gets_the_page_that_they_asked_for() {
    let mut provider = Provider::open().await;
    let router = provider.router();
    let refused = get(&router, "/c/T1/C1?around=1700001000.000000", &[]).await;
    assert_eq!(
        (refused.status.as_u16(), refused.header("location")),
        (303, "/login?next=/c/T1/C1?around=1700001000.000000")
    );
    let page = get(&router, refused.header("location"), &[]).await;
    assert!(
        page.body.contains("href=\"/login/start?next=/c/T1/C1?around=1700001000.000000\""),
        "{}",
        page.body
    );
    assert!(!page.body.contains("<form"), "{}", page.body);

    let answer = provider.sign_in(&router, &ana(), "/c/T1/C1?around=1700001000.000000").await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("location")),
        (303, "/c/T1/C1?around=1700001000.000000")
    );
    let set = cookies(&answer).into_iter().find(|cookie| cookie.starts_with("annalist_session=")).unwrap();
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=86400"), "{set}");
    let cookie = session(&answer).unwrap();
    assert!(is_in(&router, &cookie).await && is_in(&provider.router(), &cookie).await);
    let page = get(&router, "/c/T1/C1", &[("cookie", &cookie)]).await;
    assert!(
        page.body
            .contains("<form class=\"signed-in\" action=\"/logout\" method=\"post\"><a href=\"/u/T1/U1\">"),
        "{}",
        page.body
    );

    let out = send_request(router.clone(), Method::POST, "/logout", &[HOST, ("cookie", &cookie)], "").await;
    assert_eq!((out.status.as_u16(), out.header("location")), (303, "/login"));
    assert!(
        out.header("set-cookie").starts_with("annalist_session=; ")
            && out.header("set-cookie").contains("Max-Age=0")
    );
    let other_site = [HOST, ("cookie", &*cookie), ("sec-fetch-site", "cross-site")];
    assert_eq!(send_request(router, Method::POST, "/logout", &other_site, "").await.status, 403);

    provider.redirect_uri = "https://archive.example/login/callback".to_owned();
    let encrypted = provider.sign_in(&provider.router(), &ana(), "//evil.example").await;
    assert_eq!(encrypted.header("location"), "/");
    assert!(cookies(&encrypted).iter().all(|cookie| cookie.ends_with("; Secure")));
    assert!(session(&encrypted).unwrap().starts_with("__Host-annalist_session="));
}

#[tokio::test]
async fn a_return_that_does_not_belong_to_the_sign_in_makes_no_session() {
    let provider = Provider::open().await;
    let router = provider.router();
    let started = Started::at(&router, "/").await;
    let other = Started::at(&router, "/").await;
    provider.names(&ana(), &started.nonce).await;
    let good = format!("code=c-1&state={}", started.state);
    let forged = Started { cookie: format!("{}A", started.cookie), ..Started::at(&router, "/").await };
    for (started, query) in [
        (&other, good.clone()),
        (&forged, good.clone()),
        (&Started { cookie: String::new(), ..Started::at(&router, "/").await }, good.clone()),
        (
            &Started { cookie: format!("{0}; {0}", started.cookie), ..Started::at(&router, "/").await },
            good.clone(),
        ),
        (&started, "code=c-1".to_owned()),
        (&started, "code=c-1&state=".to_owned()),
        (&started, format!("code=c-1&state={0}&state={0}", started.state)),
        (&started, "error=access_denied".to_owned()),
    ] {
        let answer = started.come_back(&router, &query).await;
        assert_eq!((answer.status.as_u16(), session(&answer)), (400, None), "{query}");
        assert!(answer.body.contains("Start again"), "{}", answer.body);
        assert_harmless(&answer);
    }
    let asked = || async {
        let requests = provider.server.received_requests().await.unwrap();
        requests.iter().filter(|request| request.url.path() == "/token").count()
    };
    assert_eq!(asked().await, 0, "no code was spent");
    assert!(session(&started.come_back(&router, &good).await).is_some());
    let again = started.come_back(&router, &good).await;
    assert_eq!((again.status.as_u16(), session(&again)), (400, None), "it was repeated");

    // A token in the address is never looked at.
    let started = Started::at(&router, "/").await;
    let answer = started.come_back(&router, &format!("id_token=e30.e30.a&state={}", started.state)).await;
    assert_eq!((answer.status.as_u16(), session(&answer)), (400, None));
    for (error, text) in [
        ("access_denied", "cancelled"),
        ("temporarily_unavailable", "Try again later"),
        ("%3Cb%3Ehidden", "was refused"),
    ] {
        let started = Started::at(&router, "/").await;
        let query = format!("error={error}&error_description=hidden&state={}", started.state);
        let answer = started.come_back(&router, &query).await;
        assert_eq!((answer.status.as_u16(), session(&answer)), (403, None));
        assert!(answer.body.contains(text), "{}", answer.body);
        assert_harmless(&answer);
    }
    let late = Started::at(&router, "/").await;
    provider.fixture.clock().advance(Duration::from_secs(600));
    let answer = late.come_back(&router, &format!("code=c-1&state={}", late.state)).await;
    assert_eq!((answer.status.as_u16(), session(&answer)), (400, None), "it came too late");
}

#[tokio::test]
async fn a_provider_that_refuses_fails_or_names_another_client_makes_no_session() {
    let provider = Provider::open().await;
    let router = provider.router();
    let status = ResponseTemplate::new;
    for (answer, expected) in [
        (status(400).set_body_json(json!({ "error": "invalid_grant" })), 400),
        (status(200).set_body_json(json!({ "ok": false, "error": "hidden" })), 400),
        (status(500).set_body_string("hidden"), 503),
        (status(302).insert_header("location", "https://evil.example"), 503),
        (status(200).set_body_string("hidden"), 503),
    ] {
        let started = Started::at(&router, "/").await;
        provider.answers(answer).await;
        let answer = started.come_back(&router, &format!("code=c-1&state={}", started.state)).await;
        assert_eq!((answer.status.as_u16(), session(&answer)), (expected, None));
        assert_harmless(&answer);
    }
    for wrong in [
        json!({ "iss": "https://evil.example" }),
        json!({ "aud": "9" }),
        json!({ "nonce": "another" }),
        json!({ "exp": NOW_S - 3_600 }),
        json!({ "iat": NOW_S - 3_600 }),
        json!({ "sub": "" }),
    ] {
        let mut claims = ana();
        claims.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let answer = provider.sign_in(&router, &claims, "/").await;
        assert_eq!((answer.status.as_u16(), session(&answer)), (403, None), "{wrong}");
    }
    provider.server.reset().await;
    let down = get(&provider.router(), "/login/start", &[]).await;
    assert_eq!((down.status.as_u16(), session(&down)), (503, None));
}

#[tokio::test]
async fn only_members_of_a_kept_workspace_are_admitted() {
    let mut provider = Provider::open().await;
    for (claims, guests, expected) in [
        (ana(), false, "/"),
        (slack("T9", "U1"), false, "does not keep your workspace"),
        (slack("T1", "U9"), false, "Try again in an hour"),
        (slack("T1", "U2"), false, "Guests may not"),
        (slack("T1", "U2"), true, "/"),
        (slack("T1", "U3"), true, "This account may not"),
        (slack("T1", "U4"), true, "This account may not"),
        (slack("T1", "U5"), true, "This account may not"),
        (slack("t1", "U1"), true, "This account may not"),
        (
            json!({ "https://slack.com/user_id": "U1", "email": "ana@example.org" }),
            true,
            "not among the people",
        ),
        (json!({}), true, "not among the people"),
    ] {
        provider.people.are_guests_admitted = guests;
        let router = provider.router();
        let answer = provider.sign_in(&router, &claims, "/").await;
        if expected == "/" {
            assert_eq!((answer.status.as_u16(), answer.header("location")), (303, "/"), "{claims}");
            assert!(is_in(&router, &session(&answer).unwrap()).await);
        } else {
            assert_eq!((answer.status.as_u16(), session(&answer)), (403, None), "{claims}");
            assert!(answer.body.contains(expected), "{claims}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn another_provider_admits_listed_people_and_those_with_a_required_claim() {
    let mut provider = Provider::open().await;
    let table = r#"{"ana@example.org": "U1", "bo@example.org": "T1/U4"}"#;
    provider.people.table = Some(Arc::new(Reread::fixed(PeopleTable::parse(table).unwrap())));
    provider.required = vec![("hd".to_owned(), "example.org".to_owned())];
    let router = provider.router();
    for (claims, expected) in [
        (json!({ "email": "ana@example.org" }), 303),
        (json!({ "email": "ana@example.org", "email_verified": false }), 403),
        (json!({ "email": "bo@example.org" }), 403),
        (json!({ "email": "cy@example.org" }), 403),
        (json!({ "email": "cy@example.org", "hd": "example.org" }), 303),
        (json!({ "hd": ["example.org"] }), 303),
        (json!({ "hd": "other.example" }), 403),
    ] {
        let answer = provider.sign_in(&router, &claims, "/").await;
        assert_eq!(answer.status.as_u16(), expected, "{claims}: {}", answer.body);
        if let Some(cookie) = session(&answer) {
            assert!(is_in(&router, &cookie).await, "{claims}");
        }
    }
    // The file names someone else today.
    let cookie =
        session(&provider.sign_in(&router, &json!({ "email": "ana@example.org" }), "/").await).unwrap();
    provider.people.table = Some(Arc::new(Reread::fixed(PeopleTable::default())));
    assert!(is_in(&router, &cookie).await && !is_in(&provider.router(), &cookie).await);
}

#[tokio::test]
async fn a_session_ends_with_the_person_a_sign_out_a_new_secret_and_the_day() {
    let mut provider = Provider::open().await;
    let router = provider.router();
    let cookie = session(&provider.sign_in(&router, &ana(), "/").await).unwrap();
    assert!(is_in(&router, &cookie).await);
    let pause = async |duration: Duration| {
        time::pause();
        time::advance(duration).await;
        time::resume();
    };
    for place in [cookie.len() - 1, cookie.len() - 60, cookie.find('=').unwrap() + 5] {
        let mut changed = cookie.clone().into_bytes();
        changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
        assert!(!is_in(&router, &String::from_utf8(changed).unwrap()).await, "{place}");
    }
    provider.client_secret = "another".to_owned();
    assert!(!is_in(&provider.router(), &cookie).await, "the secret of the client is another one");

    let (team, user) = (TeamId::parse("T1").unwrap(), UserId::parse("U1").unwrap());
    let now = Ts::parse(&format!("{NOW_S}.000000")).unwrap();
    provider.fixture.archive().write(&sign_out::update(Some((&team, &user)), &now)).await.unwrap();
    assert!(is_in(&router, &cookie).await, "the rows were just read");
    pause(Duration::from_secs(60)).await;
    assert!(!is_in(&router, &cookie).await);

    provider.client_secret = SECRET.to_owned();
    let router = provider.router();
    provider.fixture.clock().advance(Duration::from_secs(1));
    let cookie = session(&provider.sign_in(&router, &ana(), "/").await).unwrap();
    assert!(is_in(&router, &cookie).await, "they signed in again");
    provider.fixture.account("U1", "1700000009.000000", json!({ "deleted": true })).await;
    pause(Duration::from_secs(60)).await;
    assert!(!is_in(&router, &cookie).await, "they have left");

    provider.fixture.account("U1", "1700000010.000000", json!({})).await;
    pause(Duration::from_secs(60)).await;
    assert!(is_in(&router, &cookie).await, "they are back");
    provider.fixture.clock().advance(Duration::from_secs(3_601));
    let renewed = get(&router, "/c/T1/C1", &[("cookie", &cookie)]).await;
    let renewed = session(&renewed).unwrap();
    provider.fixture.clock().advance(Duration::from_secs(24 * 3_600 - 3_601));
    assert!(!is_in(&router, &cookie).await && is_in(&router, &renewed).await);
}
