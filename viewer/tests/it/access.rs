//! Access control, and the security headers of responses.

use std::time::Duration;

use axum::Router;
use axum::http::Method;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use viewer::access::{ViewerAccess, ViewerPassword};

use crate::fixture::{ViewerFixture, send_request};

#[tokio::test]
async fn every_response_forbids_other_content_and_scripts() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "text").await;
    for path in [
        "/",
        "/c/T1/C1",
        "/t/T1/C1/1700001000.000000",
        "/search?q=text",
        "/nowhere",
        "/c/T1/C9",
        "/favicon.ico",
    ] {
        let answer = fixture.get(path).await;
        assert_eq!(
            answer.header("content-security-policy"),
            "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; \
             base-uri 'none'; frame-ancestors 'none'",
            "{path}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert!(!answer.body.contains("style=") && !answer.body.contains("<style"), "{path}");
        if path == "/favicon.ico" {
            continue;
        }
        assert!(!answer.body.contains("=\"http"), "{path} names an address elsewhere: {}", answer.body);
    }
}

#[tokio::test]
async fn assets_are_cached_by_browsers() {
    let fixture = ViewerFixture::open();
    let page = fixture.page("/").await;
    let names = page.split("/static/").skip(1).map(|rest| rest.split('"').next().unwrap());
    let mut types = Vec::new();
    for name in names {
        let answer = fixture.get(&format!("/static/{name}")).await;
        assert_eq!(answer.status, 200, "{name}");
        assert!(answer.header("cache-control").contains("immutable"));
        types.push(answer.header("content-type").to_owned());
    }
    assert_eq!(types, ["text/css; charset=utf-8", "image/svg+xml", "text/javascript; charset=utf-8"]);
}

#[tokio::test]
async fn pages_accept_only_reads() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "text").await;
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        for path in ["/", "/c/T1/C1", "/search", "/files"] {
            let answer =
                send_request(fixture.router(), method.clone(), path, &[("host", "localhost")], "").await;
            assert_eq!(answer.status, 405, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_request_with_another_host_name_is_refused() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "text").await;
    for path in ["/", "/c/T1/C1", "/files/T1/F1", "/pictures/T1/ab", "/login", "/static/x"] {
        let answer = send_request(fixture.router(), Method::GET, path, &[("host", "evil.example")], "").await;
        assert_eq!(answer.status, 421, "{path}");
        assert!(!answer.body.contains("general"));
    }
}

#[tokio::test]
async fn a_log_in_with_the_password_redirects_to_the_requested_page() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "text").await;
    let readers = ViewerAccess::Password(ViewerPassword::new("correct horse").unwrap());
    let router = fixture.router_for(readers);
    let host = ("host", "localhost");
    let refused =
        send_request(router.clone(), Method::GET, "/c/T1/C1?around=1700001000.000000", &[host], "").await;
    assert_eq!(
        (refused.status.as_u16(), refused.header("location")),
        (303, "/login?next=/c/T1/C1?around=1700001000.000000")
    );
    let form = send_request(router.clone(), Method::GET, refused.header("location"), &[host], "").await;
    assert_eq!(form.body.matches("type=\"password\"").count(), 1);
    assert!(form.body.contains("name=\"next\" value=\"/c/T1/C1?around=1700001000.000000\""), "{}", form.body);

    let form_type = ("content-type", "application/x-www-form-urlencoded");
    let wrong =
        send_request(router.clone(), Method::POST, "/login", &[host, form_type], "password=wrong&next=/")
            .await;
    assert!(wrong.status == 403 && wrong.header("set-cookie").is_empty());
    let body = "password=correct+horse&next=%2Fc%2FT1%2FC1";
    let right = send_request(router.clone(), Method::POST, "/login", &[host, form_type], body).await;
    assert_eq!((right.status.as_u16(), right.header("location")), (303, "/c/T1/C1"));
    let cookie = right.header("set-cookie");
    assert!(
        cookie.starts_with("annalist=")
            && cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=31536000"),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap();
    let page = send_request(router.clone(), Method::GET, "/c/T1/C1", &[host, ("cookie", cookie)], "").await;
    assert!(page.status == 200 && page.body.contains("data-ts=\"1700001000.000000\""));
    let file = send_request(router, Method::GET, "/files/T1/F1", &[host], "").await;
    assert_eq!(file.status, 303, "files need the password too");
}

/// Sends a log-in, and returns its status and how long it took.
async fn log_in(router: Router, password: &str) -> (u16, Duration) {
    let started = Instant::now();
    let headers = [("host", "localhost"), ("content-type", "application/x-www-form-urlencoded")];
    let body = format!("password={password}&next=/");
    let answer = send_request(router, Method::POST, "/login", &headers, &body).await;
    (answer.status.as_u16(), started.elapsed())
}

/// Uses virtual time.
#[tokio::test(start_paused = true)]
async fn only_a_wrong_password_waits_however_many_there_are() {
    let fixture = ViewerFixture::open();
    let router = fixture.router_for(ViewerAccess::Password(ViewerPassword::new("correct").unwrap()));
    assert_eq!(log_in(router.clone(), "correct").await, (303, Duration::ZERO));
    // As many as there are connections.
    let wrong: Vec<_> = (0..127)
        .map(|number| tokio::spawn(log_in(router.clone(), ["wrong", "correct0", ""][number % 3])))
        .collect();
    tokio::task::yield_now().await;
    let (status, waited) = log_in(router.clone(), "correct").await;
    assert!(status == 303 && waited < Duration::from_secs(7), "{status} {waited:?}");
    for (number, guess) in wrong.into_iter().enumerate() {
        let (status, waited) = guess.await.unwrap();
        assert!(status == 403 && waited >= Duration::from_secs(1), "{number}: {status} {waited:?}");
    }
}

/// Uses virtual time.
#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_tries_no_more_passwords() {
    let fixture = ViewerFixture::open();
    let router = fixture.router_for(ViewerAccess::Password(ViewerPassword::new("correct").unwrap()));
    let started = Instant::now();
    let mut tried = 0;
    // The right password would be answered at once, so a client need not wait for the answer to a wrong one.
    while started.elapsed() < Duration::from_secs(10) {
        let guesses: Vec<_> = (0..8).map(|_| tokio::spawn(log_in(router.clone(), "wrong"))).collect();
        tokio::time::sleep(Duration::from_millis(10)).await;
        guesses.iter().for_each(|guess| guess.abort());
        tried += 8;
    }
    assert!(tried > 1_000);
    let guesses: Vec<_> = (0..8).map(|_| tokio::spawn(log_in(router.clone(), "wrong"))).collect();
    tokio::task::yield_now().await;
    let (status, waited) = log_in(router, "correct").await;
    assert!(status == 303 && waited >= Duration::from_millis(8 * 50), "{status} {waited:?}");
    assert_eq!(guesses.len(), 8);
}

/// Uses virtual time.
#[tokio::test(start_paused = true)]
async fn a_wrong_cookie_costs_as_much_as_a_wrong_password_and_is_deleted() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "text").await;
    let router = fixture.router_for(ViewerAccess::Password(ViewerPassword::new("correct horse").unwrap()));
    // The first two are hashes of the password alone: of itself, and as earlier versions made their cookie.
    for cookie in [
        "annalist=4104d36f8da2c254349f85836793ebe029e0c957063a34c91c2e9203187b5631",
        "annalist=871c0b60434049302c15b8d460d08e317bf43601a66709266a5ce7e86f6bd0c7",
        "annalist=",
        "annalist=x; annalist=y",
    ] {
        for (path, is_open) in
            [("/c/T1/C1", false), ("/files/T1/F1", false), ("/login", true), ("/favicon.ico", true)]
        {
            let started = Instant::now();
            let headers = [("host", "localhost"), ("cookie", cookie)];
            let answer = send_request(router.clone(), Method::GET, path, &headers, "").await;
            let waited = started.elapsed();
            if is_open {
                assert_eq!((answer.status.as_u16(), waited), (200, Duration::ZERO), "{path}");
                continue;
            }
            assert!(answer.status == 303 && waited >= Duration::from_secs(1), "{path}: {waited:?}");
            assert!(answer.header("location").starts_with("/login?next="));
            assert_eq!(answer.header("set-cookie"), "annalist=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
        }
    }
}

/// Uses virtual time.
#[tokio::test(start_paused = true)]
async fn the_connection_of_an_incomplete_log_in_is_closed() {
    let fixture = ViewerFixture::open();
    let router = fixture.router_for(ViewerAccess::Password(ViewerPassword::new("correct horse").unwrap()));
    let form_type = ("content-type", "application/x-www-form-urlencoded");
    let long = format!("password={}", "x".repeat(9_000));
    let answer =
        send_request(router.clone(), Method::POST, "/login", &[("host", "localhost"), form_type], &long)
            .await;
    assert_eq!(answer.status, 413, "{}", answer.body);

    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let service = TowerToHyperService::new(router);
    tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(server), service));
    let head = "POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n\
        content-length: 100\r\n\r\npassword=";
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // Reading to the end only succeeds if the server closes the connection.
    timeout(Duration::from_secs(11), client.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("connection: close\r\n"), "{answer}");
}
