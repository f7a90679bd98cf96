//! Erases an item in the table and in the bucket: only its keys and the erased flag remain.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};

use super::DynamoArchive;
use super::name::{STAMP, to_stored};
use super::stored::{StoredRow, primary_key, stamp_of};
use super::value;
use ports::archive::item::ERASED;
use ports::archive::{
    Archive, ArchiveError, ErasureFacts, Item, ItemKey, Update, WriteAdmission, WriteOutcome,
};

impl DynamoArchive {
    pub(super) async fn erase_item(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.remove_content(&Item::erased(key.clone())).await
    }

    /// Erases an item that has expired by these facts.
    pub(super) async fn expire_item(
        &self,
        key: &ItemKey,
        facts: &ErasureFacts,
    ) -> Result<bool, ArchiveError> {
        match self.get(key).await? {
            Some(item) if facts.expires(&item) => self.remove_content(&Item::expired(key.clone())).await,
            Some(_) | None => Ok(false),
        }
    }

    async fn remove_content(&self, mark: &Item) -> Result<bool, ArchiveError> {
        let is_new = self.put_mark(mark, &self.stamps.next()).await?;
        // Every time: a concurrent write may have left an object.
        self.bulk.delete_all(&mark.key).await?;
        Ok(is_new)
    }

    /// Refuses an update that these facts cover, unless a hold keeps the stored item. An item that a mark replaces
    /// has no content, so the bucket has no objects of it, and a role without permission to delete objects may do
    /// this.
    pub(super) async fn apply_covered(
        &self,
        update: &Update,
        facts: &ErasureFacts,
    ) -> Result<WriteOutcome, ArchiveError> {
        let stored = self.get(&update.key).await?;
        match facts.admit(update, stored.as_ref()) {
            WriteAdmission::Write => self.write_one(update).await,
            WriteAdmission::Refuse { mark, is_stored } => {
                if is_stored {
                    self.put_mark(&mark, &self.stamps.next()).await?;
                }
                Ok(WriteOutcome::Rejected(mark))
            }
        }
    }

    async fn put_mark(&self, mark: &Item, stamp: &str) -> Result<bool, ArchiveError> {
        let mut row = primary_key(&mark.key);
        let attributes = mark.attributes.iter();
        row.extend(attributes.map(|(name, value)| (to_stored(name).into_owned(), value::to_stored(value))));
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
