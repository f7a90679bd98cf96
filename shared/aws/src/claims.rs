//! The claims port on DynamoDB: one conditional request per call, whose condition is the rule of
//! [`ports::claims::state`].
//!
//! The SDK retries a request whose response was lost. Each condition accepts such a retry: it recognises its
//! own row by the owner, which is unique to the claim.

use std::collections::HashMap;
use std::error::Error;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use super::Aws;
use super::policy;
use aws_resources::names::settings;
use ports::claims::state::{lease_until_s, ttl_s};
use ports::claims::{
    Claim, ClaimAnswer, ClaimMode, ClaimOwner, ClaimState, ClaimStatus, Claims, ClaimsError,
};
use ports::clock::{SharedClock, TimestampMs};
use ports::lease::MAX_LEASE;
use ports::queue::topology::TableRole;
use s3::fault::CallSubject;

/// The names of the attributes. Many are reserved words in DynamoDB, so expressions use placeholders for all
/// of them.
const KEY: &str = "event_key";
const STATUS: &str = "status";
const OWNER: &str = "lambda_instance_id";
const LEASE_UNTIL: &str = "lease_until";
const PROCESSED_AT: &str = "processed_at";
const TTL: &str = "ttl";

/// The claim is free, or expired by the rule of [`ports::lease::has_ended`], or it is already ours and the
/// response to an earlier request was lost.
const FREE: &str = "attribute_not_exists(#key) OR #ttl <= :now OR (#status = :in_progress AND (#lease <= :now OR #lease > :far OR #owner = :owner))";

/// The key of a row that is never written: every claim key contains an underscore.
const UNUSED_KEY: &str = "ready";

type ClaimRow = HashMap<String, AttributeValue>;

/// The claims port on DynamoDB.
pub(super) struct DynamoClaims {
    client: Client,
    table: String,
    subject: CallSubject,
    clock: SharedClock,
}

impl DynamoClaims {
    /// Sends no request to DynamoDB yet.
    pub(super) fn new(aws: &Aws, clock: SharedClock) -> Self {
        let table = aws.names().table(TableRole::Claims).to_owned();
        let subject = aws.table_subject(&table, settings::CLAIMS_TABLE);
        Self { client: policy::dynamodb(&aws.sdk, policy::CLAIMS), table, subject, clock }
    }

    /// Every failure is retryable: AWS may grant later what it refuses now. The SDK has already retried the
    /// failures that pass within seconds.
    fn unavailable<E>(&self, error: &SdkError<E, HttpResponse>) -> ClaimsError
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        ClaimsError::Unavailable(self.subject.explain(error))
    }

    /// The result of a claim that failed its condition, from the existing row.
    fn refused(
        &self,
        row: Option<&ClaimRow>,
        claim: &Claim,
        take: ClaimMode,
        now: TimestampMs,
    ) -> Result<ClaimAnswer, ClaimsError> {
        let state = row.and_then(claim_state);
        let foreign =
            || format!("{} in table {} was written by something else: remove it", claim.key, self.table);
        let state = state.ok_or_else(|| ClaimsError::Unavailable(foreign()))?;
        match state.answer_to(claim, take, now) {
            refused @ (ClaimAnswer::Completed | ClaimAnswer::HeldUntil(_)) => Ok(refused),
            ClaimAnswer::Claimed => {
                Err(ClaimsError::Unavailable(format!("{} was refused and is free", claim.key)))
            }
        }
    }
}

#[async_trait]
impl Claims for DynamoClaims {
    async fn claim(&self, claim: &Claim, take: ClaimMode) -> Result<ClaimAnswer, ClaimsError> {
        let now = self.clock.now();
        let mut request = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(row(claim, now)))
            .expression_attribute_names("#key", KEY)
            .expression_attribute_names("#ttl", TTL)
            .expression_attribute_names("#status", STATUS)
            .expression_attribute_names("#lease", LEASE_UNTIL)
            .expression_attribute_names("#owner", OWNER)
            .expression_attribute_values(":now", number(now.seconds()))
            .expression_attribute_values(":far", number(now.plus(MAX_LEASE).seconds()))
            .expression_attribute_values(":in_progress", text(ClaimStatus::InProgress.label()))
            .expression_attribute_values(":owner", text(claim.owner.as_str()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        request = match take {
            ClaimMode::IfFree => request.condition_expression(FREE),
            ClaimMode::EvenCompleted => request
                .condition_expression(format!("{FREE} OR #status = :completed"))
                .expression_attribute_values(":completed", text(ClaimStatus::Completed.label())),
        };
        let Err(error) = request.send().await else { return Ok(ClaimAnswer::Claimed) };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(refused)) => {
                self.refused(refused.item(), claim, take, now)
            }
            Some(_) | None => Err(self.unavailable(&error)),
        }
    }

    async fn renew(&self, claim: &Claim) -> Result<(), ClaimsError> {
        let now = self.clock.now();
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(KEY, text(claim.key.as_str()))
            .update_expression("SET #lease = :lease, #ttl = :ttl")
            .condition_expression("#owner = :owner AND #status = :in_progress")
            .expression_attribute_names("#lease", LEASE_UNTIL)
            .expression_attribute_names("#ttl", TTL)
            .expression_attribute_names("#owner", OWNER)
            .expression_attribute_names("#status", STATUS)
            .expression_attribute_values(":lease", number(lease_until_s(claim, now)))
            .expression_attribute_values(":ttl", number(ttl_s(claim, now)))
            .expression_attribute_values(":owner", text(claim.owner.as_str()))
            .expression_attribute_values(":in_progress", text(ClaimStatus::InProgress.label()));
        let Err(error) = request.send().await else { return Ok(()) };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(_)) => Err(ClaimsError::NotOwner),
            Some(_) | None => Err(self.unavailable(&error)),
        }
    }

    async fn complete(&self, claim: &Claim) -> Result<(), ClaimsError> {
        let now = self.clock.now();
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(KEY, text(claim.key.as_str()))
            .update_expression("SET #status = :completed, #processed = :now, #ttl = :ttl REMOVE #lease")
            .condition_expression("#owner = :owner")
            .expression_attribute_names("#status", STATUS)
            .expression_attribute_names("#processed", PROCESSED_AT)
            .expression_attribute_names("#ttl", TTL)
            .expression_attribute_names("#lease", LEASE_UNTIL)
            .expression_attribute_names("#owner", OWNER)
            .expression_attribute_values(":completed", text(ClaimStatus::Completed.label()))
            .expression_attribute_values(":now", number(now.seconds()))
            .expression_attribute_values(":ttl", number(ttl_s(claim, now)))
            .expression_attribute_values(":owner", text(claim.owner.as_str()));
        let Err(error) = request.send().await else { return Ok(()) };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(_)) => Err(ClaimsError::NotOwner),
            Some(_) | None => Err(self.unavailable(&error)),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<(), ClaimsError> {
        let request = self
            .client
            .delete_item()
            .table_name(&self.table)
            .key(KEY, text(claim.key.as_str()))
            .condition_expression(
                "attribute_not_exists(#key) OR (#owner = :owner AND #status = :in_progress)",
            )
            .expression_attribute_names("#key", KEY)
            .expression_attribute_names("#owner", OWNER)
            .expression_attribute_names("#status", STATUS)
            .expression_attribute_values(":owner", text(claim.owner.as_str()))
            .expression_attribute_values(":in_progress", text(ClaimStatus::InProgress.label()));
        let Err(error) = request.send().await else { return Ok(()) };
        match error.as_service_error() {
            Some(DeleteItemError::ConditionalCheckFailedException(_)) => Err(ClaimsError::NotOwner),
            Some(_) | None => Err(self.unavailable(&error)),
        }
    }

    /// Reads a row that is never written, as the archive does: the smallest possible read, without the rate
    /// limit of DescribeTable.
    async fn ready(&self) -> Result<(), ClaimsError> {
        let request = self.client.get_item().table_name(&self.table).key(KEY, text(UNUSED_KEY));
        request.send().await.map(drop).map_err(|error| self.unavailable(&error))
    }
}

/// The row of a claim that starts at `now`.
fn row(claim: &Claim, now: TimestampMs) -> ClaimRow {
    let ClaimState { status, owner, lease_until_s, ttl_s } = ClaimState::in_progress(claim, now);
    let about = &claim.about;
    let always = [
        (KEY, text(claim.key.as_str())),
        (STATUS, text(status.label())),
        (OWNER, text(owner.as_str())),
        (LEASE_UNTIL, number(lease_until_s)),
        (PROCESSED_AT, number(now.seconds())),
        (TTL, number(ttl_s)),
    ];
    let about = [
        ("file_id", about.file_id.as_ref().map(|id| id.as_str())),
        ("channel_id", about.channel_id.as_ref().map(|id| id.as_str())),
        ("user_id", about.user_id.as_ref().map(|id| id.as_str())),
    ];
    let about = about.into_iter().filter_map(|(name, id)| Some((name, text(id?))));
    always.into_iter().chain(about).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The state of a row's claim; `None` if the row is not a valid claim.
fn claim_state(row: &ClaimRow) -> Option<ClaimState> {
    let text = |name: &str| row.get(name)?.as_s().ok();
    let seconds = |name: &str| row.get(name)?.as_n().ok()?.parse().ok();
    let status = ClaimStatus::from_label(text(STATUS)?)?;
    let lease_until_s = match status {
        ClaimStatus::InProgress => seconds(LEASE_UNTIL)?,
        ClaimStatus::Completed => 0,
    };
    Some(ClaimState {
        status,
        owner: ClaimOwner::from_stored(text(OWNER)?),
        lease_until_s,
        ttl_s: seconds(TTL)?,
    })
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(seconds: i64) -> AttributeValue {
    AttributeValue::N(seconds.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ports::claims::{ClaimContext, ClaimKey};
    use slack::ids::{ChannelId, FileId, Ts, UserId};

    fn claim() -> Claim {
        let (file, ts) = (FileId::parse("F01").unwrap(), Ts::parse("1700000000.000100").unwrap());
        Claim {
            key: ClaimKey::for_file(&file, &ts),
            owner: ClaimOwner::new("one", 7),
            about: ClaimContext {
                file_id: Some(file),
                channel_id: ChannelId::parse("C01").ok(),
                user_id: UserId::parse("U01").ok(),
            },
            lease: Duration::from_secs(30),
            ttl: Duration::from_secs(3600),
        }
    }

    #[test]
    fn a_row_has_the_documented_attributes_and_can_be_read_back() {
        let now = TimestampMs(1_700_000_000_000);
        let row = row(&claim(), now);
        let mut shown: Vec<String> = row.iter().map(|(name, value)| format!("{name} {value:?}")).collect();
        shown.sort();
        assert_eq!(
            shown,
            [
                "channel_id S(\"C01\")",
                "event_key S(\"F01_1700000000.000100\")",
                "file_id S(\"F01\")",
                "lambda_instance_id S(\"one/7\")",
                "lease_until N(\"1700000030\")",
                "processed_at N(\"1700000000\")",
                "status S(\"in_progress\")",
                "ttl N(\"1700003600\")",
                "user_id S(\"U01\")",
            ]
        );
        assert_eq!(claim_state(&row), Some(ClaimState::in_progress(&claim(), now)));
    }

    #[test]
    fn a_row_that_another_program_wrote_is_not_a_claim() {
        let whole = row(&claim(), TimestampMs(1_700_000_000_000));
        for missing in [STATUS, OWNER, LEASE_UNTIL, TTL] {
            let mut row = whole.clone();
            row.remove(missing);
            assert_eq!(claim_state(&row), None, "{missing}");
        }
        let mut other = whole;
        other.insert(STATUS.into(), text("processed"));
        assert_eq!(claim_state(&other), None);
    }
}
