//! Requests that Slack signed while this machine's clock differs from Slack's, and events that cannot be queued
//! at Slack's last retry.

use std::net::SocketAddr;
use std::time::Duration;

use ports::queue::QueueName;
use ports::queue::job::{Job, Payload};
use slack::ids::{TeamId, Ts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::*;
use crate::refused::RefusedTimes;
use crate::serve_events;

/// Slack's clock is this far ahead of the machine's.
const AHEAD_S: i64 = 301;

/// An event that happened and was signed in this second of Slack's clock.
fn signed_at(slack_s: i64) -> Request<Body> {
    let body = MESSAGE
        .replace("1700000000.000100", &format!("{slack_s}.000100"))
        .replace("\"ts\"", &format!("\"event_ts\":\"{slack_s}.000100\",\"ts\""));
    signed_with("current", slack_s, body)
}

/// An event that Slack delivers again.
fn retry(slack_s: i64, number: &'static str) -> Request<Body> {
    with_header(signed_at(slack_s), RETRY_NUM, number)
}

/// The facts on the queue, as pairs of start and end.
fn facts(fixture: &IngestFixture) -> Vec<(String, String)> {
    let kept = fixture.queue.kept();
    assert!(
        kept.iter().all(|job| (job.queue, job.group.as_str()) == (QueueName::Channels, "T1")),
        "{kept:?}"
    );
    assert!(kept.iter().all(|job| !job.body.contains("hi")), "no body is stored");
    let fact = |body: &str| {
        let Payload::Refused(time) = Job::decode(body).unwrap().payload else { panic!("{body}") };
        let job: serde_json::Value = serde_json::from_str(time.get()).unwrap();
        assert_eq!(job["team_id"], "T1");
        (job["from"].as_str().unwrap().to_owned(), job["to"].as_str().unwrap().to_owned())
    };
    kept.iter().map(|job| fact(&job.body)).collect()
}

fn fact(from_s: i64, to_s: i64) -> (String, String) {
    (format!("{from_s}.000100"), format!("{to_s}.000100"))
}

#[tokio::test(start_paused = true)]
async fn the_response_states_the_clock_difference_and_allows_a_retry() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for (slack_s, ahead_s) in [(NOW_S + AHEAD_S, "+301"), (NOW_S - 3_600, "-3600")] {
        let answer = fixture.send(signed_at(slack_s)).await;
        assert_eq!(answer.verdict(), (401, false));
        let line = format!(
            "annalist refused this request: the timestamp is {ahead_s} s away from this machine's clock\n"
        );
        assert_eq!(answer.body, line);
    }
    let answer = fixture.send(signed_with("other", NOW_S, MESSAGE)).await;
    assert_eq!(answer.verdict(), (401, false));
    assert!(answer.body.contains("it is signed with another secret"), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn stale_requests_become_one_fact_per_minute_from_the_first_to_the_last() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let first_s = NOW_S + AHEAD_S;
    for second in 0..50 {
        assert_eq!(fixture.send(signed_at(first_s + second)).await.status.as_u16(), 401);
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(facts(&fixture), [fact(first_s, first_s)], "the first at once");
    sleep(Duration::from_secs(60)).await;
    let expected = [fact(first_s, first_s), fact(first_s + 1, first_s + 49)];
    assert_eq!(facts(&fixture), expected, "the rest when the minute is over, even if nothing more comes");
    sleep(Duration::from_secs(600)).await;
    assert_eq!(facts(&fixture), expected);
    fixture.send(signed_at(first_s + 700)).await;
    assert_eq!(facts(&fixture).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_first_fact_of_each_workspace_is_sent_before_its_response() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for number in 1..=50 {
        for _ in 0..3 {
            let request =
                signed_with("current", NOW_S - 40_000, MESSAGE.replace("T1", &format!("T{number}")));
            assert_eq!(fixture.send(request).await.status.as_u16(), 401);
        }
        assert_eq!(fixture.queue.kept().len(), number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeatedly_replayed_request_does_not_fill_the_queue() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    for _ in 0..1_000 {
        fixture.send(signed_at(NOW_S - 40_000)).await;
        sleep(Duration::from_millis(300)).await;
    }
    let facts = facts(&fixture);
    assert!(facts.len() <= 6, "{}", facts.len());
    assert!(
        facts.iter().all(|fact_on_queue| *fact_on_queue == fact(NOW_S - 40_000, NOW_S - 40_000)),
        "{facts:?}"
    );
    let ids: std::collections::HashSet<_> =
        fixture.queue.kept().iter().map(|job| job.dedup.to_hex()).collect();
    assert_eq!(ids.len(), 1, "the queue takes the same fact once");
}

#[tokio::test(start_paused = true)]
async fn a_slow_queue_delays_the_refusal_only_briefly_and_the_fact_is_retried() {
    let fixture = IngestFixture::new(Behaviour::Hang);
    let began = Instant::now();
    assert_eq!(fixture.send(signed_at(NOW_S + AHEAD_S)).await.verdict(), (401, false));
    assert!(began.elapsed() <= Duration::from_millis(600), "{:?}", began.elapsed());
    let began = Instant::now();
    assert_eq!(fixture.send(signed_at(NOW_S + AHEAD_S)).await.verdict(), (401, false));
    assert!(began.elapsed() <= Duration::from_millis(1), "{:?}", began.elapsed());

    let fixture = IngestFixture::new(Behaviour::FailOnce);
    fixture.send(signed_at(NOW_S + AHEAD_S)).await;
    assert_eq!(facts(&fixture), []);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(facts(&fixture), [fact(NOW_S + AHEAD_S, NOW_S + AHEAD_S)]);
}

#[tokio::test(start_paused = true)]
async fn an_unverified_request_does_not_become_a_fact() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let mut other_body = signed_at(NOW_S + AHEAD_S);
    *other_body.body_mut() = Body::from(MESSAGE);
    let later = (NOW_S + 2 * AHEAD_S).to_string();
    let other_time = with_header(signed_at(NOW_S + AHEAD_S), TIMESTAMP, later);
    for request in [other_body, other_time] {
        assert_eq!(fixture.send(request).await.verdict(), (401, false));
    }
    sleep(Duration::from_secs(120)).await;
    assert!(fixture.queue.kept().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_gap_starts_with_the_last_accepted_event() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    // A retried event does not move the start of the gap: it may have happened while no process was running.
    for request in [signed_at(NOW_S - 20), signed_at(NOW_S - 30), retry(NOW_S - 10, "1")] {
        assert_eq!(fixture.send(request).await.status.as_u16(), 200);
    }
    let reported = |fixture: &IngestFixture| {
        let refused = fixture.queue.kept().into_iter().filter_map(|job| {
            let Payload::Refused(time) = Job::decode(&job.body).unwrap().payload else { return None };
            Some(serde_json::from_str::<serde_json::Value>(time.get()).unwrap())
        });
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        refused.map(|job| (text(&job["from"]), text(&job["to"]))).collect::<Vec<_>>()
    };
    fixture.send(signed_at(NOW_S + AHEAD_S)).await;
    assert_eq!(reported(&fixture), [fact(NOW_S - 20, NOW_S + AHEAD_S)]);
    // A replayed older request does not extend the span.
    fixture.send(signed_at(NOW_S - 40_000)).await;
    sleep(Duration::from_secs(120)).await;
    let old = fact(NOW_S - 40_000, NOW_S - 40_000);
    assert_eq!(reported(&fixture), [fact(NOW_S - 20, NOW_S + AHEAD_S), old]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_queued_at_slacks_last_retry_becomes_a_fact() {
    for number in ["3", "4"] {
        let fixture = IngestFixture::new(Behaviour::FailOnce);
        assert_eq!(fixture.send(retry(NOW_S, number)).await.verdict(), (503, false));
        assert_eq!(facts(&fixture), [fact(NOW_S, NOW_S)]);
    }
    for earlier in [signed_at(NOW_S), retry(NOW_S, "1"), retry(NOW_S, "2"), retry(NOW_S, "x")] {
        let fixture = IngestFixture::new(Behaviour::FailOnce);
        assert_eq!(fixture.send(earlier).await.verdict(), (503, false));
        sleep(Duration::from_secs(120)).await;
        assert_eq!(facts(&fixture), [], "a retry may store it");
    }
    let fixture = IngestFixture::new(Behaviour::Hang);
    let began = Instant::now();
    assert_eq!(fixture.send(retry(NOW_S, "3")).await.verdict(), (503, false));
    assert!(began.elapsed() <= Duration::from_millis(2_510), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_shed_at_slacks_last_retry_becomes_a_fact_if_it_is_signed() {
    let limits = IngestLimits { in_flight: 0, ..IngestLimits::default() };
    let fixture = IngestFixture::with_limits(Behaviour::Keep, limits);
    let mut forged = retry(NOW_S, "3");
    *forged.body_mut() = Body::from(MESSAGE);
    for request in [forged, retry(NOW_S, "2")] {
        assert_eq!(fixture.send(request).await.verdict(), (503, false));
    }
    assert_eq!(facts(&fixture), []);
    assert_eq!(fixture.send(retry(NOW_S, "3")).await.verdict(), (503, false));
    assert_eq!(facts(&fixture), [fact(NOW_S, NOW_S)]);
}

/// Sends a request that is refused, after which the server closes the connection.
async fn send_refused(address: SocketAddr, request: Request<Body>) {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let mut sent = format!("POST {EVENTS_PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in &head.headers {
        sent.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[sent.as_bytes(), b"\r\n", &body].concat()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

// On the real clock: with auto-advancing time the minute between two facts would pass.
#[tokio::test]
async fn a_shutdown_reports_the_facts_that_wait() {
    let fixture = IngestFixture::new(Behaviour::Keep);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (shutdown, requested) = oneshot::channel::<()>();
    let serving =
        tokio::spawn(serve_events(listener, fixture.ingest.clone(), async { requested.await.unwrap() }));
    let first_s = NOW_S + AHEAD_S;
    for slack_s in [first_s, first_s + 1, NOW_S - 40_000] {
        send_refused(address, signed_at(slack_s)).await;
    }
    assert_eq!(facts(&fixture), [fact(first_s, first_s)]);
    shutdown.send(()).unwrap();
    serving.await.unwrap();
    let old = fact(NOW_S - 40_000, NOW_S - 40_000);
    assert_eq!(facts(&fixture), [fact(first_s, first_s), fact(first_s + 1, first_s + 1), old]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_a_fact_that_is_being_sent_but_not_forever() {
    for (behaviour, expected) in
        [(Behaviour::FailOnce, 1), (Behaviour::KeepWhenPermitted, 1), (Behaviour::Hang, 0)]
    {
        let fixture = IngestFixture::new(behaviour);
        let refused = Arc::new(RefusedTimes::new(fixture.queue.clone(), Duration::from_secs(2)));
        let at = Ts::parse("1700000000.000100").unwrap();
        refused.record_refused(TeamId::parse("T1").unwrap(), at).await;
        let began = Instant::now();
        tokio::join!(refused.drain(), async { fixture.queue.gate.add_permits(1) });
        assert!(began.elapsed() <= Duration::from_millis(1_010), "{:?}", began.elapsed());
        assert_eq!(facts(&fixture).len(), expected);
    }
}
