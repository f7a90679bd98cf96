//! Where an export's bytes come from.

use std::io::{self, Read};

/// An entry of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportEntry {
    /// What it is called. A name, and never a path.
    pub name: String,
    /// How many bytes it takes in the export, packed as they are.
    pub packed_bytes: u64,
}

/// The entries of an export, and their bytes. Whatever reads one bounds what comes out of it: see [`EntryTooLarge`].
pub trait ExportEntries: Send + 'static {
    /// What there is.
    fn entries(&self) -> &[ExportEntry];

    /// The bytes of the entry at a place of [`ExportEntries::entries`].
    ///
    /// # Errors
    /// If it cannot be read.
    fn open(&mut self, entry: usize) -> io::Result<Box<dyn Read + '_>>;
}

/// More comes out of an entry than anything that Slack exports. It travels inside of an [`io::Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EntryTooLarge(pub String);

impl EntryTooLarge {
    /// Whether this is why an entry cannot be read.
    pub(crate) fn is_cause(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}
