//! The triggers of functions: queues and schedules.
//!
//! Lambda polls each queue that triggers a function all the time, even if it is empty, and each poll is
//! billed. Dead letters are rare and are kept for 14 days, so their queues trigger no function: each worker
//! polls its own on its schedule.

use serde_json::{Value, json};

use super::functions::TemplateFunction;
use super::parameters;
use super::{Resources, attribute_of, queues, reference};
use crate::DEAD_LETTERS;
use ports::workers::WorkerSpec;

pub(super) fn resources(functions: &[TemplateFunction]) -> Resources {
    let consumers = functions.iter().filter_map(|function| Some((function, function.worker()?)));
    consumers
        .flat_map(|(function, worker)| {
            [queue_source(function, worker)].into_iter().chain(schedule(function, worker))
        })
        .collect()
}

fn queue_source(function: &TemplateFunction, worker: &WorkerSpec) -> (String, Value) {
    let id = queues::id(worker.queue.name.into());
    let mut mapping = json!({
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {
            "EventSourceArn": attribute_of(&id, "Arn"),
            "FunctionName": function.invoked(reference(&function.id())),
            "BatchSize": worker.invocation_batch,
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

/// The rule on whose schedule the worker takes its dead letters and looks for work, and its permission to do so.
fn schedule(function: &TemplateFunction, worker: &WorkerSpec) -> [(String, Value); 2] {
    let id = format!("{}DeadLettersHourly", function.id());
    let arn = function.invoked(attribute_of(&function.id(), "Arn"));
    let input = json!({ "annalist": DEAD_LETTERS }).to_string();
    let rate = match worker.schedule.as_secs() / 60 {
        60 => "1 hour".to_owned(),
        minutes => format!("{minutes} minutes"),
    };
    let mut rule = json!({
        "Type": "AWS::Events::Rule",
        "Properties": {
            "Description": format!("{} looks for dead letters and for work", function.part.label()),
            "ScheduleExpression": format!("rate({rate})"),
            "Targets": [{ "Id": "worker", "Arn": arn, "Input": input }],
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
