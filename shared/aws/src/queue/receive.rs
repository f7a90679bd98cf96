//! Receiving.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName as Attribute};

use super::queue_urls::QueueUrl;
use super::{receipt, seconds, text};
use ports::clock::TimestampMs;
use ports::queue::{Delivery, GroupId, MessageId, QueueError, QueueRef, ReceiveRequest};

/// The most messages of one call.
const MAX_MESSAGES: usize = 10;
/// The longest SQS waits for the first one, in seconds.
const MAX_WAIT_S: u64 = 20;
const ATTRIBUTES: [Attribute; 3] =
    [Attribute::MessageGroupId, Attribute::SentTimestamp, Attribute::ApproximateReceiveCount];

/// As the port says. SQS waits whole seconds and at most 20 of them: a wait is rounded up, since ending one ourselves
/// would drop messages that are on their way and hold up their groups for a whole lease; a longer one is several calls.
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
            // The SDK repeats the call with the same id when its answer is lost, and SQS then gives the same messages
            // again. Without one they, and what stands behind them, would wait for their leases to end. Each call has its
            // own: the same one twice would get the same messages twice.
            .receive_request_attempt_id(format!("{:032x}", fastrand::u128(..)))
            .send()
            .await
            .map_err(|error| queue_url.unavailable(&error))?;
        let messages = answer.messages.unwrap_or_default();
        if !messages.is_empty() || left_s == 0 {
            let deliveries = messages.into_iter().map(|message| delivery(queue_url.queue, message));
            return deliveries
                .collect::<Result<_, _>>()
                .map_err(|what| queue_url.odd(&format!("gave a message that {what}")));
        }
    }
}

/// What a message is to its receiver.
///
/// One without an id, a receipt or a body cannot be handled, and handing on the others could put a later one of its group
/// first. So nothing of the call is handed on: all of it comes again when the leases end, and until then the runtime
/// backs off and says why.
///
/// One without a readable group, time or count can be handled, so it is, with values that are the same each time it
/// comes: a group of its own, the beginning of time, and a count that makes the runtime careful with it.
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
        receipt: receipt::make(queue, &handle),
        body: original(queue, &id, body, form.as_deref()),
        message_id: MessageId(id),
    })
}

/// The text that was sent. A text that cannot be read back is passed on as it came, so that it ends in quarantine, where
/// a person sees it, and does not block its group.
fn original(queue: QueueRef, id: &str, body: String, form: Option<&str>) -> String {
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
    fn a_message_is_read_with_all_it_carries() {
        let delivery = read(
            message()
                .attributes(Attribute::MessageGroupId, "T1#C1")
                .attributes(Attribute::SentTimestamp, "1700000000123")
                .attributes(Attribute::ApproximateReceiveCount, "7")
                .build(),
        );
        let expected = Delivery {
            message_id: MessageId("id".into()),
            group: GroupId::of(&["T1", "C1"]),
            body: "body".into(),
            receive_count: 7,
            sent_at: TimestampMs(1_700_000_000_123),
            receipt: receipt::make(QueueName::Events.into(), "handle"),
        };
        assert_eq!(delivery, Ok(expected));
    }

    #[test]
    fn a_message_without_its_attributes_is_handled_with_care() {
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
    fn a_body_that_cannot_be_read_back_is_handed_on_as_it_came() {
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
