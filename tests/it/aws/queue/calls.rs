//! The requests to SQS, and the results of its responses.

use std::time::Duration;

use ports::queue::{Delivery, Depth, Queue, QueueError, QueueName, Receipt, ReceiveRequest};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use super::answers::{all_succeed, aws_at, call, message, ok, request_bodies, server};
use tests::harness::proxy::{Proxy, ProxyFault};

const EVENTS: QueueName = QueueName::Events;

fn request(wait: Duration) -> ReceiveRequest {
    ReceiveRequest { queue: EVENTS.into(), max: 512, visibility_timeout: Duration::from_millis(29_500), wait }
}

fn one_message() -> ResponseTemplate {
    ok(json!({ "Messages": [{
        "MessageId": "id", "ReceiptHandle": "handle", "Body": "body", "MD5OfBody": "",
        "Attributes": {
            "MessageGroupId": "g", "SentTimestamp": "1700000000123", "ApproximateReceiveCount": "1",
        },
    }] }))
}

async fn receipt(queue: &dyn Queue) -> Receipt {
    let received = queue.receive(request(Duration::ZERO)).await.unwrap();
    received.into_iter().map(|Delivery { receipt, .. }| receipt).next().unwrap()
}

#[tokio::test]
async fn a_receive_whose_answer_was_lost_is_repeated_with_the_same_id() {
    let server = server().await;
    call("ReceiveMessage").respond_with(one_message()).mount(&server).await;
    let proxy = Proxy::in_front_of(&server.uri(), 0).await;
    let queue = aws_at(&proxy.endpoint).await.queue();

    proxy.break_next("ReceiveMessage", ProxyFault::LostAnswer);
    let received = queue.receive(request(Duration::from_secs(1))).await.unwrap();
    assert_eq!(received[0].body, "body");
    let after = queue.receive(request(Duration::from_secs(1))).await.unwrap();
    assert_eq!(after.len(), 1);

    let requests = request_bodies(&server, "ReceiveMessage").await;
    let ids: Vec<&str> =
        requests.iter().map(|body| body["ReceiveRequestAttemptId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[0], ids[1], "the same call, repeated");
    assert_ne!(ids[1], ids[2], "another call");
}

#[tokio::test]
async fn a_receive_stays_within_the_limits_of_sqs() {
    let server = server().await;
    call("ReceiveMessage").respond_with(ok(json!({}))).mount(&server).await;
    let queue = aws_at(&server.uri()).await.queue();
    for (wait, waits_s) in [
        (Duration::ZERO, vec![0]),
        (Duration::from_millis(1), vec![1]),
        (Duration::from_secs(20), vec![20]),
        (Duration::from_millis(44_100), vec![20, 20, 5]),
    ] {
        let before = request_bodies(&server, "ReceiveMessage").await.len();
        assert_eq!(queue.receive(request(wait)).await, Ok(Vec::new()));
        let requests = request_bodies(&server, "ReceiveMessage").await.split_off(before);
        let waited_s: Vec<Value> = requests.iter().map(|body| body["WaitTimeSeconds"].clone()).collect();
        assert_eq!(waited_s, waits_s, "{wait:?}");
        for body in requests {
            // Half a second more than requested: a lease may be longer, but not shorter.
            assert_eq!((&body["VisibilityTimeout"], &body["MaxNumberOfMessages"]), (&json!(30), &json!(10)));
        }
    }
    let nothing = ReceiveRequest { max: 0, ..request(Duration::from_secs(20)) };
    let before = request_bodies(&server, "ReceiveMessage").await.len();
    assert_eq!(queue.receive(nothing).await, Ok(Vec::new()));
    assert_eq!(request_bodies(&server, "ReceiveMessage").await.len(), before);
}

#[tokio::test]
async fn a_failed_send_is_retried_with_the_same_ids_in_the_same_order() {
    let server = server().await;
    call("SendMessageBatch").respond_with(ResponseTemplate::new(500)).up_to_n_times(1).mount(&server).await;
    call("SendMessageBatch").respond_with(all_succeed).mount(&server).await;
    let queue = aws_at(&server.uri()).await.queue();
    let messages: Vec<_> = (0..8).map(|number| message("g", &format!("{number}"))).collect();
    assert_eq!(queue.send(messages.clone()).await, vec![Ok(()); 8]);

    let requests = request_bodies(&server, "SendMessageBatch").await;
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], requests[1]);
    let sent = requests[0]["Entries"].as_array().unwrap();
    for (entry, message) in sent.iter().zip(&messages) {
        assert_eq!(entry["MessageBody"], message.body);
        assert_eq!(entry["MessageDeduplicationId"], message.dedup.to_hex());
        assert_eq!(entry["MessageGroupId"], "g");
        assert!(entry["MessageAttributes"].as_object().is_none_or(serde_json::Map::is_empty));
    }
}

#[tokio::test]
async fn a_body_that_sqs_would_refuse_is_escaped() {
    let server = server().await;
    call("SendMessageBatch").respond_with(all_succeed).mount(&server).await;
    let queue = aws_at(&server.uri()).await.queue();
    let bodies = ["", "nul \0", "non-character \u{ffff} and delete \u{7f}"];
    let messages = bodies.map(|body| message("g", body)).into();
    assert_eq!(queue.send(messages).await, vec![Ok(()); 3]);
    for entry in request_bodies(&server, "SendMessageBatch").await[0]["Entries"].as_array().unwrap() {
        let body = entry["MessageBody"].as_str().unwrap();
        assert!(!body.is_empty() && !body.contains(['\0', '\u{ffff}']), "{body:?}");
        let form = json!({ "annalist-body": { "StringValue": "escaped", "DataType": "String" } });
        assert_eq!(entry["MessageAttributes"], form);
    }
}

#[tokio::test]
async fn every_message_of_a_batch_has_its_own_result() {
    let server = server().await;
    let too_long = "One or more parameters are invalid. Reason: Message must be shorter than 262144 bytes.";
    call("SendMessageBatch")
        .respond_with(ok(json!({
            "Successful": [{ "Id": "3", "MessageId": "m", "MD5OfMessageBody": "" }],
            "Failed": [
                { "Id": "0", "SenderFault": true, "Code": "RequestThrottled", "Message": "Rate exceeded" },
                { "Id": "1", "SenderFault": true, "Code": "InvalidParameterValue", "Message": too_long },
                { "Id": "4", "SenderFault": false, "Code": "InternalError" },
                { "Id": "99", "SenderFault": false, "Code": "InternalError" },
            ],
        })))
        .mount(&server)
        .await;
    let queue = aws_at(&server.uri()).await.queue();
    let results = queue.send(["0", "11", "2", "3", "4"].map(|body| message("g", body)).into()).await;
    let text = |index: usize| match &results[index] {
        Err(QueueError::Unavailable(text)) => text.as_str(),
        other => panic!("{index}: {other:?}"),
    };
    assert!(text(0).contains("RequestThrottled: Rate exceeded") && text(0).contains("-events.fifo"));
    // The message is within our limit: it fits once the queue's settings are corrected.
    assert!(text(1).contains("shorter than 262144") && text(1).contains("annalist provision"));
    // SQS's response does not mention it.
    assert!(text(2).contains("did not report the result for a message"));
    assert_eq!(results[3], Ok(()));
    assert!(text(4).contains("InternalError"));
}

#[tokio::test]
async fn only_a_lease_that_sqs_reports_as_ended_is_lost() {
    // LocalStack's wording.
    let expired =
        "Value handle for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.";
    for (code, sender_fault, lost) in [
        ("ReceiptHandleIsInvalid", true, true),
        ("ReceiptHandleIsInvalid", false, true),
        ("MessageNotInflight", false, true),
        ("InvalidParameterValueException", false, true),
        ("AWS.SimpleQueueService.ReceiptHandleIsInvalid", true, true),
        ("InvalidReceiptHandle", true, true),
        ("InvalidParameterValue", true, true),
        ("MessageNotInflight", true, true),
        ("AWS.SimpleQueueService.MessageNotInflight", true, true),
        ("InvalidParameterValue", false, false),
        ("RequestThrottled", true, false),
        ("InternalError", false, false),
    ] {
        let server = server().await;
        call("ReceiveMessage").respond_with(one_message()).mount(&server).await;
        let message = if code.ends_with("Exception") { expired } else { "as it is" };
        let failed = json!({ "Failed": [
            { "Id": "0", "SenderFault": sender_fault, "Code": code, "Message": message },
        ]});
        for operation in ["DeleteMessageBatch", "ChangeMessageVisibilityBatch"] {
            call(operation).respond_with(ok(failed.clone())).mount(&server).await;
        }
        let queue = aws_at(&server.uri()).await.queue();
        let receipt = receipt(&*queue).await;
        let entry = (receipt.clone(), Duration::from_secs(30));
        for results in [
            queue.ack(EVENTS.into(), &[receipt]).await,
            queue.change_visibility(EVENTS.into(), &[entry]).await,
        ] {
            match &results[..] {
                [Err(QueueError::LeaseLost)] => assert!(lost, "{code}"),
                [Err(QueueError::Unavailable(text))] => {
                    assert!(!lost && text.contains(code) && text.contains("as it is"), "{code}: {text}");
                }
                other => panic!("{code}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_large_batch_of_acks_is_a_few_calls_with_each_receipt_once_per_call() {
    let server = server().await;
    call("ReceiveMessage").respond_with(one_message()).mount(&server).await;
    call("DeleteMessageBatch").respond_with(all_succeed).mount(&server).await;
    let queue = aws_at(&server.uri()).await.queue();
    let receipt = receipt(&*queue).await;
    // A hundred receipts of this queue's, and one of them three times.
    let mut receipts: Vec<Receipt> =
        (0..98).map(|number| Receipt(format!("{}{number}", receipt.0))).collect();
    receipts.extend([receipt.clone(), receipt.clone(), receipt]);
    assert_eq!(queue.ack(EVENTS.into(), &receipts).await, vec![Ok(()); 101]);

    let calls = request_bodies(&server, "DeleteMessageBatch").await;
    assert_eq!(calls.len(), 10 + 1 + 1);
    for call in &calls {
        let entries = call["Entries"].as_array().unwrap();
        let mut handles: Vec<&str> =
            entries.iter().map(|entry| entry["ReceiptHandle"].as_str().unwrap()).collect();
        handles.sort_unstable();
        handles.dedup();
        assert!(handles.len() == entries.len() && entries.len() <= 10, "{call}");
    }
}

#[tokio::test]
async fn an_invalid_receipt_makes_no_call() {
    let server = server().await;
    let queue = aws_at(&server.uri()).await.queue();
    let garbage = ["", "x", "files|handle", "events-dlq|handle", "events|"].map(|text| Receipt(text.into()));
    assert_eq!(queue.ack(EVENTS.into(), &garbage).await, vec![Err(QueueError::LeaseLost); 5]);
    let entries = garbage.map(|receipt| (receipt, Duration::ZERO));
    assert_eq!(queue.change_visibility(EVENTS.into(), &entries).await, vec![Err(QueueError::LeaseLost); 5]);
    assert!(server.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_count_that_is_missing_is_not_zero() {
    let server = server().await;
    let mut counts = json!({
        "ApproximateNumberOfMessages": "3",
        "ApproximateNumberOfMessagesDelayed": "2",
        "ApproximateNumberOfMessagesNotVisible": "1",
    });
    call("GetQueueAttributes")
        .respond_with(ok(json!({ "Attributes": counts })))
        .up_to_n_times(1)
        .mount(&server)
        .await;
    counts.as_object_mut().unwrap().remove("ApproximateNumberOfMessagesNotVisible");
    call("GetQueueAttributes").respond_with(ok(json!({ "Attributes": counts }))).mount(&server).await;
    let queue = aws_at(&server.uri()).await.queue();
    let depth = Depth { waiting: 3, delayed: 2, in_flight: 1, oldest_age_s: None };
    assert_eq!(queue.depth(EVENTS.into()).await, Ok(depth));
    assert!(matches!(queue.depth(EVENTS.into()).await, Err(QueueError::Unavailable(_))));
    // https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html
    assert_eq!(queue.depth_lag(), Duration::from_secs(60));
}
