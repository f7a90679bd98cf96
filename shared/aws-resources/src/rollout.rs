//! New versions of functions that take over a tenth of the work every three minutes. An alarm gives all work back to the
//! old version.

use serde_json::{Value, json};

use super::functions::{self, TemplateFunction};
use super::{Resources, alarms, attribute_of, parameters, reference, roles};
use crate::names::Names;

/// The alias that triggers invoke.
pub(super) const ALIAS: &str = "live";

const APPLICATION: &str = "Rollout";
const ROLE: &str = "RolloutRole";

pub(super) fn resources(names: &Names, functions: &[TemplateFunction]) -> Resources {
    let gradual = || functions.iter().filter(|function| function.is_gradual());
    if gradual().next().is_none() {
        return Vec::new();
    }
    let application =
        json!({ "Type": "AWS::CodeDeploy::Application", "Properties": { "ComputePlatform": "Lambda" } });
    let role = json!({
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": roles::trust_in("codedeploy.amazonaws.com"),
            "ManagedPolicyArns": [
                { "Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/service-role/AWSCodeDeployRoleForLambdaLimited" },
            ],
        },
    });
    let of_functions = gradual().flat_map(|function| of_function(names, function));
    [(APPLICATION.to_owned(), application), (ROLE.to_owned(), role)].into_iter().chain(of_functions).collect()
}

fn of_function(names: &Names, function: &TemplateFunction) -> [(String, Value); 3] {
    let id = function.id();
    let version_id = format!("{id}Version{:016x}", hash(names, function));
    let group_id = format!("{id}Rollout");
    let alias = json!({
        "Type": "AWS::Lambda::Alias",
        "Properties": {
            "FunctionName": reference(&id),
            "FunctionVersion": attribute_of(&version_id, "Version"),
            "Name": ALIAS,
        },
        "UpdatePolicy": {
            "CodeDeployLambdaAliasUpdate": {
                "ApplicationName": reference(APPLICATION),
                "DeploymentGroupName": reference(&group_id),
            },
        },
    });
    let alarm_ids = [
        alarms::failing_id(function),
        alarms::INGEST_REFUSING_ID.to_owned(),
        alarms::QUARANTINED_ID.to_owned(),
    ];
    let group = json!({
        "Type": "AWS::CodeDeploy::DeploymentGroup",
        "Properties": {
            "ApplicationName": reference(APPLICATION),
            "ServiceRoleArn": attribute_of(ROLE, "Arn"),
            "DeploymentConfigName": "CodeDeployDefault.LambdaLinear10PercentEvery3Minutes",
            "DeploymentStyle": { "DeploymentType": "BLUE_GREEN", "DeploymentOption": "WITH_TRAFFIC_CONTROL" },
            "AlarmConfiguration": {
                "Enabled": true,
                "Alarms": alarm_ids.map(|alarm| json!({ "Name": reference(&alarm) })),
            },
            "AutoRollbackConfiguration": {
                "Enabled": true,
                "Events": ["DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM", "DEPLOYMENT_STOP_ON_REQUEST"],
            },
        },
    });
    // A version that is kept can take over again.
    let version = json!({
        "Type": "AWS::Lambda::Version",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": { "FunctionName": reference(&id) },
    });
    [(version_id, version), (function.alias_id(), alias), (group_id, group)].map(|(id, mut resource)| {
        parameters::only_if(&mut resource, function.condition());
        (id, resource)
    })
}

/// Changes with the release and with each property of the function: CloudFormation makes a new version only for a new logical
/// id. FNV-1a, which gives the same hash everywhere.
/// <https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-lambda-version.html>
fn hash(names: &Names, function: &TemplateFunction) -> u64 {
    let text = functions::properties(names, function).to_string();
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Rollout, TemplateOptions};

    fn version_ids(release: &'static str) -> Vec<String> {
        let options = TemplateOptions { rollout: Rollout::Linear, release, ..TemplateOptions::default() };
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let resources = resources(&names, &functions::all(options));
        let versions = resources.iter().filter(|(_, resource)| resource["Type"] == "AWS::Lambda::Version");
        versions.map(|(id, _)| id.clone()).collect()
    }

    #[test]
    fn each_release_has_new_versions_and_one_release_always_the_same() {
        let versions = version_ids("1.0.0");
        assert_eq!(versions.len(), functions::all(TemplateOptions::default()).len());
        assert_eq!(versions, version_ids("1.0.0"));
        let newer = version_ids("1.0.1");
        assert!(versions.iter().all(|id| !newer.contains(id)), "{versions:?} {newer:?}");
    }
}
