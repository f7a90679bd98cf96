//! The properties of queues, tables and the bucket, shared by `provision` and the template.

use std::time::Duration;

use ports::queue::MAX_MESSAGE_BYTES;
use ports::queue::topology::{MAX_RECEIVE_COUNT, QueueSpec, RETENTION, TableSpec};
use serde_json::{Value, json};

/// The tag of every resource; its value is the installation's prefix.
pub const TAG: &str = "annalist";

/// The id of our rule of the bucket's lifecycle.
pub const UNFINISHED_RULE: &str = "annalist-unfinished-uploads";
/// A file is uploaded within minutes; an unfinished upload that is a day old was left by a crash, and is
/// billed.
pub const UNFINISHED_DAYS: i32 = 1;
/// Encryption with S3's own keys.
pub const ENCRYPTION: &str = "AES256";
/// The id of our statement in the bucket's policy.
const STATEMENT: &str = "AnnalistTlsOnly";
/// The version of the policy language.
/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_version.html>
pub const LANGUAGE: &str = "2012-10-17";

/// The policy statement for a bucket and all its objects. The ARNs are text, or functions that CloudFormation
/// resolves.
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

/// The wait of a receive that does not set one: SQS's longest, instead of an immediate empty response, which
/// is billed all the same.
const RECEIVE_WAIT: Duration = Duration::from_secs(20);

/// The attributes of a queue, with SQS's names; `dead_letters` is the ARN of its dead-letter queue.
pub fn queue_attributes(spec: &QueueSpec, dead_letters: &str) -> Vec<(&'static str, String)> {
    let redrive = json!({ "deadLetterTargetArn": dead_letters, "maxReceiveCount": MAX_RECEIVE_COUNT });
    let mut settings = common_attributes(spec, spec.delay);
    settings.push(("RedrivePolicy", redrive.to_string()));
    settings
}

/// The attributes of a dead-letter queue, with SQS's names. It has no delay, because its messages have waited
/// already.
pub fn dead_letter_attributes(spec: &QueueSpec) -> Vec<(&'static str, String)> {
    common_attributes(spec, Duration::ZERO)
}

fn common_attributes(spec: &QueueSpec, delay: Duration) -> Vec<(&'static str, String)> {
    let seconds = |duration: Duration| duration.as_secs().to_string();
    vec![
        ("VisibilityTimeout", seconds(spec.visibility_timeout())),
        ("DelaySeconds", seconds(delay)),
        ("MessageRetentionPeriod", seconds(RETENTION)),
        // Explicit, because the default of queues created through the API may still be a quarter of it.
        ("MaximumMessageSize", MAX_MESSAGE_BYTES.to_string()),
        ("ReceiveMessageWaitTimeSeconds", seconds(RECEIVE_WAIT)),
        // Every job has its own deduplication id; one derived from the body would drop a repeated message.
        ("ContentBasedDeduplication", "false".to_owned()),
        // High throughput, which requires both: 300 calls a second for each group instead of for all.
        // https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/high-throughput-fifo.html
        ("DeduplicationScope", "messageGroup".to_owned()),
        ("FifoThroughputLimit", "perMessageGroupId".to_owned()),
        ("SqsManagedSseEnabled", "true".to_owned()),
    ]
}

/// The attributes of a key: the partition key, and the sort key if there is one.
pub fn keys<'a>(partition: &'a str, sort: Option<&'a str>) -> Vec<&'a str> {
    [partition].into_iter().chain(sort).collect()
}

/// The distinct attributes of all keys of a table.
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
