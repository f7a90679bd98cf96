//! What each kind of request is answered, and what is kept of it.

use axum::body::Body;
use hyper::{Method, Request};
use metrics_exporter_prometheus::PrometheusBuilder;
use ports::queue::QueueName;
use ports::queue::job::{Job, encode_event};

use super::*;

#[tokio::test]
async fn a_signed_event_is_kept_byte_for_byte_but_for_the_token_and_answered_200() {
    let bench = IngestFixture::new(Behaviour::Keep);
    let answer = bench.post(MESSAGE).await;
    assert_eq!((answer.verdict(), answer.body.as_str()), ((200, false), ""));
    let jobs = bench.queue.kept();
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].queue, jobs[0].group.as_str()), (QueueName::Events, "T1#C1"));
    assert_eq!(Job::decode(&jobs[0].body).unwrap().event().unwrap().get(), kept(MESSAGE));
}

#[tokio::test]
async fn an_event_carries_the_run_that_took_it_unless_slack_delivers_it_again() {
    let bench = IngestFixture::new(Behaviour::Keep);
    bench.post(MESSAGE).await;
    for header in ["x-slack-retry-num", "x-slack-retry-reason"] {
        let mut again = signed(MESSAGE);
        again.headers_mut().insert(header, "1".parse().unwrap());
        bench.send(again).await;
    }
    let jobs = bench.queue.kept();
    let runs: Vec<_> = jobs.iter().map(|job| Job::decode(&job.body).unwrap().run).collect();
    assert_eq!(runs, [Some(run()), None, None]);
    assert_eq!(jobs[1].body, encode_event(&kept(MESSAGE)));
}

#[tokio::test]
async fn an_event_of_two_queues_is_kept_on_both() {
    let bench = IngestFixture::new(Behaviour::Keep);
    let body = r#"{"type":"event_callback","team_id":"T1","event_id":"Ev1",
        "event":{"type":"channel_id_changed","old_channel_id":"G1","new_channel_id":"C1"}}"#;
    assert_eq!(bench.post(body).await.verdict(), (200, false));
    let queues: Vec<_> = bench.queue.kept().iter().map(|message| message.queue).collect();
    assert_eq!(queues, [QueueName::Events, QueueName::Channels]);
}

#[tokio::test]
async fn either_secret_is_accepted_during_rotation() {
    let bench = IngestFixture::new(Behaviour::Keep);
    for (secret, verdict) in [("current", (200, false)), ("next", (200, false)), ("last", (401, false))] {
        let request = unsigned(MESSAGE)
            .header("x-slack-request-timestamp", NOW_S)
            .header("x-slack-signature", secrets(secret).sign(NOW_S, MESSAGE.as_bytes()))
            .request();
        assert_eq!(bench.send(request).await.verdict(), verdict, "{secret}");
    }
}

#[tokio::test]
async fn a_retry_is_kept_like_any_event() {
    let bench = IngestFixture::new(Behaviour::Keep);
    for (number, reason) in [("1", "http_timeout"), ("2", "something_new"), ("3", "")] {
        let mut request = signed(MESSAGE);
        request.headers_mut().insert("x-slack-retry-num", number.parse().unwrap());
        request.headers_mut().insert("x-slack-retry-reason", reason.parse().unwrap());
        assert_eq!(bench.send(request).await.verdict(), (200, false));
    }
    assert_eq!(bench.queue.kept().len(), 3);
}

#[tokio::test]
async fn a_signed_challenge_is_echoed_as_plain_text() {
    let bench = IngestFixture::new(Behaviour::Keep);
    let body = r#"{"token":"x","challenge":"3eZb\u0072","type":"url_verification"}"#;
    let response = bench.router.clone().oneshot(signed(body)).await.unwrap();
    assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
    let answer = ReceivedAnswer::of(response).await;
    assert_eq!((answer.verdict(), answer.body.as_str()), ((200, false), "3eZbr"));
    assert!(bench.queue.kept().is_empty());
}

#[tokio::test]
async fn a_verification_without_a_challenge_is_malformed() {
    let bench = IngestFixture::new(Behaviour::Keep);
    for body in [r#"{"type":"url_verification"}"#, r#"{"type":"url_verification","challenge":7}"#] {
        assert_eq!(bench.post(body).await.verdict(), (400, true), "{body}");
    }
}

#[tokio::test]
async fn an_ssl_check_is_answered_only_when_signed() {
    let bench = IngestFixture::new(Behaviour::Keep);
    for body in ["ssl_check=1&token=x", "token=x&ssl_check=1", r#"{"type":"ssl_check"}"#] {
        assert_eq!(bench.post(body).await.verdict(), (200, false), "{body}");
        assert_eq!(bench.send(unsigned(body).request()).await.verdict(), (401, false), "{body}");
    }
    for body in ["ssl_check=0", "xssl_check=1", "ssl_check=11"] {
        assert_eq!(bench.post(body).await.verdict(), (400, true), "{body}");
    }
    assert!(bench.queue.kept().is_empty());
}

#[tokio::test]
async fn a_direct_message_is_answered_200_and_not_kept() {
    let bench = IngestFixture::new(Behaviour::Keep);
    let body = MESSAGE.replace(r#""channel_type":"channel""#, r#""channel_type":"im""#);
    assert_eq!(bench.post(body).await.verdict(), (200, false));
    assert!(bench.queue.kept().is_empty());
}

#[tokio::test]
async fn a_rate_limited_minute_is_kept_for_the_channels() {
    let bench = IngestFixture::new(Behaviour::Keep);
    let body =
        r#"{"type":"app_rate_limited","team_id":"T1","minute_rate_limited":1518467820,"api_app_id":"A1"}"#;
    assert_eq!(bench.post(body).await.verdict(), (200, false));
    assert_eq!(bench.queue.kept()[0].queue, QueueName::Channels);
}

#[tokio::test]
async fn an_event_with_malformed_ids_is_kept_for_a_person_to_look_at() {
    let bench = IngestFixture::new(Behaviour::Keep);
    for body in [MESSAGE.replace("T1", "t#1"), MESSAGE.replace("C1", "../C1"), "{}".to_owned()] {
        assert_eq!(bench.post(body.as_str()).await.verdict(), (200, false), "{body}");
    }
    assert!(bench.queue.kept().iter().all(|message| message.group.as_str() == "invalid"));
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let bench = IngestFixture::new(Behaviour::Keep);
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
        assert_eq!(bench.send(request).await.status.as_u16(), status, "{method} {path}");
    }
    assert!(bench.queue.kept().is_empty());
}

#[tokio::test(start_paused = true)]
async fn health_is_of_the_process_and_readiness_of_the_queue() {
    for (behaviour, ready, line) in [
        (Behaviour::Keep, 200, "ok"),
        (Behaviour::Fail, 503, "the queue is unavailable\n"),
        (Behaviour::Hang, 503, "the queue did not answer in time\n"),
    ] {
        let bench = IngestFixture::new(behaviour);
        let asked = tokio::time::Instant::now();
        let answer = bench.send(Request::get("/readyz").body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (ready, line));
        assert!(asked.elapsed().as_millis() <= 1010, "{:?}", asked.elapsed());
        let answer = bench.send(Request::get("/healthz").body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, "ok"));
    }
}

#[test]
fn everything_is_counted_and_no_label_comes_from_outside() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let bench = metrics::with_local_recorder(&recorder, || IngestFixture::new(Behaviour::Keep));
    let retried = |reason: &str| {
        let mut request = signed(MESSAGE);
        request.headers_mut().insert("x-slack-retry-num", "1".parse().unwrap());
        request.headers_mut().insert("x-slack-retry-reason", reason.parse().unwrap());
        request
    };
    let mut unsigned_retry = unsigned(MESSAGE).request();
    unsigned_retry.headers_mut().insert("x-slack-retry-num", "1".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for request in [
            signed(MESSAGE),
            retried("http_timeout"),
            retried("evil_reason"),
            unsigned_retry,
            signed("{"),
            signed(MESSAGE.replace("\"channel_type\":\"channel\"", "\"channel_type\":\"im\"")),
            signed(r#"{"type":"app_rate_limited","team_id":"T1"}"#),
        ] {
            bench.send(request).await;
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
