//! The AWS permissions of each part, derived from the table of workers. The template creates roles from them,
//! docs/aws.md lists them, and tests compare them with the calls in the source and with the calls of running
//! parts.
//!
//! Actions are IAM's, whose names may differ from those of the operations: a batch of sends needs
//! `sqs:SendMessage`.
//! <https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html>

use ports::archive::rows::transient_partitions;
use ports::queue::topology::QUEUES;
use ports::queue::{QueueName, QueueRef};
use ports::workers::{Uses, WORKERS, WorkerSpec};

/// Actions that are granted together.
pub type Actions = &'static [&'static str];

/// To check whether a queue exists.
pub const FIND_QUEUE: Actions = &["sqs:GetQueueUrl"];
pub const SEND: Actions = &["sqs:GetQueueUrl", "sqs:SendMessage"];
/// To consume a queue and to read its depth. If the worker is a function, Lambda's poller receives and
/// deletes messages with the function's role.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html#events-sqs-permissions>
pub const CONSUME: Actions = &[
    "sqs:GetQueueUrl",
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
];
/// To read and write rows.
pub const ROWS: Actions = &[
    "dynamodb:GetItem",
    "dynamodb:BatchGetItem",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:Query",
];
/// To delete transient rows.
pub const DELETE_ROWS: Actions = &["dynamodb:DeleteItem"];
/// To cache the messages and files that Slack has confirmed to exist.
pub const EXISTENCE: Actions = &["dynamodb:BatchGetItem", "dynamodb:BatchWriteItem"];
/// To claim expensive work before it starts.
pub const CLAIMS: Actions =
    &["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"];
/// To find the messages of a thread.
pub const INDEX: Actions = &["dynamodb:Query"];
/// To store attributes that are too large for a row.
pub const BULK: Actions = &["s3:GetObject", "s3:PutObject"];
pub const FILES: Actions = &["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"];
/// To delete objects with all their versions. Granted on a bucket and its objects: each action applies to one
/// of the two.
pub const ERASE: Actions = &["s3:ListBucketVersions", "s3:DeleteObject", "s3:DeleteObjectVersion"];
/// To check whether the bucket exists. Without it, S3 also reports a missing object as forbidden.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>
pub const BUCKET: Actions = &["s3:ListBucket"];
/// To read a secret that the configuration refers to.
pub const SECRET: Actions = &["secretsmanager:GetSecretValue"];
/// To write a function's log, which Lambda does with the function's role.
pub const LOGS: Actions = &["logs:CreateLogStream", "logs:PutLogEvents"];
/// To create queues, tables and the bucket, and to compare them with the topology.
pub const PROVISION: Actions = &[
    "sqs:GetQueueUrl",
    "sqs:CreateQueue",
    "sqs:GetQueueAttributes",
    "sqs:ListQueueTags",
    "sqs:TagQueue",
    "dynamodb:CreateTable",
    "dynamodb:DescribeTable",
    "dynamodb:ListTagsOfResource",
    "dynamodb:TagResource",
    "dynamodb:DescribeTimeToLive",
    "dynamodb:UpdateTimeToLive",
    "dynamodb:DescribeContinuousBackups",
    "dynamodb:UpdateContinuousBackups",
    "s3:CreateBucket",
    "s3:TagResource",
    "s3:GetBucketTagging",
    "s3:PutBucketTagging",
    "s3:GetEncryptionConfiguration",
    "s3:PutEncryptionConfiguration",
    "s3:GetBucketPublicAccessBlock",
    "s3:PutBucketPublicAccessBlock",
    "s3:GetBucketPolicy",
    "s3:PutBucketPolicy",
    "s3:GetLifecycleConfiguration",
    "s3:PutLifecycleConfiguration",
];

/// Patterns of object keys: those of large attributes, and those of files.
const BULK_KEYS: &str = "bulk/*";
const FILE_KEYS: &str = "slack/*";

/// A resource on which actions are granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A queue, or a dead-letter queue.
    Queue(QueueRef),
    /// The archive's table.
    Table,
    /// The rows of the archive's table whose partitions are transient.
    PassingRows,
    /// The index of the archive's table.
    Index,
    /// The table of the existence check.
    ExistenceTable,
    /// The table of claims.
    Claims,
    /// The bucket itself.
    Bucket,
    /// Objects in the bucket, by a key pattern with a `*`.
    Objects(&'static str),
    SigningSecret,
    /// The secret with the bot token, if there is one.
    BotToken,
    /// The secret with the API key of a model, if there is one.
    ModelKey,
    /// The secret with the token of a processor, if there is one.
    ProcessorToken,
    /// The log of the function itself.
    OwnLog,
    /// All resources of this installation.
    Everything,
}

/// Actions and their targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub actions: Actions,
    /// The targets, each of which every action is granted on.
    pub targets: Vec<Target>,
}

impl Grant {
    fn new(actions: Actions, on: impl IntoIterator<Item = Target>) -> Self {
        Self { actions, targets: on.into_iter().collect() }
    }
}

/// A part that sends requests to AWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermittedPart {
    /// Receives Slack's events.
    Ingest,
    /// Consumes a queue.
    Worker(&'static WorkerSpec),
    /// The command, to read, to operate, and to run everything in one process.
    Annalist,
    /// A person who erases rows, in addition to [`PermittedPart::Annalist`]. No running process has this
    /// role; the keeper, which removes what has expired, has the same permissions.
    Eraser,
    /// The command, to create the resources of the others.
    Provision,
}

impl PermittedPart {
    /// All parts, in the order of the data flow.
    pub fn all() -> Vec<Self> {
        let workers = WORKERS.iter().map(Self::Worker);
        [Self::Ingest]
            .into_iter()
            .chain(workers)
            .chain([Self::Annalist, Self::Eraser, Self::Provision])
            .collect()
    }

    /// The name of the part; a worker has its name in the table of workers.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Worker(spec) => spec.name,
            Self::Annalist => "annalist",
            Self::Eraser => "eraser",
            Self::Provision => "annalist provision",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|part| part.label() == name)
    }

    /// The permissions of the part.
    #[must_use]
    pub fn grants(self) -> Vec<Grant> {
        let consume = |queue: QueueName| {
            let queues = [queue.into(), QueueRef::dead_letters(queue)];
            Grant::new(CONSUME, queues.map(Target::Queue))
        };
        match self {
            Self::Ingest => vec![
                send([QueueName::Events, QueueName::Channels]),
                Grant::new(SECRET, [Target::SigningSecret]),
            ],
            Self::Worker(spec) => {
                let mut grants = vec![consume(spec.queue.name)];
                // At startup, a process requests the URL of the first queue, to detect a wrong configuration
                // immediately.
                let first = QUEUES[0].name;
                if spec.queue.name != first && !spec.sends_to.contains(&first) {
                    grants.push(Grant::new(FIND_QUEUE, [Target::Queue(first.into())]));
                }
                grants.push(send([&[spec.queue.name], spec.sends_to].concat()));
                grants.extend(rows());
                grants.extend(uses(spec.uses));
                grants
            }
            Self::Annalist => {
                let names = QUEUES.each_ref().map(|spec| spec.name);
                let mut grants = vec![
                    Grant::new(CONSUME, QueueRef::all().map(Target::Queue)),
                    send(names),
                    Grant::new(INDEX, [Target::Index]),
                ];
                grants.extend(rows());
                grants.extend(uses(&[Uses::Existence, Uses::Claims, Uses::Files]));
                grants.push(Grant::new(SECRET, [Target::SigningSecret, Target::BotToken]));
                grants
            }
            Self::Eraser => {
                vec![Grant::new(ERASE, [Target::Bucket, Target::Objects(BULK_KEYS)])]
            }
            Self::Provision => vec![Grant::new(PROVISION, [Target::Everything])],
        }
    }
}

fn send(queues: impl IntoIterator<Item = QueueName>) -> Grant {
    Grant::new(SEND, queues.into_iter().map(|name| Target::Queue(name.into())))
}

/// To read and write rows, and to delete transient ones.
fn rows() -> Vec<Grant> {
    vec![
        Grant::new(ROWS, [Target::Table]),
        Grant::new(DELETE_ROWS, [Target::PassingRows]),
        Grant::new(BULK, [Target::Objects(BULK_KEYS)]),
        Grant::new(BUCKET, [Target::Bucket]),
    ]
}

fn uses(uses: &[Uses]) -> impl Iterator<Item = Grant> {
    uses.iter().flat_map(|what| match what {
        Uses::Existence => vec![Grant::new(EXISTENCE, [Target::ExistenceTable])],
        Uses::Claims => vec![Grant::new(CLAIMS, [Target::Claims])],
        // A file that is downloaded while its message is erased is deleted again.
        Uses::Files => vec![
            Grant::new(FILES, [Target::Objects(FILE_KEYS)]),
            Grant::new(ERASE, [Target::Bucket, Target::Objects(FILE_KEYS)]),
        ],
        Uses::Threads => vec![Grant::new(INDEX, [Target::Index])],
        Uses::SlackApi => vec![Grant::new(SECRET, [Target::BotToken])],
        // What has expired is erased like everything else.
        Uses::Erasure => vec![Grant::new(ERASE, [Target::Bucket, Target::Objects(BULK_KEYS)])],
        Uses::Processor => {
            [Target::ModelKey, Target::ProcessorToken].map(|key| Grant::new(SECRET, [key])).into()
        }
    })
}

/// The services, with IAM's name and the name for people.
const SERVICES: [(&str, &str); 4] =
    [("sqs", "SQS"), ("dynamodb", "DynamoDB"), ("s3", "S3"), ("secretsmanager", "Secrets Manager")];

/// The table in docs/aws.md.
pub fn markdown_table() -> String {
    let titles = SERVICES.map(|(_, title)| title).join(" | ");
    let mut table = format!("| part | {titles} |\n|---|---|---|---|---|\n");
    for part in PermittedPart::all() {
        let grants = part.grants();
        let cells = SERVICES.map(|(service, _)| {
            let cells = grants.iter().filter_map(|grant| cell(grant, service));
            cells.collect::<Vec<_>>().join("; ")
        });
        table.push_str(&format!("| `{}` | {} |\n", part.label(), cells.join(" | ")));
    }
    table
}

/// `` `GetQueueUrl`, `SendMessage` on `events`, `channels` ``; `None` if the grant has no action of the
/// service.
fn cell(grant: &Grant, service: &str) -> Option<String> {
    let of_service = |action: &&'static str| action.strip_prefix(service)?.strip_prefix(':');
    let names: Vec<String> =
        grant.actions.iter().filter_map(of_service).map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return None;
    }
    let every_queue = QUEUES.len() * 2;
    let on = match grant.targets.as_slice() {
        [Target::Everything] => None,
        all if all.len() == every_queue => Some("every queue".to_owned()),
        some => Some(some.iter().copied().map(Target::to_markdown).collect::<Vec<_>>().join(", ")),
    };
    let on = on.map_or_else(String::new, |on| format!(" on {on}"));
    Some(names.join(", ") + &on)
}

impl Target {
    fn to_markdown(self) -> String {
        match self {
            Self::Queue(queue) => format!("`{queue}`"),
            Self::Table => "the archive's table".to_owned(),
            Self::PassingRows => {
                format!(
                    "its rows in {}",
                    transient_partitions()
                        .iter()
                        .map(|keys| format!("`{keys}`"))
                        .collect::<Vec<_>>()
                        .join(", ")
                )
            }
            Self::Index => "its index".to_owned(),
            Self::ExistenceTable => "the existence check's table".to_owned(),
            Self::Claims => "the table of claims".to_owned(),
            Self::Bucket => "the bucket".to_owned(),
            Self::Objects(keys) => format!("`{keys}`"),
            Self::SigningSecret => "the signing secret".to_owned(),
            Self::BotToken => "the bot token".to_owned(),
            Self::ModelKey => "the key of a model".to_owned(),
            Self::ProcessorToken => "the token of a processor".to_owned(),
            Self::OwnLog => "its log".to_owned(),
            Self::Everything => "everything".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_may_consume_only_its_own_queue() {
        for spec in &WORKERS {
            let part = PermittedPart::by_name(spec.name).unwrap();
            let consumes: Vec<Grant> =
                part.grants().into_iter().filter(|grant| grant.actions == CONSUME).collect();
            let own = [spec.queue.name.into(), QueueRef::dead_letters(spec.queue.name)];
            assert_eq!(consumes, [Grant::new(CONSUME, own.map(Target::Queue))]);
        }
    }

    #[test]
    fn every_worker_may_send_to_its_own_queue_and_delete_the_jobs_that_wait() {
        for spec in &WORKERS {
            let grants = PermittedPart::Worker(spec).grants();
            let may = |actions: Actions, target: Target| {
                let granted = |grant: &Grant| grant.actions == actions && grant.targets.contains(&target);
                grants.iter().any(granted)
            };
            assert!(may(SEND, Target::Queue(spec.queue.name.into())), "{}", spec.name);
            assert!(may(ROWS, Target::Table) && may(DELETE_ROWS, Target::PassingRows), "{}", spec.name);
        }
        let waits = ["waiting#events#T1", "meta#waiting"];
        assert!(waits.into_iter().all(ports::archive::key::is_transient));
    }

    #[test]
    fn the_table_has_the_service_of_every_action() {
        for part in PermittedPart::all() {
            for action in part.grants().iter().flat_map(|grant| grant.actions) {
                let service = action.split(':').next().unwrap();
                assert!(SERVICES.iter().any(|(known, _)| *known == service), "{action} of {part:?}");
            }
        }
    }
}
