//! The ports on AWS: SQS FIFO, DynamoDB and S3.
//!
//! * [`queue`], [`archive`], [`changes`], [`files`], [`existence`], [`claims`]: one adapter each, constructed
//!   alone.
//! * [`provision`]: creates the resources they need, from the topology; [`aws_resources`] prints the same
//!   resources plus every part as a function, with the permissions each part needs.
//! * [`deliveries`]: converts the messages that Lambda passes to a function into the queue port's deliveries;
//!   [`secrets`]: reads secrets that the configuration refers to.
//! * [`policy`]: timeout and retries of each kind of call; [`request_counter`]: counts all requests.
//! * [`fault`]: turns an AWS error into one line that says what to do.

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
use aws_resources::names::Names;
use aws_smithy_http_client::tls;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

pub use archive::ERASURE_REFRESH;
pub use aws_lambda_events::sqs::{SqsBatchResponse, SqsMessage};
pub use queue::lambda_batch::{LambdaBatchError, deliveries};

/// An account and region, and the names of its resources.
#[derive(Debug, Clone)]
pub struct Aws {
    sdk: SdkConfig,
    names: Arc<Names>,
    region: Arc<str>,
}

/// Why [`Aws`] could not be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// No region is set.
    #[error("no AWS region is set: set AWS_REGION, or a region for AWS_PROFILE")]
    NoRegion,
}

/// The configuration that every client starts from.
pub fn loader() -> ConfigLoader {
    // The same TLS stack as for Slack: ring, which needs no entropy of its own at startup.
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
        .build_https();
    // Pinned, not `latest()`: an SDK update must not silently change timing and retries.
    aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(http)
}

impl Aws {
    /// Reads AWS's own settings (`AWS_REGION`, `AWS_PROFILE`, `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …),
    /// with their usual meaning. Sends no request to AWS yet.
    ///
    /// # Errors
    /// [`ConnectError`] if a setting is missing.
    pub async fn connect(names: Names) -> Result<Self, ConnectError> {
        Self::from_sdk_config(loader().load().await, names)
    }

    /// Uses the caller's SDK configuration instead of the environment.
    ///
    /// # Errors
    /// As [`Aws::connect`].
    pub fn from_sdk_config(sdk: SdkConfig, names: Names) -> Result<Self, ConnectError> {
        let region = sdk.region().ok_or(ConnectError::NoRegion)?.to_string().into();
        Ok(Self { sdk, names: Arc::new(names), region })
    }

    /// The queue port on SQS.
    pub fn queue(&self) -> Arc<dyn ports::queue::Queue> {
        Arc::new(queue::SqsQueue::new(self))
    }

    /// The archive port on DynamoDB, with large attributes on S3.
    pub fn archive(&self) -> Arc<dyn ports::archive::Archive> {
        Arc::new(archive::DynamoArchive::new(self))
    }

    /// The archive for processes that write: it rejects updates of erased data, based on erasure facts that
    /// are at most [`ERASURE_REFRESH`] old, and marks written parts for [`Aws::changes`] with the time of
    /// `clock`.
    pub fn writing_archive(&self, clock: ports::clock::SharedClock) -> Arc<dyn ports::archive::Archive> {
        let bound = archive::BoundArchive::new(archive::DynamoArchive::new(self), Arc::clone(&clock));
        Arc::new(changes::MarkingArchive::new(Arc::new(bound), clock))
    }

    /// The changes port on DynamoDB.
    pub fn changes(&self, clock: ports::clock::SharedClock) -> Arc<dyn ports::changes::Changes> {
        Arc::new(changes::DynamoChanges::new(self.archive(), self.names().archive_identity(), clock))
    }

    /// The files port on S3.
    pub fn files(&self) -> Arc<dyn ports::files::Files> {
        Arc::new(files::S3Files::new(self))
    }

    /// The existence port on DynamoDB.
    pub fn existence(&self) -> Arc<dyn ports::existence::Existence> {
        Arc::new(existence::DynamoExistence::new(self))
    }

    /// The claims port on DynamoDB. `clock` decides when a lease expires.
    pub fn claims(&self, clock: ports::clock::SharedClock) -> Arc<dyn ports::claims::Claims> {
        Arc::new(claims::DynamoClaims::new(self, clock))
    }

    /// The names of all resources.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The region of all resources.
    pub fn region(&self) -> &str {
        &self.region
    }
}
