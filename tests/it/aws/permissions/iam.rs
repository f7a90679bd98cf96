//! The permissions that an operation needs.

/// The IAM actions that a request of this operation needs; most have the operation's name.
/// <https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html>
pub(super) fn actions(service: &str, operation: &str) -> Vec<String> {
    let names: &[&str] = match (service, operation) {
        ("sqs", "SendMessageBatch") => &["SendMessage"],
        ("sqs", "DeleteMessageBatch") => &["DeleteMessage"],
        ("sqs", "ChangeMessageVisibilityBatch") => &["ChangeMessageVisibility"],
        // With tags, which all our resources have.
        ("sqs", "CreateQueue") => &["CreateQueue", "TagQueue"],
        ("dynamodb", "CreateTable") => &["CreateTable", "TagResource"],
        ("s3", "CreateBucket") => &["CreateBucket", "TagResource"],
        ("s3", "ListObjectVersions") => &["ListBucketVersions"],
        // The request names each object with its version.
        ("s3", "DeleteObjects") => &["DeleteObject", "DeleteObjectVersion"],
        ("s3", "HeadBucket" | "ListObjectsV2") => &["ListBucket"],
        ("s3", "HeadObject") => &["GetObject"],
        ("s3", "CreateMultipartUpload" | "UploadPart" | "CompleteMultipartUpload") => &["PutObject"],
        ("s3", "GetBucketEncryption") => &["GetEncryptionConfiguration"],
        ("s3", "PutBucketEncryption") => &["PutEncryptionConfiguration"],
        ("s3", "GetPublicAccessBlock") => &["GetBucketPublicAccessBlock"],
        ("s3", "PutPublicAccessBlock") => &["PutBucketPublicAccessBlock"],
        ("s3", "GetBucketLifecycleConfiguration") => &["GetLifecycleConfiguration"],
        ("s3", "PutBucketLifecycleConfiguration") => &["PutLifecycleConfiguration"],
        (_, same) => &[same],
    };
    names.iter().map(|name| format!("{service}:{name}")).collect()
}
