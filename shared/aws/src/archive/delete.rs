//! Deletes transient rows, such as a job in quarantine. Roles allow deleting only these:
//! [`ports::archive::rows::transient_partitions`].

use super::DynamoArchive;
use super::stored::primary_key;
use super::write::Unchanged;
use ports::archive::{ArchiveError, Item};

impl DynamoArchive {
    pub(super) async fn delete(&self, expected: &Item) -> Result<bool, ArchiveError> {
        let Some(stored) = self.table.read(&expected.key).await? else { return Ok(false) };
        let is_expected = match &stored.packed {
            None => stored.equals(expected),
            Some(_) => self.bulk.load(stored.clone()).await? == *expected,
        };
        if !is_expected {
            return Ok(false);
        }
        let delete = self.table.client.delete_item().table_name(&self.table.name);
        let delete = delete.set_key(Some(primary_key(&expected.key)));
        match Unchanged::since(&stored, true).apply_to_delete(delete).send().await {
            Ok(_) => Ok(true),
            Err(error) => match error.as_service_error() {
                Some(refused) if refused.is_conditional_check_failed_exception() => Ok(false),
                Some(_) | None => Err(self.table.unavailable(&error)),
            },
        }
    }
}
