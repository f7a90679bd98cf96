//! A role per function with the permissions of its part: exact actions on exact resources.

use serde_json::{Value, json};

use super::functions::TemplateFunction;
use super::parameters::{
    self, HAS_BOT_TOKEN_ARN, HAS_MODEL_KEY_ARN, HAS_PROCESSOR_TOKEN_ARN, HAS_SIGNING_SECRET_ARN, if_holds,
};
use super::{Resources, attribute_of, bucket, fargate, queues, reference, tables};
use crate::permissions::{Grant, Target};
use ports::archive::rows::transient_partitions;
use ports::queue::topology::{ARCHIVE_TABLE, TableRole};

pub(super) fn resources(functions: &[TemplateFunction]) -> Resources {
    let role = |function: &TemplateFunction| {
        let statements: Vec<Value> =
            function.grants().iter().map(|grant| statement(grant, function)).collect();
        let service = if function.is_container() { fargate::SERVICE } else { "lambda.amazonaws.com" };
        let mut role = json!({
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": trust_in(service),
                "Policies": [{
                    "PolicyName": "annalist",
                    "PolicyDocument": { "Version": "2012-10-17", "Statement": statements },
                }],
            },
        });
        parameters::only_if(&mut role, function.condition());
        (function.role_id(), role)
    };
    functions.iter().map(role).chain([use_of_key(functions)]).collect()
}

/// The policy of a role that this service takes on.
pub(super) fn trust_in(service: &str) -> Value {
    json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow",
            "Principal": { "Service": service },
            "Action": "sts:AssumeRole",
        }],
    })
}

/// The permission of every part to use the account's own key: each reads or writes something that it encrypts.
fn use_of_key(functions: &[TemplateFunction]) -> (String, Value) {
    let role = |function: &TemplateFunction| {
        let role = reference(&function.role_id());
        function.condition().map_or(role.clone(), |condition| if_holds(condition, role))
    };
    let mut policy = json!({
        "Type": "AWS::IAM::Policy",
        "Properties": {
            "PolicyName": "key",
            "PolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [{
                    "Effect": "Allow",
                    "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
                    "Resource": reference(parameters::KMS_KEY_ARN),
                }],
            },
            "Roles": functions.iter().map(role).collect::<Vec<_>>(),
        },
    });
    parameters::only_if(&mut policy, Some(parameters::HAS_KMS_KEY));
    ("UseOfKey".to_owned(), policy)
}

fn statement(grant: &Grant, function: &TemplateFunction) -> Value {
    let on: Vec<Value> = grant.targets.iter().map(|target| arn(*target, function)).collect();
    let mut statement = json!({ "Effect": "Allow", "Action": grant.actions, "Resource": on });
    if grant.targets.contains(&Target::PassingRows) {
        // https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
        statement["Condition"] =
            json!({ "ForAllValues:StringLike": { "dynamodb:LeadingKeys": transient_partitions() } });
    }
    if grant.targets == [Target::BotToken] {
        // It may list several.
        statement["Resource"] = json!({ "Fn::Split": [",", reference(parameters::BOT_TOKEN_ARN)] });
    }
    match grant.targets.as_slice() {
        [Target::SigningSecret] => if_holds(HAS_SIGNING_SECRET_ARN, statement),
        [Target::BotToken] => if_holds(HAS_BOT_TOKEN_ARN, statement),
        [Target::ModelKey] => if_holds(HAS_MODEL_KEY_ARN, statement),
        [Target::ProcessorToken] => if_holds(HAS_PROCESSOR_TOKEN_ARN, statement),
        _ => statement,
    }
}

fn arn(target: Target, function: &TemplateFunction) -> Value {
    match target {
        Target::Queue(queue) => attribute_of(&queues::id(queue), "Arn"),
        Target::Table | Target::PassingRows => attribute_of(tables::id(TableRole::Archive), "Arn"),
        Target::ExistenceTable => attribute_of(tables::id(TableRole::Existence), "Arn"),
        Target::Index => {
            let index = ARCHIVE_TABLE.index.map_or("*", |index| index.name);
            json!({ "Fn::Sub": format!("${{{}.Arn}}/index/{index}", tables::id(TableRole::Archive)) })
        }
        Target::Claims => attribute_of(tables::id(TableRole::Claims), "Arn"),
        Target::Bucket => attribute_of(bucket::ID, "Arn"),
        Target::Objects(keys) => json!({ "Fn::Sub": format!("${{{}.Arn}}/{keys}", bucket::ID) }),
        // The statement itself exists only if the secret is given.
        Target::SigningSecret => reference(parameters::SIGNING_SECRET_ARN),
        Target::BotToken => reference(parameters::BOT_TOKEN_ARN),
        Target::ModelKey => reference(parameters::MODEL_KEY_ARN),
        Target::ProcessorToken => reference(parameters::PROCESSOR_TOKEN_ARN),
        Target::OwnLog => attribute_of(&function.log_id(), "Arn"),
        Target::Everything => json!("*"),
    }
}
