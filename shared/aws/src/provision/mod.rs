//! Creates and updates the AWS resources of the topology: queues with their dead-letter queues, tables, the
//! bucket.
//!
//! First, all resources are read: a resource that has one of our names but was not created by this program
//! stops the run before any change. Then missing resources are created and wrong settings are corrected;
//! correct ones are left alone, so that a second run changes nothing. Nothing is ever deleted. Additions of
//! the operator (a stronger encryption, a rule of the bucket's lifecycle) stay.
//!
//! Two concurrent runs are harmless: each reads again what the other has created meanwhile.

pub(super) mod bucket;
mod deadline;
pub(super) mod keys;
pub(super) mod queues;
pub(super) mod tables;
pub(super) mod transport;

use std::fmt;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::error::operation::BuildError;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::{Aws, policy};
use ports::queue::QueueName;
use ports::queue::topology::{QUEUES, TABLES, TableSpec};

pub use aws_resources::resources::TAG;

/// Maximum number of resources handled concurrently. More would hit the rate limits of the control plane,
/// which are a few calls a second.
const AT_ONCE: usize = 4;

/// One step that was done or is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionStep {
    /// `queue annalist-events.fifo`.
    pub resource: String,
    /// The change that was made or is planned.
    pub change: ResourceChange,
}

/// The change of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceChange {
    /// The resource was missing.
    Create,
    /// These settings were different, with AWS's names.
    Update(Vec<String>),
    /// The resource is correct.
    Keep,
}

/// Why provisioning failed, at least in part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvisionError {
    /// A resource of that name was not created by this program. Nothing was changed.
    #[error("{resource} exists and is not this installation's ({why}): nothing was changed; {remedy}")]
    Foreign {
        /// The resource.
        resource: String,
        /// Why it is foreign.
        why: String,
        /// What to do about it.
        remedy: String,
    },
    /// A resource of ours has a wrong property that can only be set at creation. Nothing was changed.
    #[error("{resource} cannot be used: {why}, which cannot be changed; {remedy}")]
    Unusable {
        /// The resource.
        resource: String,
        /// What is wrong with it.
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
    /// The tables.
    pub tables: bool,
    /// The bucket.
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

/// Compares AWS with the topology and, unless `dry_run`, creates and updates its resources. `done` receives
/// each step, in order.
///
/// If one resource fails, the others are handled all the same, so that the next run has less to do.
///
/// # Errors
/// [`ProvisionError`]; if a resource is foreign or unusable, before any change.
pub async fn provision(
    aws: &Aws,
    parts: Parts<'_>,
    dry_run: bool,
    done: &mut (dyn FnMut(&ProvisionStep) + Send),
) -> Result<(), ProvisionError> {
    let provisioner = Provisioner::new(aws);
    let inspections = resources(parts).into_iter().map(|resource| resource.inspect(&provisioner));
    let found: Vec<ExistingResource> = stream::iter(inspections).buffered(AT_ONCE).try_collect().await?;
    if dry_run {
        found.iter().flat_map(|found| found.planned(&provisioner)).for_each(|step| done(&step));
        return Ok(());
    }
    let mut results =
        stream::iter(found.into_iter().map(|found| found.apply(&provisioner))).buffered(AT_ONCE);
    let mut first_failure = Ok(());
    while let Some((steps, result)) = results.next().await {
        steps.iter().for_each(&mut *done);
        first_failure = first_failure.and(result);
    }
    first_failure
}

/// A resource that is handled independently.
#[derive(Clone, Copy)]
enum Resource {
    /// A queue with its dead-letter queue, to which it refers.
    Queue(QueueName),
    Table(&'static TableSpec),
    Bucket,
}

/// The resources of the parts, in the order of the topology.
fn resources(parts: Parts<'_>) -> Vec<Resource> {
    let queues = parts.queues.iter().map(|queue| Resource::Queue(*queue));
    let tables = TABLES.iter().filter(|_| parts.tables).map(Resource::Table);
    queues.chain(tables).chain(parts.bucket.then_some(Resource::Bucket)).collect()
}

impl Resource {
    async fn inspect(self, provisioner: &Provisioner<'_>) -> Result<ExistingResource, ProvisionError> {
        Ok(match self {
            Self::Queue(name) => ExistingResource::Queue(queues::inspect(provisioner, name).await?),
            Self::Table(spec) => ExistingResource::Table(spec, tables::inspect(provisioner, spec).await?),
            Self::Bucket => ExistingResource::Bucket(bucket::inspect(provisioner).await?),
        })
    }
}

/// A resource as it is now.
enum ExistingResource {
    Queue(queues::QueuePair),
    Table(&'static TableSpec, Option<tables::FoundTable>),
    Bucket(Option<bucket::BucketDifference>),
}

impl ExistingResource {
    /// The planned steps.
    fn planned(&self, provisioner: &Provisioner<'_>) -> Vec<ProvisionStep> {
        match self {
            Self::Queue(pair) => pair.planned(provisioner),
            Self::Table(spec, table) => vec![tables::planned(provisioner, spec, table.as_ref())],
            Self::Bucket(bucket) => vec![bucket::planned(provisioner, bucket.as_ref())],
        }
    }

    /// Creates or updates the resource. Returns the steps that were done, even if a later one failed.
    async fn apply(self, provisioner: &Provisioner<'_>) -> (Vec<ProvisionStep>, Result<(), ProvisionError>) {
        let mut steps = Vec::new();
        let result = match self {
            Self::Queue(pair) => pair.apply(provisioner, &mut steps).await,
            Self::Table(spec, table) => {
                tables::apply(provisioner, spec, table).await.map(|step| steps.push(step))
            }
            Self::Bucket(bucket) => bucket::apply(provisioner, bucket).await.map(|step| steps.push(step)),
        };
        (steps, result)
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
    fn check_tag(&self, resource: &str, tag: Option<&str>, setting: &str) -> Result<(), ProvisionError> {
        let owner = self.owner();
        let why = match tag {
            Some(tag) if tag == owner => return Ok(()),
            Some(other) => format!("its tag `{TAG}` is `{other}`, not `{owner}`"),
            None => format!("it has no tag `{TAG}`"),
        };
        Err(ProvisionError::Foreign {
            resource: resource.to_owned(),
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

fn step(resource: String, change: ResourceChange) -> ProvisionStep {
    ProvisionStep { resource, change }
}

impl ResourceChange {
    /// An update of these settings, or [`Self::Keep`] without any.
    fn from_settings(settings: Vec<String>) -> Self {
        if settings.is_empty() { Self::Keep } else { Self::Update(settings) }
    }
}

impl fmt::Display for ProvisionStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        match &self.change {
            ResourceChange::Update(settings) => write!(f, " ({})", settings.join(", ")),
            ResourceChange::Create | ResourceChange::Keep => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_the_whole_topology_in_order() {
        assert_eq!(Parts::ALL.queues, QUEUES.each_ref().map(|spec| spec.name));
        let kinds = |resource: &Resource| match resource {
            Resource::Queue(name) => name.to_string(),
            Resource::Table(spec) => spec.default_name.to_owned(),
            Resource::Bucket => "bucket".to_owned(),
        };
        let all: Vec<String> = resources(Parts::ALL).iter().map(kinds).collect();
        let queues = QUEUES.iter().map(|spec| spec.label.to_owned());
        let tables = TABLES.iter().map(|spec| spec.default_name.to_owned());
        assert_eq!(all, queues.chain(tables).chain(["bucket".to_owned()]).collect::<Vec<_>>());
    }

    #[test]
    fn a_step_names_the_settings_it_changes() {
        let step = |change| step("queue q.fifo".into(), change).to_string();
        assert_eq!(step(ResourceChange::Create), "queue q.fifo");
        assert_eq!(step(ResourceChange::from_settings(Vec::new())), "queue q.fifo");
        assert_eq!(step(ResourceChange::from_settings(vec!["A".into(), "B".into()])), "queue q.fifo (A, B)");
    }
}
