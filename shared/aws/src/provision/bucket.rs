//! Provisions the bucket: encrypted, closed to the public, accessible only over TLS, and cleaned of
//! unfinished uploads.

use std::time::Duration;

use aws_sdk_s3::types::{
    AbortIncompleteMultipartUpload, BucketLifecycleConfiguration, BucketLocationConstraint,
    CreateBucketConfiguration, ExpirationStatus, LifecycleRule, LifecycleRuleFilter,
    PublicAccessBlockConfiguration, ServerSideEncryption, ServerSideEncryptionByDefault,
    ServerSideEncryptionConfiguration, ServerSideEncryptionRule, Tag, Tagging,
    TransitionDefaultMinimumObjectSize,
};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use super::deadline::PollDeadline;
use super::transport;
use super::{ProvisionError, ProvisionStep, Provisioner, ResourceChange, TAG, build_failed, code, step};
use aws_resources::names::settings;
use aws_resources::resources::{ENCRYPTION, UNFINISHED_DAYS, UNFINISHED_RULE};

/// How long an untagged bucket may belong to another run. If a store does not support tags at creation, the
/// next call adds them, and until then the bucket seems to belong to another owner.
const UNTAGGED: Duration = Duration::from_secs(4);
/// The region whose buckets have no location constraint.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html>
const NO_LOCATION: &str = "us-east-1";

/// The settings of the bucket that differ.
#[derive(Default)]
pub(super) struct BucketDifference {
    /// All its tags, if ours is missing.
    untagged: Option<Vec<Tag>>,
    unencrypted: bool,
    open: bool,
    /// Its new policy, if our statement is missing.
    policy: Option<String>,
    /// Its lifecycle, if our rule is missing.
    lifecycle: Option<Lifecycle>,
}

struct Lifecycle {
    /// The rules that are not ours.
    others: Vec<LifecycleRule>,
    smallest: Option<TransitionDefaultMinimumObjectSize>,
}

/// Why a request failed.
enum BucketRefusal {
    /// Another request is changing the same bucket.
    Conflict(ProvisionError),
    Final(ProvisionError),
}

/// Reads the bucket and compares it; `None` if it is missing.
pub(super) async fn inspect(
    provisioner: &Provisioner<'_>,
) -> Result<Option<BucketDifference>, ProvisionError> {
    // The tags show everything in one request: whether the bucket exists, whether we have access, and who
    // owns it.
    let Some(mut found) = tags(provisioner).await? else { return Ok(None) };
    let mut deadline = PollDeadline::after(UNTAGGED);
    while owner(&found).is_none() && deadline.wait().await {
        let Some(again) = tags(provisioner).await? else { return Ok(None) };
        found = again;
    }
    let tags = found;
    provisioner.check_tag(&resource(provisioner), owner(&tags), settings::BUCKET)?;
    compare(provisioner, tags).await.map(Some)
}

/// The planned step.
pub(super) fn planned(provisioner: &Provisioner<'_>, bucket: Option<&BucketDifference>) -> ProvisionStep {
    let change =
        bucket.map_or(ResourceChange::Create, |bucket| ResourceChange::from_settings(bucket.labels()));
    step(resource(provisioner), change)
}

/// Creates the bucket or updates its settings.
pub(super) async fn apply(
    provisioner: &Provisioner<'_>,
    mut bucket: Option<BucketDifference>,
) -> Result<ProvisionStep, ProvisionError> {
    let mut deadline = PollDeadline::after_minutes(1);
    let mut is_new = false;
    let mut set = Vec::new();
    loop {
        match attempt(provisioner, bucket, &mut is_new).await {
            Ok(labels) => {
                set.extend(labels);
                break;
            }
            // The other run may have made our changes meanwhile.
            Err(BucketRefusal::Conflict(_)) if deadline.wait().await => bucket = inspect(provisioner).await?,
            Err(BucketRefusal::Conflict(error) | BucketRefusal::Final(error)) => return Err(error),
        }
    }
    Ok(step(
        resource(provisioner),
        if is_new { ResourceChange::Create } else { ResourceChange::from_settings(set) },
    ))
}

/// Returns the settings that differed.
async fn attempt(
    provisioner: &Provisioner<'_>,
    bucket: Option<BucketDifference>,
    is_new: &mut bool,
) -> Result<Vec<String>, BucketRefusal> {
    let bucket = match bucket {
        Some(bucket) => bucket,
        None if create(provisioner).await? => {
            *is_new = true;
            // If the store does not support tags at creation, the new bucket has no tags, but it is ours.
            let tags = tags(provisioner).await.map_err(BucketRefusal::Final)?.unwrap_or_default();
            compare(provisioner, tags).await.map_err(BucketRefusal::Final)?
        }
        // Another run has created it.
        None => inspect(provisioner).await.map_err(BucketRefusal::Final)?.unwrap_or_default(),
    };
    let labels = bucket.labels();
    set(provisioner, bucket).await?;
    Ok(labels)
}

impl BucketDifference {
    /// The settings that differ, with AWS's names.
    fn labels(&self) -> Vec<String> {
        let differing = [
            (self.untagged.is_some(), "Tagging"),
            (self.unencrypted, "Encryption"),
            (self.open, "PublicAccessBlock"),
            (self.policy.is_some(), "Policy"),
            (self.lifecycle.is_some(), "LifecycleConfiguration"),
        ];
        differing.into_iter().filter(|(differs, _)| *differs).map(|(_, label)| label.to_owned()).collect()
    }
}

fn resource(provisioner: &Provisioner<'_>) -> String {
    format!("bucket {}", name(provisioner))
}

pub(super) fn name<'a>(provisioner: &'a Provisioner<'_>) -> &'a str {
    provisioner.aws.names().bucket()
}

fn owner(tags: &[Tag]) -> Option<&str> {
    tags.iter().find(|tag| tag.key() == TAG).map(Tag::value)
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
            resource: resource(provisioner),
            why: "access to it is denied".to_owned(),
            remedy: format!(
                "set {} to another name, or give the credentials' role the permissions if the bucket is yours",
                settings::BUCKET
            ),
        }),
        _ => Err(failed(provisioner, &error)),
    }
}

pub(super) fn failed<E>(provisioner: &Provisioner<'_>, error: &SdkError<E, HttpResponse>) -> ProvisionError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    ProvisionError::Failed(provisioner.aws.bucket_subject().explain(error))
}

fn refusal<E>(provisioner: &Provisioner<'_>, error: &SdkError<E, HttpResponse>) -> BucketRefusal
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let failed = failed(provisioner, error);
    if code(error) == Some("OperationAborted") {
        BucketRefusal::Conflict(failed)
    } else {
        BucketRefusal::Final(failed)
    }
}

/// Compares the bucket with the expected settings.
async fn compare(provisioner: &Provisioner<'_>, tags: Vec<Tag>) -> Result<BucketDifference, ProvisionError> {
    Ok(BucketDifference {
        untagged: (owner(&tags) != Some(provisioner.owner())).then_some(tags),
        unencrypted: !is_encrypted(provisioner).await?,
        open: !is_closed(provisioner).await?,
        policy: transport::policy(provisioner).await?,
        lifecycle: lifecycle(provisioner).await?,
    })
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

/// The lifecycle, if it lacks our rule.
async fn lifecycle(provisioner: &Provisioner<'_>) -> Result<Option<Lifecycle>, ProvisionError> {
    let (rules, smallest) =
        match provisioner.s3.get_bucket_lifecycle_configuration().bucket(name(provisioner)).send().await {
            Ok(found) => (found.rules.unwrap_or_default(), found.transition_default_minimum_object_size),
            Err(error) if code(&error) == Some("NoSuchLifecycleConfiguration") => (Vec::new(), None),
            Err(error) => return Err(failed(provisioner, &error)),
        };
    let (ours, others): (Vec<_>, Vec<_>) =
        rules.into_iter().partition(|rule| rule.id() == Some(UNFINISHED_RULE));
    Ok((!ours.iter().any(removes_unfinished)).then_some(Lifecycle { others, smallest }))
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

fn our_tag(provisioner: &Provisioner<'_>) -> Result<Tag, BucketRefusal> {
    Tag::builder()
        .key(TAG)
        .value(provisioner.owner())
        .build()
        .map_err(build_failed)
        .map_err(BucketRefusal::Final)
}

/// Creates the bucket; false if another run has created it meanwhile.
async fn create(provisioner: &Provisioner<'_>) -> Result<bool, BucketRefusal> {
    let mut configuration = CreateBucketConfiguration::builder().tags(our_tag(provisioner)?);
    let region = provisioner.aws.region();
    if region != NO_LOCATION {
        configuration = configuration.location_constraint(BucketLocationConstraint::from(region));
    }
    let request = provisioner.s3.create_bucket().bucket(name(provisioner));
    match request.create_bucket_configuration(configuration.build()).send().await {
        Ok(_) => Ok(true),
        Err(error) if code(&error) == Some("BucketAlreadyOwnedByYou") => Ok(false),
        Err(error) if code(&error) == Some("BucketAlreadyExists") => {
            Err(BucketRefusal::Final(ProvisionError::Failed(format!(
                "{} belongs to another account: set {} to another name, which has to be globally unique",
                resource(provisioner),
                settings::BUCKET
            ))))
        }
        Err(error) => Err(refusal(provisioner, &error)),
    }
}

/// Updates the settings that differ.
async fn set(provisioner: &Provisioner<'_>, bucket: BucketDifference) -> Result<(), BucketRefusal> {
    let (s3, name) = (&provisioner.s3, name(provisioner));
    let impossible = |error| BucketRefusal::Final(build_failed(error));
    if let Some(others) = bucket.untagged {
        let others = others.into_iter().filter(|tag| tag.key() != TAG);
        let tags = others.chain([our_tag(provisioner)?]).collect();
        let tags = Tagging::builder().set_tag_set(Some(tags)).build().map_err(impossible)?;
        let request = s3.put_bucket_tagging().bucket(name).tagging(tags);
        request.send().await.map_err(|error| refusal(provisioner, &error))?;
    }
    if bucket.unencrypted {
        let default =
            ServerSideEncryptionByDefault::builder().sse_algorithm(ServerSideEncryption::from(ENCRYPTION));
        let default = default.build().map_err(impossible)?;
        let rule = ServerSideEncryptionRule::builder().apply_server_side_encryption_by_default(default);
        let encryption = ServerSideEncryptionConfiguration::builder().rules(rule.build());
        let encryption = encryption.build().map_err(impossible)?;
        let request =
            s3.put_bucket_encryption().bucket(name).server_side_encryption_configuration(encryption);
        request.send().await.map_err(|error| refusal(provisioner, &error))?;
    }
    if bucket.open {
        let request = s3.put_public_access_block().bucket(name).public_access_block_configuration(closed());
        request.send().await.map_err(|error| refusal(provisioner, &error))?;
    }
    if let Some(policy) = bucket.policy {
        let request = s3.put_bucket_policy().bucket(name).policy(policy);
        request.send().await.map_err(|error| refusal(provisioner, &error))?;
    }
    if let Some(Lifecycle { others, smallest }) = bucket.lifecycle {
        let abort = AbortIncompleteMultipartUpload::builder().days_after_initiation(UNFINISHED_DAYS);
        let ours = LifecycleRule::builder()
            .id(UNFINISHED_RULE)
            .status(ExpirationStatus::Enabled)
            .filter(everything())
            .abort_incomplete_multipart_upload(abort.build());
        let rules = others.into_iter().chain([ours.build().map_err(impossible)?]).collect();
        let lifecycle = BucketLifecycleConfiguration::builder().set_rules(Some(rules));
        let request = s3
            .put_bucket_lifecycle_configuration()
            .bucket(name)
            .lifecycle_configuration(lifecycle.build().map_err(impossible)?)
            .set_transition_default_minimum_object_size(smallest);
        request.send().await.map_err(|error| refusal(provisioner, &error))?;
    }
    Ok(())
}
