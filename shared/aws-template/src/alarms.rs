//! What a person should look at. Each alarm says what to do.
//!
//! An alarm costs $0.10 a month, so by default there are only those without which events would be lost unseen; the others
//! are there if the parameter `AlarmSet` is `all`. <https://aws.amazon.com/cloudwatch/pricing/>

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::functions::TemplateFunction;
use super::parameters::{
    self, ALL_ALARMS, ALL_ALARMS_AND_ANSWERS, ALL_ALARMS_AND_BOT_TOKEN, ANSWERS, HAS_ALARM_EMAIL,
};
use super::{Resources, get, logical, queues, reference};
use crate::names::Names;
use crate::permissions::PermittedPart;
use crate::summary::{INSTALLATION, NAMESPACE, QUARANTINED};
use ports::queue::topology::{QueueRole, QueueSpec};
use ports::queue::{QueueName, QueueRef};
use ports::workers::{WORKERS, WorkerSpec};

/// What the topic is called in the template.
pub(super) const TOPIC: &str = "Alarms";

const MINUTES_5: u32 = 300;
/// How often dead letters are put in quarantine: what is there longer stays.
const HOUR: u32 = 3600;

/// A message that waits longer than this waits for something that does not pass by itself: a job backs off for at most
/// five minutes at a time, and a file may take fifteen.
const OLD: Duration = Duration::from_secs(30 * 60);

/// A metric above a bound, one period at a time.
struct Alarm {
    id: String,
    /// Behind the prefix.
    name: String,
    what_to_do: String,
    metric: (&'static str, &'static str),
    dimensions: Vec<(&'static str, Value)>,
    statistic: &'static str,
    above: u64,
    period_s: u32,
    /// In how many of the last three periods the threshold must be crossed.
    of_three: u32,
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
    let alarms = of_queues().into_iter().chain([of_quarantine(names)]).chain(of_ingest());
    let alarms = alarms.chain(of_functions(functions));
    let alarms = alarms.map(|alarm| (alarm.id.clone(), alarm.resource(names)));
    [(TOPIC.to_owned(), topic), ("AlarmsByEmail".to_owned(), subscription)]
        .into_iter()
        .chain(alarms)
        .collect()
}

/// Of the queues that have a worker: nothing becomes of messages on planned ones, dead letters included.
fn of_queues() -> Vec<Alarm> {
    let mut alarms = Vec::new();
    for WorkerSpec { name: worker, queue: QueueSpec { name, label, role, .. }, .. } in &WORKERS {
        let dead_letters = QueueRef::dead_letters(*name);
        let queue = |queue| vec![("QueueName", get(&queues::id(queue), "QueueName"))];
        let old = Alarm {
            id: format!("{}Old", logical(label)),
            name: format!("{label}-old"),
            what_to_do: format!(
                "Something has waited on {label} for {} minutes: {worker} cannot keep up, or something it needs is down. \
                 Nothing is lost for 14 days. Look at the log of {worker}.",
                OLD.as_secs() / 60
            ),
            metric: ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
            dimensions: queue((*name).into()),
            statistic: "Maximum",
            above: OLD.as_secs(),
            period_s: MINUTES_5,
            of_three: 3,
            // Every message goes through this one.
            condition: (*name != QueueName::Events).then_some(ALL_ALARMS),
        };
        // What is done in the background may wait for hours.
        alarms.extend((*role == QueueRole::Live).then_some(old));
        alarms.push(Alarm {
            id: format!("{}Dead", logical(label)),
            name: format!("{label}-dead"),
            what_to_do: format!(
                "Dead letters of {label} stay where they are: {worker} should have put them in quarantine. Look at its log."
            ),
            metric: ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
            dimensions: queue(dead_letters),
            statistic: "Minimum",
            above: 0,
            // One that waits for its hour is no reason to get up.
            period_s: HOUR,
            of_three: 3,
            condition: Some(ALL_ALARMS),
        });
    }
    alarms
}

/// Stands on what every worker tells, whatever else it tells.
fn of_quarantine(names: &Names) -> Alarm {
    Alarm {
        id: "Quarantined".to_owned(),
        name: "quarantined".to_owned(),
        what_to_do: "A worker quarantined a job that it could not store. Run: annalist quarantine list"
            .to_owned(),
        metric: (NAMESPACE, QUARANTINED),
        dimensions: vec![(INSTALLATION, names.prefix().into())],
        statistic: "Sum",
        above: 0,
        period_s: MINUTES_5,
        of_three: 1,
        condition: None,
    }
}

fn of_ingest() -> [Alarm; 2] {
    let of = |id: &str, name: &str, metric, what_to_do: &str, of_three, condition| Alarm {
        id: id.to_owned(),
        name: name.to_owned(),
        what_to_do: what_to_do.to_owned(),
        metric: ("AWS/Lambda", metric),
        dimensions: vec![("FunctionName", reference(&logical(PermittedPart::Ingest.label())))],
        statistic: "Sum",
        above: 0,
        period_s: MINUTES_5,
        of_three,
        condition,
    };
    [
        of(
            "IngestRefusing",
            "ingest-refusing",
            "Url5xxCount",
            "Slack's events were answered with an error: Slack tries each again, three times within six minutes and, with \
             Delayed Events, every hour for a day. Look at the log of ingest.",
            // A single one is healed by Slack's next try.
            2,
            None,
        ),
        of(
            "IngestThrottled",
            "ingest-throttled",
            "Throttles",
            "More events came at once than ingest may take in. If they are Slack's, raise IngestConcurrency.",
            1,
            Some(ALL_ALARMS),
        ),
    ]
}

fn of_functions(functions: &[TemplateFunction]) -> Vec<Alarm> {
    let failing = |function: &TemplateFunction| {
        let label = function.part.label();
        Alarm {
            id: format!("{}Failing", function.id()),
            name: format!("{label}-failing"),
            what_to_do: format!(
                "The function {label} ended with an error, or took too long. What it was to do comes again. Look at its log."
            ),
            metric: ("AWS/Lambda", "Errors"),
            dimensions: vec![("FunctionName", reference(&function.id()))],
            statistic: "Sum",
            above: 0,
            period_s: MINUTES_5,
            of_three: 1,
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
        let periods = if self.of_three == 1 { 1 } else { 3 };
        set("EvaluationPeriods", periods.into());
        if self.of_three != periods {
            set("DatapointsToAlarm", self.of_three.into());
        }
        set("Threshold", self.above.into());
        set("ComparisonOperator", "GreaterThanThreshold".into());
        // What does not run has nothing to say.
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
        let alarms: Vec<&Value> =
            resources.iter().map(|(_, it)| it).filter(|it| it["Type"] == "AWS::CloudWatch::Alarm").collect();
        let live = WORKERS.iter().filter(|spec| spec.queue.role == QueueRole::Live).count();
        assert_eq!(alarms.len(), live + WORKERS.len() + 1 + 2 + functions::all().len());
        for alarm in alarms {
            let properties = &alarm["Properties"];
            assert_eq!(properties["AlarmActions"], json!([{ "Ref": "Alarms" }]));
            assert_eq!(properties["TreatMissingData"], "notBreaching");
            let description = properties["AlarmDescription"].as_str().unwrap();
            let says = ["Look at", "Run: ", "raise "].iter().any(|what| description.contains(what));
            assert!(says && description.len() <= 1024, "{description}");
        }
    }

    #[test]
    fn by_default_there_are_as_many_as_a_few_dimes_pay_for() {
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let resources = resources(&names, &functions::all());
        let alarms = resources.iter().filter(|(_, it)| it["Type"] == "AWS::CloudWatch::Alarm");
        let by_default = alarms.filter(|(_, it)| it.get("Condition").is_none());
        let mut ids: Vec<&str> = by_default.map(|(id, _)| id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["EventsOld", "IngestRefusing", "Quarantined"]);
    }

    #[test]
    fn no_alarm_stands_on_a_metric_that_is_not_told_by_default() {
        let names = Names::new("acme", [None; 3], "bucket").unwrap();
        let resources = resources(&names, &functions::all());
        let of_ours = resources.iter().filter(|(_, it)| it["Properties"]["Namespace"] == NAMESPACE);
        for (id, alarm) in of_ours {
            let (properties, told) = (&alarm["Properties"], crate::summary::SUMMARY);
            assert!(told.iter().any(|metric| properties["MetricName"] == metric.name), "{id}");
            assert_eq!(
                properties["Dimensions"],
                json!([{ "Name": "installation", "Value": "acme" }]),
                "{id}"
            );
        }
    }
}
