//! Copies of a database. A *base* is the whole database as of one moment, as a list of blocks that the bases of a
//! target share. This crate knows neither messages nor SQLite.
//!
//! * [`block`]: rows become blocks of about 14 rows, named by their content.
//! * [`base`]: the list of the blocks of a base, with its own hash.
//! * [`make`]: writes a base; only then do its blocks belong to it.
//! * [`clean`]: removes old bases, then the blocks that no base lists.
//! * [`folder`], `bucket`: a target in a folder or in a bucket.
//!
//! Objects are written once and never replaced: `copy.json`, `block/{2 hex}/{sha256}`, `base/{time}`, `files/{key}`.

pub mod base;
pub mod block;
#[cfg(feature = "s3")]
pub mod bucket;
pub mod clean;
pub mod folder;
pub mod make;

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::files::{FileReader, FileWriter, FilesError, Published};
use serde::{Deserialize, Serialize};

use base::BASES;
pub use base::{Base, BaseCounts, BaseHead, BaseTable, BaseTime};
use block::BLOCKS;
pub use block::BlockId;

/// The format of a target that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// The object that says whose copies these are.
const IDENTITY: &str = "copy.json";

/// An identity is a short line.
const MAX_IDENTITY_BYTES: u64 = 64 * 1024;

/// Objects that are written to a bucket at the same time: each is small, so that a write is mostly waiting.
const CONCURRENT_WRITES: usize = 4;

/// The objects with the bytes of files: this, then a file's key.
pub const FILES: &str = "files/";

/// Why a copy cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The target cannot be reached, or refuses.
    #[error("it cannot be used: {0}")]
    Store(String),
    /// Another archive is copied there.
    #[error("it has the copies of another archive: choose another folder or prefix")]
    Foreign,
    /// A newer version wrote it.
    #[error("it was written by a newer version of annalist: upgrade this one")]
    Newer,
    /// An object is missing.
    #[error("{0} is missing")]
    Missing(String),
    /// An object does not have the content that it was written with.
    #[error("{0} is damaged")]
    Damaged(String),
}

impl From<FilesError> for CopyError {
    fn from(FilesError::Unavailable(why): FilesError) -> Self {
        Self::Store(why)
    }
}

/// Where copies are. Names are relative paths. Every method can be repeated.
#[async_trait]
pub trait CopyStore: Send + Sync + 'static {
    /// Starts an object. Nothing is visible under its name before [`FileWriter::publish`], which never replaces an object.
    async fn create(&self, name: &str) -> Result<Box<dyn FileWriter>, FilesError>;

    /// Writes objects that are named by their content. If it fails, some may be there, none of them in part.
    async fn put_all(&self, objects: Vec<(String, Bytes)>) -> Result<(), FilesError> {
        stream::iter(objects)
            .map(|(name, bytes)| async move { put(self, &name, bytes).await.map(drop) })
            .buffer_unordered(CONCURRENT_WRITES)
            .try_collect()
            .await
    }

    /// Opens an object; `None` if it is missing.
    async fn open(&self, name: &str) -> Result<Option<Box<dyn FileReader>>, FilesError>;

    /// Calls `each` with the name and the size of each object whose name begins with `prefix`, which ends with `/`. The
    /// order is the store's.
    async fn list(
        &self,
        prefix: &str,
        each: &mut (dyn for<'n> FnMut(&'n str, u64) + Send),
    ) -> Result<(), FilesError>;

    /// Removes an object, if it exists.
    async fn delete(&self, name: &str) -> Result<(), FilesError>;

    /// Checks that the target exists and can be reached.
    async fn ready(&self) -> Result<(), FilesError>;

    /// Removes what killed writes left, while nobody else writes.
    async fn remove_leftovers(&self) -> Result<(), FilesError>;
}

/// Whose copies these are.
#[derive(Debug, Serialize, Deserialize)]
struct Identity {
    format: u32,
    archive: String,
}

/// Checks that a target belongs to this archive, or makes it so if it is new. Only one process of an archive copies at
/// once.
///
/// # Errors
/// [`CopyError::Foreign`] if it belongs to another one.
pub async fn claim(store: &dyn CopyStore, archive: &str) -> Result<(), CopyError> {
    store.ready().await?;
    match owner(store).await? {
        Some(owner) if owner == archive => return Ok(store.remove_leftovers().await?),
        Some(_) => return Err(CopyError::Foreign),
        None => {}
    }
    let identity = Identity { format: FORMAT, archive: archive.to_owned() };
    let json = serde_json::to_vec(&identity).map_err(|error| CopyError::Store(error.to_string()))?;
    put(store, IDENTITY, json.into()).await?;
    // Another archive may have been faster.
    match owner(store).await? {
        Some(owner) if owner == archive => Ok(()),
        Some(_) | None => Err(CopyError::Foreign),
    }
}

/// The id of the archive whose copies these are; `None` if there are none.
///
/// # Errors
/// [`CopyError`], also if a newer version wrote them.
pub async fn owner(store: &dyn CopyStore) -> Result<Option<String>, CopyError> {
    let Some(json) = read(store, IDENTITY, MAX_IDENTITY_BYTES).await? else { return Ok(None) };
    let identity: Identity =
        serde_json::from_slice(&json).map_err(|_| CopyError::Damaged(IDENTITY.to_owned()))?;
    if identity.format > FORMAT { Err(CopyError::Newer) } else { Ok(Some(identity.archive)) }
}

/// Writes an object, unless it exists.
async fn put<S: CopyStore + ?Sized>(store: &S, name: &str, bytes: Bytes) -> Result<Published, FilesError> {
    let mut writer = store.create(name).await?;
    writer.write(bytes).await?;
    writer.publish().await
}

/// Reads an object of at most `max_bytes`; `None` if it is missing.
async fn read(store: &dyn CopyStore, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, CopyError> {
    let Some(mut reader) = store.open(name).await? else { return Ok(None) };
    if reader.size_bytes() > max_bytes {
        return Err(CopyError::Damaged(name.to_owned()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(reader.size_bytes()).unwrap_or(0));
    while let Some(chunk) = reader.next().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// The times of the bases, oldest first.
///
/// # Errors
/// [`CopyError::Store`]
pub async fn list_bases(store: &dyn CopyStore) -> Result<Vec<BaseTime>, CopyError> {
    let mut times = Vec::new();
    store.list(BASES, &mut |name, _| times.extend(BaseTime::of_object(name))).await?;
    times.sort_unstable();
    Ok(times)
}

/// The blocks that are there: 32 bytes in memory for each.
///
/// # Errors
/// [`CopyError::Store`]
pub async fn list_blocks(store: &dyn CopyStore) -> Result<HashSet<BlockId>, CopyError> {
    let mut blocks = HashSet::new();
    store.list(BLOCKS, &mut |name, _| blocks.extend(BlockId::of_object(name))).await?;
    Ok(blocks)
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
