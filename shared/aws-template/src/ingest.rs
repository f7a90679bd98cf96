//! The public address of ingest. Any client may call it, because Slack signs its requests in its own way.

use serde_json::json;

use super::{Resources, get, logical};
use crate::permissions::PermittedPart;

/// What the address is called in the template.
pub(super) const URL: &str = "IngestUrl";

pub(super) fn resources() -> Resources {
    let function = get(&logical(PermittedPart::Ingest.label()), "Arn");
    let url = json!({
        "Type": "AWS::Lambda::Url",
        "Properties": { "AuthType": "NONE", "TargetFunctionArn": function },
    });
    // Both are needed, since October 2025.
    // https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html
    let may_be_called = json!({
        "Type": "AWS::Lambda::Permission",
        "Properties": {
            "Action": "lambda:InvokeFunctionUrl",
            "FunctionName": function,
            "FunctionUrlAuthType": "NONE",
            "Principal": "*",
        },
    });
    let may_be_invoked_that_way = json!({
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
        ("IngestUrlIsPublic".to_owned(), may_be_called),
        ("IngestUrlInvokes".to_owned(), may_be_invoked_that_way),
    ]
}
