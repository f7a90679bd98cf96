//! What wakes functions: queues, and the hour.
//!
//! Lambda asks each queue that wakes a function all the time, empty or not, and each asking is on the bill. Dead letters are
//! rare and wait for 14 days, so their queues wake nothing: each worker looks at its own once an hour.

use serde_json::{Value, json};

use super::functions::{EventSource, TemplateFunction};
use super::parameters::{self, HAS_BOT_TOKEN};
use super::{Resources, get, queues, reference};
use crate::permissions::PermittedPart;
use crate::{DEAD_LETTERS, SYNC};

/// The most that a FIFO queue hands over at once.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html>
const BATCH: u32 = 10;

pub(super) fn resources(functions: &[TemplateFunction]) -> Resources {
    let of_queues = functions.iter().filter_map(|function| Some((function, function.source.as_ref()?)));
    let queues = of_queues.flat_map(|(function, source)| {
        [of_queue(function, source)].into_iter().chain(dead_letters_hourly(function))
    });
    let hourly = functions.iter().filter(|function| matches!(function.part, PermittedPart::Hourly(_)));
    queues.chain(hourly.flat_map(hourly_itself)).collect()
}

fn of_queue(function: &TemplateFunction, source: &EventSource) -> (String, Value) {
    let id = queues::id(source.queue.into());
    let mut mapping = json!({
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {
            "EventSourceArn": get(&id, "Arn"),
            "FunctionName": reference(&function.id()),
            "BatchSize": BATCH,
            // Without it one message that has to wait would take those before it along.
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        },
    });
    if source.concurrency.is_some() {
        let most = reference(&source.concurrency_parameter(function));
        mapping["Properties"]["ScalingConfig"] = json!({ "MaximumConcurrency": most });
    }
    parameters::only_if(&mut mapping, function.condition());
    (format!("{id}Source"), mapping)
}

/// The worker moves its dead letters to quarantine.
fn dead_letters_hourly(function: &TemplateFunction) -> [(String, Value); 2] {
    let (id, arn) = (format!("{}DeadLettersHourly", function.id()), get(&function.id(), "Arn"));
    let mut rule = json!({
        "Type": "AWS::Events::Rule",
        "Properties": {
            "Description": format!("{} puts its dead letters in quarantine", function.part.label()),
            "ScheduleExpression": "rate(1 hour)",
            "Targets": [{ "Id": "worker", "Arn": arn, "Input": word(DEAD_LETTERS) }],
        },
    });
    let mut permission = json!({
        "Type": "AWS::Lambda::Permission",
        "Properties": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": arn,
            "Principal": "events.amazonaws.com",
            "SourceArn": get(&id, "Arn"),
        },
    });
    parameters::only_if(&mut rule, function.condition());
    parameters::only_if(&mut permission, function.condition());
    [(id.clone(), rule), (format!("{id}Invokes"), permission)]
}

/// A word as the functions read it.
fn word(word: &str) -> String {
    json!({ "annalist": word }).to_string()
}

/// What runs every hour.
fn hourly_itself(function: &TemplateFunction) -> [(String, Value); 3] {
    let (id, hourly) = (function.id(), format!("{}Hourly", function.id()));
    let rule = json!({
        "Type": "AWS::Events::Rule",
        "Condition": HAS_BOT_TOKEN,
        "Properties": {
            "Description": format!("{}, every hour", function.part.label()),
            "ScheduleExpression": "rate(1 hour)",
            "Targets": [{ "Id": function.part.label(), "Arn": get(&id, "Arn"), "Input": word(SYNC) }],
        },
    });
    let permission = json!({
        "Type": "AWS::Lambda::Permission",
        "Condition": HAS_BOT_TOKEN,
        "Properties": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": get(&id, "Arn"),
            "Principal": "events.amazonaws.com",
            "SourceArn": get(&hourly, "Arn"),
        },
    });
    // What failed comes again within the hour anyway, and two hours' worth need not be done twice.
    let once = json!({
        "Type": "AWS::Lambda::EventInvokeConfig",
        "Condition": HAS_BOT_TOKEN,
        "Properties": {
            "FunctionName": reference(&id),
            "Qualifier": "$LATEST",
            "MaximumRetryAttempts": 0,
            "MaximumEventAgeInSeconds": 3600,
        },
    });
    [(hourly.clone(), rule), (format!("{hourly}Invokes"), permission), (format!("{id}Once"), once)]
}
