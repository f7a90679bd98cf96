//! `annalist view` and `annalist up --viewer-listen`: real processes that serve pages.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::corpus::{TEAM, event};
use tests::harness::client::deliver;
use tests::harness::command::{annalist, wait_until_idle};
use tests::harness::process;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const DEADLINE: Duration = Duration::from_secs(30);
const CHANNEL: &str = "C0GENERAL";

/// The raw response: head and body.
pub(crate) async fn get(address: SocketAddr, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn pages_show_delivered_messages_on_their_own_port_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = process::up_with(folder.path(), &["--viewer-listen", "127.0.0.1:0"]).await;
    let posted = event::posted(CHANNEL, &event::message("1700000000.000100", "U01", "hello there"));
    deliver(server.address, TEAM, &[posted]).await;
    wait_until_idle(folder.path(), DEADLINE).await;

    let pages = server.process.logged_address("pages listening").await;
    let link = get(pages, &format!("/archives/{CHANNEL}/p1700000000000100"), "localhost").await;
    let to = format!("/c/{TEAM}/{CHANNEL}?around=1700000000.000100#m1700000000.000100");
    assert!(link.starts_with("HTTP/1.1 303") && link.contains(&format!("location: {to}\r\n")), "{link}");
    let page = get(pages, &format!("/c/{TEAM}/{CHANNEL}"), "localhost").await;
    assert!(page.contains("data-ts=\"1700000000.000100\"") && page.contains("hello there"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(get(pages, "/", "evil.example").await.starts_with("HTTP/1.1 421"));
    let there = get(server.address, &format!("/c/{TEAM}/{CHANNEL}"), "localhost").await;
    assert!(there.starts_with("HTTP/1.1 404"), "{there}");

    let view = process::view(folder.path(), &[]).await;
    let same = get(view.address, &format!("/c/{TEAM}/{CHANNEL}"), "localhost").await;
    assert!(same.contains("hello there"), "{same}");
    view.process.stop().await;
    server.process.stop().await;
}

#[tokio::test]
async fn a_password_of_its_own_is_made_once_and_not_logged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("viewer-password");
    let flags = ["--viewer-listen", "127.0.0.1:0", "--viewer-password-file", "auto"];
    let mut made = Vec::new();
    for _ in 0..2 {
        let server = process::up_with(folder.path(), &flags).await;
        let pages = server.process.logged_address("pages listening").await;
        let page = get(pages, "/", "localhost").await;
        assert!(!page.starts_with("HTTP/1.1 200"), "{page}");
        let password = std::fs::read_to_string(&file).unwrap();
        let log = server.process.log();
        assert!(password.trim().len() == 26 && !log.contains(password.trim()), "{log}");
        assert_eq!(log.contains(file.to_str().unwrap()), made.is_empty(), "{log}");
        made.push(password);
        server.process.stop().await;
    }
    assert_eq!(made[0], made[1]);
    let on_aws = ["view", "--backend", "aws", "--viewer-password-file", "auto"];
    let outcome = annalist(&on_aws).await;
    assert!(outcome.code == Some(2) && outcome.stderr.contains("name a file"), "{outcome:?}");
}

#[tokio::test]
async fn a_listener_for_other_machines_needs_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    for (arguments, expected) in [
        (&["view", "--viewer-listen", "0.0.0.0:0"][..], "--viewer-password-file"),
        (&["view", "--viewer-listen", "[::]:0"], "--viewer-password-file"),
        (&["view", "--viewer-password-file", "/nowhere/password"], "/nowhere/password"),
        (&["view", "--viewer-user-header", "a b"], "X-Forwarded-User"),
        (&["view", "--tz", "Nowhere"], "Europe/Berlin"),
        (&["view", "--viewer-user-header", "x", "--viewer-password-file", "y"], "cannot be used with"),
        (&["up", "--viewer-listen", "0.0.0.0:0"], "--viewer-password-file"),
    ] {
        let outcome = annalist(&[arguments, &["--data", data]].concat()).await;
        assert!(outcome.code == Some(2) && outcome.stderr.contains(expected), "{arguments:?}: {outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    }
    assert!(!folder.path().join("data").exists(), "nothing is created");
}
