//! The bucket: encrypted, closed to the public, accessible only over TLS, and cleaned of unfinished uploads.

use aws_sdk_s3::types::{
    AbortIncompleteMultipartUpload, BucketLifecycleConfiguration, BucketLocationConstraint,
    CreateBucketConfiguration, ExpirationStatus, LifecycleRule, LifecycleRuleFilter,
    PublicAccessBlockConfiguration, ServerSideEncryption, ServerSideEncryptionByDefault,
    ServerSideEncryptionConfiguration, ServerSideEncryptionRule, Tag, Tagging,
};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use serde_json::{Value, json};

use super::{ProvisionError, Provisioner, Resource, TAG, build_failed, code};
use aws_resources::names::settings;
use aws_resources::resources::{ENCRYPTION, LANGUAGE, UNFINISHED_DAYS, UNFINISHED_RULE, tls_only};

/// The region whose buckets have no location constraint.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html>
const NO_LOCATION: &str = "us-east-1";

/// The settings of the bucket that differ; `None` if it is missing. What the operator has added does not differ.
pub(super) async fn differing(provisioner: &Provisioner<'_>) -> Result<Option<Vec<String>>, ProvisionError> {
    // The tags show everything in one request: whether the bucket exists, whether we have access, and who
    // owns it.
    let Some(tags) = tags(provisioner).await? else { return Ok(None) };
    let owner = tags.iter().find(|tag| tag.key() == TAG).map(Tag::value);
    provisioner.check_tag(Resource::Bucket, owner, settings::BUCKET)?;
    let settings = [
        ("Encryption", is_encrypted(provisioner).await?),
        ("PublicAccessBlock", is_closed(provisioner).await?),
        ("Policy", requires_tls(provisioner).await?),
        ("LifecycleConfiguration", has_lifecycle(provisioner).await?),
    ];
    Ok(Some(settings.into_iter().filter(|(_, agrees)| !agrees).map(|(name, _)| name.to_owned()).collect()))
}

/// Creates the bucket with its settings; false if another run has created it meanwhile.
pub(super) async fn create(provisioner: &Provisioner<'_>) -> Result<bool, ProvisionError> {
    let tag = Tag::builder().key(TAG).value(provisioner.owner()).build().map_err(build_failed)?;
    let mut configuration = CreateBucketConfiguration::builder().tags(tag.clone());
    let region = provisioner.aws.region();
    if region != NO_LOCATION {
        configuration = configuration.location_constraint(BucketLocationConstraint::from(region));
    }
    let request = provisioner.s3.create_bucket().bucket(name(provisioner));
    match request.create_bucket_configuration(configuration.build()).send().await {
        Ok(_) => set(provisioner, tag).await.map(|()| true),
        Err(error) if code(&error) == Some("BucketAlreadyOwnedByYou") => Ok(false),
        Err(error) if code(&error) == Some("BucketAlreadyExists") => Err(ProvisionError::Failed(format!(
            "bucket {} belongs to another account: set {} to another name, which has to be globally unique",
            name(provisioner),
            settings::BUCKET
        ))),
        Err(error) => Err(failed(provisioner, &error)),
    }
}

/// Sets everything that cannot be set when the bucket is created.
async fn set(provisioner: &Provisioner<'_>, tag: Tag) -> Result<(), ProvisionError> {
    let (s3, name) = (&provisioner.s3, name(provisioner));
    // Some stores do not support tags at creation.
    let tags = Tagging::builder().tag_set(tag).build().map_err(build_failed)?;
    let request = s3.put_bucket_tagging().bucket(name).tagging(tags);
    request.send().await.map_err(|error| failed(provisioner, &error))?;

    let default =
        ServerSideEncryptionByDefault::builder().sse_algorithm(ServerSideEncryption::from(ENCRYPTION));
    let default = default.build().map_err(build_failed)?;
    let rule = ServerSideEncryptionRule::builder().apply_server_side_encryption_by_default(default);
    let encryption = ServerSideEncryptionConfiguration::builder().rules(rule.build());
    let encryption = encryption.build().map_err(build_failed)?;
    let request = s3.put_bucket_encryption().bucket(name).server_side_encryption_configuration(encryption);
    request.send().await.map_err(|error| failed(provisioner, &error))?;

    let request = s3.put_public_access_block().bucket(name).public_access_block_configuration(closed());
    request.send().await.map_err(|error| failed(provisioner, &error))?;

    let policy = json!({ "Version": LANGUAGE, "Statement": [statement(provisioner)] }).to_string();
    let request = s3.put_bucket_policy().bucket(name).policy(policy);
    request.send().await.map_err(|error| failed(provisioner, &error))?;

    let abort = AbortIncompleteMultipartUpload::builder().days_after_initiation(UNFINISHED_DAYS);
    let rule = LifecycleRule::builder()
        .id(UNFINISHED_RULE)
        .status(ExpirationStatus::Enabled)
        .filter(everything())
        .abort_incomplete_multipart_upload(abort.build());
    let lifecycle = BucketLifecycleConfiguration::builder().rules(rule.build().map_err(build_failed)?);
    let lifecycle = lifecycle.build().map_err(build_failed)?;
    let request = s3.put_bucket_lifecycle_configuration().bucket(name).lifecycle_configuration(lifecycle);
    request.send().await.map(drop).map_err(|error| failed(provisioner, &error))
}

fn name<'a>(provisioner: &'a Provisioner<'_>) -> &'a str {
    provisioner.aws.names().bucket()
}

/// The bucket's tags; `None` if there is no bucket.
async fn tags(provisioner: &Provisioner<'_>) -> Result<Option<Vec<Tag>>, ProvisionError> {
    let response = provisioner.s3.get_bucket_tagging().bucket(name(provisioner)).send().await;
    let error = match response {
        Ok(found) => return Ok(Some(found.tag_set)),
        Err(error) => error,
    };
    match code(&error) {
        Some("NoSuchBucket") => Ok(None),
        Some("NoSuchTagSet" | "NoSuchTagSetError") => Ok(Some(Vec::new())),
        // S3 does not distinguish a bucket of another account from one that we may not access.
        Some("AccessDenied") => Err(ProvisionError::Foreign {
            resource: Resource::Bucket.name(provisioner.aws),
            why: "access to it is denied".to_owned(),
            remedy: format!(
                "set {} to another name, or give the credentials' role the permissions if the bucket is yours",
                settings::BUCKET
            ),
        }),
        _ => Err(failed(provisioner, &error)),
    }
}

fn failed<E>(provisioner: &Provisioner<'_>, error: &SdkError<E, HttpResponse>) -> ProvisionError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    ProvisionError::Failed(provisioner.aws.bucket_subject().explain(error))
}

/// Whether the bucket has any default encryption. The operator's own key is a stronger choice than ours.
async fn is_encrypted(provisioner: &Provisioner<'_>) -> Result<bool, ProvisionError> {
    match provisioner.s3.get_bucket_encryption().bucket(name(provisioner)).send().await {
        Ok(found) => {
            let rules = found.server_side_encryption_configuration().map(|found| found.rules());
            let encrypts =
                |rule: &ServerSideEncryptionRule| rule.apply_server_side_encryption_by_default().is_some();
            Ok(rules.unwrap_or_default().iter().any(encrypts))
        }
        Err(error) if code(&error) == Some("ServerSideEncryptionConfigurationNotFoundError") => Ok(false),
        Err(error) => Err(failed(provisioner, &error)),
    }
}

async fn is_closed(provisioner: &Provisioner<'_>) -> Result<bool, ProvisionError> {
    match provisioner.s3.get_public_access_block().bucket(name(provisioner)).send().await {
        Ok(found) => Ok(found.public_access_block_configuration() == Some(&closed())),
        Err(error) if code(&error) == Some("NoSuchPublicAccessBlockConfiguration") => Ok(false),
        Err(error) => Err(failed(provisioner, &error)),
    }
}

fn closed() -> PublicAccessBlockConfiguration {
    PublicAccessBlockConfiguration::builder()
        .block_public_acls(true)
        .ignore_public_acls(true)
        .block_public_policy(true)
        .restrict_public_buckets(true)
        .build()
}

/// The statement that denies requests without TLS.
fn statement(provisioner: &Provisioner<'_>) -> Value {
    let partition = match provisioner.aws.region() {
        region if region.starts_with("cn-") => "aws-cn",
        region if region.starts_with("us-gov-") => "aws-us-gov",
        _ => "aws",
    };
    let arn = format!("arn:{partition}:s3:::{}", name(provisioner));
    tls_only(arn.clone().into(), format!("{arn}/*").into())
}

/// Whether the policy has our statement.
async fn requires_tls(provisioner: &Provisioner<'_>) -> Result<bool, ProvisionError> {
    let policy = match provisioner.s3.get_bucket_policy().bucket(name(provisioner)).send().await {
        Ok(found) => found.policy.unwrap_or_default(),
        Err(error) if code(&error) == Some("NoSuchBucketPolicy") => return Ok(false),
        Err(error) => return Err(failed(provisioner, &error)),
    };
    let policy: Value = serde_json::from_str(&policy).unwrap_or_default();
    let (statements, ours) = (&policy["Statement"], statement(provisioner));
    // A single statement need not be in a list.
    Ok(*statements == ours || statements.as_array().is_some_and(|statements| statements.contains(&ours)))
}

/// Whether the lifecycle has our rule.
async fn has_lifecycle(provisioner: &Provisioner<'_>) -> Result<bool, ProvisionError> {
    match provisioner.s3.get_bucket_lifecycle_configuration().bucket(name(provisioner)).send().await {
        Ok(found) => Ok(found.rules().iter().any(removes_unfinished)),
        Err(error) if code(&error) == Some("NoSuchLifecycleConfiguration") => Ok(false),
        Err(error) => Err(failed(provisioner, &error)),
    }
}

fn removes_unfinished(rule: &LifecycleRule) -> bool {
    let days = rule.abort_incomplete_multipart_upload().and_then(|abort| abort.days_after_initiation());
    // An empty prefix matches every key; some stores omit it.
    let everywhere = rule
        .filter()
        .is_none_or(|filter| *filter == everything() || *filter == LifecycleRuleFilter::builder().build());
    *rule.status() == ExpirationStatus::Enabled && days == Some(UNFINISHED_DAYS) && everywhere
}

fn everything() -> LifecycleRuleFilter {
    LifecycleRuleFilter::builder().prefix("").build()
}
