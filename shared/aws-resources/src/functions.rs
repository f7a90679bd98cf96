//! The parts as Lambda functions, each with its log group.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::parameters::{
    self, ANSWERS, ConcurrencyParameter, HAS_BOT_TOKEN_ARN, HAS_MODEL_KEY_ARN, HAS_PROCESSOR_TOKEN_ARN,
    HAS_PROCESSOR_URL, HAS_SIGNING_SECRET_ARN, RESERVES, if_holds, unless_holds,
};
use super::{Resources, attribute_of, bucket, logical_id, reference, tables};
use crate::names::{Names, settings};
use crate::options::{Rollout, TemplateOptions, WorkerHost};
use crate::permissions::{Grant, LOGS, PermittedPart, Target};
use ports::queue::QueueName;
use ports::queue::topology::TableRole;
use ports::workers::{Feature, WORKERS, WorkerSpec};
use slack::credentials::{BOT_TOKEN, MODEL_KEY, PROCESSOR_TOKEN, SIGNING_SECRET};

/// Slack waits three seconds, so a later response would not reach it, and ingest gives up on the queue after
/// two.
const INGEST_TIMEOUT: Duration = Duration::from_secs(3);

/// A part as a Lambda function, or as a service of containers.
#[derive(Clone)]
pub(super) struct TemplateFunction {
    pub(super) options: TemplateOptions,
    pub(super) part: PermittedPart,
    /// The description for people.
    pub(super) what: &'static str,
    /// The binary in `<artifact>.zip`.
    pub(super) artifact: &'static str,
    pub(super) memory_mb: u32,
    pub(super) timeout: Duration,
    /// The reserved concurrency, taken from the account's limit.
    pub(super) reserved: Option<Value>,
}

impl TemplateFunction {
    /// Its logical id in the template.
    pub(super) fn id(&self) -> String {
        logical_id(self.part.label())
    }

    pub(super) fn log_id(&self) -> String {
        format!("{}Log", self.id())
    }

    pub(super) fn role_id(&self) -> String {
        format!("{}Role", self.id())
    }

    pub(super) fn alias_id(&self) -> String {
        format!("{}Live", self.id())
    }

    /// Whether a new version of it takes over gradually.
    pub(super) fn is_gradual(&self) -> bool {
        self.options.rollout == Rollout::Linear && !self.is_container()
    }

    pub(super) fn is_container(&self) -> bool {
        self.options.workers == WorkerHost::Fargate && self.worker().is_some()
    }

    /// What its triggers invoke: the function itself, written like this, or its alias.
    pub(super) fn invoked(&self, function: Value) -> Value {
        if self.is_gradual() { reference(&self.alias_id()) } else { function }
    }

    pub(super) fn concurrency_parameter(&self) -> String {
        format!("{}Concurrency", self.id())
    }

    /// Its concurrency, if it can be set.
    pub(super) fn concurrency(&self) -> Option<ConcurrencyParameter> {
        let default = self.worker()?.concurrency?;
        let (name, function) = (self.concurrency_parameter(), self.part.label());
        Some(ConcurrencyParameter { name, default, function })
    }

    /// The worker whose queue triggers it.
    pub(super) fn worker(&self) -> Option<&'static WorkerSpec> {
        if let PermittedPart::Worker(spec) = self.part { Some(spec) } else { None }
    }

    /// The condition of its resources. The functions that answer questions exist only if that is turned on, because polling a queue is
    /// billed.
    pub(super) fn condition(&self) -> Option<&'static str> {
        match self.part {
            PermittedPart::Worker(spec) => spec.requires.map(|feature| match feature {
                Feature::Responder => ANSWERS,
            }),
            PermittedPart::Ingest
            | PermittedPart::Annalist
            | PermittedPart::Eraser
            | PermittedPart::Provision => None,
        }
    }

    /// Its permissions, including its own log.
    pub(super) fn grants(&self) -> Vec<Grant> {
        let mut grants = self.part.grants();
        grants.push(Grant { actions: LOGS, targets: vec![Target::OwnLog] });
        grants
    }

    fn may_use(&self, target: Target) -> bool {
        self.part.grants().iter().any(|grant| grant.targets.contains(&target))
    }
}

/// Ingest, and one function per worker.
pub(super) fn all(options: TemplateOptions) -> Vec<TemplateFunction> {
    let ingest = TemplateFunction {
        options,
        part: PermittedPart::Ingest,
        what: "Receives Slack's events",
        artifact: PermittedPart::Ingest.label(),
        // There is little work, but the first event of a new instance waits for reading a secret and for two
        // TLS connections, and Slack waits at most three seconds.
        memory_mb: 512,
        timeout: INGEST_TIMEOUT,
        reserved: Some(if_holds(RESERVES, reference(parameters::INGEST_CONCURRENCY))),
    };
    [ingest].into_iter().chain(WORKERS.iter().map(|spec| worker(options, spec))).collect()
}

fn worker(options: TemplateOptions, spec: &'static WorkerSpec) -> TemplateFunction {
    TemplateFunction {
        options,
        part: PermittedPart::Worker(spec),
        what: spec.description,
        artifact: spec.name,
        memory_mb: spec.memory_mb,
        timeout: spec.timeout,
        reserved: None,
    }
}

pub(super) fn logs(names: &Names, parts: &[TemplateFunction]) -> Resources {
    let log = |part: &TemplateFunction| {
        let mut log = json!({
            "Type": "AWS::Logs::LogGroup",
            "DeletionPolicy": "Delete",
            "UpdateReplacePolicy": "Delete",
            "Properties": {
                "LogGroupName": format!("/annalist/{}/{}", names.prefix(), part.part.label()),
                "RetentionInDays": reference(parameters::LOG_DAYS),
                "KmsKeyId": parameters::own_key(),
            },
        });
        parameters::only_if(&mut log, part.condition());
        (part.log_id(), log)
    };
    parts.iter().map(log).collect()
}

pub(super) fn resources(names: &Names, functions: &[TemplateFunction]) -> Resources {
    let resource = |function: &TemplateFunction| {
        let mut resource =
            json!({ "Type": "AWS::Lambda::Function", "Properties": properties(names, function) });
        parameters::only_if(&mut resource, function.condition());
        (function.id(), resource)
    };
    functions.iter().map(resource).collect()
}

pub(super) fn properties(names: &Names, function: &TemplateFunction) -> Value {
    let key = format!("${{{}}}{}.zip", parameters::CODE_PREFIX, function.artifact);
    let mut properties = json!({
        "Description": function.what,
        "Runtime": "provided.al2023",
        "Architectures": ["arm64"],
        "Handler": "bootstrap",
        "Code": { "S3Bucket": reference(parameters::CODE_BUCKET), "S3Key": { "Fn::Sub": key } },
        "Role": attribute_of(&function.role_id(), "Arn"),
        "MemorySize": function.memory_mb,
        "Timeout": function.timeout.as_secs(),
        "LoggingConfig": { "LogGroup": reference(&function.log_id()) },
        "Environment": { "Variables": environment(names, function) },
    });
    if let Some(reserved) = &function.reserved {
        properties["ReservedConcurrentExecutions"] = reserved.clone();
    }
    if function.is_gradual() {
        // Lambda makes a new version only if something has changed.
        properties["Description"] = format!("{}, {}", function.what, function.options.release).into();
    }
    properties
}

/// The environment variables: the names of all resources, and the ARNs of the secrets that the function may
/// read.
pub(super) fn environment(names: &Names, function: &TemplateFunction) -> Map<String, Value> {
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
    let worker = function.worker();
    let queue = worker.map(|worker| worker.queue.name);
    if queue == Some(QueueName::Backfill) {
        variables.insert("ANNALIST_BACKFILL".to_owned(), reference(parameters::BACKFILL));
    }
    if queue == Some(QueueName::Nightly) {
        variables.insert("ANNALIST_BACKFILL".to_owned(), reference(parameters::BACKFILL));
        variables.insert("ANNALIST_NIGHTLY_AT".to_owned(), reference(parameters::NIGHTLY_AT));
    }
    let answers = worker.is_some_and(|worker| worker.requires == Some(Feature::Responder));
    if answers || queue == Some(QueueName::Events) {
        variables.insert("ANNALIST_RESPONDER".to_owned(), reference(parameters::RESPONDER));
    }
    for (secret, variable, has_arn, arn) in [
        (Target::ModelKey, MODEL_KEY, HAS_MODEL_KEY_ARN, parameters::MODEL_KEY_ARN),
        (Target::ProcessorToken, PROCESSOR_TOKEN, HAS_PROCESSOR_TOKEN_ARN, parameters::PROCESSOR_TOKEN_ARN),
    ] {
        if function.may_use(secret) {
            variables.insert(variable.arn.to_owned(), if_holds(has_arn, reference(arn)));
        }
    }
    if function.may_use(Target::ModelKey) {
        let url = if_holds(HAS_PROCESSOR_URL, reference(parameters::PROCESSOR_URL));
        let model = if_holds(HAS_MODEL_KEY_ARN, reference(parameters::MODEL));
        variables.extend([("ANNALIST_PROCESSOR_URL".to_owned(), url), ("ANNALIST_MODEL".to_owned(), model)]);
    }
    for (secret, variable, has_arn, arn, value) in [
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
            variables.insert(variable.arn.to_owned(), if_holds(has_arn, reference(arn)));
            variables.insert(variable.value.to_owned(), unless_holds(has_arn, reference(value)));
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use ports::workers::Uses;

    use super::*;

    #[test]
    fn every_worker_is_one_function_that_its_queue_triggers() {
        let functions = all(TemplateOptions::default());
        for spec in &WORKERS {
            let of_queue = |function: &&TemplateFunction| {
                function.worker().is_some_and(|worker| worker.queue.name == spec.queue.name)
            };
            let found: Vec<&TemplateFunction> = functions.iter().filter(of_queue).collect();
            let [function] = found[..] else { panic!("{} has not one function", spec.name) };
            assert_eq!((function.artifact, function.timeout), (spec.name, spec.timeout));
            assert!(spec.concurrency.is_none_or(|max| max >= parameters::MIN_CONCURRENCY), "{}", spec.name);
        }
        assert_eq!(functions.len(), 1 + WORKERS.len());
    }

    #[test]
    fn only_functions_that_may_use_a_secret_or_the_cache_have_its_variable() {
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let with_variable = |variable: &str| -> Vec<String> {
            let all = all(TemplateOptions::default());
            let found = all.iter().filter(|function| environment(&names, function).contains_key(variable));
            found.map(TemplateFunction::id).collect()
        };
        for variable in ["SLACK_SIGNING_SECRET_ARN", "SLACK_SIGNING_SECRET"] {
            assert_eq!(with_variable(variable), ["Ingest"]);
        }
        let users = |what| -> Vec<String> {
            let workers = WORKERS.iter().filter(|spec| spec.uses.contains(&what));
            workers.map(|spec| logical_id(spec.name)).collect()
        };
        for variable in ["SLACK_BOT_TOKEN_ARN", "SLACK_BOT_TOKEN"] {
            assert_eq!(with_variable(variable), users(Uses::SlackApi));
        }
        assert_eq!(with_variable("ANNALIST_BACKFILL"), ["Historian", "Keeper"]);
        assert_eq!(with_variable("ANNALIST_NIGHTLY_AT"), ["Keeper"]);
        assert_eq!(with_variable("ANNALIST_RESPONDER"), ["MessageWriter", "Responder", "Poster"]);
        assert_eq!(with_variable("ANTHROPIC_API_KEY_ARN"), ["Responder"]);
        assert_eq!(with_variable("ANNALIST_EXISTENCE_TABLE"), users(Uses::Existence));
        assert_eq!(with_variable("ANNALIST_BUCKET").len(), all(TemplateOptions::default()).len());
    }
}
