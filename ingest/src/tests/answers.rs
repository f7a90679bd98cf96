//! The response to each kind of request, and what is stored of it.

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::Body;
use hyper::{Method, Request};
use metrics_exporter_prometheus::PrometheusBuilder;
use ports::queue::QueueName;
use ports::queue::job::{Job, encode_event};
use ports::reread::RereadLimits;

use super::*;

#[tokio::test]
async fn a_signed_event_is_stored_byte_for_byte_except_the_token_and_answered_200() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let answer = fixture.post(MESSAGE).await;
    assert_eq!((answer.verdict(), answer.body.as_str()), ((200, false), ""));
    let jobs = fixture.queue.kept();
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].queue, jobs[0].group.as_str()), (QueueName::Events, "T1#C1"));
    assert_eq!(Job::decode(&jobs[0].body).unwrap().event().unwrap().get(), kept(MESSAGE));
}

#[tokio::test]
async fn an_event_carries_its_run_unless_it_is_a_retry() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    fixture.post(MESSAGE).await;
    for header in [RETRY_NUM, RETRY_REASON] {
        fixture.send(with_header(signed(MESSAGE), header, "1")).await;
    }
    let jobs = fixture.queue.kept();
    let runs: Vec<_> = jobs.iter().map(|job| Job::decode(&job.body).unwrap().run).collect();
    assert_eq!(runs, [Some(run()), None, None]);
    assert_eq!(jobs[1].body, encode_event(&kept(MESSAGE)));
}

#[tokio::test]
async fn an_event_for_two_queues_is_stored_on_both() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let body = r#"{"type":"event_callback","team_id":"T1","event_id":"Ev1",
        "event":{"type":"channel_id_changed","old_channel_id":"G1","new_channel_id":"C1"}}"#;
    assert_eq!(fixture.post(body).await.verdict(), (200, false));
    let queues: Vec<_> = fixture.queue.kept().iter().map(|message| message.queue).collect();
    assert_eq!(queues, [QueueName::Events, QueueName::Channels]);
}

#[tokio::test]
async fn either_secret_is_accepted_during_rotation() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for (secret, verdict) in [("current", (200, false)), ("next", (200, false)), ("last", (401, false))] {
        let request = signed_with(secret, NOW_S, MESSAGE);
        assert_eq!(fixture.send(request).await.verdict(), verdict, "{secret}");
    }
}

/// An endpoint whose secret was changed to "rotated" after it was read, the number of reads, and the clock of
/// the reads.
fn with_rotated_secret() -> (IngestFixture, Arc<AtomicU32>, Arc<ManualClock>) {
    let clock = ManualClock::starting_at(TimestampMs(NOW_S * 1000));
    let limits = RereadLimits {
        max_age: Duration::from_secs(300),
        min_interval: Duration::from_secs(60),
        time_limit: Duration::from_millis(800),
    };
    let reads = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&reads);
    let read = Box::new(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        let read = async { Ok(Arc::new(secrets("rotated").into())) };
        Box::pin(read) as Pin<Box<dyn Future<Output = _> + Send>>
    });
    let mut fixture = IngestFixture::new(Behaviour::Keep);
    let reread = Reread::new("NAME", Arc::new(secrets("current").into()), limits, clock.clone(), read);
    fixture.ingest.secrets = Some(Arc::new(reread));
    fixture.router = router(fixture.ingest.clone());
    (fixture, reads, clock)
}

#[tokio::test]
async fn a_rotated_secret_is_read_at_the_first_signature_that_does_not_fit() {
    let (fixture, reads, clock) = with_rotated_secret();
    clock.advance(Duration::from_secs(60));
    for (secret, verdict, expected_reads) in [
        ("current", (200, false), 0),
        ("rotated", (200, false), 1),
        ("rotated", (200, false), 1),
        ("current", (401, false), 1),
    ] {
        let request = signed_with(secret, NOW_S, MESSAGE);
        assert_eq!(fixture.send(request).await.verdict(), verdict, "{secret}");
        assert_eq!(reads.load(Ordering::SeqCst), expected_reads, "{secret}");
    }
}

#[tokio::test]
async fn forged_requests_cause_one_read_a_minute_and_a_secret_that_was_replaced_ends() {
    let (fixture, reads, clock) = with_rotated_secret();
    for minutes in 0..3 {
        for _ in 0..100 {
            let request = signed_with("forged", NOW_S, MESSAGE);
            assert_eq!(fixture.send(request).await.verdict(), (401, false));
        }
        assert_eq!(reads.load(Ordering::SeqCst), minutes);
        clock.advance(Duration::from_secs(60));
    }
    let (fixture, _, clock) = with_rotated_secret();
    clock.advance(Duration::from_secs(300));
    let request = signed_with("current", NOW_S, MESSAGE);
    assert_eq!(fixture.send(request).await.verdict(), (401, false), "it is read again without a misfit");
}

#[tokio::test]
async fn a_retry_is_stored_like_any_event() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for (number, reason) in [("1", "http_timeout"), ("2", "something_new"), ("3", "")] {
        let request = retried(signed(MESSAGE), number, reason);
        assert_eq!(fixture.send(request).await.verdict(), (200, false));
    }
    assert_eq!(fixture.queue.kept().len(), 3);
}

#[tokio::test]
async fn a_signed_challenge_is_echoed_as_plain_text() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let body = r#"{"token":"x","challenge":"3eZb\u0072","type":"url_verification"}"#;
    let response = fixture.router.clone().oneshot(signed(body)).await.unwrap();
    assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
    let answer = ReceivedAnswer::from_response(response).await;
    assert_eq!((answer.verdict(), answer.body.as_str()), ((200, false), "3eZbr"));
    assert!(fixture.queue.kept().is_empty());
}

#[tokio::test]
async fn a_verification_without_a_challenge_is_malformed() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for body in [r#"{"type":"url_verification"}"#, r#"{"type":"url_verification","challenge":7}"#] {
        assert_eq!(fixture.post(body).await.verdict(), (400, true), "{body}");
    }
}

#[tokio::test]
async fn an_ssl_check_is_answered_only_when_signed() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for body in ["ssl_check=1&token=x", "token=x&ssl_check=1", r#"{"type":"ssl_check"}"#] {
        assert_eq!(fixture.post(body).await.verdict(), (200, false), "{body}");
        assert_eq!(fixture.send(unsigned(body)).await.verdict(), (401, false), "{body}");
    }
    for body in ["ssl_check=0", "xssl_check=1", "ssl_check=11"] {
        assert_eq!(fixture.post(body).await.verdict(), (400, true), "{body}");
    }
    assert!(fixture.queue.kept().is_empty());
}

#[tokio::test]
async fn a_direct_message_is_answered_200_and_not_stored() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let body = MESSAGE.replace(r#""channel_type":"channel""#, r#""channel_type":"im""#);
    assert_eq!(fixture.post(body).await.verdict(), (200, false));
    assert!(fixture.queue.kept().is_empty());
}

#[tokio::test]
async fn a_rate_limited_minute_is_stored_on_the_channels_queue() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let body =
        r#"{"type":"app_rate_limited","team_id":"T1","minute_rate_limited":1518467820,"api_app_id":"A1"}"#;
    assert_eq!(fixture.post(body).await.verdict(), (200, false));
    assert_eq!(fixture.queue.kept()[0].queue, QueueName::Channels);
}

#[tokio::test]
async fn an_event_with_malformed_ids_is_stored_for_inspection() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for body in [MESSAGE.replace("T1", "t#1"), MESSAGE.replace("C1", "../C1"), "{}".to_owned()] {
        assert_eq!(fixture.post(body.as_str()).await.verdict(), (200, false), "{body}");
    }
    assert!(fixture.queue.kept().iter().all(|message| message.group.as_str() == "invalid"));
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for (method, path, status) in [
        (Method::GET, EVENTS_PATH, 405),
        (Method::PUT, EVENTS_PATH, 405),
        (Method::POST, "/healthz", 405),
        (Method::POST, "/readyz", 405),
        (Method::POST, "/", 404),
        (Method::POST, "/slack/events/", 404),
        (Method::POST, "/slack/%65vents", 404),
        (Method::GET, "/metrics", 404),
    ] {
        let mut request = signed(MESSAGE);
        *request.method_mut() = method.clone();
        *request.uri_mut() = path.parse().unwrap();
        assert_eq!(fixture.send(request).await.status.as_u16(), status, "{method} {path}");
    }
    assert!(fixture.queue.kept().is_empty());
}

#[tokio::test(start_paused = true)]
async fn health_reflects_the_process_and_readiness_the_queue() {
    for (behaviour, ready, line) in [
        (Behaviour::Keep, 200, "ok"),
        (Behaviour::Fail, 503, "the queue is unavailable\n"),
        (Behaviour::Hang, 503, "the queue did not answer in time\n"),
    ] {
        let fixture = IngestFixture::new(behaviour);
        let began = tokio::time::Instant::now();
        let answer = fixture.send(Request::get("/readyz").body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (ready, line));
        assert!(began.elapsed().as_millis() <= 1010, "{:?}", began.elapsed());
        let answer = fixture.send(Request::get("/healthz").body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, "ok"));
    }
}

#[test]
fn every_request_is_counted_and_no_label_is_untrusted_input() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let fixture = metrics::with_local_recorder(&recorder, || IngestFixture::new(Behaviour::Keep));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for request in [
            signed(MESSAGE),
            retried(signed(MESSAGE), "1", "http_timeout"),
            retried(signed(MESSAGE), "1", "evil_reason"),
            with_header(unsigned(MESSAGE), RETRY_NUM, "1"),
            signed("{"),
            signed(MESSAGE.replace("\"channel_type\":\"channel\"", "\"channel_type\":\"im\"")),
            signed(r#"{"type":"app_rate_limited","team_id":"T1"}"#),
        ] {
            fixture.send(request).await;
        }
    });
    let rendered = recorder.handle().render();
    for line in [
        r#"annalist_ingest_requests_total{outcome="stored"} 3"#,
        r#"annalist_ingest_requests_total{outcome="refused"} 1"#,
        r#"annalist_ingest_requests_total{outcome="malformed"} 1"#,
        r#"annalist_ingest_requests_total{outcome="direct_message"} 1"#,
        r#"annalist_ingest_requests_total{outcome="rate_limited"} 1"#,
        r#"annalist_ingest_refused_total{reason="missing_header"} 1"#,
        r#"annalist_ingest_retries_total{reason="http_timeout"} 1"#,
        r#"annalist_ingest_retries_total{reason="other"} 1"#,
        r#"annalist_events_dropped_total{reason="direct_message"} 1"#,
        "annalist_ingest_seconds_count 7",
    ] {
        assert!(rendered.contains(&format!("{line}\n")), "{line} is not in\n{rendered}");
    }
    assert!(!rendered.contains("evil_reason"));
}
