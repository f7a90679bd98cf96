//! Copies the database as of one moment.

use std::path::Path;

use super::BackupError;
use crate::connection::{open_for_reading, schema_of};
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
