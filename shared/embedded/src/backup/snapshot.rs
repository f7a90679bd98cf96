//! The database as it is at one moment.

use std::path::Path;

use super::BackupError;
use crate::connection::{open_for_reading, schema_of};
use crate::{DATABASE_FILE, OpenError, VERSION, files_uri, join};

/// A copy of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its schema.
    pub schema: usize,
    /// The URI of the folder that its files are in.
    pub files_uri: String,
}

/// Copies the database of a data folder into the file `into`, which is empty, as it is at one moment. The copy is one
/// read on a connection of its own: writers go on, only their log cannot start anew before it ends. Nothing in the
/// folder is changed, so an older schema stays as it is.
///
/// # Errors
/// [`BackupError`]: there is no archive, another version uses it, or the disk is full.
pub fn snapshot(data: &Path, into: &Path) -> Result<Snapshot, BackupError> {
    let file = data.join(DATABASE_FILE);
    if !file.is_file() {
        return Err(OpenError::Missing(data.to_owned()).into());
    }
    // For as long as the copy takes, so that no process migrates the database meanwhile.
    let _process_lock = join(data, VERSION)?;
    let failed = |source| OpenError::Database { path: file.clone(), source };
    let connection = open_for_reading(&file).map_err(failed)?;
    let schema = schema_of(&connection).map_err(failed)?;
    if schema > super::manifest::SCHEMA {
        return Err(OpenError::Newer(file).into());
    }
    // The name is bound, not written into the statement: whatever it holds.
    let into = into.to_str().ok_or_else(|| BackupError::Path {
        path: into.to_owned(),
        source: std::io::Error::other("SQLite can only write to a name in UTF-8"),
    })?;
    connection.execute("VACUUM INTO ?1", [into]).map_err(BackupError::Copy)?;
    Ok(Snapshot { schema, files_uri: files_uri(data).map_err(BackupError::at(data))? })
}
