//! The public URL of ingest. Any client may call it, because Slack has its own request signature.

use serde_json::json;

use super::{Resources, attribute_of, logical_id};
use crate::permissions::PermittedPart;

/// The logical id of the URL in the template.
pub(super) const URL: &str = "IngestUrl";

pub(super) fn resources() -> Resources {
    let function = attribute_of(&logical_id(PermittedPart::Ingest.label()), "Arn");
    let url = json!({
        "Type": "AWS::Lambda::Url",
        "Properties": { "AuthType": "NONE", "TargetFunctionArn": function },
    });
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
