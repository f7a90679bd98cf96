//! Writes an item with a single conditional UpdateItem, if the item and the expression are within DynamoDB's
//! limits. A larger item is read, changed here, and put back if it is unchanged.

use std::time::Duration;

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use aws_sdk_dynamodb::types::error::ConditionalCheckFailedException;
use tokio::time::sleep;

use super::DynamoArchive;
use super::expression::Expression;
use super::name::{PARTITION, STAMP};
use super::replacement::{INLINE_BYTES, Put, Replacement};
use super::stored::{StoredItem, primary_key, stamp_of};
use super::table::is_too_large;
use ports::archive::{ArchiveError, ItemKey, Update, WriteOutcome};

/// Maximum number of attempts to read an item and put it back, before the other writers get time. In each
/// failed attempt, one of them has succeeded.
const ROUNDS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// The result of a conditional request.
enum ConditionalResult {
    Done,
    /// The condition failed; the existing item.
    Refused(StoredItem),
    TooLarge,
}

impl DynamoArchive {
    pub(super) async fn write_one(&self, update: &Update) -> Result<WriteOutcome, ArchiveError> {
        let stamp = self.stamps.next();
        let expression = Expression::for_update(update, &stamp, self.expires(&update.key));
        if expression.has_bulk() || expression.bytes() > INLINE_BYTES || !expression.is_short() {
            return self.replace(update).await;
        }
        match self.update(&update.key, expression, &stamp).await? {
            ConditionalResult::Done => Ok(WriteOutcome::Applied),
            // The condition knows nothing of packed registers.
            ConditionalResult::Refused(stored) if stored.packed.is_some() => self.replace(update).await,
            ConditionalResult::Refused(stored) => Ok(WriteOutcome::Rejected(self.bulk.load(stored).await?)),
            // The update fits, but not together with the stored attributes.
            ConditionalResult::TooLarge => self.replace(update).await,
        }
    }

    async fn update(
        &self,
        key: &ItemKey,
        expression: Expression,
        stamp: &str,
    ) -> Result<ConditionalResult, ArchiveError> {
        let request = self
            .table
            .client
            .update_item()
            .table_name(&self.table.name)
            .set_key(Some(primary_key(key)))
            .update_expression(expression.update)
            .condition_expression(expression.condition)
            .set_expression_attribute_names(Some(expression.names))
            .set_expression_attribute_values(Some(expression.values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let Err(error) = request.send().await else { return Ok(ConditionalResult::Done) };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(refused)) => refusal(key, refused, stamp),
            Some(refused) if is_too_large(refused) => Ok(ConditionalResult::TooLarge),
            Some(_) | None => Err(self.table.unavailable(&error)),
        }
    }

    /// Reads the item, changes it here, and writes it back if no other write came in between.
    async fn replace(&self, update: &Update) -> Result<WriteOutcome, ArchiveError> {
        let mut pause = FIRST_PAUSE;
        for _ in 0..ROUNDS {
            let stored = self.table.read(&update.key).await?;
            let exists = stored.is_some();
            let stored = stored.unwrap_or_else(|| StoredItem::empty(&update.key));
            let packed = self.bulk.load_packed(&stored).await?;
            let Some(replacement) = Replacement::for_update(update, &stored, packed) else {
                return Ok(WriteOutcome::Rejected(self.bulk.load(stored).await?));
            };
            let stamp = self.stamps.next();
            let Put { row, objects, json_bytes } = replacement.into_row(&stamp, self.expires(&update.key))?;
            self.bulk.put_all(objects).await?;
            let put = self.table.client.put_item().table_name(&self.table.name).set_item(Some(row));
            let put = Unchanged::since(&stored, exists).apply_to_put(put);
            let put =
                put.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            let Err(error) = put.send().await else { return Ok(WriteOutcome::Applied) };
            match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(refused)) => {
                    if let ConditionalResult::Done = refusal(&update.key, refused, &stamp)? {
                        return Ok(WriteOutcome::Applied);
                    }
                }
                Some(refused) if is_too_large(refused) => {
                    return Err(ArchiveError::TooLarge { bytes: json_bytes });
                }
                Some(_) | None => return Err(self.table.unavailable(&error)),
            }
            sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let ItemKey { item_id, timestamp } = &update.key;
        Err(ArchiveError::Unavailable(format!("{item_id} / {timestamp} keeps changing")))
    }
}

/// The condition failed: another writer was first, or this write's own earlier attempt, whose answer was
/// lost.
fn refusal(
    key: &ItemKey,
    refused: &ConditionalCheckFailedException,
    stamp: &str,
) -> Result<ConditionalResult, ArchiveError> {
    match refused.item() {
        Some(row) if stamp_of(row) == Some(stamp) => Ok(ConditionalResult::Done),
        Some(row) => Ok(ConditionalResult::Refused(StoredItem::read(row)?)),
        None => Ok(ConditionalResult::Refused(StoredItem::empty(key))),
    }
}

/// The condition that an item is unchanged since it was read.
pub(super) enum Unchanged {
    /// There must be no item.
    Absent,
    /// The item must still have this stamp.
    Stamped(String),
    /// The item must still exist without a stamp: Annalist has never written it.
    Unstamped,
}

/// Sets the condition on a request: the builders of PutItem and DeleteItem have the same methods but
/// different types.
macro_rules! conditional {
    ($unchanged:expr, $request:expr) => {
        match $unchanged {
            Unchanged::Absent => $request
                .condition_expression("attribute_not_exists(#0)")
                .expression_attribute_names("#0", PARTITION),
            Unchanged::Stamped(stamp) => $request
                .condition_expression("#0=:0")
                .expression_attribute_names("#0", STAMP)
                .expression_attribute_values(":0", aws_sdk_dynamodb::types::AttributeValue::N(stamp)),
            Unchanged::Unstamped => $request
                .condition_expression("attribute_exists(#0) AND attribute_not_exists(#1)")
                .expression_attribute_names("#0", PARTITION)
                .expression_attribute_names("#1", STAMP),
        }
    };
}

impl Unchanged {
    pub(super) fn since(stored: &StoredItem, exists: bool) -> Self {
        match (exists, &stored.stamp) {
            (false, _) => Self::Absent,
            (true, Some(stamp)) => Self::Stamped(stamp.clone()),
            (true, None) => Self::Unstamped,
        }
    }

    fn apply_to_put(
        self,
        put: aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder,
    ) -> aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder {
        conditional!(self, put)
    }

    pub(super) fn apply_to_delete(
        self,
        delete: aws_sdk_dynamodb::operation::delete_item::builders::DeleteItemFluentBuilder,
    ) -> aws_sdk_dynamodb::operation::delete_item::builders::DeleteItemFluentBuilder {
        conditional!(self, delete)
    }
}
