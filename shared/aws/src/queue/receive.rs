//! Receives messages.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName as Attribute};

use super::queue_urls::QueueUrl;
use super::{receipt, seconds, text};
use ports::clock::TimestampMs;
use ports::queue::{Delivery, GroupId, MessageId, QueueError, QueueRef, ReceiveRequest};

/// Maximum number of messages per call.
const MAX_MESSAGES: usize = 10;
/// The longest wait of SQS for the first message, in seconds.
const MAX_WAIT_S: u64 = 20;
const ATTRIBUTES: [Attribute; 3] =
    [Attribute::MessageGroupId, Attribute::SentTimestamp, Attribute::ApproximateReceiveCount];

/// Receives as the port specifies. SQS waits whole seconds, at most 20. A wait is rounded up, because
/// cancelling a call would lose messages that are in transit and block their groups for a whole lease; a
/// longer wait takes several calls.
pub(super) async fn receive(
    client: &Client,
    queue_url: &QueueUrl,
    request: ReceiveRequest,
) -> Result<Vec<Delivery>, QueueError> {
    if request.max == 0 {
        return Ok(Vec::new());
    }
    let url = queue_url.url(client).await?;
    let mut left_s = seconds(request.wait, Duration::MAX);
    loop {
        let wait_s = left_s.min(MAX_WAIT_S);
        left_s -= wait_s;
        let answer = client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(whole(request.max.min(MAX_MESSAGES)))
            .visibility_timeout(super::visibility(request.visibility_timeout))
            .wait_time_seconds(whole(wait_s))
            .set_message_system_attribute_names(Some(ATTRIBUTES.into()))
            .message_attribute_names(text::FORM)
            // If the response is lost, the SDK retries the call with the same id, and SQS returns the same
            // messages again. Without the id, they and the messages behind them would wait until their leases
            // end. Each call has its own id: reusing one would return the same messages twice.
            .receive_request_attempt_id(format!("{:032x}", fastrand::u128(..)))
            .send()
            .await
            .map_err(|error| queue_url.unavailable(&error))?;
        let messages = answer.messages.unwrap_or_default();
        if !messages.is_empty() || left_s == 0 {
            let deliveries = messages.into_iter().map(|message| delivery(queue_url.queue, message));
            return deliveries
                .collect::<Result<_, _>>()
                .map_err(|what| queue_url.unexpected(&format!("returned a message that {what}")));
        }
    }
}

/// Converts a message of SQS into a delivery.
///
/// A message without an id, a receipt or a body cannot be handled, and delivering the others could let a
/// later message of its group overtake it. So the whole call fails: all messages are delivered again when
/// their leases end, and until then the runtime backs off and reports why.
///
/// A message without a readable group, time or count can still be handled, with values that are the same on
/// each delivery: a group of its own, the Unix epoch, and a receive count of 2, so that the runtime treats it
/// as a redelivery.
pub(super) fn delivery(queue: QueueRef, message: Message) -> Result<Delivery, &'static str> {
    let form = message.message_attributes.as_ref().and_then(|attributes| attributes.get(text::FORM));
    let form = form.map(|form| form.string_value().unwrap_or_default().to_owned());
    let (Some(id), Some(handle), Some(body)) = (message.message_id, message.receipt_handle, message.body)
    else {
        return Err("is without an id, a receipt or a body");
    };
    let attributes = message.attributes.unwrap_or_default();
    let group = attributes.get(&Attribute::MessageGroupId);
    let sent_at_ms = attributes.get(&Attribute::SentTimestamp).and_then(|sent_at| sent_at.parse().ok());
    let count = attributes.get(&Attribute::ApproximateReceiveCount).and_then(|count| count.parse().ok());
    if group.is_none() || sent_at_ms.is_none() || count.is_none() {
        tracing::warn!(%queue, message = id, "SQS gave a message without its group, time or count");
    }
    Ok(Delivery {
        group: GroupId::from(group.unwrap_or(&id).clone()),
        sent_at: TimestampMs(sent_at_ms.unwrap_or(0)),
        receive_count: count.unwrap_or(2),
        receipt: receipt::make_receipt(queue, &handle),
        body: decode(queue, &id, body, form.as_deref()),
        message_id: MessageId(id),
    })
}

/// The text that was sent. A body that cannot be decoded is passed on unchanged, so that it ends in
/// quarantine, where a person sees it, and does not block its group.
fn decode(queue: QueueRef, id: &str, body: String, form: Option<&str>) -> String {
    let text = match form {
        None => return body,
        Some(text::ESCAPED) => text::unescape(&body),
        Some(_) => None,
    };
    text.unwrap_or_else(|| {
        tracing::warn!(%queue, message = id, form, "received a message in an unknown form");
        body
    })
}

fn whole<N: TryInto<i32>>(number: N) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::MessageAttributeValue;

    use super::*;
    use ports::queue::QueueName;

    fn read(message: Message) -> Result<Delivery, &'static str> {
        delivery(QueueName::Events.into(), message)
    }

    fn message() -> aws_sdk_sqs::types::builders::MessageBuilder {
        Message::builder().message_id("id").receipt_handle("handle").body("body")
    }

    #[test]
    fn a_message_is_converted_with_all_its_attributes() {
        let delivery = read(
            message()
                .attributes(Attribute::MessageGroupId, "T1#C1")
                .attributes(Attribute::SentTimestamp, "1700000000123")
                .attributes(Attribute::ApproximateReceiveCount, "7")
                .build(),
        );
        let expected = Delivery {
            message_id: MessageId("id".into()),
            group: GroupId::from_parts(&["T1", "C1"]),
            body: "body".into(),
            receive_count: 7,
            sent_at: TimestampMs(1_700_000_000_123),
            receipt: receipt::make_receipt(QueueName::Events.into(), "handle"),
        };
        assert_eq!(delivery, Ok(expected));
    }

    #[test]
    fn a_message_without_its_attributes_gets_cautious_defaults() {
        let bad = message()
            .attributes(Attribute::SentTimestamp, "soon")
            .attributes(Attribute::ApproximateReceiveCount, "-1");
        for message in [message().build(), bad.build()] {
            let delivery = read(message).unwrap();
            assert_eq!(
                (delivery.group.as_str(), delivery.sent_at, delivery.receive_count),
                ("id", TimestampMs(0), 2)
            );
        }
    }

    #[test]
    fn a_message_that_cannot_be_acked_fails_the_receive() {
        for message in [
            message().set_message_id(None).build(),
            message().set_receipt_handle(None).build(),
            message().set_body(None).build(),
        ] {
            assert_eq!(read(message), Err("is without an id, a receipt or a body"));
        }
    }

    #[test]
    fn a_body_that_cannot_be_decoded_is_passed_on_unchanged() {
        let body = |form: &str, body: &str| {
            let form =
                MessageAttributeValue::builder().data_type("String").string_value(form).build().unwrap();
            read(message().body(body).message_attributes(text::FORM, form).build()).unwrap().body
        };
        assert_eq!(body("escaped", "a\u{7f}A"), "a\0");
        assert_eq!(body("escaped", "a\u{7f}!"), "a\u{7f}!");
        assert_eq!(body("zstd", "a\u{7f}A"), "a\u{7f}A");
    }
}
