//! The archive's table: its client and its errors.

use std::error::Error;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::Aws;
use crate::policy;
use aws_resources::names::settings;
use ports::archive::ArchiveError;
use ports::queue::topology::TableRole;
use s3::fault::CallSubject;

pub(super) struct ArchiveTable {
    pub(super) client: Client,
    pub(super) name: String,
    subject: CallSubject,
}

impl ArchiveTable {
    pub(super) fn new(aws: &Aws) -> Self {
        let name = aws.names().table(TableRole::Archive).to_owned();
        let subject = aws.table_subject(&name, settings::TABLE);
        Self { client: policy::dynamodb(&aws.sdk, policy::ROWS), name, subject }
    }

    /// Every failure is retryable, so that the job waits: a table can be created, a role corrected, a
    /// throttle lifted. The SDK has already retried the failures that pass within seconds.
    pub(super) fn unavailable<E>(&self, error: &SdkError<E, HttpResponse>) -> ArchiveError
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        ArchiveError::Unavailable(self.subject.explain(error))
    }
}

/// Whether DynamoDB rejected an item as larger than its 400 KB. Only the message shows this:
/// `Item size to update has exceeded the maximum allowed size` or `Item size has exceeded …`.
pub(super) fn is_too_large<E: ProvideErrorMetadata>(error: &E) -> bool {
    error.code() == Some("ValidationException")
        && error.message().is_some_and(|message| {
            message.contains("Item size") && message.contains("exceeded the maximum allowed size")
        })
}

pub(super) fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}
