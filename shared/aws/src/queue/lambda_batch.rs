//! Messages that Lambda's poller received and passes to a function.
//! <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>

use aws_lambda_events::sqs::SqsMessage;
use aws_sdk_sqs::types::{Message, MessageAttributeValue, MessageSystemAttributeName as Attribute};

use super::{receive, text};
use aws_resources::names::Names;
use ports::queue::{Delivery, QueueRef};

/// Why a batch cannot be handled. No message of it is reported as done, so Lambda delivers all of them again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LambdaBatchError {
    /// The batch comes from a queue that is not in the topology.
    #[error("the messages are from {0:?}, which is not a queue of this installation: check ANNALIST_PREFIX")]
    Source(String),
    /// A message has no id, receipt or body, or comes from another queue than the first.
    #[error("a message of {queue} {what}")]
    Message {
        queue: QueueRef,
        /// What is wrong with the message.
        what: &'static str,
    },
}

/// Returns the queue of a batch and its messages as deliveries; `None` if the batch is empty.
///
/// # Errors
/// [`LambdaBatchError`] if the queue is unknown, or a message is incomplete or comes from another queue.
pub fn deliveries(
    names: &Names,
    records: Vec<SqsMessage>,
) -> Result<Option<(QueueRef, Vec<Delivery>)>, LambdaBatchError> {
    let Some(first) = records.first() else { return Ok(None) };
    let source = first.event_source_arn.clone().unwrap_or_default();
    let queue = queue_of(names, &source).ok_or_else(|| LambdaBatchError::Source(source.clone()))?;
    let invalid = |what| LambdaBatchError::Message { queue, what };
    let deliveries = records.into_iter().map(|record| {
        if record.event_source_arn.as_deref() != Some(&source) {
            return Err(invalid("came in a batch of another queue"));
        }
        receive::delivery(queue, message(record)).map_err(invalid)
    });
    Ok(Some((queue, deliveries.collect::<Result<_, _>>()?)))
}

/// The queue of an ARN, whose last part is its name.
fn queue_of(names: &Names, arn: &str) -> Option<QueueRef> {
    let name = arn.rsplit(':').next()?;
    QueueRef::all().find(|queue| names.queue(*queue) == name)
}

/// Converts a message of Lambda into one of SQS.
fn message(record: SqsMessage) -> Message {
    let attributes =
        record.attributes.into_iter().map(|(name, value)| (Attribute::from(name.as_str()), value));
    let form = record.message_attributes.get(text::FORM).and_then(|form| {
        let form = form.string_value.clone().unwrap_or_default();
        MessageAttributeValue::builder().data_type("String").string_value(form).build().ok()
    });
    Message::builder()
        .set_message_id(record.message_id)
        .set_receipt_handle(record.receipt_handle)
        .set_body(record.body)
        .set_attributes(Some(attributes.collect()))
        .set_message_attributes(form.map(|form| [(text::FORM.to_owned(), form)].into()))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::clock::TimestampMs;
    use ports::queue::{GroupId, MessageId, QueueName};

    fn names() -> Names {
        Names::new("acme", [None; 3], "bucket").unwrap()
    }

    fn records(json: &serde_json::Value) -> Vec<SqsMessage> {
        serde_json::from_value(json.clone()).unwrap()
    }

    fn record(arn: &str) -> serde_json::Value {
        serde_json::json!({
            "messageId": "id-1", "receiptHandle": "handle", "body": "a\u{7f}A",
            "attributes": {
                "ApproximateReceiveCount": "3", "SentTimestamp": "1700000000123", "MessageGroupId": "T1#C1",
                "SequenceNumber": "18849496460467696128", "SenderId": "AIDA", "ApproximateFirstReceiveTimestamp": "1",
            },
            "messageAttributes": { (text::FORM): { "stringValue": "escaped", "dataType": "String" } },
            "md5OfBody": "x", "eventSource": "aws:sqs", "eventSourceARN": arn, "awsRegion": "eu-central-1",
        })
    }

    #[test]
    fn a_batch_gives_the_same_deliveries_as_a_receive() {
        let arn = "arn:aws:sqs:eu-central-1:123456789012:acme-events.fifo";
        let (queue, deliveries) =
            deliveries(&names(), records(&serde_json::json!([record(arn)]))).unwrap().unwrap();
        assert_eq!(queue, QueueName::Events.into());
        let [delivery] = deliveries.as_slice() else { panic!("{deliveries:?}") };
        assert_eq!(delivery.message_id, MessageId("id-1".into()));
        assert_eq!(delivery.group, GroupId::from_parts(&["T1", "C1"]));
        assert_eq!((delivery.receive_count, delivery.sent_at), (3, TimestampMs(1_700_000_000_123)));
        assert_eq!(delivery.body, "a\0", "the escaped form is decoded");
        let dead = "arn:aws:sqs:eu-central-1:123456789012:acme-files-dlq.fifo";
        let (queue, _) =
            super::deliveries(&names(), records(&serde_json::json!([record(dead)]))).unwrap().unwrap();
        assert_eq!(queue, QueueRef::dead_letters(QueueName::Files));
    }

    #[test]
    fn a_batch_with_an_invalid_message_is_rejected_as_a_whole() {
        let arn = "arn:aws:sqs:eu-central-1:123456789012:acme-events.fifo";
        let without = |field: &str| {
            let mut record = record(arn);
            record.as_object_mut().unwrap().remove(field);
            record
        };
        let other = "arn:aws:sqs:eu-central-1:123456789012:acme-files.fifo";
        for (batch, expected) in [
            (serde_json::json!([record("arn:aws:sqs:eu-central-1:1:other-events.fifo")]), "ANNALIST_PREFIX"),
            (serde_json::json!([without("eventSourceARN")]), "ANNALIST_PREFIX"),
            (serde_json::json!([record(arn), without("messageId")]), "without an id"),
            (serde_json::json!([record(arn), without("body")]), "without an id"),
            (serde_json::json!([record(arn), record(other)]), "another queue"),
        ] {
            let error = deliveries(&names(), records(&batch)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(deliveries(&names(), Vec::new()), Ok(None));
    }
}
