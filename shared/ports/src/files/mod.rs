//! The files port: bytes kept under keys, each written once.
//!
//! A file is written chunk by chunk and appears under its key whole or not at all: [`FileWriter::publish`] is the one step
//! that makes it visible, and it never replaces what is there.

pub mod key;

use async_trait::async_trait;
use bytes::Bytes;

pub use key::FileKey;

/// What the store of files could not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// The backend did not answer in time or failed: a full disk, a lost connection. Doing it again is safe.
    #[error("the file store is unavailable: {0}")]
    Unavailable(String),
}

/// What became of a file that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// It is durable under its key.
    New,
    /// Its key was taken already; what stood there was left as it is, and what was written is gone.
    AlreadyThere,
}

/// A store of files. Every method may be repeated without harm.
#[async_trait]
pub trait Files: Send + Sync + 'static {
    /// Begins a file. Nothing is visible under its key before [`FileWriter::publish`].
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError>;

    /// Opens a published file; `None` if it is missing.
    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError>;

    /// Removes a published file with all its older versions; says whether it was there. Its key is free again: a file of
    /// this key that is being written appears when it is published.
    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError>;

    /// Whether a file could be written now.
    async fn ready(&self) -> Result<(), FilesError>;
}

/// A file being written. Dropping it discards what was written; a crash leaves nothing under the key.
#[async_trait]
pub trait FileWriter: Send {
    /// Appends a chunk. Memory stays bounded whatever the number of chunks.
    async fn write(&mut self, chunk: Bytes) -> Result<(), FilesError>;

    /// Makes the file durable and visible, unless its key is taken.
    async fn publish(self: Box<Self>) -> Result<Published, FilesError>;
}

/// A file being read.
#[async_trait]
pub trait FileReader: Send {
    /// How long the file is.
    fn size_bytes(&self) -> u64;

    /// The next chunk; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, FilesError>;
}
