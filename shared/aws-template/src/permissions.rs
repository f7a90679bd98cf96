//! What each part asks of AWS, derived from the table of workers: the template makes roles of it, docs/aws.md shows it, and
//! tests hold it to the calls in the source and to the calls that running parts make.
//!
//! Actions are IAM's, which are not always called like the operation they allow: a batch of sends is `sqs:SendMessage`.
//! <https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html>

use ports::archive::key::PASSING;
use ports::queue::topology::QUEUES;
use ports::queue::{QueueName, QueueRef};
use ports::workers::{HourlySpec, Uses, WORKERS, WorkerSpec};

/// Actions that are granted together.
pub type Actions = &'static [&'static str];

/// To find out whether a queue is there.
pub const FIND_QUEUE: Actions = &["sqs:GetQueueUrl"];
/// To send to a queue.
pub const SEND: Actions = &["sqs:GetQueueUrl", "sqs:SendMessage"];
/// To work a queue off and to tell how full it is. Where the worker is a function, Lambda's poller receives and deletes,
/// with the function's role.
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
/// To delete rows that come and go.
pub const FORGET: Actions = &["dynamodb:DeleteItem"];
/// To keep what Slack confirmed to exist.
pub const EXISTENCE: Actions = &["dynamodb:BatchGetItem", "dynamodb:BatchWriteItem"];
/// To claim expensive work before it starts.
pub const CLAIMS: Actions =
    &["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"];
/// To find the messages of a thread.
pub const INDEX: Actions = &["dynamodb:Query"];
/// To keep what is too large for a row.
pub const BULK: Actions = &["s3:GetObject", "s3:PutObject"];
/// To keep files.
pub const FILES: Actions = &["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"];
/// To delete objects with all their versions. On a bucket and its objects at once: each action applies to one of them.
pub const ERASE: Actions = &["s3:ListBucketVersions", "s3:DeleteObject", "s3:DeleteObjectVersion"];
/// To find out whether the bucket is there; without it S3 also calls an object that is missing one that is forbidden.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>
pub const BUCKET: Actions = &["s3:ListBucket"];
/// To read a secret that a configuration only names.
pub const SECRET: Actions = &["secretsmanager:GetSecretValue"];
/// To write a function's log. Lambda does so with the function's role.
pub const LOGS: Actions = &["logs:CreateLogStream", "logs:PutLogEvents"];
/// To make queues, tables and the bucket, and to compare them with the topology.
pub const PROVISION: Actions = &[
    "sqs:GetQueueUrl",
    "sqs:CreateQueue",
    "sqs:GetQueueAttributes",
    "sqs:SetQueueAttributes",
    "sqs:ListQueueTags",
    "sqs:TagQueue",
    "dynamodb:CreateTable",
    "dynamodb:DescribeTable",
    "dynamodb:UpdateTable",
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

/// What keys of objects begin with: those of large attributes, and those of files.
const BULK_KEYS: &str = "bulk/*";
const FILE_KEYS: &str = "slack/*";

/// What actions are granted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A queue, or a dead-letter queue.
    Queue(QueueRef),
    /// The archive's table.
    Table,
    /// Those rows of the archive's table whose partitions are [`PASSING`].
    PassingRows,
    /// The index of the archive's table.
    Index,
    /// The table of the existence check.
    ExistenceTable,
    /// The table of claims.
    Claims,
    /// The bucket itself.
    Bucket,
    /// Objects in the bucket: keys with a `*`.
    Objects(&'static str),
    /// The secret that holds the signing secret.
    SigningSecret,
    /// The secret that holds the bot token, if there is one.
    BotToken,
    /// The secret that holds the key of a model, if there is one.
    ModelKey,
    /// The secret that holds the token of a processor, if there is one.
    ProcessorToken,
    /// The log of the function itself.
    OwnLog,
    /// All that this installation's names name.
    Everything,
}

/// Actions, and on what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Each of these actions …
    pub actions: Actions,
    /// … on each of these.
    pub on: Vec<Target>,
}

impl Grant {
    fn of(actions: Actions, on: impl IntoIterator<Item = Target>) -> Self {
        Self { actions, on: on.into_iter().collect() }
    }
}

/// A part that sends requests to AWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermittedPart {
    /// Takes Slack's events in.
    Ingest,
    /// Consumes a queue.
    Worker(&'static WorkerSpec),
    /// Runs every hour, in the process of a worker or as a function of its own.
    Hourly(&'static HourlySpec),
    /// The command, to read, to operate, and to run everything in one process.
    Annalist,
    /// A person who erases rows, beside what [`PermittedPart::Annalist`] may do. Nothing that runs has this.
    Eraser,
    /// The command, to make what the others need.
    Provision,
}

impl PermittedPart {
    /// All of them, in the order of the flow.
    pub fn all() -> Vec<Self> {
        let workers = WORKERS
            .iter()
            .flat_map(|spec| [Self::Worker(spec)].into_iter().chain(spec.hourly.map(Self::Hourly)));
        [Self::Ingest]
            .into_iter()
            .chain(workers)
            .chain([Self::Annalist, Self::Eraser, Self::Provision])
            .collect()
    }

    /// Its name; a worker's is the one in the table of workers.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Worker(spec) => spec.name,
            Self::Hourly(spec) => spec.name,
            Self::Annalist => "annalist",
            Self::Eraser => "eraser",
            Self::Provision => "annalist provision",
        }
    }

    /// The part of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|part| part.label() == name)
    }

    /// What it may do.
    #[must_use]
    pub fn grants(self) -> Vec<Grant> {
        let consume = |queue: QueueName| {
            let queues = [queue.into(), QueueRef::dead_letters(queue)];
            Grant::of(CONSUME, queues.map(Target::Queue))
        };
        match self {
            Self::Ingest => vec![
                send(&[QueueName::Events, QueueName::Channels]),
                Grant::of(SECRET, [Target::SigningSecret]),
            ],
            Self::Worker(spec) => {
                let mut grants = vec![consume(spec.queue.name)];
                // A process that starts asks for the first queue of the flow, to say at once that it is set up wrongly.
                let first = QUEUES[0].name;
                if spec.queue.name != first && !spec.sends_to.contains(&first) {
                    grants.push(Grant::of(FIND_QUEUE, [Target::Queue(first.into())]));
                }
                if !spec.sends_to.is_empty() {
                    grants.push(send(spec.sends_to));
                }
                grants.extend(rows(true));
                grants.extend(uses(spec.uses));
                grants
            }
            Self::Hourly(spec) => {
                let mut grants = vec![send(spec.sends_to)];
                grants.extend(rows(false));
                grants.extend(uses(spec.uses));
                grants
            }
            Self::Annalist => {
                let names = QUEUES.each_ref().map(|spec| spec.name);
                let all = names.iter().flat_map(|name| [(*name).into(), QueueRef::dead_letters(*name)]);
                let mut grants = vec![
                    Grant::of(CONSUME, all.map(Target::Queue)),
                    send(&names),
                    Grant::of(INDEX, [Target::Index]),
                ];
                grants.extend(rows(true));
                grants.extend(uses(&[Uses::Existence, Uses::Claims, Uses::Files]));
                grants.push(Grant::of(SECRET, [Target::SigningSecret, Target::BotToken]));
                grants
            }
            Self::Eraser => {
                vec![Grant::of(ERASE, [Target::Bucket, Target::Objects(BULK_KEYS)])]
            }
            Self::Provision => vec![Grant::of(PROVISION, [Target::Everything])],
        }
    }
}

fn send(queues: &[QueueName]) -> Grant {
    Grant::of(SEND, queues.iter().map(|name| Target::Queue((*name).into())))
}

/// To read and write rows, and with `passing` to delete those that come and go.
fn rows(passing: bool) -> Vec<Grant> {
    let mut grants = vec![Grant::of(ROWS, [Target::Table])];
    if passing {
        grants.push(Grant::of(FORGET, [Target::PassingRows]));
    }
    grants.push(Grant::of(BULK, [Target::Objects(BULK_KEYS)]));
    grants.push(Grant::of(BUCKET, [Target::Bucket]));
    grants
}

fn uses(uses: &[Uses]) -> impl Iterator<Item = Grant> {
    uses.iter().flat_map(|what| match what {
        Uses::Existence => vec![Grant::of(EXISTENCE, [Target::ExistenceTable])],
        Uses::Claims => vec![Grant::of(CLAIMS, [Target::Claims])],
        // A file that is fetched while its message is erased goes again.
        Uses::Files => vec![
            Grant::of(FILES, [Target::Objects(FILE_KEYS)]),
            Grant::of(ERASE, [Target::Bucket, Target::Objects(FILE_KEYS)]),
        ],
        Uses::Threads => vec![Grant::of(INDEX, [Target::Index])],
        Uses::SlackApi => vec![Grant::of(SECRET, [Target::BotToken])],
        Uses::Processor => {
            [Target::ModelKey, Target::ProcessorToken].map(|key| Grant::of(SECRET, [key])).into()
        }
    })
}

/// The services, as IAM and as people call them.
const SERVICES: [(&str, &str); 4] =
    [("sqs", "SQS"), ("dynamodb", "DynamoDB"), ("s3", "S3"), ("secretsmanager", "Secrets Manager")];

/// The table as docs/aws.md shows it.
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

/// `` `GetQueueUrl`, `SendMessage` on `events`, `channels` ``; nothing where none of them is the service's.
fn cell(grant: &Grant, service: &str) -> Option<String> {
    let of_service = |action: &&'static str| action.strip_prefix(service)?.strip_prefix(':');
    let names: Vec<String> =
        grant.actions.iter().filter_map(of_service).map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return None;
    }
    let every_queue = QUEUES.len() * 2;
    let on = match grant.on.as_slice() {
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
                format!("its rows in {}", PASSING.map(|keys| format!("`{keys}`")).join(", "))
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
    fn every_worker_may_consume_its_own_queue_alone() {
        for spec in &WORKERS {
            let part = PermittedPart::named(spec.name).unwrap();
            let consumes: Vec<Grant> =
                part.grants().into_iter().filter(|grant| grant.actions == CONSUME).collect();
            let own = [spec.queue.name.into(), QueueRef::dead_letters(spec.queue.name)];
            assert_eq!(consumes, [Grant::of(CONSUME, own.map(Target::Queue))]);
        }
    }

    #[test]
    fn every_action_is_of_a_service_that_the_table_shows() {
        for part in PermittedPart::all() {
            for action in part.grants().iter().flat_map(|grant| grant.actions) {
                let service = action.split(':').next().unwrap();
                assert!(SERVICES.iter().any(|(known, _)| *known == service), "{action} of {part:?}");
            }
        }
    }
}
