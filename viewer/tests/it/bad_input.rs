//! Missing items and invalid requests are reported, and nothing fails.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::fixture::{ViewerFixture, timestamps};

#[tokio::test]
async fn missing_items_and_invalid_requests_have_an_error_page() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "text").await;
    for (path, status) in [
        ("/c/T1/C9", 404),
        ("/c/T9/C1", 404),
        ("/c/t1/c1", 404),
        ("/c/T1/..", 404),
        ("/c/T1/%2e%2e%2fC1", 404),
        ("/../../etc/passwd", 404),
        ("/static/../../Cargo.toml", 404),
        ("/t/T1/C1/1700001001.000000", 404),
        ("/t/T1/C1/now", 400),
        ("/r/T1/C1/1700001001.000000", 404),
        ("/archives/C9/p1700001000000000", 404),
        ("/archives/C1/p9999999999000000", 404),
        ("/archives/C1/x", 400),
        ("/https://other.slack.com/archives/C99/p1700001000000000", 404),
        ("/https://evil.example/archives/C1/p1700001000000000", 404),
        ("/c/T1/C1?before=yesterday", 400),
        ("/c/T1/C1?after=-1", 400),
        ("/c/T1/C1?around=%00", 400),
        ("/c/T1/C1?day=2026-02-30", 400),
        ("/c/T1/C1?day=", 400),
        ("/stats?week=soon", 400),
        ("/stats?month=soon", 400),
        ("/stats?month=2026-13", 400),
        ("/stats?week=2026-W46&month=2026-11", 400),
        ("/stats?team=T9", 404),
        ("/search?page=many", 400),
        ("/search?q=a&q=b", 400),
        ("/c/T1/%ff", 400),
        ("/c/T1/C9/info", 404),
        ("/c/T9/C1/threads", 404),
        ("/c/T1/C1/threads?before=now", 400),
        ("/u/T1/U9", 404),
        ("/u/T1/%3Cb%3E", 404),
        ("/files?type=x", 400),
        ("/files?state=x", 400),
        ("/files?page=-1", 400),
    ] {
        let answer = fixture.get(path).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.body);
        assert!(answer.body.contains("<h1>"), "{path}: {}", answer.body);
        assert!(!answer.body.contains("data-ts"), "{path}");
    }
}

#[tokio::test]
async fn arbitrary_cursors_show_existing_messages() {
    let fixture = ViewerFixture::open();
    fixture.post("C1", "1700001000.000000", "text").await;
    for (path, expected) in [
        ("/c/T1/C1?before=999999999999.999999", 1),
        ("/c/T1/C1?before=0.000000", 0),
        ("/c/T1/C1?after=1700000000.000001", 1),
        ("/c/T1/C1?after=999999999999.999999", 0),
        ("/c/T1/C1?around=1700000500.000000", 1),
        ("/c/T1/C1?day=9999-12-31", 0),
        ("/c/T1/C1?day=0001-01-01", 1),
        ("/search?q=text&page=99999999", 0),
        ("/files?team=T1&after=%F0", 0),
        ("/files?page=18446744073709551615", 0),
        ("/c/T1/C1/threads?before=999999999999.999999", 0),
        ("/t/T1/C1/1700001000.000000?after=999999999999.999999", 2),
    ] {
        assert_eq!(timestamps(&fixture.page(path).await).len(), expected, "{path}");
    }
}

#[tokio::test]
async fn a_thousand_concurrent_requests_are_all_answered() {
    let fixture = ViewerFixture::open();
    for n in 0..60 {
        fixture.post("C1", &format!("{}.000000", 1_700_001_000 + n), "text").await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(viewer::serve(listener, fixture.router(), async { drop(stopped.await) }));
    // About twice the maximum number of connections. Each sends its requests before it reads the first
    // response.
    let mut connections = JoinSet::new();
    for _ in 0..250 {
        connections.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            for (path, connection) in [
                ("/c/T1/C1", "keep-alive"),
                ("/", "keep-alive"),
                ("/search?q=text", "keep-alive"),
                ("/t/T1/C1/1700001000.000000", "close"),
            ] {
                let request =
                    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: {connection}\r\n\r\n");
                stream.write_all(request.as_bytes()).await.unwrap();
            }
            let mut answers = String::new();
            stream.read_to_string(&mut answers).await.unwrap();
            answers.matches("HTTP/1.1 200 OK").count()
        });
    }
    let answered = connections.join_all().await;
    assert_eq!(answered, [4; 250]);
    stop.send(()).unwrap();
    serving.await.unwrap();
}

#[tokio::test]
async fn slow_clients_delay_neither_other_clients_nor_a_shutdown() {
    let fixture = ViewerFixture::open();
    let file = json!({ "id": "F1", "name": "large.bin", "mode": "hosted" });
    fixture.share("C1", "1700001000.000000", file, &vec![7; 4_000_000]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let serving = tokio::spawn(viewer::serve(listener, fixture.router(), shutdown));
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /files/T1/F1 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        // The response has started; the rest of it is never read.
        assert_eq!(stream.read_u8().await.unwrap(), b'H');
        slow.push(stream);
    }
    let mut quick = TcpStream::connect(address).await.unwrap();
    quick.write_all(b"GET /c/T1/C1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    quick.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("large.bin"), "{answer}");
    stop.send(()).unwrap();
    serving.await.unwrap();
}
