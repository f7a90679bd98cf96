//! A queue that is slow, failing or full, and too many events at once.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::time::Instant;

use super::hostile::event_of;
use super::*;
use crate::limits::SMALL_BODY_BYTES;

const TWO_QUEUES: &str = r#"{"type":"event_callback","team_id":"T1","event_id":"Ev1",
    "event":{"type":"channel_id_changed","old_channel_id":"G1","new_channel_id":"C1"}}"#;

#[tokio::test(start_paused = true)]
async fn a_queue_that_hangs_is_answered_503_within_two_and_a_half_seconds() {
    let bench = IngestFixture::new(Behaviour::Hang);
    let sent = Instant::now();
    assert_eq!(bench.post(MESSAGE).await.verdict(), (503, false));
    assert!(sent.elapsed() <= Duration::from_millis(2500), "{:?}", sent.elapsed());
}

#[tokio::test]
async fn a_failing_queue_is_answered_503_so_that_slack_retries() {
    for behaviour in [Behaviour::Fail, Behaviour::Shortchange] {
        let bench = IngestFixture::new(behaviour);
        assert_eq!(bench.post(MESSAGE).await.verdict(), (503, false));
    }
}

#[tokio::test]
async fn an_event_that_only_one_of_its_queues_kept_is_not_acknowledged() {
    let bench = IngestFixture::new(Behaviour::FailAfterFirst);
    assert_eq!(bench.post(TWO_QUEUES).await.verdict(), (503, false));
    assert_eq!(bench.post(MESSAGE).await.verdict(), (200, false));
}

#[tokio::test]
async fn what_the_queue_finds_too_large_is_not_asked_for_again() {
    let bench = IngestFixture::new(Behaviour::TooLarge);
    assert_eq!(bench.post(MESSAGE).await.verdict(), (413, true));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_given_up() {
    let bench = IngestFixture::new(Behaviour::Keep);
    let first = stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"{")))]);
    let stalled = futures_util::StreamExt::chain(first, stream::pending());
    let mut request = signed(MESSAGE);
    *request.body_mut() = Body::new(StreamBody::new(stalled));
    let sent = Instant::now();
    assert_eq!(bench.send(request).await.verdict(), (408, false));
    assert!(sent.elapsed() <= Duration::from_millis(3010), "{:?}", sent.elapsed());
}

#[tokio::test]
async fn nothing_is_acknowledged_before_the_queue_has_it() {
    let bench = IngestFixture::new(Behaviour::KeepWhenLet);
    let answer = tokio::spawn(bench.router.clone().oneshot(signed(MESSAGE)));
    bench.queue.arrived.acquire().await.unwrap().forget();
    // The runtime has one thread: every task that could run has run after this.
    tokio::task::yield_now().await;
    assert!(!answer.is_finished());
    assert!(bench.queue.kept().is_empty());
    bench.queue.gate.add_permits(1);
    assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(bench.queue.kept().len(), 1);
}

#[tokio::test]
async fn too_many_events_at_once_are_shed_and_later_ones_are_taken() {
    let limits = IngestLimits { in_flight: 2, ..IngestLimits::default() };
    let bench = IngestFixture::with_limits(Behaviour::KeepWhenLet, limits);
    let held: Vec<_> = (0..2).map(|_| tokio::spawn(bench.router.clone().oneshot(signed(MESSAGE)))).collect();
    bench.queue.arrived.acquire_many(2).await.unwrap().forget();
    for request in [signed(MESSAGE), unsigned(MESSAGE).request()] {
        assert_eq!(bench.send(request).await.verdict(), (503, false));
    }
    bench.queue.gate.add_permits(3);
    for answer in held {
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(bench.post(MESSAGE).await.verdict(), (200, false));
    assert_eq!(bench.queue.kept().len(), 3);
}

#[tokio::test]
async fn requests_that_wait_for_the_queue_are_a_burst_until_they_are_answered() {
    let bench = IngestFixture::new(Behaviour::KeepWhenLet);
    let held: Vec<_> = (0..64).map(|_| tokio::spawn(bench.router.clone().oneshot(signed(MESSAGE)))).collect();
    bench.queue.arrived.acquire_many(64).await.unwrap().forget();
    assert!(bench.open_requests.wait_for_burst_to_end().now_or_never().is_none(), "64 requests are open");
    bench.queue.gate.add_permits(64);
    for answer in held {
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    let answered = Instant::now();
    bench.open_requests.wait_for_burst_to_end().await;
    assert!(answered.elapsed() < Duration::from_secs(1), "no request is open");
}

/// A signed request that says how many bytes it has, and sends none of them.
fn slow(bytes: usize) -> Request<Body> {
    struct Promised(usize);
    impl hyper::body::Body for Promised {
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
    *request.body_mut() = Body::new(Promised(bytes));
    request
}

#[tokio::test(start_paused = true)]
async fn clients_that_send_slowly_take_no_place_from_others() {
    let limits = IngestLimits { in_flight: 2, large_bodies: 2, ..IngestLimits::default() };
    let bench = IngestFixture::with_limits(Behaviour::Keep, limits);
    let large = SMALL_BODY_BYTES + 1;
    let dripping: Vec<_> = [SMALL_BODY_BYTES, SMALL_BODY_BYTES, 10, large, large]
        .map(|bytes| tokio::spawn(bench.router.clone().oneshot(slow(bytes))))
        .into();
    // The runtime has one thread: each has run until it waits for its body.
    tokio::task::yield_now().await;
    assert_eq!(bench.post(MESSAGE).await.verdict(), (200, false));
    // Only those who send much have to wait for those who send much and slowly.
    assert_eq!(bench.send(slow(large)).await.verdict(), (503, false));
    for request in dripping {
        assert_eq!(request.await.unwrap().unwrap().status(), StatusCode::REQUEST_TIMEOUT);
    }
    assert_eq!(bench.post(event_of(large)).await.verdict(), (200, false));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_makes_room_for_another() {
    let limits = IngestLimits { in_flight: 1, ..IngestLimits::default() };
    let bench = IngestFixture::with_limits(Behaviour::KeepWhenLet, limits);
    let abandoned = tokio::spawn(bench.router.clone().oneshot(signed(MESSAGE)));
    bench.queue.arrived.acquire().await.unwrap().forget();
    abandoned.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled());
    bench.queue.gate.add_permits(1);
    assert_eq!(bench.post(MESSAGE).await.verdict(), (200, false));
}
