//! What wakes functions: queues, and the hour.

use serde_json::{Value, json};

use super::functions::{Function, Source};
use super::parameters::{HAS_BOT_TOKEN, LEAST_CONCURRENCY};
use super::{Resources, get, logical, queues, reference};
use crate::aws::SYNC;
use crate::aws::permissions::Part;
use crate::queue::QueueRef;

/// The most that a FIFO queue hands over at once.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html>
const BATCH: u32 = 10;

pub(super) fn resources(functions: &[Function]) -> Resources {
    let of_queues = functions.iter().filter_map(|function| Some((function, function.source.as_ref()?)));
    of_queues.flat_map(|(function, source)| of_queue(function, source)).chain(hourly()).collect()
}

/// The queue, and its dead-letter queue, which the worker moves to quarantine.
fn of_queue(function: &Function, source: &Source) -> [(String, Value); 2] {
    let name = source.queue.name;
    let concurrency = reference(&source.concurrency_parameter(function));
    let dead_letters = QueueRef::dead_letters(name);
    [(name.into(), concurrency), (dead_letters, json!(LEAST_CONCURRENCY))].map(|(queue, concurrency)| {
        let mapping = json!({
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": get(&queues::id(queue), "Arn"),
                "FunctionName": reference(&function.id()),
                "BatchSize": BATCH,
                // Without it one message that has to wait would take those before it along.
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                "ScalingConfig": { "MaximumConcurrency": concurrency },
            },
        });
        (format!("{}Source", queues::id(queue)), mapping)
    })
}

/// A word as the functions read it.
fn word(word: &str) -> String {
    json!({ "annalist": word }).to_string()
}

fn hourly() -> [(String, Value); 3] {
    let directory = logical(Part::Directory.label());
    let rule = json!({
        "Type": "AWS::Events::Rule",
        "Condition": HAS_BOT_TOKEN,
        "Properties": {
            "Description": "Annalist reads Slack's directory",
            "ScheduleExpression": "rate(1 hour)",
            "Targets": [{ "Id": "directory", "Arn": get(&directory, "Arn"), "Input": word(SYNC) }],
        },
    });
    let permission = json!({
        "Type": "AWS::Lambda::Permission",
        "Condition": HAS_BOT_TOKEN,
        "Properties": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": get(&directory, "Arn"),
            "Principal": "events.amazonaws.com",
            "SourceArn": get("DirectoryHourly", "Arn"),
        },
    });
    // What failed comes again within the hour anyway, and two hours' worth need not be done twice.
    let once = json!({
        "Type": "AWS::Lambda::EventInvokeConfig",
        "Condition": HAS_BOT_TOKEN,
        "Properties": {
            "FunctionName": reference(&directory),
            "Qualifier": "$LATEST",
            "MaximumRetryAttempts": 0,
            "MaximumEventAgeInSeconds": 3600,
        },
    });
    [
        ("DirectoryHourly".to_owned(), rule),
        ("DirectoryHourlyInvokes".to_owned(), permission),
        ("DirectoryOnce".to_owned(), once),
    ]
}
