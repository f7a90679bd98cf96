//! Rows of the `items` table, and what the archive answers if they cannot be read or written.

use ports::archive::{ArchiveError, Item, ItemKey};
use rusqlite::Row;

use super::writer::WriteError;

/// Reads an item from a row that begins with its keys and its attributes.
pub(super) fn item(row: &Row<'_>) -> rusqlite::Result<Item> {
    let json = row.get_ref(2)?.as_str()?;
    let attributes = serde_json::from_str(json).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(Item { key: ItemKey::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?), attributes })
}

pub(super) fn unavailable(error: WriteError) -> ArchiveError {
    ArchiveError::Unavailable(error.0)
}
