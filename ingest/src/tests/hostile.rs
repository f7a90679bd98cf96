//! Requests that only hostile or broken clients send.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use ports::queue::job::MAX_EVENT_BYTES;

use super::*;

/// A body whose length is not known before it ends.
fn chunked(chunks: Vec<Bytes>) -> Body {
    let frames = chunks.into_iter().map(|chunk| Ok::<_, std::io::Error>(Frame::data(chunk)));
    Body::new(StreamBody::new(stream::iter(frames)))
}

fn signed_chunks(chunks: Vec<Bytes>) -> Request<Body> {
    let mut request = signed(chunks.concat());
    *request.body_mut() = chunked(chunks);
    request
}

#[tokio::test]
async fn an_unsigned_request_is_neither_parsed_nor_stored() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let challenge = r#"{"type":"url_verification","challenge":"c"}"#;
    for body in [MESSAGE, challenge, "{", "", "ssl_check=1"] {
        let forged = with_header(signed(body), SIGNATURE, format!("v0={}", "0".repeat(64)));
        let stale = with_header(signed(body), TIMESTAMP, (NOW_S - 301).to_string());
        for request in [unsigned(body), forged, stale] {
            let answer = fixture.send(request).await;
            assert_eq!(answer.verdict(), (401, false), "{body}");
            assert!(!answer.body.contains("v0="));
        }
    }
    assert!(fixture.queue.kept().is_empty());
}

#[tokio::test]
async fn a_signature_older_than_the_window_is_refused_even_if_it_matches() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for (sent_s, verdict) in
        [(NOW_S - 301, (401, false)), (NOW_S + 301, (401, false)), (NOW_S - 299, (200, false))]
    {
        let request = signed_with("current", sent_s, MESSAGE);
        assert_eq!(fixture.send(request).await.verdict(), verdict, "{sent_s}");
    }
}

#[tokio::test]
async fn hostile_headers_are_refused() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let values: [&[u8]; 7] =
        [b"", b"\xff\xfe", "é".as_bytes(), b"99999999999999999999", b"-1", b"v0=", &[b'9'; 8000]];
    for name in [TIMESTAMP, SIGNATURE] {
        for value in values {
            let request = with_header(signed(MESSAGE), name, value);
            assert_eq!(fixture.send(request).await.verdict(), (401, false), "{name}: {value:?}");
        }
        let mut request = signed(MESSAGE);
        request.headers_mut().remove(name);
        assert_eq!(fixture.send(request).await.verdict(), (401, false), "{name} is missing");
    }
    assert!(fixture.queue.kept().is_empty());
}

#[tokio::test]
async fn a_duplicate_signature_header_is_refused() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for name in [TIMESTAMP, SIGNATURE] {
        let mut request = signed(MESSAGE);
        let duplicate = request.headers()[name].clone();
        request.headers_mut().append(name, duplicate);
        assert_eq!(fixture.send(request).await.verdict(), (401, false), "{name}");
    }
}

#[tokio::test]
async fn hostile_retry_headers_do_not_stop_an_event() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let request = with_header(with_header(signed(MESSAGE), RETRY_NUM, b"\xff"), RETRY_REASON, b"\xff");
    assert_eq!(fixture.send(request).await.verdict(), (200, false));
}

#[tokio::test]
async fn signed_bodies_that_are_not_envelopes_are_malformed() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let bodies: [&[u8]; 9] = [
        b"",
        b" ",
        b"null",
        b"[]",
        b"{",
        b"{} {}",
        &MESSAGE.as_bytes()[..MESSAGE.len() - 1],
        b"{\"text\":\"\xff\"}",
        b"\xef\xbb\xbf{}",
    ];
    for body in bodies {
        assert_eq!(fixture.post(body).await.verdict(), (400, true), "{:?}", String::from_utf8_lossy(body));
    }
    assert!(fixture.queue.kept().is_empty());
}

#[tokio::test]
async fn an_unreadable_signed_object_is_stored_for_inspection() {
    for body in [
        r#"{"type":"event_callback","token":"verify-me","team_id":"T1","team_id":"T2","event":{"type":"message"}}"#,
        r#"{"type":"url_verification","type":"url_verification","challenge":"c","token":"verify-me"}"#,
        r#"{"token":"verify-me","token":"verify-me","event":{},"event":{}}"#,
        r#"{"\ud83d":1,"team_id":"T1","token":"verify-me"}"#,
    ] {
        let fixture = IngestFixture::new(Behaviour::Keep);
        assert_eq!(fixture.post(body).await.verdict(), (200, false), "{body}");
        // Slack's retry has the same deduplication id.
        assert_eq!(fixture.post(body).await.verdict(), (200, false), "{body}");
        let kept = fixture.queue.kept();
        assert_eq!(kept[0].group.as_str(), "invalid");
        assert!(!kept[0].body.contains("verify-me"), "{}", kept[0].body);
        assert!(kept.len() == 2 && kept[0].dedup == kept[1].dedup);
        let failing = IngestFixture::new(Behaviour::Fail);
        assert_eq!(failing.post(body).await.verdict(), (503, false), "{body}");
    }
}

#[tokio::test]
async fn deep_nesting_does_not_overflow_the_stack_and_is_stored() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let brackets = 900_000;
    for broken in [
        "[".repeat(brackets),
        format!("{{\"event\":{}", "[".repeat(brackets)),
        format!("{{\"x\":{}", "{\"x\":".repeat(brackets / 5)),
        format!("{{\"type\":{}", "[".repeat(brackets)),
    ] {
        assert_eq!(fixture.post(broken).await.verdict(), (400, true));
    }
    assert!(fixture.queue.kept().is_empty());
    let nested = format!("{}{}", "[".repeat(brackets / 2), "]".repeat(brackets / 2));
    let objects = format!("{}1{}", "{\"id\":".repeat(brackets / 7), "}".repeat(brackets / 7));
    for whole in [
        format!("{{\"team_id\":\"T1\",\"event\":{nested}}}"),
        format!("{{\"team_id\":\"T1\",\"unknown\":{nested}}}"),
        format!("{{\"team_id\":{nested}}}"),
        format!("{{\"team_id\":\"T1\",\"type\":{nested}}}"),
        format!("{{\"team_id\":\"T1\",\"event\":{{\"channel\":{objects}}}}}"),
        format!("{{\"team_id\":\"T1\",\"event\":{{\"item\":{objects}}}}}"),
        format!("{{\"team_id\":\"T1\",\"event\":{{\"user\":{nested}}}}}"),
    ] {
        assert_eq!(fixture.post(whole).await.verdict(), (200, false));
    }
    assert_eq!(fixture.queue.kept().len(), 7);
}

/// An event with exactly this size.
pub(super) fn event_of_size(bytes: usize) -> String {
    let text_at = MESSAGE.find("hi").unwrap();
    format!("{}{}{}", &MESSAGE[..text_at], "x".repeat(bytes - MESSAGE.len()), &MESSAGE[text_at..])
}

#[tokio::test]
async fn the_largest_event_is_stored_and_one_byte_more_is_refused() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    assert_eq!(fixture.post(event_of_size(MAX_EVENT_BYTES)).await.verdict(), (200, false));
    assert_eq!(fixture.post(event_of_size(MAX_EVENT_BYTES + 1)).await.verdict(), (413, true));
    assert_eq!(fixture.queue.kept().len(), 1);
}

#[tokio::test]
async fn the_size_is_limited_even_without_a_declared_length() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let chunks =
        |bytes: usize| event_of_size(bytes).into_bytes().chunks(4096).map(Bytes::copy_from_slice).collect();
    assert_eq!(fixture.send(signed_chunks(chunks(MAX_EVENT_BYTES))).await.verdict(), (200, false));
    assert_eq!(fixture.send(signed_chunks(chunks(MAX_EVENT_BYTES + 1))).await.verdict(), (413, true));
    let one_chunk = vec![Bytes::from(event_of_size(MAX_EVENT_BYTES + 1))];
    assert_eq!(fixture.send(signed_chunks(one_chunk)).await.verdict(), (413, true));
    assert_eq!(fixture.queue.kept().len(), 1);
}

#[tokio::test]
async fn an_endless_body_is_refused_at_the_limit() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let endless =
        stream::repeat_with(|| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(&[b'x'; 4096]))));
    let mut request = signed(MESSAGE);
    *request.body_mut() = Body::new(StreamBody::new(endless));
    assert_eq!(fixture.send(request).await.verdict(), (413, true));
}

#[tokio::test]
async fn a_chunked_body_is_assembled_in_order() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let pieces = MESSAGE.as_bytes().chunks(1).map(Bytes::copy_from_slice).collect();
    assert_eq!(fixture.send(signed_chunks(pieces)).await.verdict(), (200, false));
    assert!(fixture.queue.kept()[0].body.contains(&kept(MESSAGE)));
}

#[tokio::test]
async fn an_incomplete_body_may_be_delivered_again() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let frames = stream::iter([
        Ok(Frame::data(Bytes::from_static(MESSAGE.as_bytes()))),
        Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)),
    ]);
    let mut request = signed(MESSAGE);
    *request.body_mut() = Body::new(StreamBody::new(frames));
    assert_eq!(fixture.send(request).await.verdict(), (400, false));
    assert!(fixture.queue.kept().is_empty());
}

#[tokio::test]
async fn an_error_contains_nothing_of_the_body_or_the_signature() {
    let fixture = IngestFixture::new(Behaviour::Fail);
    let signature = secrets("current").sign(NOW_S, MESSAGE.as_bytes());
    for request in [signed(MESSAGE), signed("{\"hi\":"), unsigned(MESSAGE)] {
        let answer = fixture.send(request).await;
        for secret in ["\"hi\"", "U1", "disk", &signature[3..]] {
            assert!(!answer.body.contains(secret), "{answer:?}");
        }
    }
}
