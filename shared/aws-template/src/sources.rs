//! The triggers of functions: queues and hourly schedules.
//!
//! Lambda polls each queue that triggers a function all the time, even if it is empty, and each poll is
//! billed. Dead letters are rare and are kept for 14 days, so their queues trigger no function: each worker
//! polls its own once an hour.

use serde_json::{Value, json};

use super::functions::{EventSource, TemplateFunction};
use super::parameters::{self, HAS_BOT_TOKEN};
use super::{Resources, attribute_of, queues, reference};
use crate::permissions::PermittedPart;
use crate::{DEAD_LETTERS, SYNC};

/// Maximum batch size of a FIFO queue.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html>
const BATCH: u32 = 10;

pub(super) fn resources(functions: &[TemplateFunction]) -> Resources {
    let consumers = functions.iter().filter_map(|function| Some((function, function.source.as_ref()?)));
    let queues = consumers.flat_map(|(function, source)| {
        [queue_source(function, source)].into_iter().chain(dead_letter_schedule(function))
    });
    let hourly = functions.iter().filter(|function| matches!(function.part, PermittedPart::Hourly(_)));
    queues.chain(hourly.flat_map(hourly_schedule)).collect()
}

fn queue_source(function: &TemplateFunction, source: &EventSource) -> (String, Value) {
    let id = queues::id(source.queue.into());
    let mut mapping = json!({
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {
            "EventSourceArn": attribute_of(&id, "Arn"),
            "FunctionName": reference(&function.id()),
            "BatchSize": BATCH,
            // Otherwise one message that has to wait would also return the messages before it.
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        },
    });
    if source.concurrency.is_some() {
        let max = reference(&source.concurrency_parameter(function));
        mapping["Properties"]["ScalingConfig"] = json!({ "MaximumConcurrency": max });
    }
    parameters::only_if(&mut mapping, function.condition());
    (format!("{id}Source"), mapping)
}

/// The hourly schedule on which the worker quarantines its dead letters.
fn dead_letter_schedule(function: &TemplateFunction) -> [(String, Value); 2] {
    let (id, arn) = (format!("{}DeadLettersHourly", function.id()), attribute_of(&function.id(), "Arn"));
    let mut rule = json!({
        "Type": "AWS::Events::Rule",
        "Properties": {
            "Description": format!("{} quarantines its dead letters", function.part.label()),
            "ScheduleExpression": "rate(1 hour)",
            "Targets": [{ "Id": "worker", "Arn": arn, "Input": command_input(DEAD_LETTERS) }],
        },
    });
    let mut permission = json!({
        "Type": "AWS::Lambda::Permission",
        "Properties": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": arn,
            "Principal": "events.amazonaws.com",
            "SourceArn": attribute_of(&id, "Arn"),
        },
    });
    parameters::only_if(&mut rule, function.condition());
    parameters::only_if(&mut permission, function.condition());
    [(id.clone(), rule), (format!("{id}Invokes"), permission)]
}

/// The event that passes a command to a function.
fn command_input(command: &str) -> String {
    json!({ "annalist": command }).to_string()
}

/// The schedule of an hourly function.
fn hourly_schedule(function: &TemplateFunction) -> [(String, Value); 3] {
    let (id, hourly) = (function.id(), format!("{}Hourly", function.id()));
    let rule = json!({
        "Type": "AWS::Events::Rule",
        "Condition": HAS_BOT_TOKEN,
        "Properties": {
            "Description": format!("{}, every hour", function.part.label()),
            "ScheduleExpression": "rate(1 hour)",
            "Targets": [{ "Id": function.part.label(), "Arn": attribute_of(&id, "Arn"), "Input": command_input(SYNC) }],
        },
    });
    let permission = json!({
        "Type": "AWS::Lambda::Permission",
        "Condition": HAS_BOT_TOKEN,
        "Properties": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": attribute_of(&id, "Arn"),
            "Principal": "events.amazonaws.com",
            "SourceArn": attribute_of(&hourly, "Arn"),
        },
    });
    // No retries: the next run follows within the hour anyway.
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
