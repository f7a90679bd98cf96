//! The parts as functions, each with its log.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::parameters::{
    self, HAS_BOT_TOKEN, HAS_BOT_TOKEN_ARN, HAS_SIGNING_SECRET_ARN, RESERVES, if_holds, unless_holds,
};
use super::{Resources, bucket, get, logical, reference, tables};
use crate::names::{Names, settings};
use crate::permissions::{Grant, LOGS, Part, Target};
use ports::queue::topology::{QUEUES, QueueSpec, TableRole};
use slack::credentials::{BOT_TOKEN, SIGNING_SECRET};

/// Slack waits three seconds, so a later answer would reach no client, and ingest gives up on the queue after two.
const INGEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Lambda's longest: a large workspace takes minutes at the pace of Slack's limits.
/// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html>
const DIRECTORY_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// A part as a function.
pub(super) struct Function {
    pub(super) part: Part,
    /// For people.
    pub(super) what: &'static str,
    /// The binary in `<artifact>.zip`.
    pub(super) artifact: &'static str,
    /// With memory comes a share of the processor: 1769 MB are one.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html>
    pub(super) memory_mb: u32,
    pub(super) timeout: Duration,
    /// How many of it there may be, set aside from all others.
    pub(super) reserved: Option<Value>,
    /// The queue that wakes it.
    pub(super) source: Option<Source>,
}

/// A queue that wakes a function.
pub(super) struct Source {
    pub(super) queue: &'static QueueSpec,
    /// How many functions at once, unless the parameter says otherwise. Without a bound Lambda asks an empty queue less
    /// often, and each asking is on the bill.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>
    pub(super) concurrency: Option<u32>,
}

impl Source {
    pub(super) fn concurrency_parameter(&self, function: &Function) -> String {
        format!("{}Concurrency", function.id())
    }
}

impl Function {
    /// What it is called in the template.
    pub(super) fn id(&self) -> String {
        logical(self.part.label())
    }

    pub(super) fn log_id(&self) -> String {
        format!("{}Log", self.id())
    }

    pub(super) fn role_id(&self) -> String {
        format!("{}Role", self.id())
    }

    /// The directory is there only where there is a token to read it with.
    pub(super) fn condition(&self) -> Option<&'static str> {
        (self.part == Part::Directory).then_some(HAS_BOT_TOKEN)
    }

    /// What it may do, its own log included.
    pub(super) fn grants(&self) -> Vec<Grant> {
        let mut grants = self.part.grants();
        grants.push(Grant { actions: LOGS, on: vec![Target::OwnLog] });
        grants
    }

    fn may_use(&self, target: Target) -> bool {
        self.part.grants().iter().any(|grant| grant.on.contains(&target))
    }
}

/// Ingest, a function per worker of the topology, and the directory.
pub(super) fn all() -> Vec<Function> {
    let ingest = Function {
        part: Part::Ingest,
        what: "Takes Slack's events in",
        artifact: Part::Ingest.label(),
        // Little is done, but the first event of a new function waits until a secret was read and two connections with
        // TLS were made, and it waits for at most three seconds.
        memory_mb: 512,
        timeout: INGEST_TIMEOUT,
        reserved: Some(if_holds(RESERVES, reference(parameters::INGEST_CONCURRENCY))),
        source: None,
    };
    let directory = Function {
        part: Part::Directory,
        what: "Reads Slack's directory every hour and joins public channels",
        artifact: Part::ChannelIndexer.label(),
        // A whole workspace's channels and people.
        memory_mb: 512,
        timeout: DIRECTORY_TIMEOUT,
        // One at a time: two would share Slack's limits.
        reserved: Some(if_holds(RESERVES, 1)),
        source: None,
    };
    let workers = QUEUES.iter().filter_map(|spec| Some(worker(Part::of_worker(spec.consumer?)?, spec)));
    [ingest].into_iter().chain(workers).chain([directory]).collect()
}

fn worker(part: Part, queue: &'static QueueSpec) -> Function {
    let (what, memory_mb, concurrency) = match part {
        // Ten events of up to a megabyte, read and written.
        Part::MessageWriter => ("Turns events into rows", 256, Some(10)),
        // One workspace is one message group, so one function at a time.
        Part::ChannelIndexer => ("Keeps the rows of channels", 256, None),
        // Ten files, of each up to two parts of 8 MiB. Each function keeps its own count of downloads per minute.
        Part::FileDownloader => ("Downloads files and pictures", 512, Some(parameters::LEAST_CONCURRENCY)),
        Part::Ingest | Part::Directory | Part::Annalist | Part::Provision => ("Works a queue off", 256, None),
    };
    Function {
        part,
        what,
        artifact: part.label(),
        memory_mb,
        timeout: queue.function_timeout,
        reserved: None,
        source: Some(Source { queue, concurrency }),
    }
}

pub(super) fn resources(names: &Names, functions: &[Function]) -> Resources {
    let mut resources = Vec::new();
    for function in functions {
        let mut log = json!({
            "Type": "AWS::Logs::LogGroup",
            "DeletionPolicy": "Delete",
            "UpdateReplacePolicy": "Delete",
            "Properties": {
                "LogGroupName": format!("/annalist/{}/{}", names.prefix(), function.part.label()),
                "RetentionInDays": reference(parameters::LOG_DAYS),
            },
        });
        parameters::only_if(&mut log, function.condition());
        resources.push((function.log_id(), log));

        let mut resource =
            json!({ "Type": "AWS::Lambda::Function", "Properties": properties(names, function) });
        parameters::only_if(&mut resource, function.condition());
        resources.push((function.id(), resource));
    }
    resources
}

fn properties(names: &Names, function: &Function) -> Value {
    let key = format!("${{{}}}{}.zip", parameters::CODE_PREFIX, function.artifact);
    let mut properties = json!({
        "Description": function.what,
        "Runtime": "provided.al2023",
        "Architectures": ["arm64"],
        "Handler": "bootstrap",
        "Code": { "S3Bucket": reference(parameters::CODE_BUCKET), "S3Key": { "Fn::Sub": key } },
        "Role": get(&function.role_id(), "Arn"),
        "MemorySize": function.memory_mb,
        "Timeout": function.timeout.as_secs(),
        "LoggingConfig": { "LogGroup": reference(&function.log_id()) },
        "Environment": { "Variables": environment(names, function) },
    });
    if let Some(reserved) = &function.reserved {
        properties["ReservedConcurrentExecutions"] = reserved.clone();
    }
    properties
}

/// What the binary is told: the names of everything, and where the secrets are that it may read.
fn environment(names: &Names, function: &Function) -> Map<String, Value> {
    let table = |role| reference(tables::id(role));
    let mut variables: Map<String, Value> = [
        ("ANNALIST_BACKEND", "aws".into()),
        (settings::PREFIX, names.prefix().into()),
        (settings::TABLE, table(TableRole::Archive)),
        (settings::CLAIMS_TABLE, table(TableRole::Claims)),
        (settings::BUCKET, reference(bucket::ID)),
        ("ANNALIST_METRICS", reference(parameters::METRICS)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    if function.may_use(Target::ExistenceTable) {
        variables.insert(settings::EXISTENCE_TABLE.to_owned(), table(TableRole::Existence));
    }
    for (secret, variable, is_kept, arn, value) in [
        (
            Target::SigningSecret,
            SIGNING_SECRET,
            HAS_SIGNING_SECRET_ARN,
            parameters::SIGNING_SECRET_ARN,
            parameters::SIGNING_SECRET,
        ),
        (Target::BotToken, BOT_TOKEN, HAS_BOT_TOKEN_ARN, parameters::BOT_TOKEN_ARN, parameters::BOT_TOKEN),
    ] {
        if function.may_use(secret) {
            variables.insert(variable.arn.to_owned(), if_holds(is_kept, reference(arn)));
            variables.insert(variable.value.to_owned(), unless_holds(is_kept, reference(value)));
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_of_the_topology_is_a_function_that_its_queue_outlasts() {
        let functions = all();
        for spec in QUEUES.iter().filter(|spec| spec.consumer.is_some()) {
            let mut of_queue = functions.iter().filter(|function| {
                function.source.as_ref().is_some_and(|source| source.queue.label == spec.label)
            });
            let (Some(function), None) = (of_queue.next(), of_queue.next()) else {
                panic!("{} has not one function", spec.label)
            };
            assert_eq!(Some(function.artifact), spec.consumer);
            assert_eq!(function.timeout, spec.function_timeout);
            assert!(spec.visibility_timeout >= 6 * function.timeout);
        }
        assert_eq!(functions.len(), 2 + QUEUES.iter().filter(|spec| spec.consumer.is_some()).count());
    }

    #[test]
    fn only_who_may_use_a_secret_or_the_cache_is_told_where_it_is() {
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let told = |variable: &str| -> Vec<String> {
            let all = all();
            let told = all.iter().filter(|function| environment(&names, function).contains_key(variable));
            told.map(Function::id).collect()
        };
        for variable in ["SLACK_SIGNING_SECRET_ARN", "SLACK_SIGNING_SECRET"] {
            assert_eq!(told(variable), ["Ingest"]);
        }
        for variable in ["SLACK_BOT_TOKEN_ARN", "SLACK_BOT_TOKEN"] {
            assert_eq!(told(variable), ["MessageWriter", "ChannelIndexer", "FileDownloader", "Directory"]);
        }
        assert_eq!(told("ANNALIST_EXISTENCE_TABLE"), ["MessageWriter", "ChannelIndexer"]);
        assert_eq!(told("ANNALIST_BUCKET").len(), all().len());
    }
}
