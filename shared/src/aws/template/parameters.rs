//! What is decided when the template is deployed.

use serde_json::{Map, Value, json};

use super::functions::Function;

/// The bucket and what keys in it begin with: where the functions' code is.
pub(super) const CODE_BUCKET: &str = "CodeBucket";
pub(super) const CODE_PREFIX: &str = "CodePrefix";
/// The secrets, by their ARNs.
pub(super) const SIGNING_SECRET: &str = "SigningSecretArn";
pub(super) const BOT_TOKEN: &str = "BotTokenArn";
/// How many functions may take Slack's events in at once.
pub(super) const INGEST_CONCURRENCY: &str = "IngestConcurrency";
/// How long logs are kept.
pub(super) const LOG_DAYS: &str = "LogRetentionDays";
/// Who hears of alarms.
pub(super) const ALARM_EMAIL: &str = "AlarmEmail";

/// There is a bot token.
pub(super) const HAS_BOT_TOKEN: &str = "HasBotToken";
/// Concurrency is reserved.
pub(super) const RESERVES: &str = "ReservesConcurrency";
/// Somebody hears of alarms.
pub(super) const HAS_ALARM_EMAIL: &str = "HasAlarmEmail";

/// The smallest concurrency that an event source mapping takes.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html#events-sqs-max-concurrency>
pub(super) const LEAST_CONCURRENCY: u32 = 2;
const MOST_CONCURRENCY: u32 = 1000;

/// What CloudWatch takes as a retention, in days, up to five years.
/// <https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html>
const RETENTIONS_DAYS: [u32; 16] = [1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827];

const SECRET_ARN: &str = "^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$";

pub(super) fn all(functions: &[Function]) -> Map<String, Value> {
    let mut parameters = Map::new();
    let mut add = |name: &str, parameter: Value| drop(parameters.insert(name.to_owned(), parameter));
    add(
        CODE_BUCKET,
        json!({
            "Type": "String",
            "Description": "The bucket, in this region, that the functions' zips were uploaded to",
            "AllowedPattern": "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
            "ConstraintDescription": "a bucket's name",
        }),
    );
    add(
        CODE_PREFIX,
        json!({
            "Type": "String",
            "Description": "What the zips' keys begin with, such as 0.1.0/. A new one with each version: code under a key that \
                has not changed is not deployed",
            "AllowedPattern": "^([^/]+/)*$",
            "ConstraintDescription": "empty, or ends in /",
        }),
    );
    add(
        SIGNING_SECRET,
        json!({
            "Type": "String",
            "Description": "The secret in Secrets Manager that holds the app's signing secret as plain text",
            "AllowedPattern": SECRET_ARN,
            "ConstraintDescription": "the ARN of a secret",
        }),
    );
    add(
        BOT_TOKEN,
        json!({
            "Type": "String",
            "Default": "",
            "Description": "The secret that holds the bot token, or a JSON object of workspace ids and tokens; may be empty",
            "AllowedPattern": format!("^$|{SECRET_ARN}"),
            "ConstraintDescription": "empty, or the ARN of a secret",
        }),
    );
    add(
        INGEST_CONCURRENCY,
        json!({
            "Type": "Number",
            "Default": 20,
            "MinValue": 0,
            "MaxValue": MOST_CONCURRENCY,
            "Description": "How many events are taken in at once, which bounds what a flood costs: ten times as many requests a \
                second. 0 reserves nothing, for accounts whose quota is too small to reserve of it",
        }),
    );
    for function in functions {
        let Some(source) = &function.source else { continue };
        let (name, default) = (source.concurrency_parameter(function), source.concurrency);
        add(
            &name,
            json!({
                "Type": "Number",
                "Default": default,
                "MinValue": LEAST_CONCURRENCY,
                "MaxValue": MOST_CONCURRENCY,
                "Description": format!("How many {} functions run at once", function.part.label()),
            }),
        );
    }
    add(
        LOG_DAYS,
        json!({
            "Type": "Number",
            "Default": 30,
            "AllowedValues": RETENTIONS_DAYS,
            "Description": "How many days logs are kept",
        }),
    );
    add(
        ALARM_EMAIL,
        json!({
            "Type": "String",
            "Default": "",
            "Description": "Who gets a mail when something needs attention; may be empty",
            "AllowedPattern": "^$|^[^@ ]+@[^@ ]+$",
            "ConstraintDescription": "empty, or an address",
        }),
    );
    parameters
}

pub(super) fn conditions() -> Value {
    json!({
        HAS_BOT_TOKEN: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": BOT_TOKEN }, ""] }] },
        RESERVES: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": INGEST_CONCURRENCY }, "0"] }] },
        HAS_ALARM_EMAIL: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": ALARM_EMAIL }, ""] }] },
    })
}

/// A value where a condition holds, and else nothing.
pub(super) fn if_holds(condition: &str, value: impl Into<Value>) -> Value {
    json!({ "Fn::If": [condition, value.into(), { "Ref": "AWS::NoValue" }] })
}

/// Makes a resource or an output one that is there only where a condition holds.
pub(super) fn only_if(it: &mut Value, condition: Option<&str>) {
    if let Some(condition) = condition {
        it["Condition"] = condition.into();
    }
}
