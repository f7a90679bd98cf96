//! What queues, tables and the bucket have, for `provision`, which makes them, and the template, which names them.

use std::time::Duration;

use ports::queue::MAX_MESSAGE_BYTES;
use ports::queue::topology::{MAX_RECEIVE_COUNT, QueueSpec, RETENTION, TableSpec};
use serde_json::{Value, json};

/// The tag of everything that is made; its value is the installation's prefix.
pub const TAG: &str = "annalist";

/// The rule of the bucket's lifecycle that is ours; all others are left alone.
pub const UNFINISHED_RULE: &str = "annalist-unfinished-uploads";
/// A file is uploaded within minutes; what is a day old was left by a crash, and is on the bill.
pub const UNFINISHED_DAYS: i32 = 1;
/// With keys of S3's own.
pub const ENCRYPTION: &str = "AES256";
/// Our statement among those of the policy.
pub const STATEMENT: &str = "AnnalistTlsOnly";
/// The version of IAM's language, which a new policy names.
/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_version.html>
pub const LANGUAGE: &str = "2012-10-17";

/// The statement, for the bucket of this ARN and everything in it: text, or what CloudFormation makes text of.
pub fn tls_only(bucket: Value, objects: Value) -> Value {
    json!({
        "Sid": STATEMENT,
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [bucket, objects],
        "Condition": { "Bool": { "aws:SecureTransport": "false" } },
    })
}

/// A receive that does not say how long it waits gets its first message or SQS's longest wait, instead of an empty
/// answer that is on the bill all the same.
const RECEIVE_WAIT: Duration = Duration::from_secs(20);

/// The attributes of a queue and their values, as SQS names them, with its dead letters under this ARN.
pub fn queue_attributes(spec: &QueueSpec, dead_letters: &str) -> Vec<(&'static str, String)> {
    let redrive = json!({ "deadLetterTargetArn": dead_letters, "maxReceiveCount": MAX_RECEIVE_COUNT });
    let mut settings = common_attributes(spec, spec.delay);
    settings.push(("RedrivePolicy", redrive.to_string()));
    settings
}

/// What has waited once need not wait again.
pub fn dead_letter_attributes(spec: &QueueSpec) -> Vec<(&'static str, String)> {
    common_attributes(spec, Duration::ZERO)
}

fn common_attributes(spec: &QueueSpec, delay: Duration) -> Vec<(&'static str, String)> {
    let seconds = |time: Duration| time.as_secs().to_string();
    vec![
        ("VisibilityTimeout", seconds(spec.visibility_timeout())),
        ("DelaySeconds", seconds(delay)),
        ("MessageRetentionPeriod", seconds(RETENTION)),
        // Explicit, since queues made through the API may still get a quarter of it.
        ("MaximumMessageSize", MAX_MESSAGE_BYTES.to_string()),
        ("ReceiveMessageWaitTimeSeconds", seconds(RECEIVE_WAIT)),
        // Every job has a deduplication id of its own; one made of the body would swallow a repeated message.
        ("ContentBasedDeduplication", "false".to_owned()),
        // High throughput, which SQS grants only with both: 300 calls a second for each group instead of for all.
        // https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/high-throughput-fifo.html
        ("DeduplicationScope", "messageGroup".to_owned()),
        ("FifoThroughputLimit", "perMessageGroupId".to_owned()),
        ("SqsManagedSseEnabled", "true".to_owned()),
    ]
}

/// The attributes of a key: the partition's, and the order's within it.
pub fn keys<'a>(partition: &'a str, sort: Option<&'a str>) -> Vec<&'a str> {
    [partition].into_iter().chain(sort).collect()
}

/// Every attribute that is part of a key, once.
pub fn key_attributes(spec: &TableSpec) -> Vec<&'static str> {
    let mut names = keys(spec.partition_key, spec.sort_key);
    let index = spec.index.iter().flat_map(|index| [index.partition_key, index.sort_key]);
    for name in index {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
