//! The source of an export's entries and bytes.

use std::io::{self, Read};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportEntry {
    /// Its name, which is never used as a path.
    pub name: String,
    /// Its packed size in the export.
    pub packed_bytes: u64,
    /// When it was last changed, in seconds since the Unix epoch, if the export states it.
    pub modified_s: Option<i64>,
}

/// The entries of an export, and their bytes. An implementation limits the bytes it returns for an entry: see
/// [`EntryTooLarge`].
pub trait ExportEntries: Send + 'static {
    fn entries(&self) -> &[ExportEntry];

    /// The bytes of the entry at this index of [`ExportEntries::entries`].
    ///
    /// # Errors
    /// If it cannot be read.
    fn open(&mut self, entry: usize) -> io::Result<Box<dyn Read + '_>>;
}

/// The error for an entry that unpacks to more than anything that Slack exports. It is wrapped in an
/// [`io::Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EntryTooLarge(pub String);

impl EntryTooLarge {
    /// Whether this is the cause of an I/O error.
    pub(crate) fn is_cause(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}
