//! Tokens of programs, and people whom a proxy names.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, Method};
use ports::archive::ArchiveExt;
use ports::reread::Reread;
use rules::reader_token::{PresentedToken, ReaderToken};
use serde_json::json;
use slack::ids::{TeamId, Ts, UserId};
use tokio::time;
use viewer::access::people::{PeopleSettings, PeopleTable};
use viewer::access::{ViewerAccess, ViewerPassword};

use crate::fixture::{NOW_MS, ServedAnswer, ViewerFixture, send_request};

const HOST: (&str, &str) = ("host", "localhost");

async fn get(router: &Router, path: &str, headers: &[(&str, &str)]) -> ServedAnswer {
    let headers: Vec<(&str, &str)> = headers.iter().copied().chain([HOST]).collect();
    send_request(router.clone(), Method::GET, path, &headers, "").await
}

/// Stores a token, and returns the header with it.
async fn token(fixture: &ViewerFixture, id: &str, expires_s: Option<i64>, user: Option<&str>) -> String {
    let text = format!("annalist_{id}_{}", "A".repeat(43));
    let ts = |second: i64| Ts::parse(&format!("{second}.000000")).unwrap();
    let person = user.map(|user| (TeamId::parse("T1").unwrap(), UserId::parse(user).unwrap()));
    let presented = PresentedToken::parse(&text).unwrap();
    let token = ReaderToken::new(&presented, "ci", ts(NOW_MS / 1_000), expires_s.map(ts), person);
    fixture.archive().write(&token.creation()).await.unwrap();
    format!("Bearer {text}")
}

#[tokio::test]
async fn a_token_reads_until_it_is_revoked_expires_or_its_person_leaves() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "text").await;
    fixture.account("U1", "1700000000.000000", json!({})).await;
    fixture.account("U2", "1700000000.000000", json!({ "is_restricted": true })).await;
    let guarded = fixture.router_for(ViewerAccess::Password(ViewerPassword::new("word").unwrap()));
    let open = fixture.router();
    let status = async |router: &Router, token: &str| {
        let answer = get(router, "/c/T1/C1", &[("authorization", token)]).await;
        if answer.status == 401 {
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
        answer.status.as_u16()
    };
    let pause = async |duration: Duration| {
        time::pause();
        time::advance(duration).await;
        time::resume();
    };
    let (anyone, ana) = (
        token(&fixture, "00000000000a", None, None).await,
        token(&fixture, "00000000000b", None, Some("U1")).await,
    );
    let guest = token(&fixture, "00000000000c", None, Some("U2")).await;
    let unknown = anyone.replace("00000000000a", "00000000000d");
    for router in [&guarded, &open] {
        assert_eq!([status(router, &anyone).await, status(router, &ana).await], [200, 200]);
        for refused in
            [&guest, &unknown, &anyone.replace('A', "B"), "Bearer annalist_", &format!("{anyone}A")]
        {
            assert_eq!(status(router, refused).await, 401, "{refused}");
        }
    }
    let asset = get(&open, "/static/none", &[("authorization", &unknown)]).await;
    assert_eq!(asset.status, 401, "it never falls back to another identity");
    let twice = get(&open, "/", &[("authorization", &anyone), ("authorization", &anyone)]).await;
    assert_eq!(twice.status, 401);
    assert_eq!([status(&guarded, "Basic YTpi").await, status(&open, "Basic YTpi").await], [303, 200]);

    fixture.archive().write(&ReaderToken::revocation("00000000000a")).await.unwrap();
    assert_eq!(status(&open, &anyone).await, 200, "its row was just read");
    pause(Duration::from_secs(10)).await;
    assert_eq!(status(&open, &anyone).await, 401);

    fixture.account("U1", "1700000009.000000", json!({ "deleted": true })).await;
    pause(Duration::from_secs(60)).await;
    assert_eq!(status(&open, &ana).await, 401);

    let short = token(&fixture, "00000000000e", Some(NOW_MS / 1_000 + 60), None).await;
    assert_eq!(status(&open, &short).await, 200, "a new one is valid at once");
    fixture.clock().advance(Duration::from_secs(60));
    assert_eq!(status(&open, &short).await, 401);
}

#[tokio::test]
async fn a_proxy_names_people_who_may_read() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "text").await;
    fixture.account("U1", "1700000000.000000", json!({})).await;
    fixture.account("U2", "1700000000.000000", json!({ "deleted": true })).await;
    let table = PeopleTable::parse(r#"{"ana": "U1", "bo": "U2", "cy": "T9/U1", "di": "U9"}"#).unwrap();
    let people = PeopleSettings { table: Some(Arc::new(Reread::fixed(table))), ..PeopleSettings::default() };
    let header = ViewerAccess::Header(HeaderName::from_static("x-user"));
    let router = fixture.router_admitting(header, people, fixture.changes());
    for (names, expected) in [
        (&["ana"][..], 200),
        (&["someone"], 200),
        (&["bo"], 403),
        (&["cy"], 403),
        (&["di"], 403),
        (&["ana", "ana"], 403),
        (&[], 403),
    ] {
        let headers: Vec<(&str, &str)> = names.iter().map(|name| ("x-user", *name)).collect();
        let answer = get(&router, "/c/T1/C1", &headers).await;
        assert_eq!(answer.status.as_u16(), expected, "{names:?}: {}", answer.body);
    }
}
