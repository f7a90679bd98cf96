//! Alarms for conditions that need a person. Each description says what to do.
//!
//! An alarm costs $0.10 a month for each metric, so by default there are only those that detect a silent loss of events; the
//! others exist if the parameter `AlarmSet` is `all`. <https://aws.amazon.com/cloudwatch/pricing/>

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::functions::TemplateFunction;
use super::parameters::{
    self, ALL_ALARMS, ALL_ALARMS_AND_ANSWERS, HAS_ALARM_EMAIL, SILENCE_HOURS, WATCHES_SILENCE,
};
use super::{Resources, attribute_of, logical_id, queues, reference, tables};
use crate::names::Names;
use crate::permissions::PermittedPart;
use crate::summary::{INSTALLATION, NAMESPACE, QUARANTINED};
use ports::metrics::WAITING_OLDEST;
use ports::queue::topology::{QueueRole, QueueSpec, TableRole};
use ports::queue::{QueueName, QueueRef};
use ports::workers::{WORKERS, WorkerSpec};

/// The logical id of the topic in the template.
pub(super) const TOPIC: &str = "Alarms";

/// The logical ids of the alarms that, besides the function's own, end the rollout of a version.
pub(super) const QUARANTINED_ID: &str = "Quarantined";
pub(super) const INGEST_REFUSING_ID: &str = "IngestRefusing";

const MINUTES_5: u32 = 300;
/// The interval at which workers quarantine their dead letters: one that stays longer is not being handled.
const HOUR: u32 = 3600;

/// A message that waits longer than this has a problem that does not resolve itself: a backoff is at most
/// five minutes, and a file may take fifteen.
const OLD: Duration = Duration::from_secs(30 * 60);

/// A job that is set aside for longer than this needs a person: a token that was refused in the evening has
/// its alarm before the next morning is over.
const WAITS_LONG: Duration = Duration::from_secs(6 * 3_600);

/// An alarm on a metric above a threshold.
struct Alarm {
    id: String,
    /// The name without the prefix.
    name: String,
    what_to_do: String,
    metric: (&'static str, &'static str),
    dimensions: Vec<(&'static str, Value)>,
    statistic: &'static str,
    threshold: u64,
    period_s: u32,
    /// In how many of the last three periods the metric must exceed the threshold.
    breaching_periods: u32,
    condition: Option<&'static str>,
}

pub(super) fn resources(names: &Names, functions: &[TemplateFunction]) -> Resources {
    let topic = json!({
        "Type": "AWS::SNS::Topic",
        "Properties": { "KmsMasterKeyId": parameters::own_key() },
    });
    let subscription = json!({
        "Type": "AWS::SNS::Subscription",
        "Condition": HAS_ALARM_EMAIL,
        "Properties": {
            "TopicArn": reference(TOPIC),
            "Protocol": "email",
            "Endpoint": reference(parameters::ALARM_EMAIL),
        },
    });
    let alarms = queue_alarms().into_iter().chain([quarantine_alarm(names)]).chain(ingest_alarms());
    let alarms = alarms.chain(function_alarms(functions));
    let alarms = alarms.chain([waiting_alarm(names)]);
    let alarms = alarms.map(|alarm| (alarm.id.clone(), alarm.resource(names)));
    let alarms = alarms.chain([
        ("IngestSilent".to_owned(), silence_alarm(names)),
        ("ClaimsFailing".to_owned(), claims_alarm(names)),
    ]);
    [(TOPIC.to_owned(), topic), ("AlarmsByEmail".to_owned(), subscription)]
        .into_iter()
        .chain(alarms)
        .collect()
}

/// The alarms of the queues that have a worker: the messages and dead letters of planned queues are not
/// handled yet.
fn queue_alarms() -> Vec<Alarm> {
    let mut alarms = Vec::new();
    for WorkerSpec { name: worker, queue: QueueSpec { name, label, role, .. }, .. } in &WORKERS {
        let dead_letters = QueueRef::dead_letters(*name);
        let queue = |queue| vec![("QueueName", attribute_of(&queues::id(queue), "QueueName"))];
        let old = Alarm {
            id: format!("{}Old", logical_id(label)),
            name: format!("{label}-old"),
            what_to_do: format!(
                "A message has waited on {label} for {} minutes: {worker} cannot keep up, or something it needs is down. \
                 Nothing is lost for 14 days. Check the log of {worker}.",
                OLD.as_secs() / 60
            ),
            metric: ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
            dimensions: queue((*name).into()),
            statistic: "Maximum",
            threshold: OLD.as_secs(),
            period_s: MINUTES_5,
            breaching_periods: 3,
            // Every event passes through this queue.
            condition: (*name != QueueName::Events).then_some(ALL_ALARMS),
        };
        // Background jobs may wait for hours.
        alarms.extend((*role == QueueRole::Live).then_some(old));
        alarms.push(Alarm {
            id: format!("{}Dead", logical_id(label)),
            name: format!("{label}-dead"),
            what_to_do: format!(
                "Dead letters of {label} are not being handled: {worker} should have quarantined them. Check its log."
            ),
            metric: ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
            dimensions: queue(dead_letters),
            statistic: "Minimum",
            threshold: 0,
            // A dead letter that waits for the worker's next schedule needs no action.
            period_s: HOUR,
            breaching_periods: 3,
            condition: Some(ALL_ALARMS),
        });
    }
    alarms
}

/// Uses a metric that every worker reports in any metrics mode.
fn quarantine_alarm(names: &Names) -> Alarm {
    Alarm {
        id: QUARANTINED_ID.to_owned(),
        name: "quarantined".to_owned(),
        what_to_do: "A worker quarantined a job that it could not store. Run: annalist quarantine list"
            .to_owned(),
        metric: (NAMESPACE, QUARANTINED),
        dimensions: vec![(INSTALLATION, names.prefix().into())],
        statistic: "Sum",
        threshold: 0,
        period_s: MINUTES_5,
        breaching_periods: 1,
        condition: None,
    }
}

/// Jobs that wait for something outside Annalist go on by themselves, but only once a person has set it right.
fn waiting_alarm(names: &Names) -> Alarm {
    Alarm {
        id: "WaitingLong".to_owned(),
        name: "waiting-long".to_owned(),
        what_to_do: format!(
            "Jobs have been set aside for more than {} hours, such as for a token that Slack refuses. Nothing is lost. Run: \
             annalist doctor",
            WAITS_LONG.as_secs() / 3_600
        ),
        metric: (NAMESPACE, WAITING_OLDEST),
        dimensions: vec![(INSTALLATION, names.prefix().into())],
        statistic: "Maximum",
        threshold: WAITS_LONG.as_secs(),
        // An idle worker reports only once an hour.
        period_s: HOUR,
        breaching_periods: 1,
        condition: None,
    }
}

/// Slack's requests do not arrive: nothing else shows that, since a request that does not arrive leaves no
/// trace. It is the only alarm on a metric below a threshold.
fn silence_alarm(names: &Names) -> Value {
    let mut alarm = json!({
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": format!("{}-ingest-silent", names.prefix()),
            "AlarmDescription": format!(
                "Slack has sent nothing for {SILENCE_HOURS} hours. Check the Request URL under Event Subscriptions of the Slack \
                 app; annalist doctor names the next step. In a quiet workspace, raise {SILENCE_HOURS}."
            ),
            "Namespace": "AWS/Lambda",
            "MetricName": "Invocations",
            "Dimensions": [{ "Name": "FunctionName", "Value": reference(&logical_id(PermittedPart::Ingest.label())) }],
            "Statistic": "Sum",
            "Period": HOUR,
            "EvaluationPeriods": reference(SILENCE_HOURS),
            "Threshold": 1,
            "ComparisonOperator": "LessThanThreshold",
            "TreatMissingData": "breaching",
            "AlarmActions": [reference(TOPIC)],
        },
    });
    parameters::only_if(&mut alarm, Some(WATCHES_SILENCE));
    alarm
}

/// The table of claims fails or throttles. Each metric has a series for each operation, and each costs as much
/// as an alarm, so this sums those of the two calls that every claim makes: one takes it, one completes it.
fn claims_alarm(names: &Names) -> Value {
    let operations = ["PutItem", "UpdateItem"];
    let metric = |index: usize, metric: &str, operation: &str| {
        json!({
            "Id": format!("m{index}"),
            "ReturnData": false,
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/DynamoDB",
                    "MetricName": metric,
                    "Dimensions": [
                        { "Name": "TableName", "Value": reference(tables::id(TableRole::Claims)) },
                        { "Name": "Operation", "Value": operation },
                    ],
                },
                "Period": MINUTES_5,
                "Stat": "Sum",
            },
        })
    };
    let failures = ["SystemErrors", "ThrottledRequests"];
    let series = failures.iter().flat_map(|name| operations.map(|operation| (*name, operation)));
    let mut metrics: Vec<Value> =
        series.enumerate().map(|(index, (name, operation))| metric(index, name, operation)).collect();
    metrics.push(json!({ "Id": "failures", "Expression": "SUM(METRICS())" }));
    let mut alarm = json!({
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmName": format!("{}-claims-failing", names.prefix()),
            "AlarmDescription": "The table of claims fails or throttles requests: files are still fetched, some of them twice. \
                Check the log of file-downloader.",
            "Metrics": metrics,
            "EvaluationPeriods": 3,
            "DatapointsToAlarm": 2,
            "Threshold": 0,
            "ComparisonOperator": "GreaterThanThreshold",
            "TreatMissingData": "notBreaching",
            "AlarmActions": [reference(TOPIC)],
        },
    });
    parameters::only_if(&mut alarm, Some(ALL_ALARMS));
    alarm
}

fn ingest_alarms() -> [Alarm; 2] {
    // Slack tries each event three times within six minutes: it recovers from a single period.
    let alarm = |id: &str, name: &str, metric, what_to_do: &str| Alarm {
        id: id.to_owned(),
        name: name.to_owned(),
        what_to_do: what_to_do.to_owned(),
        metric: ("AWS/Lambda", metric),
        dimensions: vec![("FunctionName", reference(&logical_id(PermittedPart::Ingest.label())))],
        statistic: "Sum",
        threshold: 0,
        period_s: MINUTES_5,
        breaching_periods: 2,
        condition: None,
    };
    [
        alarm(
            INGEST_REFUSING_ID,
            "ingest-refusing",
            "Url5xxCount",
            "Ingest answered Slack's events with an error: Slack retries each event, three times within six minutes and, with \
             Delayed Events, every hour for a day. Check the log of ingest.",
        ),
        alarm(
            "IngestThrottled",
            "ingest-throttled",
            "Throttles",
            "More events arrived at once than ingest may handle: Slack retries each three times within six minutes. If they are \
             Slack's, raise IngestConcurrency, or request a higher quota of concurrent functions.",
        ),
    ]
}

/// The logical id of the alarm on errors of a function.
pub(super) fn failing_id(function: &TemplateFunction) -> String {
    format!("{}Failing", function.id())
}

fn function_alarms(functions: &[TemplateFunction]) -> Vec<Alarm> {
    let failing = |function: &TemplateFunction| {
        let label = function.part.label();
        Alarm {
            id: failing_id(function),
            name: format!("{label}-failing"),
            what_to_do: format!(
                "The function {label} ended with an error, or took too long. Its work will be retried. Check its log."
            ),
            metric: ("AWS/Lambda", "Errors"),
            dimensions: vec![("FunctionName", reference(&function.id()))],
            statistic: "Sum",
            threshold: 0,
            period_s: MINUTES_5,
            breaching_periods: 1,
            condition: match function.condition() {
                // It ends the rollout of a version that fails.
                condition if function.is_gradual() => condition,
                None => Some(ALL_ALARMS),
                Some(_) => Some(ALL_ALARMS_AND_ANSWERS),
            },
        }
    };
    functions.iter().map(failing).collect()
}

impl Alarm {
    fn resource(self, names: &Names) -> Value {
        let (namespace, metric) = self.metric;
        let dimension = |(name, value): (&str, Value)| json!({ "Name": name, "Value": value });
        let dimensions: Vec<Value> = self.dimensions.into_iter().map(dimension).collect();
        let mut properties: Map<String, Value> = Map::new();
        let mut set = |name: &str, value: Value| drop(properties.insert(name.to_owned(), value));
        set("AlarmName", format!("{}-{}", names.prefix(), self.name).into());
        set("AlarmDescription", self.what_to_do.into());
        set("Namespace", namespace.into());
        set("MetricName", metric.into());
        set("Dimensions", dimensions.into());
        set("Statistic", self.statistic.into());
        set("Period", self.period_s.into());
        let periods = if self.breaching_periods == 1 { 1 } else { 3 };
        set("EvaluationPeriods", periods.into());
        if self.breaching_periods != periods {
            set("DatapointsToAlarm", self.breaching_periods.into());
        }
        set("Threshold", self.threshold.into());
        set("ComparisonOperator", "GreaterThanThreshold".into());
        // A function that does not run reports nothing.
        set("TreatMissingData", "notBreaching".into());
        set("AlarmActions", json!([reference(TOPIC)]));
        let mut alarm = json!({ "Type": "AWS::CloudWatch::Alarm", "Properties": properties });
        parameters::only_if(&mut alarm, self.condition);
        alarm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions;

    #[test]
    fn every_alarm_goes_to_the_topic_and_says_what_to_do() {
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let resources = resources(&names, &functions::all(crate::TemplateOptions::default()));
        let alarms: Vec<&Value> = resources
            .iter()
            .map(|(_, resource)| resource)
            .filter(|resource| resource["Type"] == "AWS::CloudWatch::Alarm")
            .collect();
        let live = WORKERS.iter().filter(|spec| spec.queue.role == QueueRole::Live).count();
        assert_eq!(
            alarms.len(),
            live + WORKERS.len() + 1 + 2 + functions::all(crate::TemplateOptions::default()).len() + 3
        );
        for alarm in alarms {
            let properties = &alarm["Properties"];
            assert_eq!(properties["AlarmActions"], json!([{ "Ref": "Alarms" }]));
            let is_silence = properties["ComparisonOperator"] == "LessThanThreshold";
            let missing = if is_silence { "breaching" } else { "notBreaching" };
            assert_eq!(properties["TreatMissingData"], missing);
            let description = properties["AlarmDescription"].as_str().unwrap();
            let has_action = ["Check ", "Run: ", "raise "].iter().any(|action| description.contains(action));
            assert!(has_action && description.len() <= 1024, "{description}");
        }
    }

    #[test]
    fn by_default_there_are_six_alarms() {
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let resources = resources(&names, &functions::all(crate::TemplateOptions::default()));
        let alarms = resources.iter().filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm");
        let is_default = |condition: Option<&Value>| condition.is_none_or(|name| name == WATCHES_SILENCE);
        let by_default = alarms.filter(|(_, resource)| is_default(resource.get("Condition")));
        let mut ids: Vec<&str> = by_default.map(|(id, _)| id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(
            ids,
            ["EventsOld", "IngestRefusing", "IngestSilent", "IngestThrottled", "Quarantined", "WaitingLong"]
        );
    }

    #[test]
    fn silence_is_an_alarm_after_whole_hours_without_a_request() {
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let alarm = silence_alarm(&names);
        assert_eq!(alarm["Condition"], WATCHES_SILENCE);
        let properties = &alarm["Properties"];
        assert_eq!((&properties["Statistic"], &properties["Threshold"]), (&json!("Sum"), &json!(1)));
        assert_eq!(properties["EvaluationPeriods"], json!({ "Ref": "SilenceHours" }));
        let default = &parameters::all(std::iter::empty())["SilenceHours"];
        assert_eq!((&default["Default"], &default["MinValue"]), (&json!(72), &json!(0)));
        // CloudWatch evaluates at most seven days.
        assert_eq!(default["MaxValue"].as_u64().unwrap() * u64::from(HOUR), 7 * 86_400);
    }

    #[test]
    fn failures_of_the_claims_table_are_summed_over_the_calls_of_every_claim() {
        let alarm = claims_alarm(&Names::new("annalist", [None; 3], "bucket").unwrap());
        let metrics = alarm["Properties"]["Metrics"].as_array().unwrap();
        let watched = |name: &str, operation: &str| {
            metrics.iter().any(|metric| {
                let metric = &metric["MetricStat"]["Metric"];
                metric["MetricName"] == name && metric["Dimensions"][1]["Value"] == operation
            })
        };
        for operation in ["PutItem", "UpdateItem"] {
            assert!(crate::permissions::CLAIMS.contains(&format!("dynamodb:{operation}").as_str()));
            let both = ["SystemErrors", "ThrottledRequests"].iter().all(|name| watched(name, operation));
            assert!(both, "{operation}");
        }
        assert_eq!(metrics.last().unwrap()["Expression"], "SUM(METRICS())");
    }

    #[test]
    fn alarms_use_only_metrics_that_are_reported_by_default() {
        let names = Names::new("acme", [None; 3], "bucket").unwrap();
        let resources = resources(&names, &functions::all(crate::TemplateOptions::default()));
        let with_our_metrics =
            resources.iter().filter(|(_, resource)| resource["Properties"]["Namespace"] == NAMESPACE);
        for (id, alarm) in with_our_metrics {
            let (properties, reported) = (&alarm["Properties"], crate::summary::SUMMARY);
            assert!(reported.iter().any(|metric| properties["MetricName"] == metric.name), "{id}");
            assert_eq!(
                properties["Dimensions"],
                json!([{ "Name": "installation", "Value": "acme" }]),
                "{id}"
            );
        }
    }
}
