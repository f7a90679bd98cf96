//! An export in memory, for tests.

use std::io::{self, Read};

use super::source::{ExportEntries, ExportEntry};

/// Entries with text contents.
pub(crate) struct Entries {
    entries: Vec<ExportEntry>,
    texts: Vec<String>,
}

impl Entries {
    /// Entries with these names and texts.
    pub(crate) fn new<'n>(texts: impl IntoIterator<Item = (&'n str, String)>) -> Self {
        let (entries, texts) = texts
            .into_iter()
            .map(|(name, text)| {
                (
                    ExportEntry { name: name.to_owned(), packed_bytes: text.len() as u64, modified_s: None },
                    text,
                )
            })
            .unzip();
        Self { entries, texts }
    }
}

impl ExportEntries for Entries {
    fn entries(&self) -> &[ExportEntry] {
        &self.entries
    }

    fn open(&mut self, entry: usize) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.texts[entry].as_bytes()))
    }
}
