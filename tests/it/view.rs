//! `annalist view` and `annalist up --viewer-listen`: real processes that serve pages.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::corpus::{TEAM, event};
use tests::harness::client::deliver;
use tests::harness::command::{annalist, wait_until_idle};
use tests::harness::process;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::timeout;

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
    assert!(!view.process.log().contains("\"access\""), "nobody asked who reads what");
    view.process.stop().await;
    server.process.stop().await;
}

#[tokio::test]
async fn an_access_log_says_who_read_what_and_open_pages_do_not_delay_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let server = process::up(folder.path()).await;
    let posted = event::posted(CHANNEL, &event::message("1700000000.000100", "U01", "hello there"));
    deliver(server.address, TEAM, &[posted]).await;
    wait_until_idle(folder.path(), DEADLINE).await;
    server.process.stop().await;

    let view = process::view(folder.path(), &["--access-log"]).await;
    let messages = format!("/api/v1/messages?channel={CHANNEL}&team={TEAM}");
    let read = get(view.address, &messages, "localhost").await;
    let data = folder.path().to_str().unwrap();
    let printed = annalist(&["messages", CHANNEL, "--json", "--data", data]).await.stdout;
    assert!(read.ends_with(&format!("\r\n\r\n{printed}")) && printed.contains("hello there"), "{read}");
    assert!(get(view.address, "/search?q=hello+there", "localhost").await.starts_with("HTTP/1.1 200"));
    let mut open = TcpStream::connect(view.address).await.unwrap();
    let request = format!("GET /c/{TEAM}/{CHANNEL}/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
    open.write_all(request.as_bytes()).await.unwrap();
    let mut sent = String::new();
    let mut part = [0; 4_096];
    while !sent.contains("hello there") {
        let length = open.read(&mut part).await.unwrap();
        assert_ne!(length, 0, "{sent}");
        sent += &String::from_utf8_lossy(&part[..length]);
    }
    let logged = async {
        while view.process.log().matches("\"access\"").count() < 3 {
            yield_now().await
        }
    };
    timeout(DEADLINE, logged).await.unwrap();
    let log = view.process.log();
    view.process.stop().await;
    assert!(open.read_to_string(&mut sent).await.is_ok(), "{sent}");
    let lines = log.lines().filter(|line| line.contains("\"target\":\"access\""));
    let routes: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(routes.len(), 3, "{log}");
    let first = ["reader", "via", "route", "team", "channel", "status"].map(|name| routes[0][name].clone());
    let expected = serde_json::json!(["operator", "open", "/api/v1/messages", TEAM, CHANNEL, 200]);
    assert_eq!(serde_json::json!(first), expected);
    assert!(routes[1]["route"] == "/search" && !log.contains("hello"), "{log}");
    assert_eq!(routes[2]["route"], "/c/{team}/{channel}/live");
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
