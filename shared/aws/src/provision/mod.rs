//! Creates the AWS resources of the topology that are missing: queues with their dead-letter queues, tables, the
//! bucket.
//!
//! First, all resources are read: a resource that has one of our names but was not created by this program
//! stops the run before any change. Then missing resources are created, in order, up to the first failure. What
//! exists is never changed or deleted: its settings that differ are named, and the template sets them.
//!
//! Two concurrent runs are harmless: a resource that another run has just created is left to that run.

mod bucket;
mod deadline;
mod queues;
mod tables;

use std::fmt;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::error::operation::BuildError;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::{Aws, policy};
use ports::queue::topology::{QUEUES, TABLES, TableSpec};
use ports::queue::{QueueName, QueueRef};

pub use aws_resources::resources::TAG;

/// Maximum number of resources read concurrently. More would hit the rate limits of the control plane, which
/// are a few calls a second.
const AT_ONCE: usize = 4;

/// One step that was done or is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionStep {
    /// `queue annalist-events.fifo`.
    pub resource: String,
    /// The change that was made or is planned.
    pub change: ResourceChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceChange {
    /// The resource was missing.
    Create,
    /// The resource exists, and these settings differ, with AWS's names. Nothing was changed.
    Differs(Vec<String>),
    /// The resource is correct.
    Keep,
}

/// Why provisioning failed, at least in part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvisionError {
    /// A resource of that name was not created by this program. Nothing was changed.
    #[error("{resource} exists and is not this installation's ({why}): nothing was changed; {remedy}")]
    Foreign {
        resource: String,
        /// Why it is foreign.
        why: String,
        /// What to do about it.
        remedy: String,
    },
    /// AWS refused or did not answer.
    #[error("{0}")]
    Failed(String),
}

/// The resources to provision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// These queues, each with its dead-letter queue.
    pub queues: &'a [QueueName],
    pub tables: bool,
    pub bucket: bool,
}

impl Parts<'static> {
    /// The whole topology, including the queues whose worker does not exist yet.
    pub const ALL: Self = Self { queues: &EVERY_QUEUE, tables: true, bucket: true };
}

const EVERY_QUEUE: [QueueName; QUEUES.len()] = {
    let mut names = [QueueName::Events; QUEUES.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = QUEUES[index].name;
        index += 1;
    }
    names
};

/// Compares AWS with the topology and, unless `dry_run`, creates what is missing. `done` receives each step, in
/// order.
///
/// # Errors
/// [`ProvisionError`]; if a resource is foreign, before any change.
pub async fn provision(
    aws: &Aws,
    parts: Parts<'_>,
    dry_run: bool,
    done: &mut (dyn FnMut(&ProvisionStep) + Send),
) -> Result<(), ProvisionError> {
    let provisioner = Provisioner::new(aws);
    let resources = resources(parts);
    let inspections = resources.iter().map(|resource| resource.differing(&provisioner));
    let found: Vec<_> = stream::iter(inspections).buffered(AT_ONCE).try_collect().await?;
    for (resource, differing) in resources.iter().zip(found) {
        let change = match differing {
            Some(settings) if settings.is_empty() => ResourceChange::Keep,
            Some(settings) => ResourceChange::Differs(settings),
            None if dry_run || resource.create(&provisioner).await? => ResourceChange::Create,
            // Another run has created it meanwhile.
            None => ResourceChange::Keep,
        };
        done(&ProvisionStep { resource: resource.name(aws), change });
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Resource {
    Queue(QueueRef),
    Table(&'static TableSpec),
    Bucket,
}

/// The resources of the parts, in the order of the topology. A queue refers to its dead-letter queue, which is
/// before it.
fn resources(parts: Parts<'_>) -> Vec<Resource> {
    let queues = parts.queues.iter().flat_map(|name| [QueueRef::dead_letters(*name), (*name).into()]);
    let tables = TABLES.iter().filter(|_| parts.tables).map(Resource::Table);
    queues.map(Resource::Queue).chain(tables).chain(parts.bucket.then_some(Resource::Bucket)).collect()
}

impl Resource {
    /// `queue annalist-events.fifo`.
    fn name(self, aws: &Aws) -> String {
        match self {
            Self::Queue(queue) => format!("queue {}", aws.names().queue(queue)),
            Self::Table(spec) => format!("table {}", aws.names().table(spec.role)),
            Self::Bucket => format!("bucket {}", aws.names().bucket()),
        }
    }

    /// The settings that differ; `None` if the resource is missing.
    async fn differing(self, provisioner: &Provisioner<'_>) -> Result<Option<Vec<String>>, ProvisionError> {
        match self {
            Self::Queue(queue) => queues::differing(provisioner, queue).await,
            Self::Table(spec) => tables::differing(provisioner, spec).await,
            Self::Bucket => bucket::differing(provisioner).await,
        }
    }

    /// Creates the resource; false if it exists.
    async fn create(self, provisioner: &Provisioner<'_>) -> Result<bool, ProvisionError> {
        match self {
            Self::Queue(queue) => queues::create(provisioner, queue).await,
            Self::Table(spec) => tables::create(provisioner, spec).await,
            Self::Bucket => bucket::create(provisioner).await,
        }
    }
}

/// The clients, and the owner of the resources.
struct Provisioner<'a> {
    aws: &'a Aws,
    sqs: aws_sdk_sqs::Client,
    dynamodb: aws_sdk_dynamodb::Client,
    s3: aws_sdk_s3::Client,
}

impl<'a> Provisioner<'a> {
    fn new(aws: &'a Aws) -> Self {
        Self {
            aws,
            sqs: policy::sqs(&aws.sdk, policy::SETUP),
            dynamodb: policy::dynamodb(&aws.sdk, policy::SETUP),
            s3: policy::SETUP.s3(&aws.sdk),
        }
    }

    /// The value of the tag [`TAG`].
    fn owner(&self) -> &str {
        self.aws.names().prefix()
    }

    /// Checks by the tag that the resource belongs to this installation; otherwise it is left alone.
    /// `setting` names the resource.
    fn check_tag(&self, resource: Resource, tag: Option<&str>, setting: &str) -> Result<(), ProvisionError> {
        let owner = self.owner();
        let why = match tag {
            Some(tag) if tag == owner => return Ok(()),
            Some(other) => format!("its tag `{TAG}` is `{other}`, not `{owner}`"),
            None => format!("it has no tag `{TAG}`"),
        };
        Err(ProvisionError::Foreign {
            resource: resource.name(self.aws),
            why,
            remedy: format!(
                "set {setting} to another name, or give it the tag `{TAG}` = `{owner}` to hand it over"
            ),
        })
    }
}

/// AWS's error code without the service's namespace, as in `AWS.SimpleQueueService.NonExistentQueue`.
fn code<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Option<&str> {
    let code = error.as_service_error()?.code()?;
    code.rsplit('.').next()
}

/// The error of an incomplete request, which only a bug in this module can cause.
fn build_failed(error: BuildError) -> ProvisionError {
    ProvisionError::Failed(error.to_string())
}

impl fmt::Display for ProvisionStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        match &self.change {
            ResourceChange::Differs(settings) => write!(f, " ({})", settings.join(", ")),
            ResourceChange::Create | ResourceChange::Keep => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_the_whole_topology_and_a_dead_letter_queue_is_before_its_queue() {
        let of = |resource: &Resource| match resource {
            Resource::Queue(queue) => format!("{} {}", queue.name, queue.dead_letters),
            Resource::Table(spec) => spec.default_name.to_owned(),
            Resource::Bucket => "bucket".to_owned(),
        };
        let all: Vec<String> = resources(Parts::ALL).iter().map(of).collect();
        let queues = QUEUES.iter().flat_map(|spec| [true, false].map(|dead| format!("{} {dead}", spec.name)));
        let tables = TABLES.iter().map(|spec| spec.default_name.to_owned());
        assert_eq!(all, queues.chain(tables).chain(["bucket".to_owned()]).collect::<Vec<_>>());
    }

    #[test]
    fn a_step_names_the_settings_that_differ() {
        let step = |change| ProvisionStep { resource: "queue q.fifo".into(), change }.to_string();
        assert_eq!(step(ResourceChange::Create), "queue q.fifo");
        assert_eq!(step(ResourceChange::Keep), "queue q.fifo");
        assert_eq!(step(ResourceChange::Differs(vec!["A".into(), "B".into()])), "queue q.fifo (A, B)");
    }
}
