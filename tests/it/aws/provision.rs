//! `provision` makes AWS match the topology and does not touch resources of other owners.

mod answers;
mod created;
mod foreign;

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use aws::Aws;
use aws::provision::{Parts, ProvisionError, ProvisionStep, ResourceChange, TAG, provision};
use aws_config::Region;
use aws_resources::names::Names;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, PointInTimeRecoveryStatus, ProjectionType,
    ScalarAttributeType, TimeToLiveSpecification, TimeToLiveStatus,
};
use aws_sdk_s3::types::{
    BucketLifecycleConfiguration, BucketLocationConstraint, CreateBucketConfiguration, ExpirationStatus,
    LifecycleExpiration, LifecycleRule, LifecycleRuleFilter, ServerSideEncryption, Tag, Tagging,
};
use aws_sdk_sqs::types::QueueAttributeName as Attribute;
use ports::queue::topology::{MAX_RECEIVE_COUNT, QUEUES, TABLES, TableRole};
use ports::queue::{QueueName, QueueRef};
use serde_json::{Value, json};
use tests::harness::stack::{REGION, Stack, fresh_names};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::{BUCKET_ONLY, TABLES_ONLY};

const ONE_QUEUE: Parts<'static> = Parts { queues: &[QueueName::Stats], tables: false, bucket: false };

async fn run(aws: &Aws, parts: Parts<'_>, dry_run: bool) -> (Vec<ProvisionStep>, Result<(), ProvisionError>) {
    let mut steps = Vec::new();
    let result = provision(aws, parts, dry_run, &mut |step| steps.push(step.clone())).await;
    (steps, result)
}

/// The steps of a successful run.
async fn steps(aws: &Aws, parts: Parts<'_>) -> Vec<ProvisionStep> {
    let (steps, result) = run(aws, parts, false).await;
    result.unwrap();
    steps
}

/// The resources of a successful run that were created or have other settings.
async fn changes(aws: &Aws, parts: Parts<'_>) -> Vec<String> {
    let steps = steps(aws, parts).await;
    steps.iter().filter(|step| step.change != ResourceChange::Keep).map(ProvisionStep::to_string).collect()
}

/// An installation, and clients to inspect it and to interfere with it.
struct ProvisionFixture {
    aws: Aws,
    sqs: aws_sdk_sqs::Client,
    dynamodb: aws_sdk_dynamodb::Client,
    s3: aws_sdk_s3::Client,
}

impl ProvisionFixture {
    async fn new() -> Self {
        let stack = Stack::shared();
        Self {
            aws: stack.aws().await,
            sqs: stack.sqs().await,
            dynamodb: stack.dynamodb().await,
            s3: stack.s3().await,
        }
    }

    fn names(&self) -> &Names {
        self.aws.names()
    }

    async fn url(&self, queue: QueueRef) -> String {
        let found = self.sqs.get_queue_url().queue_name(self.names().queue(queue)).send().await;
        found.unwrap().queue_url.unwrap()
    }

    async fn attributes(&self, queue: QueueRef) -> HashMap<Attribute, String> {
        let url = self.url(queue).await;
        let request = self.sqs.get_queue_attributes().queue_url(url).attribute_names(Attribute::All);
        request.send().await.unwrap().attributes.unwrap()
    }

    async fn set_attribute(&self, queue: QueueRef, name: Attribute, value: &str) {
        let url = self.url(queue).await;
        self.sqs.set_queue_attributes().queue_url(url).attributes(name, value).send().await.unwrap();
    }

    /// A table with these keys, of another owner unless a tag is given.
    async fn make_table(&self, name: &str, keys: &[(&str, ScalarAttributeType)], tag: Option<&str>) {
        let mut request =
            self.dynamodb.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
        for ((name, kind), role) in keys.iter().zip([KeyType::Hash, KeyType::Range]) {
            let definition =
                AttributeDefinition::builder().attribute_name(*name).attribute_type(kind.clone());
            let key = KeySchemaElement::builder().attribute_name(*name).key_type(role);
            request = request.attribute_definitions(definition.build().unwrap());
            request = request.key_schema(key.build().unwrap());
        }
        if let Some(tag) = tag {
            let tag = aws_sdk_dynamodb::types::Tag::builder().key(TAG).value(tag).build().unwrap();
            request = request.tags(tag);
        }
        request.send().await.unwrap();
    }

    async fn make_bucket(&self, tags: &[(&str, &str)]) {
        let location = BucketLocationConstraint::from(REGION);
        let location = CreateBucketConfiguration::builder().location_constraint(location).build();
        let request = self.s3.create_bucket().bucket(self.names().bucket());
        request.create_bucket_configuration(location).send().await.unwrap();
        let tag = |(key, value): &(&str, &str)| Tag::builder().key(*key).value(*value).build().unwrap();
        let tags = Tagging::builder().set_tag_set(Some(tags.iter().map(tag).collect())).build().unwrap();
        self.s3.put_bucket_tagging().bucket(self.names().bucket()).tagging(tags).send().await.unwrap();
    }

    /// The existing resources that have this installation's names.
    async fn resources(&self) -> Vec<String> {
        let names = self.names();
        let queues = self.sqs.list_queues().queue_name_prefix(names.prefix()).send().await.unwrap();
        let queues = queues.queue_urls.unwrap_or_default().into_iter();
        let mut found: Vec<String> = queues.map(|url| url.rsplit('/').next().unwrap().to_owned()).collect();
        for spec in &TABLES {
            let name = names.table(spec.role);
            if self.dynamodb.describe_table().table_name(name).send().await.is_ok() {
                found.push(name.to_owned());
            }
        }
        if self.s3.head_bucket().bucket(names.bucket()).send().await.is_ok() {
            found.push(names.bucket().to_owned());
        }
        found.sort();
        found
    }
}

/// The names of all resources, in the order of the topology.
fn everything(names: &Names) -> Vec<String> {
    let queue = |queue| format!("queue {}", names.queue(queue));
    let queues = QUEUES
        .iter()
        .flat_map(|spec| [QueueRef::dead_letters(spec.name), QueueRef::from(spec.name)].map(queue));
    let tables = TABLES.iter().map(|spec| format!("table {}", names.table(spec.role)));
    queues.chain(tables).chain([format!("bucket {}", names.bucket())]).collect()
}
