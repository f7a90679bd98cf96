//! The rows of a database from outside, in a database of this program's own.
//!
//! The database may come from another program. So nothing of its schema is used: only rows are copied, of the tables
//! that the migrations make, into a database that the migrations made. It is open to be read only, and a table counts
//! only if it is exactly the one that its schema has.

use std::fs::File;
use std::path::Path;

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ErrorCode, params_from_iter};

use super::BackupError;
use crate::changes::renew_epoch;
use crate::connection::{create_with, empty_with, objects, open_for_reading, open_for_writing, schema_of};
use ports::archive::Attributes;

/// What another machine held for confirmed is asked for again, and rows that changed have other rowids here.
const LEFT_EMPTY: [&str; 2] = ["existence_check_cache", "changes"];

/// What was taken from a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Tables, views, indexes and triggers that this program does not make and that were left out: how many, and the
    /// name of the first.
    pub left_out: Option<(usize, String)>,
}

/// A table as the migrations make it.
struct CopiedTable {
    name: String,
    columns: Vec<Column>,
}

/// A column: its name, its type, whether it must have a value, its place in the primary key, and whether it is computed.
type Column = (String, String, bool, i64, i64);

/// Copies what a database holds that should have this schema into the file `own`, which is empty, and migrates that to this
/// version's. The copy is one row in memory at a time.
///
/// # Errors
/// [`BackupError::Database`] if the database is damaged, or none of this program's.
pub fn adopt(database: &Path, schema: usize, own: &Path) -> Result<Adopted, BackupError> {
    let foreign = open_for_reading(database).map_err(|error| BackupError::database(&error))?;
    let unusable = |error: rusqlite_migration::Error| BackupError::Database(error.to_string());
    let expected = empty_with(schema).map_err(unusable)?;
    let tables = tables(&expected).map_err(|error| BackupError::database(&error))?;
    check(&foreign, schema, &expected, &tables)?;
    let copy = create_with(own, schema).map_err(unusable)?;
    copy.execute_batch("BEGIN IMMEDIATE").map_err(BackupError::Copy)?;
    for table in tables.iter().filter(|table| !LEFT_EMPTY.contains(&table.name.as_str())) {
        copy_rows(&foreign, &copy, table)?;
    }
    renew_epoch(&copy).map_err(BackupError::Copy)?;
    // The owners of these leases are not here.
    copy.execute_batch("UPDATE leases SET visible_at_ms = 0; COMMIT").map_err(BackupError::Copy)?;
    copy.close().map_err(|(_, error)| BackupError::Copy(error))?;
    migrate(own)?;
    let left_out = left_out(&foreign, &expected).map_err(|error| BackupError::database(&error))?;
    Ok(Adopted { left_out })
}

fn migrate(own: &Path) -> Result<(), BackupError> {
    let migrated = open_for_writing(own)?;
    migrated.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(BackupError::Copy)?;
    migrated.close().map_err(|(_, error)| BackupError::Copy(error))?;
    File::open(own).and_then(|file| file.sync_all()).map_err(BackupError::at(own))
}

/// Whether the database is of this schema, its tables are exactly those that this program makes, and they are whole: no
/// page is in two places, so that there are no more rows than fit.
fn check(
    foreign: &Connection,
    schema: usize,
    expected: &Connection,
    tables: &[CopiedTable],
) -> Result<(), BackupError> {
    let failed = |error: rusqlite::Error| BackupError::database(&error);
    let found = schema_of(foreign).map_err(failed)?;
    if found != schema || tables.is_empty() {
        return Err(BackupError::Database(format!("its schema is {found} where {schema} was announced")));
    }
    for table in tables {
        let name = &table.name;
        let is_ours = definitions(foreign, name).map_err(failed)?
            == definitions(expected, name).map_err(failed)?
            && columns(foreign, name).map_err(failed)? == table.columns;
        if !is_ours {
            return Err(BackupError::Database(format!("`{name}` is not as this version made it")));
        }
        let mut verdict = String::new();
        let first = |row: &rusqlite::Row<'_>| {
            if verdict.is_empty() {
                verdict = row.get(0)?;
            }
            Ok(())
        };
        foreign.pragma(None, "quick_check", name, first).map_err(failed)?;
        if verdict != "ok" {
            return Err(BackupError::Database(format!("it is damaged: {verdict}")));
        }
    }
    Ok(())
}

fn tables(expected: &Connection) -> rusqlite::Result<Vec<CopiedTable>> {
    let mut statement = expected.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    names.into_iter().map(|name| Ok(CopiedTable { columns: columns(expected, &name)?, name })).collect()
}

/// What the schema says under a name, in whatever case: SQLite takes them all for one.
fn definitions(connection: &Connection, name: &str) -> rusqlite::Result<Vec<[Option<String>; 4]>> {
    let mut statement = connection
        .prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE")?;
    let definitions =
        statement.query_map([name], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    definitions.collect()
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let mut columns = Vec::new();
    // A table of the name of the table-valued function would be asked in its place; a statement cannot be replaced.
    connection.pragma(None, "table_xinfo", table, |row| {
        columns.push((row.get(1)?, row.get(2)?, row.get(3)?, row.get(5)?, row.get(6)?));
        Ok(())
    })?;
    Ok(columns)
}

fn copy_rows(foreign: &Connection, copy: &Connection, table: &CopiedTable) -> Result<(), BackupError> {
    let failed = |error: rusqlite::Error| BackupError::database(&error);
    let name = &table.name;
    let columns: Vec<&str> = table.columns.iter().map(|column| column.0.as_str()).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let columns = columns.join(", ");
    // An index from outside may leave rows out.
    let select = format!("SELECT {columns} FROM main.{name} NOT INDEXED");
    let insert = format!("INSERT INTO main.{name} ({columns}) VALUES ({places})");
    let attributes = table.columns.iter().position(|column| name == "items" && column.0 == "attributes");
    let mut select = foreign.prepare(&select).map_err(failed)?;
    let mut insert = copy.prepare(&insert).map_err(BackupError::Copy)?;
    let mut rows = select.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        if let Some(attributes) = attributes {
            let json = row.get_ref(attributes).and_then(|json| Ok(json.as_str()?)).map_err(failed)?;
            // One row that cannot be read would be in the way of its whole channel.
            serde_json::from_str::<Attributes>(json)
                .map_err(|error| BackupError::Database(format!("a row is no item: {error}")))?;
        }
        let values: Result<Vec<ToSqlOutput<'_>>, _> =
            (0..table.columns.len()).map(|place| row.get_ref(place).map(ToSqlOutput::Borrowed)).collect();
        insert.execute(params_from_iter(values.map_err(failed)?)).map_err(not_copied)?;
    }
    Ok(())
}

/// A row that no database of ours takes is the backup's fault, a full disk is not.
fn not_copied(error: rusqlite::Error) -> BackupError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => BackupError::database(&error),
        Some(_) | None => BackupError::Copy(error),
    }
}

fn left_out(foreign: &Connection, expected: &Connection) -> rusqlite::Result<Option<(usize, String)>> {
    let (mut found, expected) = (objects(foreign)?, objects(expected)?);
    found.retain(|name, object| expected.get(name) != Some(object));
    let count = found.len();
    Ok(found.into_keys().next().map(|first| (count, first)))
}

#[cfg(test)]
#[path = "adopt_tests.rs"]
mod tests;
