//! Alarms for conditions that need a person. Each description says what to do.
//!
//! An alarm costs $0.10 a month, so by default there are only those that detect a silent loss of events; the
//! others exist if the parameter `AlarmSet` is `all`. <https://aws.amazon.com/cloudwatch/pricing/>

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::functions::TemplateFunction;
use super::parameters::{
    self, ALL_ALARMS, ALL_ALARMS_AND_ANSWERS, ALL_ALARMS_AND_BOT_TOKEN, ANSWERS, HAS_ALARM_EMAIL,
};
use super::{Resources, attribute_of, logical_id, queues, reference};
use crate::names::Names;
use crate::permissions::PermittedPart;
use crate::summary::{INSTALLATION, NAMESPACE, QUARANTINED};
use ports::queue::topology::{QueueRole, QueueSpec};
use ports::queue::{QueueName, QueueRef};
use ports::workers::{WORKERS, WorkerSpec};

/// The logical id of the topic in the template.
pub(super) const TOPIC: &str = "Alarms";

const MINUTES_5: u32 = 300;
/// The interval at which workers quarantine their dead letters: one that stays longer is not being handled.
const HOUR: u32 = 3600;

/// A message that waits longer than this has a problem that does not resolve itself: a backoff is at most
/// five minutes, and a file may take fifteen.
const OLD: Duration = Duration::from_secs(30 * 60);

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
    let topic = json!({ "Type": "AWS::SNS::Topic" });
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
    let alarms = alarms.map(|alarm| (alarm.id.clone(), alarm.resource(names)));
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
            // A dead letter that waits for the next hourly run needs no action.
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
        id: "Quarantined".to_owned(),
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

fn ingest_alarms() -> [Alarm; 2] {
    let alarm = |id: &str, name: &str, metric, what_to_do: &str, breaching_periods, condition| Alarm {
        id: id.to_owned(),
        name: name.to_owned(),
        what_to_do: what_to_do.to_owned(),
        metric: ("AWS/Lambda", metric),
        dimensions: vec![("FunctionName", reference(&logical_id(PermittedPart::Ingest.label())))],
        statistic: "Sum",
        threshold: 0,
        period_s: MINUTES_5,
        breaching_periods,
        condition,
    };
    [
        alarm(
            "IngestRefusing",
            "ingest-refusing",
            "Url5xxCount",
            "Ingest answered Slack's events with an error: Slack retries each event, three times within six minutes and, with \
             Delayed Events, every hour for a day. Check the log of ingest.",
            // Slack's next retry recovers from a single one.
            2,
            None,
        ),
        alarm(
            "IngestThrottled",
            "ingest-throttled",
            "Throttles",
            "More events arrived at once than ingest may handle. If they are Slack's, raise IngestConcurrency.",
            1,
            Some(ALL_ALARMS),
        ),
    ]
}

fn function_alarms(functions: &[TemplateFunction]) -> Vec<Alarm> {
    let failing = |function: &TemplateFunction| {
        let label = function.part.label();
        Alarm {
            id: format!("{}Failing", function.id()),
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
            condition: Some(match function.condition() {
                None => ALL_ALARMS,
                Some(ANSWERS) => ALL_ALARMS_AND_ANSWERS,
                Some(_) => ALL_ALARMS_AND_BOT_TOKEN,
            }),
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
        let resources = resources(&names, &functions::all());
        let alarms: Vec<&Value> = resources
            .iter()
            .map(|(_, resource)| resource)
            .filter(|resource| resource["Type"] == "AWS::CloudWatch::Alarm")
            .collect();
        let live = WORKERS.iter().filter(|spec| spec.queue.role == QueueRole::Live).count();
        assert_eq!(alarms.len(), live + WORKERS.len() + 1 + 2 + functions::all().len());
        for alarm in alarms {
            let properties = &alarm["Properties"];
            assert_eq!(properties["AlarmActions"], json!([{ "Ref": "Alarms" }]));
            assert_eq!(properties["TreatMissingData"], "notBreaching");
            let description = properties["AlarmDescription"].as_str().unwrap();
            let has_action = ["Check ", "Run: ", "raise "].iter().any(|action| description.contains(action));
            assert!(has_action && description.len() <= 1024, "{description}");
        }
    }

    #[test]
    fn by_default_there_are_three_alarms() {
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let resources = resources(&names, &functions::all());
        let alarms = resources.iter().filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm");
        let by_default = alarms.filter(|(_, resource)| resource.get("Condition").is_none());
        let mut ids: Vec<&str> = by_default.map(|(id, _)| id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["EventsOld", "IngestRefusing", "Quarantined"]);
    }

    #[test]
    fn alarms_use_only_metrics_that_are_reported_by_default() {
        let names = Names::new("acme", [None; 3], "bucket").unwrap();
        let resources = resources(&names, &functions::all());
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
