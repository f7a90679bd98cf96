//! Copies the database as of one moment.

use std::path::Path;

use ports::archive::{Item, ItemKey};
use rusqlite::{Connection, OptionalExtension};

use super::BackupError;
use crate::connection::{open_for_reading, schema_of};
use crate::rows::item;
use crate::scan::{self, ScannedRow};
use crate::{DATABASE_FILE, OpenError, VERSION, files_uri, join};

/// A copy of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its schema version.
    pub schema: usize,
    /// The URI of the folder with its files.
    pub files_uri: String,
}

/// Copies the database of a data folder as of one moment into the file `into`, which must be empty. The copy
/// is one read on its own connection: writers continue, only their log cannot restart before it ends. The
/// folder is not changed, so an older schema is not migrated.
///
/// # Errors
/// [`BackupError`]: there is no archive, another version uses it, or the disk is full.
pub fn snapshot(data: &Path, into: &Path) -> Result<Snapshot, BackupError> {
    let file = data.join(DATABASE_FILE);
    if !file.is_file() {
        return Err(OpenError::Missing(data.to_owned()).into());
    }
    // Held during the copy, so that no process migrates the database meanwhile.
    let _process_lock = join(data, VERSION)?;
    let failed = |source| OpenError::Database { path: file.clone(), source };
    let connection = open_for_reading(&file).map_err(failed)?;
    let schema = schema_of(&connection).map_err(failed)?;
    if schema > super::manifest::SCHEMA {
        return Err(OpenError::Newer(file).into());
    }
    // The name is bound, not part of the statement, because it may contain any characters.
    let into = into.to_str().ok_or_else(|| BackupError::Path {
        path: into.to_owned(),
        source: std::io::Error::other("SQLite can only write to a name in UTF-8"),
    })?;
    connection.execute("VACUUM INTO ?1", [into]).map_err(BackupError::Copy)?;
    Ok(Snapshot { schema, files_uri: files_uri(data).map_err(BackupError::at(data))? })
}

/// The rows of a copy.
pub struct CopiedRows(Connection);

impl CopiedRows {
    /// Opens a copy for reading.
    pub fn open(copy: &Path) -> Result<Self, BackupError> {
        open_for_reading(copy).map(Self).map_err(BackupError::Copy)
    }

    /// Reads a row.
    pub fn get(&self, key: &ItemKey) -> Result<Option<Item>, BackupError> {
        let select = "SELECT item_id, timestamp, attributes FROM items WHERE item_id = ?1 AND timestamp = ?2";
        let mut select = self.0.prepare_cached(select).map_err(BackupError::Copy)?;
        select.query_row([&key.item_id, &key.timestamp], item).optional().map_err(BackupError::Copy)
    }

    /// Reads the rows after a key, in the order of keys, also those that are no items. An empty page is the end.
    ///
    /// # Errors
    /// [`BackupError::Copy`]
    pub fn page(&self, after: Option<&ItemKey>, limit: usize) -> Result<Vec<ScannedRow>, BackupError> {
        scan::page(&self.0, after, limit).map_err(BackupError::Copy)
    }

    /// Reads the rows of a partition, one after the other.
    pub fn for_each(&self, item_id: &str, mut each: impl FnMut(Item)) -> Result<(), BackupError> {
        let select = "SELECT item_id, timestamp, attributes FROM items WHERE item_id = ?1";
        let mut select = self.0.prepare_cached(select).map_err(BackupError::Copy)?;
        for row in select.query_map([item_id], item).map_err(BackupError::Copy)? {
            each(row.map_err(BackupError::Copy)?);
        }
        Ok(())
    }
}
