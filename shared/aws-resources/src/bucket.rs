//! The bucket: encrypted, closed to the public, accessible only over TLS, with versions, and cleaned of unfinished
//! uploads.

use serde_json::json;

use super::{Resources, attribute_of, parameters, reference, tags};
use crate::names::Names;
use crate::resources::{ENCRYPTION, LANGUAGE, UNFINISHED_DAYS, UNFINISHED_RULE, tls_only};

/// The logical id of the bucket in the template.
pub(super) const ID: &str = "Bucket";

/// As long as a table can be restored as it was. What Annalist deletes has no older version: it deletes all of them.
const OLD_VERSION_DAYS: u32 = 35;

pub(super) fn resources(names: &Names) -> Resources {
    let tiering = json!({
        "Id": "annalist-tiers",
        "Status": "Enabled",
        "Transitions": [{ "StorageClass": "INTELLIGENT_TIERING", "TransitionInDays": 0 }],
    });
    let bucket = json!({
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": {
            "BucketName": names.bucket(),
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [
                    {
                        "ServerSideEncryptionByDefault": {
                            "SSEAlgorithm": parameters::with_own_key("aws:kms", ENCRYPTION),
                            "KMSMasterKeyID": parameters::own_key(),
                        },
                        // One request to KMS for many objects.
                        "BucketKeyEnabled": parameters::with_own_key(true, parameters::no_value()),
                    },
                ],
            },
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": true,
                "IgnorePublicAcls": true,
                "BlockPublicPolicy": true,
                "RestrictPublicBuckets": true,
            },
            "VersioningConfiguration": { "Status": "Enabled" },
            "LifecycleConfiguration": {
                "Rules": [
                    {
                        "Id": UNFINISHED_RULE,
                        "Status": "Enabled",
                        "AbortIncompleteMultipartUpload": { "DaysAfterInitiation": UNFINISHED_DAYS },
                    },
                    {
                        "Status": "Enabled",
                        "NoncurrentVersionExpiration": { "NoncurrentDays": OLD_VERSION_DAYS },
                    },
                    parameters::if_holds(parameters::TIERS_FILES, tiering),
                ],
            },
            "Tags": tags(names),
        },
    });
    let objects = json!({ "Fn::Sub": format!("${{{ID}.Arn}}/*") });
    let policy = json!({
        "Type": "AWS::S3::BucketPolicy",
        // Retained with the bucket.
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": {
            "Bucket": reference(ID),
            "PolicyDocument": { "Version": LANGUAGE, "Statement": [tls_only(attribute_of(ID, "Arn"), objects)] },
        },
    });
    vec![(ID.to_owned(), bucket), ("BucketPolicy".to_owned(), policy)]
}
