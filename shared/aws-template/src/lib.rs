//! The same installation as a CloudFormation template: what `provision` makes, from the same settings, and every part
//! as a Lambda function.
//!
//! * [`queues`], [`tables`], [`bucket`]: what `provision` makes.
//! * [`functions`], [`ingest`], [`sources`]: the parts, Slack's way in, and what wakes the others. [`roles`]: what they
//!   may do.
//! * [`alarms`]: what a person should look at.
//! * [`parameters`]: what is decided when it is deployed. [`layout`]: how it is printed.

mod alarms;
mod bucket;
mod functions;
mod ingest;
mod layout;
pub mod names;
mod parameters;
pub mod permissions;
mod queues;
pub mod resources;
mod roles;
mod sources;
pub mod summary;
mod tables;

use serde_json::{Map, Value, json};

use crate::names::Names;
use slack::EVENTS_PATH;

/// The longest template that CloudFormation takes from a bucket, where `aws cloudformation deploy --s3-bucket` uploads it.
/// <https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html>
pub const BUCKET_BYTES: usize = 1024 * 1024;

/// What the schedule says to the function that brings in Slack's directory: `{"annalist":"sync"}`.
pub const SYNC: &str = "sync";
/// What it says to each worker, which then puts its dead letters in quarantine: `{"annalist":"dead-letters"}`.
pub const DEAD_LETTERS: &str = "dead-letters";

/// What is in a template, by its name there.
type Resources = Vec<(String, Value)>;

/// The template of an installation of these names, as JSON.
pub fn text(names: &Names) -> String {
    layout::print(&template(names))
}

fn template(names: &Names) -> Value {
    let functions = functions::all();
    let resources: Map<String, Value> = [
        queues::resources(names),
        tables::resources(names),
        bucket::resources(names),
        functions::resources(names, &functions),
        roles::resources(&functions),
        ingest::resources(),
        sources::resources(&functions),
        alarms::resources(names, &functions),
    ]
    .into_iter()
    .flatten()
    .collect();
    json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Annalist, a Slack archive you own: queues, tables, a bucket, and every part as a function. Made by \
            `annalist cloudformation`; docs/deploy-aws.md says how to use it.",
        "Parameters": parameters::all(&functions),
        "Rules": parameters::rules(),
        "Conditions": parameters::conditions(),
        "Resources": resources,
        "Outputs": outputs(&functions),
    })
}

/// The values that the operator needs after a deployment.
fn outputs(functions: &[functions::TemplateFunction]) -> Map<String, Value> {
    let mut outputs = Map::new();
    outputs.insert(
        "EventsUrl".to_owned(),
        json!({
            "Description": "For `annalist manifest --url`: where Slack sends its events",
            "Value": { "Fn::Sub": format!("${{{}.FunctionUrl}}{}", ingest::URL, EVENTS_PATH.trim_start_matches('/')) },
        }),
    );
    for function in functions {
        let mut output = json!({ "Description": function.what, "Value": reference(&function.id()) });
        parameters::only_if(&mut output, function.condition());
        outputs.insert(function.id(), output);
    }
    outputs.insert(
        "Alarms".to_owned(),
        json!({ "Description": "The topic that every alarm goes to", "Value": reference(alarms::TOPIC) }),
    );
    outputs
}

/// `channel-indexer` as CloudFormation takes a name: `ChannelIndexer`.
fn logical(label: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
    };
    label.split('-').map(capital).collect()
}

fn reference(id: &str) -> Value {
    json!({ "Ref": id })
}

fn get(id: &str, attribute: &str) -> Value {
    json!({ "Fn::GetAtt": [id, attribute] })
}

/// As `provision` tags what it makes.
fn tags(names: &Names) -> Value {
    json!([{ "Key": resources::TAG, "Value": names.prefix() }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(prefix: &str, name: &str) -> String {
        text(&Names::new(prefix, [Some(name); 3], &name[..name.len().min(63)]).unwrap())
    }

    #[test]
    fn it_can_be_deployed_from_a_bucket_even_with_the_longest_names_and_ten_times_as_many_parts() {
        let longest = of(&"p".repeat(60), &"t".repeat(255)).len();
        assert!(10 * longest < BUCKET_BYTES, "{longest} bytes");
    }

    #[test]
    fn whatever_is_referred_to_is_there() {
        let template: Value = serde_json::from_str(&of("annalist", "archive")).unwrap();
        let mut referred = Vec::new();
        collect(&template, &mut referred);
        assert!(referred.len() > 100, "{referred:?}");
        for id in referred.iter().filter(|id| !id.starts_with("AWS::")) {
            let known = ["Resources", "Parameters"].iter().any(|part| template[part].get(id).is_some());
            assert!(known, "{id}");
        }
    }

    fn collect(value: &Value, referred: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match (key.as_str(), value) {
                        ("Ref", Value::String(id)) => referred.push(id.clone()),
                        ("Fn::GetAtt", Value::Array(parts)) => {
                            referred.push(parts[0].as_str().unwrap().to_owned());
                        }
                        _ => collect(value, referred),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, referred)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn a_label_becomes_a_name_that_cloudformation_takes() {
        assert_eq!(
            (logical("events"), logical("channel-indexer")),
            ("Events".into(), "ChannelIndexer".into())
        );
    }
}
