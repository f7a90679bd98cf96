//! The parameters of the template, which are set at deployment, and its conditions and rules.

use serde_json::{Map, Value, json};

/// The bucket with the functions' code, and the prefix of its keys.
pub(super) const CODE_BUCKET: &str = "CodeBucket";
pub(super) const CODE_PREFIX: &str = "CodePrefix";
pub(super) const SIGNING_SECRET_ARN: &str = "SigningSecretArn";
pub(super) const BOT_TOKEN_ARN: &str = "BotTokenArn";
/// The secrets themselves, which become environment variables of the functions that use them.
pub(super) const SIGNING_SECRET: &str = "SigningSecret";
pub(super) const BOT_TOKEN: &str = "BotToken";
/// The maximum concurrency of ingest.
pub(super) const INGEST_CONCURRENCY: &str = "IngestConcurrency";
/// Which history the historian reads automatically.
pub(super) const BACKFILL: &str = "Backfill";
/// When the keeper begins a night.
pub(super) const NIGHTLY_AT: &str = "NightlyAt";
/// Whether questions are answered, and by which processor.
pub(super) const RESPONDER: &str = "AnswerQuestions";
pub(super) const PROCESSOR_URL: &str = "ProcessorUrl";
pub(super) const PROCESSOR_TOKEN_ARN: &str = "ProcessorTokenArn";
pub(super) const MODEL_KEY_ARN: &str = "ModelKeyArn";
pub(super) const MODEL: &str = "Model";
pub(super) const LOG_DAYS: &str = "LogRetentionDays";
/// After how many hours without a request from Slack there is an alarm.
pub(super) const SILENCE_HOURS: &str = "SilenceHours";
/// Which alarms are created.
const ALARM_SET: &str = "AlarmSet";
/// Which metrics are reported to CloudWatch.
pub(super) const METRICS: &str = "Metrics";
/// The email address that receives alarms.
pub(super) const ALARM_EMAIL: &str = "AlarmEmail";

/// The key with which resources are encrypted, instead of AWS's own.
pub(super) const KMS_KEY_ARN: &str = "KmsKeyArn";
/// The class of the archive's table.
pub(super) const TABLE_CLASS: &str = "TableClass";
/// How the bucket stores files.
const FILES_TIER: &str = "FilesTier";

/// There is a key of the account's own.
pub(super) const HAS_KMS_KEY: &str = "HasKmsKeyArn";
/// S3 moves files that are not read.
pub(super) const TIERS_FILES: &str = "TiersFiles";
/// The signing secret is in Secrets Manager.
pub(super) const HAS_SIGNING_SECRET_ARN: &str = "HasSigningSecretArn";
/// The bot token is in Secrets Manager.
pub(super) const HAS_BOT_TOKEN_ARN: &str = "HasBotTokenArn";
/// Questions are answered.
pub(super) const ANSWERS: &str = "AnswersQuestions";
/// All alarms are created, and questions are answered.
pub(super) const ALL_ALARMS_AND_ANSWERS: &str = "AllAlarmsAndAnswersQuestions";
/// An HTTP endpoint answers questions, with a token in Secrets Manager.
pub(super) const HAS_PROCESSOR_URL: &str = "HasProcessorUrl";
pub(super) const HAS_PROCESSOR_TOKEN_ARN: &str = "HasProcessorTokenArn";
/// A model answers questions, with its key in Secrets Manager.
pub(super) const HAS_MODEL_KEY_ARN: &str = "HasModelKeyArn";
pub(super) const RESERVES: &str = "ReservesConcurrency";
/// All alarms are created, not only the most important ones.
pub(super) const ALL_ALARMS: &str = "AllAlarms";
/// Silence is an alarm.
pub(super) const WATCHES_SILENCE: &str = "WatchesSilence";
/// There is an email address for alarms.
pub(super) const HAS_ALARM_EMAIL: &str = "HasAlarmEmail";

/// The minimum concurrency of an event source mapping.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html#events-sqs-max-concurrency>
pub(super) const MIN_CONCURRENCY: u32 = 2;
const MOST_CONCURRENCY: u32 = 1000;

/// The retentions that CloudWatch accepts, in days, up to five years.
/// <https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html>
const RETENTIONS_DAYS: [u32; 16] = [1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827];

/// CloudWatch evaluates at most seven days if a period is an hour or longer.
/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html>
const MAX_SILENCE_HOURS: u32 = 7 * 24;

const SECRET_ARN: &str = "arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+";

/// The concurrency of a function that can be set.
pub(super) struct ConcurrencyParameter {
    pub(super) name: String,
    pub(super) default: u32,
    pub(super) function: &'static str,
}

pub(super) fn all(concurrency: impl Iterator<Item = ConcurrencyParameter>) -> Map<String, Value> {
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
            "Description": "The prefix of the zips' keys, such as 0.1.0/. Use a new one for each version: code under an \
                unchanged key is not deployed",
            "AllowedPattern": "^([^/]+/)*$",
            "ConstraintDescription": "empty, or ends in /",
        }),
    );
    let one = (format!("^$|^{SECRET_ARN}$"), "empty, or the ARN of a secret");
    let several = (
        format!("^$|^{SECRET_ARN}(,{SECRET_ARN}){{0,9}}$"),
        "empty, or the ARNs of secrets, with commas and no spaces between",
    );
    for (name, what, (pattern, constraint)) in [
        (
            SIGNING_SECRET_ARN,
            "The secret in Secrets Manager with the app's signing secret as plain text, or with a JSON object of app ids and secrets",
            &one,
        ),
        (
            BOT_TOKEN_ARN,
            "The secret with the bot token, or with a JSON object of workspace ids and tokens; or up to ten of them, separated by \
             commas",
            &several,
        ),
        (PROCESSOR_TOKEN_ARN, "The secret with the bearer token of ProcessorUrl", &one),
        (
            MODEL_KEY_ARN,
            "The secret with the key of Anthropic's API, for a model that answers questions",
            &one,
        ),
    ] {
        add(
            name,
            json!({
                "Type": "String",
                "Default": "",
                "Description": what,
                "AllowedPattern": pattern,
                "ConstraintDescription": constraint,
            }),
        );
    }
    for (name, what, arn) in [
        (SIGNING_SECRET, "The app's signing secret", SIGNING_SECRET_ARN),
        (BOT_TOKEN, "The bot token of one workspace", BOT_TOKEN_ARN),
    ] {
        add(
            name,
            json!({
                "Type": "String",
                "NoEcho": true,
                "Default": "",
                "Description": format!(
                    "{what}, instead of {arn}: costs nothing, and each role that may read a function's configuration sees it"
                ),
            }),
        );
    }
    add(
        INGEST_CONCURRENCY,
        json!({
            "Type": "Number",
            "Default": 20,
            "MinValue": 0,
            "MaxValue": MOST_CONCURRENCY,
            "Description": "How many events ingest handles concurrently, which limits the cost of a flood: ten times as many \
                requests a second. 0 reserves nothing, for accounts whose quota is too small",
        }),
    );
    for ConcurrencyParameter { name, default, function } in concurrency {
        add(
            &name,
            json!({
                "Type": "Number",
                "Default": default,
                "MinValue": MIN_CONCURRENCY,
                "MaxValue": MOST_CONCURRENCY,
                "Description": format!("How many {function} functions run concurrently"),
            }),
        );
    }
    add(
        BACKFILL,
        json!({
            "Type": "String",
            "Default": "gaps",
            "AllowedValues": ["gaps", "all", "off"],
            "Description": "Which part of Slack's history is read automatically: messages missed in gaps, or nothing",
        }),
    );
    add(
        NIGHTLY_AT,
        json!({
            "Type": "String",
            "Default": "03:00",
            "AllowedPattern": "([01][0-9]|2[0-3]):[0-5][0-9]",
            "Description": "When the keeper compares with Slack and removes what has expired, each day, in UTC",
        }),
    );
    add(
        RESPONDER,
        json!({
            "Type": "String",
            "Default": "off",
            "AllowedValues": ["off", "on"],
            "Description": "Whether questions in Slack are answered, which needs the scope chat:write",
        }),
    );
    for (name, what, pattern) in [
        (
            PROCESSOR_URL,
            "The endpoint that answers questions: a URL that begins with https://",
            "^$|^https://.+$",
        ),
        (MODEL, "The model that answers questions, if ModelKeyArn is given", "^[A-Za-z0-9._:@/-]*$"),
    ] {
        add(name, json!({ "Type": "String", "Default": "", "Description": what, "AllowedPattern": pattern }));
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
        METRICS,
        json!({
            "Type": "String",
            "Default": "few",
            "AllowedValues": ["few", "full"],
            "Description": "What is reported to CloudWatch: six metrics, or all with their labels, at $0.30 a month each",
        }),
    );
    add(
        SILENCE_HOURS,
        json!({
            "Type": "Number",
            // A weekend, and some hours.
            "Default": 72,
            "MinValue": 0,
            "MaxValue": MAX_SILENCE_HOURS,
            "Description": "After how many hours without a request from Slack there is an alarm; 0: never",
        }),
    );
    add(
        ALARM_SET,
        json!({
            "Type": "String",
            "Default": "few",
            "AllowedValues": ["few", "all"],
            "Description": "Only the alarms that detect a silent loss of events, or all, at $0.10 a month for each metric they watch",
        }),
    );
    add(
        ALARM_EMAIL,
        json!({
            "Type": "String",
            "Default": "",
            "Description": "The email address that receives alarms; may be empty",
            "AllowedPattern": "^$|^[^@ ]+@[^@ ]+$",
            "ConstraintDescription": "empty, or an email address",
        }),
    );
    add(
        KMS_KEY_ARN,
        json!({
            "Type": "String",
            "Default": "",
            "Description": "The key that encrypts queues, tables, files, logs and alarms; empty: keys of AWS, at no cost",
            "AllowedPattern": "^$|^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$",
            "ConstraintDescription": "empty, or the ARN of a key",
        }),
    );
    for (name, what, values) in [
        (
            TABLE_CLASS,
            "STANDARD_INFREQUENT_ACCESS stores the archive at 40 % of the price, and reads and writes it at 125 %",
            ["STANDARD", "STANDARD_INFREQUENT_ACCESS"],
        ),
        (
            FILES_TIER,
            "intelligent: S3 stores files at a lower price while they are not read",
            ["standard", "intelligent"],
        ),
    ] {
        add(
            name,
            json!({ "Type": "String", "Default": values[0], "AllowedValues": values, "Description": what }),
        );
    }
    parameters
}

/// The key of the account's own, if there is one.
pub(super) fn own_key() -> Value {
    if_holds(HAS_KMS_KEY, json!({ "Ref": KMS_KEY_ARN }))
}

/// A value if there is a key of the account's own, otherwise the other.
pub(super) fn with_own_key(value: impl Into<Value>, otherwise: impl Into<Value>) -> Value {
    json!({ "Fn::If": [HAS_KMS_KEY, value.into(), otherwise.into()] })
}

/// No value.
pub(super) fn no_value() -> Value {
    json!({ "Ref": "AWS::NoValue" })
}

pub(super) fn conditions() -> Value {
    json!({
        HAS_KMS_KEY: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": KMS_KEY_ARN }, ""] }] },
        TIERS_FILES: { "Fn::Equals": [{ "Ref": FILES_TIER }, "intelligent"] },
        HAS_SIGNING_SECRET_ARN: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": SIGNING_SECRET_ARN }, ""] }] },
        HAS_BOT_TOKEN_ARN: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": BOT_TOKEN_ARN }, ""] }] },
        ANSWERS: { "Fn::Equals": [{ "Ref": RESPONDER }, "on"] },
        ALL_ALARMS_AND_ANSWERS: { "Fn::And": [{ "Condition": ALL_ALARMS }, { "Condition": ANSWERS }] },
        HAS_PROCESSOR_URL: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": PROCESSOR_URL }, ""] }] },
        HAS_PROCESSOR_TOKEN_ARN: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": PROCESSOR_TOKEN_ARN }, ""] }] },
        HAS_MODEL_KEY_ARN: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": MODEL_KEY_ARN }, ""] }] },
        RESERVES: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": INGEST_CONCURRENCY }, "0"] }] },
        WATCHES_SILENCE: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": SILENCE_HOURS }, "0"] }] },
        ALL_ALARMS: { "Fn::Equals": [{ "Ref": ALARM_SET }, "all"] },
        HAS_ALARM_EMAIL: { "Fn::Not": [{ "Fn::Equals": [{ "Ref": ALARM_EMAIL }, ""] }] },
    })
}

/// Rules that must hold before any resource is created.
pub(super) fn rules() -> Value {
    json!({
        "SigningSecretIsGiven": {
            "Assertions": [{
                "Assert": { "Fn::Not": [{ "Fn::Equals": [{ "Ref": SIGNING_SECRET_ARN }, { "Ref": SIGNING_SECRET }] }] },
                "AssertDescription": format!("Set {SIGNING_SECRET_ARN} or {SIGNING_SECRET}: ingest cannot start without it"),
            }],
        },
    })
}

/// A value if a condition holds, otherwise no value.
pub(super) fn if_holds(condition: &str, value: impl Into<Value>) -> Value {
    json!({ "Fn::If": [condition, value.into(), { "Ref": "AWS::NoValue" }] })
}

/// A value if a condition does not hold, otherwise no value.
pub(super) fn unless_holds(condition: &str, value: impl Into<Value>) -> Value {
    json!({ "Fn::If": [condition, { "Ref": "AWS::NoValue" }, value.into()] })
}

/// Makes a resource or an output conditional.
pub(super) fn only_if(entry: &mut Value, condition: Option<&str>) {
    if let Some(condition) = condition {
        entry["Condition"] = condition.into();
    }
}
