//! The triggers of functions: queues and hourly schedules.
//!
//! Lambda polls each queue that triggers a function all the time, even if it is empty, and each poll is
//! billed. Dead letters are rare and are kept for 14 days, so their queues trigger no function: each worker
//! polls its own once an hour.

use serde_json::{Value, json};

use super::functions::TemplateFunction;
use super::{Resources, attribute_of, parameters, queues, reference, rollout};
use crate::permissions::PermittedPart;
use crate::{DEAD_LETTERS, SYNC};
use ports::workers::WorkerSpec;

/// Maximum batch size of a FIFO queue.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html>
const BATCH: u32 = 10;

pub(super) fn resources(functions: &[TemplateFunction]) -> Resources {
    let consumers = functions.iter().filter_map(|function| Some((function, function.worker()?)));
    let queues = consumers.flat_map(|(function, worker)| {
        [queue_source(function, worker)].into_iter().chain(dead_letter_schedule(function))
    });
    let hourly = functions.iter().filter(|function| matches!(function.part, PermittedPart::Hourly(_)));
    queues.chain(hourly.flat_map(hourly_schedule)).collect()
}

fn queue_source(function: &TemplateFunction, worker: &WorkerSpec) -> (String, Value) {
    let id = queues::id(worker.queue.name.into());
    let mut mapping = json!({
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {
            "EventSourceArn": attribute_of(&id, "Arn"),
            "FunctionName": function.invoked(reference(&function.id())),
            "BatchSize": BATCH,
            // Otherwise one message that has to wait would also return the messages before it.
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        },
    });
    if worker.concurrency.is_some() {
        let max = reference(&function.concurrency_parameter());
        mapping["Properties"]["ScalingConfig"] = json!({ "MaximumConcurrency": max });
    }
    parameters::only_if(&mut mapping, function.condition());
    (format!("{id}Source"), mapping)
}

/// The hourly schedule on which the worker quarantines its dead letters.
fn dead_letter_schedule(function: &TemplateFunction) -> [(String, Value); 2] {
    let description = format!("{} quarantines its dead letters", function.part.label());
    schedule(function, format!("{}DeadLettersHourly", function.id()), &description, "worker", DEAD_LETTERS)
}

fn hourly_schedule(function: &TemplateFunction) -> [(String, Value); 3] {
    let (id, label) = (function.id(), function.part.label());
    let [rule, permission] =
        schedule(function, format!("{id}Hourly"), &format!("{label}, every hour"), label, SYNC);
    // No retries: the next run follows within the hour anyway.
    let mut once = json!({
        "Type": "AWS::Lambda::EventInvokeConfig",
        "Properties": {
            "FunctionName": reference(&id),
            "Qualifier": "$LATEST",
            "MaximumRetryAttempts": 0,
            "MaximumEventAgeInSeconds": 3600,
        },
    });
    if function.is_gradual() {
        once["Properties"]["Qualifier"] = rollout::ALIAS.into();
        once["DependsOn"] = function.alias_id().into();
    }
    parameters::only_if(&mut once, function.condition());
    [rule, permission, (format!("{id}Once"), once)]
}

/// A rule that passes a command to a function every hour, and its permission to do so.
fn schedule(
    function: &TemplateFunction,
    id: String,
    description: &str,
    target: &str,
    command: &str,
) -> [(String, Value); 2] {
    let arn = function.invoked(attribute_of(&function.id(), "Arn"));
    let input = json!({ "annalist": command }).to_string();
    let mut rule = json!({
        "Type": "AWS::Events::Rule",
        "Properties": {
            "Description": description,
            "ScheduleExpression": "rate(1 hour)",
            "Targets": [{ "Id": target, "Arn": arn, "Input": input }],
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
    let permission_id = format!("{id}Invokes");
    [(id, rule), (permission_id, permission)]
}
