//! What a person should look at. Each alarm says what to do.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::functions::Function;
use super::parameters::{self, HAS_ALARM_EMAIL};
use super::{Resources, get, logical, queues, reference};
use crate::aws::names::Names;
use crate::aws::permissions::Part;
use crate::queue::QueueRef;
use crate::queue::topology::QUEUES;
use crate::telemetry::emf::NAMESPACE;
use crate::telemetry::metrics::WORKER_JOBS;

/// What the topic is called in the template.
pub(super) const TOPIC: &str = "Alarms";

const MINUTES_5: u32 = 300;

/// A message that waits longer than this waits for something that does not pass by itself: a job backs off for at most
/// five minutes at a time, and a file may take fifteen.
const OLD: Duration = Duration::from_secs(30 * 60);

/// A metric above a bound, five minutes at a time.
struct Alarm {
    id: String,
    /// Behind the prefix.
    name: String,
    what_to_do: String,
    metric: (&'static str, &'static str),
    dimensions: Vec<(&'static str, Value)>,
    statistic: &'static str,
    above: u64,
    /// In so many of the last three periods.
    of_three: u32,
    condition: Option<&'static str>,
}

pub(super) fn resources(names: &Names, functions: &[Function]) -> Resources {
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
    let alarms = of_queues().into_iter().chain(of_ingest()).chain(of_functions(functions));
    let alarms = alarms.map(|alarm| (alarm.id.clone(), alarm.resource(names)));
    [(TOPIC.to_owned(), topic), ("AlarmsByEmail".to_owned(), subscription)]
        .into_iter()
        .chain(alarms)
        .collect()
}

fn of_queues() -> Vec<Alarm> {
    let mut alarms = Vec::new();
    for spec in &QUEUES {
        let (label, dead_letters) = (spec.label, QueueRef::dead_letters(spec.name));
        let queue = |queue| vec![("QueueName", get(&queues::id(queue), "QueueName"))];
        if let Some(worker) = spec.consumer {
            alarms.push(Alarm {
                id: format!("{}Old", logical(label)),
                name: format!("{label}-old"),
                what_to_do: format!(
                    "Something has waited on {label} for {} minutes: {worker} cannot keep up, or something it needs is down. \
                     Nothing is lost for 14 days. Look at the log of {worker}.",
                    OLD.as_secs() / 60
                ),
                metric: ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
                dimensions: queue(spec.name.into()),
                statistic: "Maximum",
                above: OLD.as_secs(),
                of_three: 3,
                condition: None,
            });
            alarms.push(Alarm {
                id: format!("{}Quarantined", logical(label)),
                name: format!("{label}-quarantined"),
                what_to_do: format!(
                    "{worker} put a job aside that it could not store. Run: annalist quarantine list"
                ),
                metric: (NAMESPACE, WORKER_JOBS),
                dimensions: vec![("outcome", "quarantined".into()), ("worker", worker.into())],
                statistic: "Sum",
                above: 0,
                of_three: 1,
                condition: None,
            });
        }
        alarms.push(Alarm {
            id: format!("{}Dead", logical(label)),
            name: format!("{label}-dead"),
            what_to_do: match spec.consumer {
                Some(worker) => format!(
                    "Dead letters of {label} stay where they are: {worker} should have put them in quarantine. Look at its log."
                ),
                None => format!(
                    "{label} has dead letters, though nothing works it off: somebody has received from it. Look at the queue."
                ),
            },
            metric: ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
            dimensions: queue(dead_letters),
            statistic: "Maximum",
            above: 0,
            // One that is being put in quarantine is no reason to get up.
            of_three: 3,
            condition: None,
        });
    }
    alarms
}

fn of_ingest() -> [Alarm; 2] {
    let of = |id: &str, name: &str, metric, what_to_do: &str, of_three| Alarm {
        id: id.to_owned(),
        name: name.to_owned(),
        what_to_do: what_to_do.to_owned(),
        metric: ("AWS/Lambda", metric),
        dimensions: vec![("FunctionName", reference(&logical(Part::Ingest.label())))],
        statistic: "Sum",
        above: 0,
        of_three,
        condition: None,
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
        ),
        of(
            "IngestThrottled",
            "ingest-throttled",
            "Throttles",
            "More events came at once than ingest may take in. If they are Slack's, raise IngestConcurrency.",
            1,
        ),
    ]
}

fn of_functions(functions: &[Function]) -> Vec<Alarm> {
    let failing = |function: &Function| {
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
            of_three: 1,
            condition: function.condition(),
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
        set("Period", MINUTES_5.into());
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
    use crate::aws::template::functions;

    #[test]
    fn every_alarm_goes_to_the_topic_and_says_what_to_do() {
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let resources = resources(&names, &functions::all());
        let alarms: Vec<&Value> =
            resources.iter().map(|(_, it)| it).filter(|it| it["Type"] == "AWS::CloudWatch::Alarm").collect();
        let consumed = QUEUES.iter().filter(|spec| spec.consumer.is_some()).count();
        assert_eq!(alarms.len(), 2 * consumed + QUEUES.len() + 2 + functions::all().len());
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
    fn a_quarantined_job_is_found_under_exactly_the_labels_it_is_counted_with() {
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let resources = resources(&names, &functions::all());
        let (_, alarm) = resources.iter().find(|(id, _)| id == "EventsQuarantined").unwrap();
        let properties = &alarm["Properties"];
        assert_eq!((&properties["Namespace"], &properties["Threshold"]), (&json!("Annalist"), &json!(0)));
        assert_eq!(properties["MetricName"], "annalist_worker_jobs_total");
        assert_eq!(
            properties["Dimensions"],
            json!([
                { "Name": "outcome", "Value": "quarantined" }, { "Name": "worker", "Value": "message-writer" },
            ])
        );
    }
}
