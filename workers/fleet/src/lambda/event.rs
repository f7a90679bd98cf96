//! The input of a Lambda invocation.

use aws::SqsMessage;
use serde::Deserialize;

/// The input of an invocation: messages, or a command from the schedule.
/// <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html#example-standard-queue-message-event>
#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionInput {
    /// Messages of one queue.
    #[serde(rename = "Records", default)]
    pub(super) records: Vec<SqsMessage>,
    /// The command otherwise: [`aws_resources::DEAD_LETTERS`].
    #[serde(default)]
    pub(super) annalist: Option<String>,
}
