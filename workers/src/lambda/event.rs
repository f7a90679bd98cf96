//! What an invocation brings.

use aws::SqsMessage;
use serde::Deserialize;

/// What an invocation brings: messages, or a word from the schedule.
/// <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html#example-standard-queue-message-event>
#[derive(Debug, Default, Deserialize)]
pub(super) struct Event {
    /// Messages of one queue.
    #[serde(rename = "Records", default)]
    pub(super) records: Vec<SqsMessage>,
    /// What to do otherwise: [`aws_template::SYNC`].
    #[serde(default)]
    pub(super) annalist: Option<String>,
}
