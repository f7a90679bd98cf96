//! Reads every row that a restore keeps, as of one moment, while others write. A row is a line: a JSON array of its
//! columns.
//!
//! While it reads, the log of the database cannot restart and grows by what is written, so a read has limits and rests
//! for as long as it works.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ports::archive::rows::MESSAGE;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde_json::{Value, json};
use slack::hex::to_hex;

use super::BackupError;
use super::adopt::{CopiedTable, copied_tables};
use super::line::BYTES;
use crate::DATABASE_FILE;
use crate::connection::{SCHEMA, open_for_reading, schema_of, sleep};

/// After this many bytes of lines, a read checks its limits and rests.
const STEP_BYTES: usize = 1024 * 1024;

/// How far a read may go.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimits {
    /// The log may grow by this much: the disk needs room for it.
    pub log_bytes: u64,
    /// A read may take this long.
    pub duration: Duration,
}

impl Default for ReadLimits {
    /// 60,000 changes a day are 60 MB of log in an hour, which is longer than 10 GB take.
    fn default() -> Self {
        Self { log_bytes: 1024 * 1024 * 1024, duration: Duration::from_secs(3600) }
    }
}

/// What is read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadRow<'r> {
    /// A table begins.
    Table { name: &'r str, columns: &'r [&'r str] },
    /// A row of that table.
    Row {
        /// Its primary key.
        key: &'r [u8],
        line: &'r [u8],
        /// Whether readers see it as a message.
        is_message: bool,
    },
}

/// Why a read ended before the last row.
#[derive(Debug, thiserror::Error)]
pub enum ReadStopped<E> {
    /// The database cannot be read.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The caller stopped it.
    #[error("{0}")]
    Caller(E),
    /// It reached this limit.
    #[error("{0}")]
    Limit(&'static str),
}

/// Reads the rows of an open data folder in one transaction, table by table, in the order in which they were written.
/// Returns by how many bytes the log grew meanwhile. It blocks.
pub fn read_rows<E>(
    data: &Path,
    limits: ReadLimits,
    mut each: impl FnMut(ReadRow<'_>) -> Result<(), E>,
) -> Result<u64, ReadStopped<E>> {
    let file = data.join(DATABASE_FILE);
    let connection = open_for_reading(&file).map_err(BackupError::Copy)?;
    let mut pace = ReadPace::new(&file, limits);
    let transaction = connection.unchecked_transaction().map_err(BackupError::Copy)?;
    if schema_of(&transaction).map_err(BackupError::Copy)? != SCHEMA {
        return Err(BackupError::Database("another version uses it".to_owned()).into());
    }
    for table in copied_tables(SCHEMA)? {
        let columns: Vec<&str> = table.columns.iter().map(|column| column.0.as_str()).collect();
        each(ReadRow::Table { name: &table.name, columns: &columns }).map_err(ReadStopped::Caller)?;
        read_table(&transaction, &table, &columns, &mut pace, &mut each)?;
    }
    Ok(pace.log_growth())
}

fn read_table<E>(
    connection: &Connection,
    table: &CopiedTable,
    columns: &[&str],
    pace: &mut ReadPace,
    each: &mut impl FnMut(ReadRow<'_>) -> Result<(), E>,
) -> Result<(), ReadStopped<E>> {
    let primary: Vec<usize> = (0..columns.len()).filter(|at| table.columns[*at].3 > 0).collect();
    // A row of the archive has its key in the first two columns, and is read in the order in which it was inserted.
    let (key_columns, order) = match primary.first() {
        Some(first) => (primary.clone(), columns[*first]),
        None => (vec![0, 1], "rowid"),
    };
    let name = &table.name;
    let select = format!("SELECT {} FROM main.{name} NOT INDEXED ORDER BY {order}", columns.join(", "));
    let mut select = connection.prepare(&select).map_err(BackupError::Copy)?;
    let mut rows = select.query([]).map_err(BackupError::Copy)?;
    let (mut key, mut line) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next().map_err(BackupError::Copy)? {
        key.clear();
        line.clear();
        for at in &key_columns {
            append_value(row, *at, &mut key)?;
        }
        line.push(b'[');
        for at in 0..columns.len() {
            if at > 0 {
                line.push(b',');
            }
            append_value(row, at, &mut line)?;
        }
        line.push(b']');
        let is_message = name == "items" && is_message(row);
        each(ReadRow::Row { key: &key, line: &line, is_message }).map_err(ReadStopped::Caller)?;
        pace.read(line.len()).map_err(ReadStopped::Limit)?;
    }
    Ok(())
}

/// Whether readers see a message in this row; without reading all of it, because there are millions.
fn is_message(row: &Row<'_>) -> bool {
    let text = |column: &str| row.get_ref(column).ok().and_then(|value| value.as_str().ok());
    text("item_id").is_some_and(|item_id| item_id.starts_with(MESSAGE.prefix()))
        && text("attributes").is_some_and(|attributes| {
            ["\"content_version\":", "\"deleted\":"].iter().any(|name| attributes.contains(name))
        })
}

/// Appends a column as JSON.
fn append_value(row: &Row<'_>, at: usize, line: &mut Vec<u8>) -> Result<(), BackupError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        BackupError::Database(format!("a row cannot be read ({error}): `annalist verify` names it"))
    };
    let value = row.get_ref(at).map_err(BackupError::Copy)?;
    let written = match value {
        ValueRef::Null => serde_json::to_writer(line, &Value::Null),
        ValueRef::Integer(number) => serde_json::to_writer(line, &number),
        ValueRef::Real(number) => serde_json::to_writer(line, &number),
        ValueRef::Text(_) => serde_json::to_writer(line, value.as_str().map_err(|error| unreadable(&error))?),
        ValueRef::Blob(bytes) => serde_json::to_writer(line, &json!({ BYTES: to_hex(bytes) })),
    };
    written.map_err(|error| unreadable(&error))
}

/// Rests, and checks the limits.
struct ReadPace {
    log: PathBuf,
    log_bytes_before: u64,
    limits: ReadLimits,
    began: Instant,
    working_since: Instant,
    step_bytes: usize,
}

impl ReadPace {
    fn new(file: &Path, limits: ReadLimits) -> Self {
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        let (log, now) = (PathBuf::from(log), Instant::now());
        let log_bytes_before = size_bytes(&log);
        Self { log, log_bytes_before, limits, began: now, working_since: now, step_bytes: 0 }
    }

    fn log_growth(&self) -> u64 {
        size_bytes(&self.log).saturating_sub(self.log_bytes_before)
    }

    fn read(&mut self, line_bytes: usize) -> Result<(), &'static str> {
        self.step_bytes += line_bytes;
        if self.step_bytes < STEP_BYTES {
            return Ok(());
        }
        self.step_bytes = 0;
        if self.log_growth() > self.limits.log_bytes {
            return Err("the log of the database grew by a gibibyte while it was read");
        }
        if self.began.elapsed() > self.limits.duration {
            return Err("the database could not be read within an hour");
        }
        sleep(self.working_since.elapsed());
        self.working_since = Instant::now();
        Ok(())
    }
}

fn size_bytes(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |metadata| metadata.len())
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
