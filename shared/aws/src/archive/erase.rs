//! Erases an item in the table and in the bucket: only its keys and the erased flag remain.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};

use super::DynamoArchive;
use super::name::{STAMP, to_stored};
use super::stored::{StoredRow, primary_key, stamp_of};
use ports::archive::item::ERASED;
use ports::archive::{Archive, ArchiveError, ErasureFacts, ItemKey};

impl DynamoArchive {
    pub(super) async fn erase_item(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        let is_new = self.put_erased(key, &self.stamps.next()).await?;
        // Every time: a concurrent write may have left an object.
        self.bulk.delete_all(key).await?;
        Ok(is_new)
    }

    /// Erases an item unless these facts cover it. Such an item has no content, so the bucket has no objects
    /// of it, and a role without permission to delete objects may do this.
    pub(super) async fn erase_uncovered(
        &self,
        key: &ItemKey,
        facts: &ErasureFacts,
    ) -> Result<(), ArchiveError> {
        match self.get(key).await? {
            Some(item) if item.is_erased() || facts.covers_row(&item) => Ok(()),
            Some(_) | None => self.put_erased(key, &self.stamps.next()).await.map(drop),
        }
    }

    async fn put_erased(&self, key: &ItemKey, stamp: &str) -> Result<bool, ArchiveError> {
        let mut row = primary_key(key);
        row.insert(to_stored(ERASED).into_owned(), AttributeValue::Bool(true));
        row.insert(STAMP.to_owned(), AttributeValue::N(stamp.to_owned()));
        let attributes = row.len();
        let put = || self.table.client.put_item().table_name(&self.table.name).set_item(Some(row.clone()));
        let first = put()
            .condition_expression("attribute_not_exists(#0) OR #0<>:0")
            .expression_attribute_names("#0", to_stored(ERASED))
            .expression_attribute_values(":0", AttributeValue::Bool(true))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let Err(error) = first.send().await else { return Ok(true) };
        let Some(PutItemError::ConditionalCheckFailedException(refused)) = error.as_service_error() else {
            return Err(self.table.unavailable(&error));
        };
        let stored = refused.item();
        // This write's own first attempt, whose response was lost.
        if stored.and_then(stamp_of) == Some(stamp) {
            return Ok(true);
        }
        if stored.is_none_or(|stored: &StoredRow| stored.len() > attributes) {
            put().send().await.map_err(|error| self.table.unavailable(&error))?;
        }
        Ok(false)
    }
}
