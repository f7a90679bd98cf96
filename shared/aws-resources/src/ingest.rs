//! The public URL of ingest. Any client may call it, because Slack has its own request signature.

use serde_json::json;

use super::functions::TemplateFunction;
use super::{Resources, attribute_of, rollout};
use crate::permissions::PermittedPart;

/// The logical id of the URL in the template.
pub(super) const URL: &str = "IngestUrl";

pub(super) fn resources(functions: &[TemplateFunction]) -> Resources {
    let ingest = functions.iter().filter(|function| matches!(function.part, PermittedPart::Ingest));
    ingest.flat_map(of_function).collect()
}

fn of_function(ingest: &TemplateFunction) -> Resources {
    let arn = attribute_of(&ingest.id(), "Arn");
    let mut url = json!({
        "Type": "AWS::Lambda::Url",
        "Properties": { "AuthType": "NONE", "TargetFunctionArn": arn },
    });
    if ingest.is_gradual() {
        url["Properties"]["Qualifier"] = rollout::ALIAS.into();
        url["DependsOn"] = ingest.alias_id().into();
    }
    let function = ingest.invoked(arn);
    // Both permissions are required since October 2025.
    // https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html
    let url_permission = json!({
        "Type": "AWS::Lambda::Permission",
        "Properties": {
            "Action": "lambda:InvokeFunctionUrl",
            "FunctionName": function,
            "FunctionUrlAuthType": "NONE",
            "Principal": "*",
        },
    });
    let invoke_permission = json!({
        "Type": "AWS::Lambda::Permission",
        "Properties": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": function,
            "InvokedViaFunctionUrl": true,
            "Principal": "*",
        },
    });
    vec![
        (URL.to_owned(), url),
        ("IngestUrlIsPublic".to_owned(), url_permission),
        ("IngestUrlInvokes".to_owned(), invoke_permission),
    ]
}
