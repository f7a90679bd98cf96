//! The error if SQS cannot be used: one line that tells the user what to do.

use std::time::{Duration, Instant};

use aws::Aws;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use ports::queue::{Queue, QueueError, QueueName, ReceiveRequest};
use serde_json::json;
use tests::harness::stack::{REGION, fresh_names};
use tokio::net::TcpListener;
use wiremock::{MockServer, ResponseTemplate};

use super::answers::{all_succeed, aws_at, call, error, message, ok, server};

const EVENTS: QueueName = QueueName::Events;

/// The error that every method returns; asserts that it is the same for all.
async fn common_error(queue: &dyn Queue) -> String {
    let request = ReceiveRequest {
        queue: EVENTS.into(),
        max: 1,
        visibility_timeout: Duration::from_secs(30),
        wait: Duration::ZERO,
    };
    let ready = queue.ready().await.unwrap_err();
    let all = [
        queue.send(vec![message("g", "1")]).await.remove(0).unwrap_err(),
        queue.receive(request).await.unwrap_err(),
        queue.depth(EVENTS.into()).await.unwrap_err(),
    ];
    for other in all {
        assert_eq!(other, ready);
    }
    let QueueError::Unavailable(text) = ready else { panic!("{ready:?}") };
    assert!(!text.contains('\n'), "{text}");
    text
}

#[tokio::test]
async fn a_missing_queue_is_reported_and_found_once_it_exists() {
    let server = MockServer::start().await;
    let missing = error(
        400,
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "The specified queue does not exist.",
    );
    call("GetQueueUrl").respond_with(missing).up_to_n_times(4).mount(&server).await;
    call("GetQueueUrl").respond_with(ok(json!({ "QueueUrl": "https://sqs/1/q" }))).mount(&server).await;
    call("SendMessageBatch").respond_with(all_succeed).mount(&server).await;
    let aws = aws_at(&server.uri()).await;
    let queue = aws.queue();
    let name = aws.names().queue(EVENTS.into());
    assert_eq!(
        common_error(&*queue).await,
        format!(
            "queue {name} does not exist in {REGION}: run `annalist provision`, or set ANNALIST_PREFIX and AWS_REGION \
             to where it is"
        )
    );
    assert_eq!(queue.ready().await, Ok(()));
    assert_eq!(queue.send(vec![message("g", "1")]).await, [Ok(())]);
}

#[tokio::test]
async fn a_queue_that_is_deleted_later_is_reported_as_missing() {
    let server = server().await;
    let gone =
        || error(400, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "It does not exist.");
    call("SendMessageBatch").respond_with(gone()).mount(&server).await;
    let queue = aws_at(&server.uri()).await.queue();
    let text = queue.send(vec![message("g", "1")]).await.remove(0).unwrap_err().to_string();
    assert!(text.contains("-events.fifo does not exist") && text.contains("annalist provision"), "{text}");
}

#[tokio::test]
async fn wrong_credentials_are_reported_as_wrong() {
    for (shape, code) in [
        ("UnrecognizedClientException", "InvalidClientTokenId"),
        ("InvalidSignatureException", "SignatureDoesNotMatch"),
    ] {
        let server = MockServer::start().await;
        let refused = error(403, shape, code, "The credentials are not good.");
        call("GetQueueUrl").respond_with(refused).mount(&server).await;
        assert_eq!(
            common_error(&*aws_at(&server.uri()).await.queue()).await,
            format!(
                "SQS refused the credentials ({code}): check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                 AWS_PROFILE"
            )
        );
    }
}

#[tokio::test]
async fn missing_credentials_are_reported_as_missing() {
    let server = server().await;
    let without = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .endpoint_url(server.uri())
        .region(Region::new(REGION))
        .build();
    let aws = Aws::from_sdk_config(without, fresh_names()).unwrap();
    assert_eq!(
        common_error(&*aws.queue()).await,
        "there are no AWS credentials for SQS: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run \
         where a role is attached"
    );
    assert!(server.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_unreachable_endpoint_is_named_in_the_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let text = common_error(&*aws_at(&endpoint).await.queue()).await;
    assert!(text.starts_with(&format!("cannot reach SQS in {REGION} (")), "{text}");
    assert!(text.ends_with("): check AWS_REGION, AWS_ENDPOINT_URL and the network"), "{text}");
}

#[tokio::test]
async fn a_send_ends_within_two_seconds_even_if_sqs_never_responds() {
    // A server that accepts connections and never responds, from the first call or from the first send on.
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let never = ResponseTemplate::new(200).set_delay(Duration::from_secs(60));
    let server = server().await;
    call("SendMessageBatch").respond_with(never).mount(&server).await;
    for endpoint in [format!("http://{}", deaf.local_addr().unwrap()), server.uri()] {
        let queue = aws_at(&endpoint).await.queue();
        let began = Instant::now();
        // Even for queued messages: the second batch of a group waits for the first.
        let messages = (0..15).map(|number| message("g", &format!("{number}"))).collect();
        let results = queue.send(messages).await;
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        assert_eq!(results.len(), 15);
        for result in results {
            let Err(QueueError::Unavailable(text)) = result else { panic!("{result:?}") };
            assert!(text.contains("did not answer in time") && text.contains("AWS_ENDPOINT_URL"), "{text}");
        }
    }
}
