//! Ingest behind a Function URL.

use std::net::TcpListener;
use std::time::Instant;

use ports::queue::{Queue, QueueName};
use slack::verification::without_token;
use testkit::corpus::{TEAM, channel_id, event};
use testkit::deliveries::receive_visible;
use tests::harness::binaries::binaries;
use tests::harness::environment::AwsInstallation;
use tests::harness::lambda::RunningFunction;
use tests::harness::lambda::payloads::FunctionUrlRequest;

use super::{answer, metric_lines, signed, signed_with};

const CHALLENGE: &str = r#"{"token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}"#;

fn posted(number: usize, text: &str) -> String {
    let ts = testkit::corpus::ts(1_700_000_000_000_000 + i64::try_from(number).unwrap());
    let message = event::posted(&channel_id(1), &event::message(&ts, "U0001", text));
    event::envelope(TEAM, &format!("Ev{number}"), &message)
}

async fn function(installation: &AwsInstallation) -> RunningFunction {
    RunningFunction::start(&binaries().ingest, installation).await
}

/// The bodies of the messages on the events queue.
async fn queued(queue: &dyn Queue) -> Vec<String> {
    receive_visible(queue, QueueName::Events).await.into_iter().map(|delivery| delivery.body).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_challenge_is_echoed_and_needs_no_queue() {
    // This installation has no resources.
    let installation = AwsInstallation::new().await.with_variable("ANNALIST_PREFIX", Some("nowhere"));
    let ingest = function(&installation).await;
    let echoed = answer(&ingest, &signed(CHALLENGE)).await;
    assert_eq!(
        (echoed.status, echoed.body.as_str()),
        (200, "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P")
    );
    let alive = answer(&ingest, &FunctionUrlRequest::get("/healthz")).await;
    assert_eq!(alive.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_on_the_queue_before_the_response_in_every_encoding_of_its_body() {
    let installation = AwsInstallation::new().await;
    let ingest = function(&installation).await;
    let queue = installation.aws.queue();
    // Characters of several bytes, and some that JSON may encode differently.
    let body = posted(1, "naïve 🦀 \u{2028} \\u00e9 </script>");
    let stored = answer(&ingest, &signed(&body)).await;
    assert_eq!((stored.status, stored.body.as_str()), (200, ""));
    let [job] = &queued(&*queue).await[..] else { panic!("one job") };
    assert!(job.contains(&*without_token(&body)), "the job contains the bytes that Slack signed: {job}");

    let body = posted(2, "as bytes");
    assert_eq!(answer(&ingest, &signed(&body).as_bytes()).await.status, 200);
    // The message group is leased, so check the depth.
    let depth = queue.depth(QueueName::Events.into()).await.unwrap();
    assert_eq!((depth.waiting, depth.in_flight), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsigned_event_is_not_stored_and_slack_may_retry_it() {
    let installation = AwsInstallation::new().await;
    let ingest = function(&installation).await;
    let body = posted(1, "forged");
    let two_signatures = signed(&body).header("x-slack-signature", "v0=00,v0=11");
    let mut changed = signed(&body).payload();
    changed["body"] = posted(1, "changed in transit").into();
    for payload in [
        signed_with("another-secret-of-another-app-00000", &body).payload(),
        FunctionUrlRequest::post("/slack/events", &body).payload(),
        two_signatures.payload(),
        changed,
    ] {
        let refused = ingest.request(&payload).await;
        assert_eq!(refused.status, 401, "{refused:?}");
        assert!(!refused.headers.contains_key("x-slack-no-retry"), "{refused:?}");
    }
    assert!(queued(&*installation.aws.queue()).await.is_empty());
    assert_eq!(answer(&ingest, &signed("not JSON")).await.status, 400);
    for path in ["/elsewhere", "/readyz"] {
        assert_eq!(answer(&ingest, &FunctionUrlRequest::get(path)).await.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_failure_is_answered_503_so_that_slack_retries() {
    let installation = AwsInstallation::new().await;
    // A port that was free a moment ago, so no process listens on it.
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unreachable = function(&installation.with_endpoint(&format!("http://{unused}"))).await;
    let body = posted(1, "not yet");
    let failed = answer(&unreachable, &signed(&body)).await;
    assert_eq!(failed.status, 503, "{failed:?}");
    assert!(!failed.headers.contains_key("x-slack-no-retry"), "{failed:?}");
    let ingest = function(&installation).await;
    let repeated =
        signed(&body).header("x-slack-retry-num", "1").header("x-slack-retry-reason", "http_error");
    assert_eq!(answer(&ingest, &repeated).await.status, 200);
    assert_eq!(queued(&*installation.aws.queue()).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_few_lines_in_cloudwatchs_format() {
    let installation = AwsInstallation::new().await;
    let ingest = function(&installation.with_variable("ANNALIST_METRICS", Some("full"))).await;
    let began = Instant::now();
    let mut sent = 0;
    // The number of requests until a line is printed depends on the machine's speed.
    let (lines, counts) = loop {
        assert_eq!(answer(&ingest, &signed(&posted(sent, "hello"))).await.status, 200);
        sent += 1;
        let lines = metric_lines(&ingest.process.output());
        let of_stored = lines.iter().filter(|line| line["outcome"] == "stored");
        let counts: Vec<u64> =
            of_stored.filter_map(|line| line["annalist_ingest_requests_total"].as_u64()).collect();
        if counts.iter().sum::<u64>() >= 90 {
            break (lines, counts);
        }
        assert!(sent < 1_000, "{lines:?}");
    };
    assert!(counts.iter().sum::<u64>() <= u64::try_from(sent).unwrap(), "{sent}: {counts:?}");
    // One line at first, one per ten seconds, and one per ninety requests.
    let most = 1 + began.elapsed().as_secs() / 10 + u64::try_from(sent / 90).unwrap();
    assert!(counts.len() as u64 <= most, "a line per event would cost as much as the queue: {counts:?}");
    for line in &lines {
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Namespace"], "Annalist", "{line}");
        assert!(line.get("annalist_aws_requests_total").is_none(), "{line}");
    }
}
