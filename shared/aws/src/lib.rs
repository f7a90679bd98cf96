//! The ports on AWS: SQS FIFO, DynamoDB and S3.
//!
//! * [`queue`], [`archive`], [`changes`], [`files`], [`existence`], [`claims`]: one adapter each, constructed alone.
//! * [`provision`]: makes what they need, from the topology; [`aws_template`] prints the same, and every part as a
//!   function, with what each part asks of AWS.
//! * [`deliveries`]: what Lambda hands to a function, as the queue port would have received it; [`secrets`] reads what a
//!   configuration only names.
//! * [`policy`]: how long each kind of call may take and how often it is tried; [`request_counter`] counts them all.
//! * [`fault`]: what went wrong, in one line that says what to do.

mod archive;
mod changes;
mod claims;
mod existence;
mod fault;
mod files;
mod policy;
pub mod provision;
mod queue;
mod request_counter;
pub mod secrets;
mod versions;

use std::sync::Arc;

use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_smithy_http_client::tls;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_template::names::Names;

pub use archive::ERASURE_REFRESH;
pub use aws_lambda_events::sqs::{SqsBatchResponse, SqsMessage};
pub use queue::handed::{LambdaBatchError, deliveries};

/// An account and a region, and what is called how there.
#[derive(Debug, Clone)]
pub struct Aws {
    sdk: SdkConfig,
    names: Arc<Names>,
    region: Arc<str>,
}

/// Why there is nothing to talk to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// No region is set.
    #[error("no AWS region is set: set AWS_REGION, or a region for AWS_PROFILE")]
    NoRegion,
}

/// What every client starts from.
pub fn loader() -> ConfigLoader {
    // One stack for TLS, the same as for Slack: ring, which needs no entropy of its own at start.
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
        .build_https();
    // Named, not `latest()`: an update of the SDK must not change timing and retries behind our back.
    aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(http)
}

impl Aws {
    /// Reads AWS's own settings (`AWS_REGION`, `AWS_PROFILE`, `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …), which mean
    /// what they mean everywhere. Nothing is asked of AWS yet.
    ///
    /// # Errors
    /// [`ConnectError`] if a setting is missing.
    pub async fn connect(names: Names) -> Result<Self, ConnectError> {
        Self::of(loader().load().await, names)
    }

    /// The same with settings of the caller's.
    ///
    /// # Errors
    /// As [`Aws::connect`].
    pub fn of(sdk: SdkConfig, names: Names) -> Result<Self, ConnectError> {
        let region = sdk.region().ok_or(ConnectError::NoRegion)?.to_string().into();
        Ok(Self { sdk, names: Arc::new(names), region })
    }

    /// The queue port on SQS.
    pub fn queue(&self) -> Arc<dyn ports::queue::Queue> {
        Arc::new(queue::SqsQueue::new(self))
    }

    /// The archive port on DynamoDB, with bulk on S3.
    pub fn archive(&self) -> Arc<dyn ports::archive::Archive> {
        Arc::new(archive::DynamoArchive::new(self))
    }

    /// The same archive for those that write to it: nothing that is erased is written, as of [`ERASURE_REFRESH`] ago, and what
    /// they write is marked, with the time of this clock, for [`Aws::changes`].
    pub fn writing_archive(&self, clock: ports::clock::SharedClock) -> Arc<dyn ports::archive::Archive> {
        let bound = archive::BoundArchive::new(archive::DynamoArchive::new(self), Arc::clone(&clock));
        Arc::new(changes::MarkingArchive::new(Arc::new(bound), clock))
    }

    /// The changes port on DynamoDB.
    pub fn changes(&self, clock: ports::clock::SharedClock) -> Arc<dyn ports::changes::Changes> {
        Arc::new(changes::DynamoChanges::new(self.archive(), self.names().archive(), clock))
    }

    /// The files port on S3.
    pub fn files(&self) -> Arc<dyn ports::files::Files> {
        Arc::new(files::S3Files::new(self))
    }

    /// The existence port on DynamoDB.
    pub fn existence(&self) -> Arc<dyn ports::existence::Existence> {
        Arc::new(existence::DynamoExistence::new(self))
    }

    /// The claims port on DynamoDB. The clock says when a lease ends.
    pub fn claims(&self, clock: ports::clock::SharedClock) -> Arc<dyn ports::claims::Claims> {
        Arc::new(claims::DynamoClaims::new(self, clock))
    }

    /// What everything is called.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Where everything is.
    pub fn region(&self) -> &str {
        &self.region
    }
}
