//! Tests with a slow, failing or full queue, and with too many concurrent events.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::time::Instant;

use super::hostile::event_of_size;
use super::*;
use crate::limits::SMALL_BODY_BYTES;

const TWO_QUEUES: &str = r#"{"type":"event_callback","team_id":"T1","event_id":"Ev1",
    "event":{"type":"channel_id_changed","old_channel_id":"G1","new_channel_id":"C1"}}"#;

#[tokio::test(start_paused = true)]
async fn a_queue_that_hangs_is_answered_503_within_two_and_a_half_seconds() {
    let fixture = IngestFixture::new(Behaviour::Hang);
    let sent = Instant::now();
    assert_eq!(fixture.post(MESSAGE).await.verdict(), (503, false));
    assert!(sent.elapsed() <= Duration::from_millis(2500), "{:?}", sent.elapsed());
}

#[tokio::test]
async fn a_failing_queue_is_answered_503_so_that_slack_retries() {
    for behaviour in [Behaviour::Fail, Behaviour::TooFewResults] {
        let fixture = IngestFixture::new(behaviour);
        assert_eq!(fixture.post(MESSAGE).await.verdict(), (503, false));
    }
}

#[tokio::test]
async fn an_event_that_only_one_of_its_queues_stored_is_not_acknowledged() {
    let fixture = IngestFixture::new(Behaviour::FailAfterFirst);
    assert_eq!(fixture.post(TWO_QUEUES).await.verdict(), (503, false));
    assert_eq!(fixture.post(MESSAGE).await.verdict(), (200, false));
}

#[tokio::test]
async fn an_event_that_is_too_large_for_the_queue_is_not_retried() {
    let fixture = IngestFixture::new(Behaviour::TooLarge);
    assert_eq!(fixture.post(MESSAGE).await.verdict(), (413, true));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_times_out() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let first = stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"{")))]);
    let stalled = futures_util::StreamExt::chain(first, stream::pending());
    let mut request = signed(MESSAGE);
    *request.body_mut() = Body::new(StreamBody::new(stalled));
    let sent = Instant::now();
    assert_eq!(fixture.send(request).await.verdict(), (408, false));
    assert!(sent.elapsed() <= Duration::from_millis(3010), "{:?}", sent.elapsed());
}

#[tokio::test]
async fn an_event_is_acknowledged_only_after_the_queue_has_stored_it() {
    let fixture = IngestFixture::new(Behaviour::KeepWhenPermitted);
    let answer = tokio::spawn(fixture.router.clone().oneshot(signed(MESSAGE)));
    fixture.queue.arrived.acquire().await.unwrap().forget();
    // The runtime has one thread: after this, every task that can run has run.
    tokio::task::yield_now().await;
    assert!(!answer.is_finished());
    assert!(fixture.queue.kept().is_empty());
    fixture.queue.gate.add_permits(1);
    assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(fixture.queue.kept().len(), 1);
}

#[tokio::test]
async fn too_many_concurrent_events_are_shed_and_later_ones_are_accepted() {
    let limits = IngestLimits { in_flight: 2, ..IngestLimits::default() };
    let fixture = IngestFixture::with_limits(Behaviour::KeepWhenPermitted, limits);
    let in_flight: Vec<_> =
        (0..2).map(|_| tokio::spawn(fixture.router.clone().oneshot(signed(MESSAGE)))).collect();
    fixture.queue.arrived.acquire_many(2).await.unwrap().forget();
    for request in [signed(MESSAGE), unsigned(MESSAGE)] {
        assert_eq!(fixture.send(request).await.verdict(), (503, false));
    }
    fixture.queue.gate.add_permits(3);
    for answer in in_flight {
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(fixture.post(MESSAGE).await.verdict(), (200, false));
    assert_eq!(fixture.queue.kept().len(), 3);
}

#[tokio::test]
async fn requests_that_wait_for_the_queue_count_as_a_burst_until_they_are_answered() {
    let fixture = IngestFixture::new(Behaviour::KeepWhenPermitted);
    let requests: Vec<_> =
        (0..64).map(|_| tokio::spawn(fixture.router.clone().oneshot(signed(MESSAGE)))).collect();
    fixture.queue.arrived.acquire_many(64).await.unwrap().forget();
    assert!(
        fixture.ingest.open_requests.wait_for_burst_to_end().now_or_never().is_none(),
        "64 requests are open"
    );
    fixture.queue.gate.add_permits(64);
    for answer in requests {
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    let answered = Instant::now();
    fixture.ingest.open_requests.wait_for_burst_to_end().await;
    assert!(answered.elapsed() < Duration::from_secs(1), "no request is open");
}

/// A signed request that declares this number of bytes and sends none of them.
fn slow(bytes: usize) -> Request<Body> {
    struct DeclaredBody(usize);
    impl hyper::body::Body for DeclaredBody {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            std::task::Poll::Pending
        }

        fn size_hint(&self) -> hyper::body::SizeHint {
            hyper::body::SizeHint::with_exact(self.0 as u64)
        }
    }
    let mut request = signed(MESSAGE);
    *request.body_mut() = Body::new(DeclaredBody(bytes));
    request
}

#[tokio::test(start_paused = true)]
async fn slow_clients_do_not_block_others() {
    let limits = IngestLimits { in_flight: 2, large_bodies: 2, ..IngestLimits::default() };
    let fixture = IngestFixture::with_limits(Behaviour::Keep, limits);
    let large = SMALL_BODY_BYTES + 1;
    let slow_requests: Vec<_> = [SMALL_BODY_BYTES, SMALL_BODY_BYTES, 10, large, large]
        .map(|bytes| tokio::spawn(fixture.router.clone().oneshot(slow(bytes))))
        .into();
    // The runtime has one thread: each has run until it waits for its body.
    tokio::task::yield_now().await;
    assert_eq!(fixture.post(MESSAGE).await.verdict(), (200, false));
    // Slow large bodies block only other large bodies.
    assert_eq!(fixture.send(slow(large)).await.verdict(), (503, false));
    for request in slow_requests {
        assert_eq!(request.await.unwrap().unwrap().status(), StatusCode::REQUEST_TIMEOUT);
    }
    assert_eq!(fixture.post(event_of_size(large)).await.verdict(), (200, false));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_request_makes_room_for_another() {
    let limits = IngestLimits { in_flight: 1, ..IngestLimits::default() };
    let fixture = IngestFixture::with_limits(Behaviour::KeepWhenPermitted, limits);
    let abandoned = tokio::spawn(fixture.router.clone().oneshot(signed(MESSAGE)));
    fixture.queue.arrived.acquire().await.unwrap().forget();
    abandoned.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled());
    fixture.queue.gate.add_permits(1);
    assert_eq!(fixture.post(MESSAGE).await.verdict(), (200, false));
}
