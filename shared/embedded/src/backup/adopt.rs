//! Copies the rows of a database from outside into a database of this program.
//!
//! Jobs are numbered anew: workers read the queue by its numbers, so that a job with a number from outside could
//! be before every worker's position, or leave no number for the next one.
//!
//! The database may come from another program, so its schema is not trusted: only the rows of the tables that
//! the migrations create are copied, into a database created by the migrations. The database is opened
//! read-only, and each table must exactly match the one of its schema version.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, params_from_iter};

use super::BackupError;
use super::line::values_of;
use crate::changes::renew_epoch;
use crate::connection::{
    create_empty_file, create_empty_in_memory, open_for_reading, open_for_writing, schema_objects, schema_of,
};
use ports::archive::{Attributes, key};

/// Tables that are not copied: existence is confirmed again, and the rowids of recorded changes are different
/// here.
const LEFT_EMPTY: [&str; 2] = ["existence_check_cache", "changes"];

/// The tables of the queue, whose rows begin with the number of a job.
const NUMBERED: [&str; 3] = ["jobs", "leases", "sends"];

/// The column with the number of a job: the first one.
const SEQ: &str = "seq";

/// The result of copying a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Tables, views, indexes and triggers that this program does not create and that were left out: their
    /// number and the name of the first one.
    pub left_out: Option<(usize, String)>,
    /// The number of rows of tokens with which readers read.
    pub reader_tokens: u64,
}

/// A table of the migrations.
pub(super) struct CopiedTable {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    insert: String,
}

impl CopiedTable {
    fn new(name: String, columns: Vec<Column>) -> Self {
        let names = columns.iter().map(|column| &*column.0).collect::<Vec<_>>().join(", ");
        let parameters = vec!["?"; columns.len()].join(", ");
        let insert = format!("INSERT INTO main.{name} ({names}) VALUES ({parameters})");
        Self { name, columns, insert }
    }

    /// The column with the attributes of an item.
    fn attributes(&self) -> Option<usize> {
        self.columns.iter().position(|column| self.name == "items" && column.0 == "attributes")
    }
}

/// A column: name, type, whether it is NOT NULL, position in the primary key, and whether it is generated.
pub(super) type Column = (String, String, bool, i64, i64);

/// Copies the rows of a database, which must have this schema version, into the file `own`, which must be
/// empty, and migrates that to this version's schema. Only one row is in memory at once.
///
/// # Errors
/// [`BackupError::Database`] if the database is damaged or was not written by this program.
pub fn adopt(database: &Path, schema: usize, own: &Path) -> Result<Adopted, BackupError> {
    let foreign = open_for_reading(database).map_err(|error| BackupError::database(&error))?;
    let expected = create_empty_in_memory(schema).map_err(unusable)?;
    let tables = tables(&expected).map_err(|error| BackupError::database(&error))?;
    check(&foreign, schema, &expected, &tables)?;
    let filling = FilledDatabase::create(own, schema)?;
    for table in &filling.tables {
        copy_rows(&foreign, &filling, table)?;
    }
    filling.finish()?;
    let count = "SELECT count(*) FROM items WHERE item_id = ?1";
    let reader_tokens = foreign
        .query_row(count, [key::reader_tokens()], |row| row.get::<_, u32>(0))
        .map_err(|error| BackupError::database(&error))?;
    let left_out = left_out(&foreign, &expected).map_err(|error| BackupError::database(&error))?;
    Ok(Adopted { left_out, reader_tokens: reader_tokens.into() })
}

fn unusable(error: rusqlite_migration::Error) -> BackupError {
    BackupError::Database(error.to_string())
}

/// The tables of a schema whose rows are copied.
pub(super) fn copied_tables(schema: usize) -> Result<Vec<CopiedTable>, BackupError> {
    let expected = create_empty_in_memory(schema).map_err(unusable)?;
    let mut tables = tables(&expected).map_err(|error| BackupError::database(&error))?;
    tables.retain(|table| !LEFT_EMPTY.contains(&table.name.as_str()));
    Ok(tables)
}

/// A new database that is being filled with the rows of another one.
pub struct FilledDatabase {
    copy: Connection,
    own: PathBuf,
    tables: Vec<CopiedTable>,
}

impl FilledDatabase {
    /// Begins to fill the file `own`, which must be empty, with rows of this schema version.
    ///
    /// # Errors
    /// [`BackupError::Database`]
    pub fn create(own: &Path, schema: usize) -> Result<Self, BackupError> {
        let copy = create_empty_file(own, schema).map_err(unusable)?;
        copy.execute_batch("BEGIN IMMEDIATE").map_err(BackupError::Copy)?;
        Ok(Self { copy, own: own.to_owned(), tables: copied_tables(schema)? })
    }

    /// Inserts rows of a table: lines as [`super::rows`] reads them.
    ///
    /// # Errors
    /// [`BackupError::Database`] if the table is not of this schema, or a line is not a row of it.
    pub fn insert_lines(&self, name: &str, columns: &[String], lines: &str) -> Result<(), BackupError> {
        let is_same = |table: &&CopiedTable| {
            table.name == name && table.columns.iter().map(|column| &column.0).eq(columns)
        };
        let table = self.tables.iter().find(is_same);
        let table =
            table.ok_or_else(|| BackupError::Database(format!("`{name}` is not a table of this schema")))?;
        for line in lines.lines() {
            let values = values_of(line).filter(|values| values.len() == columns.len());
            let values =
                values.ok_or_else(|| BackupError::Database(format!("a line is not a row of `{name}`")))?;
            self.insert(table, &values.iter().map(ValueRef::from).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn insert(&self, table: &CopiedTable, values: &[ValueRef<'_>]) -> Result<(), BackupError> {
        if let Some(attributes) = table.attributes() {
            // One unreadable row would block its whole channel.
            serde_json::from_str::<Attributes>(values[attributes].as_str().unwrap_or_default())
                .map_err(|error| BackupError::Database(format!("a row is not an item: {error}")))?;
        }
        let values = values.iter().map(|value| ToSqlOutput::Borrowed(*value));
        let insert = self.copy.prepare_cached(&table.insert);
        insert.and_then(|mut insert| insert.execute(params_from_iter(values))).map(drop).map_err(not_copied)
    }

    /// Makes the rows those of a new folder, and migrates them to this version's schema.
    ///
    /// # Errors
    /// [`BackupError::Copy`] if the disk is full.
    pub fn finish(self) -> Result<(), BackupError> {
        let Self { copy, own, tables } = self;
        number_jobs(&copy, &tables).map_err(BackupError::Copy)?;
        renew_epoch(&copy).map_err(BackupError::Copy)?;
        // The owners of these leases do not exist here, and attempts belong to jobs by their numbers.
        copy.execute_batch(
            "UPDATE leases SET visible_at_ms = 0;
             DELETE FROM items WHERE item_id >= 'meta#attempts#' AND item_id < 'meta#attempts$';
             COMMIT",
        )
        .map_err(BackupError::Copy)?;
        copy.close().map_err(|(_, error)| BackupError::Copy(error))?;
        migrate(&own)
    }
}

fn migrate(own: &Path) -> Result<(), BackupError> {
    let migrated = open_for_writing(own)?;
    migrated.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(BackupError::Copy)?;
    migrated.close().map_err(|(_, error)| BackupError::Copy(error))?;
    File::open(own).and_then(|file| file.sync_all()).map_err(BackupError::at(own))
}

/// Checks that the database has this schema version, that its tables are exactly those of this program, and
/// that they are sound: no page is used twice, so that the number of rows is limited by the file's size.
fn check(
    foreign: &Connection,
    schema: usize,
    expected: &Connection,
    tables: &[CopiedTable],
) -> Result<(), BackupError> {
    let failed = |error: rusqlite::Error| BackupError::database(&error);
    let found = schema_of(foreign).map_err(failed)?;
    if found != schema || tables.is_empty() {
        return Err(BackupError::Database(format!("its schema is {found}, but the manifest says {schema}")));
    }
    for table in tables {
        let name = &table.name;
        let is_ours = definitions(foreign, name).map_err(failed)?
            == definitions(expected, name).map_err(failed)?
            && columns(foreign, name).map_err(failed)? == table.columns;
        if !is_ours {
            return Err(BackupError::Database(format!("`{name}` is not the table of this schema")));
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
    names.into_iter().map(|name| Ok(CopiedTable::new(name.clone(), columns(expected, &name)?))).collect()
}

/// The schema's definitions of a name in any case: SQLite's names are case-insensitive.
fn definitions(connection: &Connection, name: &str) -> rusqlite::Result<Vec<[Option<String>; 4]>> {
    let mut statement = connection
        .prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE")?;
    let definitions =
        statement.query_map([name], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    definitions.collect()
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let mut columns = Vec::new();
    // Not the table-valued function: a table with its name could replace it, but not a statement.
    connection.pragma(None, "table_xinfo", table, |row| {
        columns.push((row.get(1)?, row.get(2)?, row.get(3)?, row.get(5)?, row.get(6)?));
        Ok(())
    })?;
    Ok(columns)
}

/// Numbers the jobs from 1, in their order.
fn number_jobs(copy: &Connection, tables: &[CopiedTable]) -> rusqlite::Result<()> {
    // A send without a job is only known by its deduplication id, and a lease without a job is nothing.
    copy.execute_batch(
        "CREATE TEMP TABLE numbers AS SELECT seq, row_number() OVER (ORDER BY seq) AS number
             FROM (SELECT seq FROM jobs UNION SELECT seq FROM sends);
         CREATE INDEX temp.numbers_seq ON numbers (seq)",
    )?;
    for CopiedTable { name, columns, .. } in tables.iter().filter(|table| NUMBERED.contains(&&*table.name)) {
        let others = columns.iter().map(|column| &*column.0).filter(|column| *column != SEQ);
        let others = others.collect::<Vec<_>>().join(", ");
        // All at once: a new number may still be the old one of another job.
        copy.execute_batch(&format!(
            "CREATE TEMP TABLE numbered AS SELECT number AS {SEQ}, {others} FROM main.{name} JOIN temp.numbers USING ({SEQ});
             DELETE FROM main.{name};
             INSERT INTO main.{name} ({SEQ}, {others}) SELECT {SEQ}, {others} FROM temp.numbered ORDER BY {SEQ};
             DROP TABLE temp.numbered"
        ))?;
    }
    Ok(())
}

fn copy_rows(foreign: &Connection, filling: &FilledDatabase, table: &CopiedTable) -> Result<(), BackupError> {
    let failed = |error: rusqlite::Error| BackupError::database(&error);
    let columns: Vec<&str> = table.columns.iter().map(|column| column.0.as_str()).collect();
    // An index from outside may omit rows.
    let select = format!("SELECT {} FROM main.{} NOT INDEXED", columns.join(", "), table.name);
    let mut select = foreign.prepare(&select).map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let values: Result<Vec<ValueRef<'_>>, _> =
            (0..columns.len()).map(|index| row.get_ref(index)).collect();
        filling.insert(table, &values.map_err(failed)?)?;
    }
    Ok(())
}

/// The error of a failed insert: a row that our schema rejects is an error of the backup, a full disk is not.
fn not_copied(error: rusqlite::Error) -> BackupError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => BackupError::database(&error),
        Some(_) | None => BackupError::Copy(error),
    }
}

fn left_out(foreign: &Connection, expected: &Connection) -> rusqlite::Result<Option<(usize, String)>> {
    let (mut found, expected) = (schema_objects(foreign)?, schema_objects(expected)?);
    found.retain(|name, object| expected.get(name) != Some(object));
    let count = found.len();
    Ok(found.into_keys().next().map(|first| (count, first)))
}

#[cfg(test)]
#[path = "adopt_tests.rs"]
mod tests;
