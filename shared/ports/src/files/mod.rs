//! The files port: stores bytes under keys, each written once.
//!
//! A file is written chunk by chunk and becomes visible under its key atomically: only
//! [`FileWriter::publish`] makes it visible, and it never replaces an existing file.

pub mod key;

use async_trait::async_trait;
use bytes::Bytes;

pub use key::{FileKey, FileKeyParts};

/// A failed operation of the file store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// The backend did not answer in time or failed: a full disk, a lost connection. Retrying is safe.
    #[error("the file store is unavailable: {0}")]
    Unavailable(String),
}

/// The maximum number of files in a page of a list, which is S3's.
pub const LIST_PAGE: usize = 1_000;

/// A published file in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    pub key: FileKey,
    /// Its length.
    pub size_bytes: u64,
}

/// The result of publishing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The file is durable under its key.
    New,
    /// The key already has a file, which stays unchanged; the new bytes are discarded.
    AlreadyThere,
}

/// A file store. Every method can be retried safely.
#[async_trait]
pub trait Files: Send + Sync + 'static {
    /// Starts a file. Nothing is visible under its key before [`FileWriter::publish`].
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError>;

    /// Opens a published file; `None` if it is missing.
    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError>;

    /// Removes a published file with all its older versions. Returns whether it existed. The key is free
    /// again: a file that is being written under this key becomes visible when it is published.
    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError>;

    /// Returns the next published files after this key, in an order of the store; none after the last one. Each
    /// page has at most [`LIST_PAGE`] files. A file that is stored or deleted meanwhile may be missing.
    async fn list(&self, after: Option<&FileKey>) -> Result<Vec<ListedFile>, FilesError>;

    /// Checks whether the store can accept a file now.
    async fn ready(&self) -> Result<(), FilesError>;
}

/// A file being written. Dropping it discards the written bytes; a crash leaves nothing under the key.
#[async_trait]
pub trait FileWriter: Send {
    /// Appends a chunk. Memory use does not depend on the number of chunks.
    async fn write(&mut self, chunk: Bytes) -> Result<(), FilesError>;

    /// Makes the file durable and visible, unless its key is taken.
    async fn publish(self: Box<Self>) -> Result<Published, FilesError>;
}

/// A file being read.
#[async_trait]
pub trait FileReader: Send {
    /// The length of the file.
    fn size_bytes(&self) -> u64;

    /// The next chunk; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, FilesError>;
}
