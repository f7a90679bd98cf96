//! Queues with their dead-letter queues, with the attributes that `provision` sets.

use serde_json::{Map, Value, json};

use super::{Resources, attribute_of, logical_id, parameters, tags};
use crate::names::Names;
use crate::resources::{dead_letter_attributes, queue_attributes};
use ports::queue::QueueRef;
use ports::queue::topology::QUEUES;

/// The logical id of a queue in the template.
pub(super) fn id(queue: QueueRef) -> String {
    let kind = if queue == QueueRef::dead_letters(queue.name) { "DeadLetters" } else { "Queue" };
    logical_id(queue.name.spec().label) + kind
}

pub(super) fn resources(names: &Names) -> Resources {
    let mut resources = Vec::new();
    for spec in &QUEUES {
        let dead_letters = QueueRef::dead_letters(spec.name);
        let arn = attribute_of(&id(dead_letters), "Arn");
        // The ARN is inserted below, as a reference that CloudFormation resolves.
        let attributes = queue_attributes(spec, "");
        resources.push(queue(names, spec.name.into(), attributes, Some(&arn)));
        resources.push(queue(names, dead_letters, dead_letter_attributes(spec), None));
    }
    resources
}

fn queue(
    names: &Names,
    queue: QueueRef,
    attributes: Vec<(&'static str, String)>,
    dead_letters: Option<&Value>,
) -> (String, Value) {
    let mut properties: Map<String, Value> =
        attributes.into_iter().map(|(name, value)| (name.to_owned(), typed(&value, dead_letters))).collect();
    // SQS's own keys and another one exclude each other.
    if let Some(own_keys) = properties.get_mut("SqsManagedSseEnabled") {
        *own_keys = parameters::with_own_key(parameters::no_value(), own_keys.take());
    }
    properties.insert("KmsMasterKeyId".to_owned(), parameters::own_key());
    properties.insert("QueueName".to_owned(), names.queue(queue).into());
    properties.insert("FifoQueue".to_owned(), true.into());
    properties.insert("Tags".to_owned(), tags(names));
    let resource = json!({
        "Type": "AWS::SQS::Queue",
        // Deleting the stack loses only messages in flight; renaming a queue keeps the old one, because its
        // messages are on no other queue.
        "DeletionPolicy": "Delete",
        "UpdateReplacePolicy": "Retain",
        "Properties": properties,
    });
    (id(queue), resource)
}

/// Converts an attribute's value to its JSON type: SQS represents all as text, but CloudFormation requires
/// the type.
fn typed(value: &str, dead_letters: Option<&Value>) -> Value {
    match serde_json::from_str(value) {
        Ok(Value::Object(mut redrive)) => {
            redrive.insert("deadLetterTargetArn".to_owned(), dead_letters.cloned().unwrap_or_default());
            Value::Object(redrive)
        }
        Ok(other) => other,
        Err(_) => value.into(),
    }
}
