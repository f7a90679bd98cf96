//! The ports on AWS: SQS FIFO, DynamoDB and S3, whose part is the crate [`s3`].
//!
//! * [`queue`], [`archive`], [`changes`], [`existence`], [`claims`]: one adapter each, constructed alone.
//! * [`provision`]: creates the resources they need, from the topology; [`aws_resources`] prints the same
//!   resources plus every part as a function, with the permissions each part needs.
//! * [`deliveries`]: converts the messages that Lambda passes to a function into the queue port's deliveries;
//!   [`secrets`]: reads secrets that the configuration refers to.
//! * [`policy`]: timeout and retries of each kind of call.

mod archive;
mod changes;
mod claims;
mod existence;
mod policy;
pub mod provision;
mod queue;
pub mod secrets;

use std::sync::Arc;

use aws_config::SdkConfig;
use aws_resources::names::{Names, settings};
use s3::Bucket;
use s3::fault::CallSubject;

pub use archive::ERASURE_REFRESH;
pub use aws_lambda_events::sqs::{SqsBatchResponse, SqsMessage};
pub use queue::lambda_batch::{LambdaBatchError, deliveries};
pub use s3::loader;

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
    #[error("no AWS region is set: set AWS_REGION, or a region for AWS_PROFILE")]
    NoRegion,
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
        Arc::new(archive::DynamoArchive::new(self, ports::clock::SystemClock::shared()))
    }

    /// The archive for processes that write: it rejects updates of erased data, based on erasure facts that
    /// are at most [`ERASURE_REFRESH`] old, and marks written parts for [`Aws::changes`] with the time of
    /// `clock`.
    pub fn writing_archive(&self, clock: ports::clock::SharedClock) -> Arc<dyn ports::archive::Archive> {
        let bound = archive::BoundArchive::new(
            archive::DynamoArchive::new(self, Arc::clone(&clock)),
            Arc::clone(&clock),
        );
        Arc::new(changes::MarkingArchive::new(Arc::new(bound), clock))
    }

    /// The changes port on DynamoDB.
    pub fn changes(&self, clock: ports::clock::SharedClock) -> Arc<dyn ports::changes::Changes> {
        Arc::new(changes::DynamoChanges::new(self.archive(), self.names().archive_identity(), clock))
    }

    /// The files port on S3.
    pub fn files(&self) -> Arc<dyn ports::files::Files> {
        self.bucket().files()
    }

    /// The existence port on DynamoDB.
    pub fn existence(&self) -> Arc<dyn ports::existence::Existence> {
        Arc::new(existence::DynamoExistence::new(self))
    }

    /// The claims port on DynamoDB. `clock` decides when a lease expires.
    pub fn claims(&self, clock: ports::clock::SharedClock) -> Arc<dyn ports::claims::Claims> {
        Arc::new(claims::DynamoClaims::new(self, clock))
    }

    /// The bucket of files and of large attributes.
    fn bucket(&self) -> Bucket {
        Bucket::new(&self.sdk, self.names.bucket(), "", self.bucket_subject())
    }

    /// A queue, for error messages.
    fn queue_subject(&self, name: &str) -> CallSubject {
        self.subject("SQS", format!("queue {name}"), settings::PREFIX)
    }

    /// A table, which is named by `setting`.
    fn table_subject(&self, name: &str, setting: &'static str) -> CallSubject {
        self.subject("DynamoDB", format!("table {name}"), setting)
    }

    fn bucket_subject(&self) -> CallSubject {
        self.subject("S3", format!("bucket {}", self.names.bucket()), settings::BUCKET)
    }

    fn subject(&self, service: &'static str, resource: String, setting: &'static str) -> CallSubject {
        CallSubject {
            service,
            resource,
            setting,
            to_create: "run `annalist provision`",
            region: self.region().to_owned(),
        }
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
