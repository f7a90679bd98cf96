//! Attributes that are too large for the table: they are stored in the bucket, by reference.
//!
//! An object is written before the item that refers to it and never changed. It is named after its item, so
//! that erasing an item finds all its objects, and after its content, so that writing it again changes
//! nothing. If the item was not written after all, or no longer refers to the object, the object stays: a
//! reader that has read the item before may still fetch it.

use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use s3::Bucket;
use serde_json::Value;

use super::reference::{Reference, folder};
use super::stored::StoredItem;
use super::text;
use crate::Aws;
use ports::archive::{ArchiveError, Attributes, Item, ItemKey};

/// Maximum number of concurrent requests: each object may take [`ports::archive::MAX_ITEM_BYTES`] of memory.
const AT_ONCE: usize = 8;
/// How often a write that conflicted with another one of the same object is retried. Every conflict ends.
const CONFLICTS: u32 = 5;
/// How often an object is read again after its body was interrupted.
const CUTS: u32 = 2;

/// The bucket that stores bulk.
pub(super) struct Bulk(Bucket);

impl Bulk {
    pub(super) fn new(aws: &Aws) -> Self {
        Self(aws.bucket())
    }

    /// Writes objects of one item; all are stored when this returns.
    pub(super) async fn put_all(&self, objects: Vec<(String, String)>) -> Result<(), ArchiveError> {
        stream::iter(objects)
            .map(|(object, text)| self.put(object, text))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    async fn put(&self, object: String, text: String) -> Result<(), ArchiveError> {
        let text = Bytes::from(text);
        let mut conflicts = 0;
        loop {
            let put = self.0.bytes.put_object().bucket(&self.0.name).key(&object);
            let put = put.content_type("application/json").if_none_match("*").body(text.clone().into());
            let Err(error) = put.send().await else { return Ok(()) };
            match error.as_service_error().and_then(|refused| refused.code()) {
                // The object exists already.
                Some("PreconditionFailed") => return Ok(()),
                // Another client is writing the same object right now, and may still fail.
                // <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>
                Some("ConditionalRequestConflict") if conflicts < CONFLICTS => conflicts += 1,
                Some(_) | None => return Err(ArchiveError::Unavailable(self.0.subject.explain(&error))),
            }
        }
    }

    async fn fetch(&self, reference: &Reference) -> Result<Value, ArchiveError> {
        let text = self.read(&reference.object).await?;
        let text = std::str::from_utf8(&text).map_err(|error| error.to_string());
        text.and_then(|text| text::read(text).map_err(|error| error.to_string()))
            .map_err(|why| self.not_ours(&reference.object, &why))
    }

    fn not_ours(&self, object: &str, why: &str) -> ArchiveError {
        let bucket = &self.0.name;
        ArchiveError::Unavailable(format!(
            "{object} in bucket {bucket} is not what Annalist wrote ({why}): restore it from a version or a backup"
        ))
    }

    async fn read(&self, object: &str) -> Result<Bytes, ArchiveError> {
        let bucket = &self.0.name;
        let mut cuts = 0;
        loop {
            let got = self.0.bytes.get_object().bucket(bucket).key(object).send().await;
            let got = got.map_err(|error| {
                ArchiveError::Unavailable(match error.as_service_error() {
                    Some(refused) if refused.is_no_such_key() => format!(
                        "{object} is missing from bucket {bucket}, and an item refers to it: restore it, or the item, \
                         from a backup"
                    ),
                    Some(_) | None => self.0.subject.explain(&error),
                })
            })?;
            match got.body.collect().await {
                Ok(bytes) => return Ok(bytes.into_bytes()),
                // The SDK retries a request that fails before the body, but not one that fails during the
                // body.
                Err(_) if cuts < CUTS => cuts += 1,
                Err(error) => {
                    return Err(ArchiveError::Unavailable(format!(
                        "reading {object} from bucket {bucket} stopped halfway: {error}"
                    )));
                }
            }
        }
    }

    /// Deletes all objects of an item, older versions included.
    pub(super) async fn delete_all(&self, key: &ItemKey) -> Result<(), ArchiveError> {
        let deleted = self.0.delete_versions(&folder(key), |_| true).await;
        deleted.map(drop).map_err(ArchiveError::Unavailable)
    }

    /// Loads the bulk of an item.
    pub(super) async fn load(&self, stored: StoredItem) -> Result<Item, ArchiveError> {
        let packed = self.load_packed(&stored).await?;
        let StoredItem { key, inline, bulk, packed: _, stamp: _ } = stored;
        if bulk.is_empty() && packed.is_empty() {
            return Ok(Item { key, attributes: inline });
        }
        let fetched = stream::iter(bulk)
            .map(|(name, reference)| async move { Ok((name, self.fetch(&reference).await?)) })
            .buffer_unordered(AT_ONCE);
        let mut attributes = packed;
        attributes.extend(fetched.try_collect::<Vec<_>>().await?);
        attributes.extend(inline);
        Ok(Item { key, attributes })
    }

    /// Loads the packed attributes of an item. Attributes of the same names in its row are newer.
    pub(super) async fn load_packed(&self, stored: &StoredItem) -> Result<Attributes, ArchiveError> {
        let Some(reference) = &stored.packed else { return Ok(Attributes::new()) };
        let Value::Object(attributes) = self.fetch(reference).await? else {
            return Err(self.not_ours(&reference.object, "it is no object"));
        };
        Ok(attributes.into_iter().collect())
    }

    /// Loads the bulk of many items, in order.
    pub(super) async fn load_all(&self, stored: Vec<StoredItem>) -> Result<Vec<Item>, ArchiveError> {
        stream::iter(stored).map(|stored| self.load(stored)).buffered(AT_ONCE).try_collect().await
    }
}
