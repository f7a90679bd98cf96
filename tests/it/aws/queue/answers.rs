//! A server that sends AWS's documented responses, for cases that no emulator shows.

use aws::Aws;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use serde_json::{Value, json};
use tests::harness::stack::{Stack, fresh_names};
use wiremock::matchers::header;
use wiremock::{Mock, MockBuilder, MockServer, Request, ResponseTemplate};

/// Matches calls of this operation.
pub(super) fn call(operation: &str) -> MockBuilder {
    Mock::given(header("x-amz-target", format!("AmazonSQS.{operation}").as_str()))
}

/// A server that answers `GetQueueUrl` for every queue.
pub(super) async fn server() -> MockServer {
    let server = MockServer::start().await;
    let address = |request: &Request| {
        let body: Value = request.body_json().unwrap();
        let name = body["QueueName"].as_str().unwrap();
        ok(json!({ "QueueUrl": format!("https://sqs.eu-central-1.amazonaws.com/123456789012/{name}") }))
    };
    call("GetQueueUrl").respond_with(address).mount(&server).await;
    server
}

/// An account at this endpoint.
pub(super) async fn aws_at(endpoint: &str) -> Aws {
    Stack::shared().aws_at(endpoint, fresh_names()).await
}

/// A successful response.
pub(super) fn ok(answer: Value) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_raw(answer.to_string(), "application/x-amz-json-1.0")
}

/// An error as SQS returns it: the shape's name in the body, the older code in a header.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-json-faqs.html>
pub(super) fn error(status: u16, shape: &str, code: &str, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(status)
        .insert_header("x-amzn-query-error", format!("{code};Sender").as_str())
        .set_body_raw(
            json!({ "__type": format!("com.amazonaws.sqs#{shape}"), "message": message }).to_string(),
            "application/x-amz-json-1.0",
        )
}

/// The request bodies of this operation's calls, in order.
pub(super) async fn request_bodies(server: &MockServer, operation: &str) -> Vec<Value> {
    let target = format!("AmazonSQS.{operation}");
    let requests = server.received_requests().await.unwrap();
    let of_operation = requests.iter().filter(|request| request.headers["x-amz-target"] == target.as_str());
    of_operation.map(|request| request.body_json().unwrap()).collect()
}

pub(in crate::aws) fn message(group: &str, body: &str) -> Outgoing {
    Outgoing {
        queue: QueueName::Events,
        group: GroupId::from_parts(&[group]),
        dedup: DedupId::from_parts(&[body.as_bytes()]),
        body: body.into(),
    }
}

/// A response in which every entry of the batch succeeds.
pub(super) fn all_succeed(request: &Request) -> ResponseTemplate {
    let body: Value = request.body_json().unwrap();
    let entries = body["Entries"].as_array().unwrap();
    let done = |entry: &Value| json!({ "Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "" });
    ok(json!({ "Successful": entries.iter().map(done).collect::<Vec<_>>() }))
}
