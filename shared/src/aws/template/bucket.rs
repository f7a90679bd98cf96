//! The bucket: encrypted, closed to the public, and rid of uploads that nobody finished.

use serde_json::json;

use super::{Resources, tags};
use crate::aws::names::Names;
use crate::aws::provision::bucket::{ENCRYPTION, RULE, UNFINISHED_DAYS};

/// What the bucket is called in the template.
pub(super) const ID: &str = "Bucket";

pub(super) fn resources(names: &Names) -> Resources {
    let bucket = json!({
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": {
            "BucketName": names.bucket(),
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [
                    { "ServerSideEncryptionByDefault": { "SSEAlgorithm": ENCRYPTION.as_str() } },
                ],
            },
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": true,
                "IgnorePublicAcls": true,
                "BlockPublicPolicy": true,
                "RestrictPublicBuckets": true,
            },
            "LifecycleConfiguration": {
                "Rules": [{
                    "Id": RULE,
                    "Status": "Enabled",
                    "AbortIncompleteMultipartUpload": { "DaysAfterInitiation": UNFINISHED_DAYS },
                }],
            },
            "Tags": tags(names),
        },
    });
    vec![(ID.to_owned(), bucket)]
}
