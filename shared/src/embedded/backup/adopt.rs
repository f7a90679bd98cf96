//! A database from outside becomes this folder's own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use rusqlite::{Connection, params};

use super::BackupError;
use crate::archive::Attributes;
use crate::embedded::connection::{empty_with, open_for_reading, open_for_writing, schema_of};

/// Rows looked at in one go.
const PAGE: i64 = 500;

/// What was done to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adopted {
    /// Rows that name a file where it is now.
    pub moved_rows: usize,
}

/// Checks a database that should have this schema, migrates it to this version's, and makes it usable here: `moved`
/// gives what an attribute of a row becomes, by its name and text, where it names a place below the URI `old_place`.
///
/// # Errors
/// [`BackupError::Database`] where it is damaged, or none of this program's.
pub fn adopt(
    database: &Path,
    schema: usize,
    old_place: &str,
    moved: impl Fn(&str, &str) -> Option<String>,
) -> Result<Adopted, BackupError> {
    check(database, schema)?;
    let connection = open_for_writing(database)?;
    let adopted = change(&connection, old_place, moved).map_err(|error| BackupError::database(&error))?;
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(|error| BackupError::database(&error))?;
    connection.close().map_err(|(_, error)| BackupError::database(&error))?;
    File::open(database).and_then(|file| file.sync_all()).map_err(BackupError::at(database))?;
    Ok(adopted)
}

/// Whether the database is whole, and has what its schema has and nothing that acts by itself: whoever wrote it need not
/// have been this program.
fn check(database: &Path, schema: usize) -> Result<(), BackupError> {
    let failed = |error: rusqlite::Error| BackupError::database(&error);
    let connection = open_for_reading(database).map_err(failed)?;
    connection.pragma_update(None, "trusted_schema", false).map_err(failed)?;
    connection.pragma_update(None, "cell_size_check", true).map_err(failed)?;
    let found = schema_of(&connection).map_err(failed)?;
    if found != schema {
        return Err(BackupError::Database(format!("its schema is {found} where {schema} was announced")));
    }
    let expected = empty_with(schema).map_err(|error| BackupError::Database(error.to_string()))?;
    let (found, expected) = (objects(&connection).map_err(failed)?, objects(&expected).map_err(failed)?);
    // A view or an index that somebody added for themselves does no harm; a trigger would write what nobody sent.
    let differs = expected.iter().find(|(name, object)| found.get(*name) != Some(object));
    let acts = found.iter().find(|(_, object)| object.kind == "trigger");
    if let Some((name, _)) = differs.or(acts) {
        return Err(BackupError::Database(format!("`{name}` is not as this version made it")));
    }
    let verdict: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if verdict != "ok" {
        return Err(BackupError::Database(format!("it is damaged: {verdict}")));
    }
    Ok(())
}

#[derive(PartialEq, Eq)]
struct Object {
    kind: String,
    table: String,
    sql: Option<String>,
}

fn objects(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Object>> {
    let mut statement = connection.prepare("SELECT name, type, tbl_name, sql FROM sqlite_schema")?;
    let objects = statement.query_map([], |row| {
        Ok((row.get(0)?, Object { kind: row.get(1)?, table: row.get(2)?, sql: row.get(3)? }))
    })?;
    objects.collect()
}

fn change(
    connection: &Connection,
    old_place: &str,
    moved: impl Fn(&str, &str) -> Option<String>,
) -> rusqlite::Result<Adopted> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    // Whoever held a job is not here.
    connection.execute("UPDATE leases SET visible_at_ms = 0", [])?;
    // What somebody else's machine held for confirmed is asked for again. Earlier schemas have no such table.
    if objects(connection)?.contains_key("existence_check_cache") {
        connection.execute("DELETE FROM existence_check_cache", [])?;
    }
    let mut moved_rows = 0;
    let mut last = i64::MIN;
    loop {
        let rows = page(connection, last, old_place)?;
        let Some((latest, _)) = rows.last() else { break };
        last = *latest;
        for (rowid, attributes) in rows {
            if let Some(attributes) = with_moved(&attributes, &moved) {
                connection
                    .prepare_cached("UPDATE items SET attributes = ?2 WHERE rowid = ?1")?
                    .execute(params![rowid, attributes])?;
                moved_rows += 1;
            }
        }
    }
    connection.execute_batch("COMMIT")?;
    Ok(Adopted { moved_rows })
}

/// The next rows that hold this text somewhere.
fn page(connection: &Connection, after: i64, text: &str) -> rusqlite::Result<Vec<(i64, String)>> {
    connection
        .prepare_cached(
            "SELECT rowid, attributes FROM items WHERE rowid > ?1 AND instr(attributes, ?2) ORDER BY rowid LIMIT ?3",
        )?
        .query_map(params![after, text, PAGE], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// The attributes as JSON, where one of them moved.
fn with_moved(json: &str, moved: &impl Fn(&str, &str) -> Option<String>) -> Option<String> {
    // What is no object is none of the archive's, and names no file.
    let mut attributes: Attributes = serde_json::from_str(json).ok()?;
    let mut changed = false;
    for (name, value) in &mut attributes {
        if let Some(new) = value.as_str().and_then(|text| moved(name, text)) {
            *value = new.into();
            changed = true;
        }
    }
    changed.then(|| serde_json::to_string(&attributes).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::connection::SCHEMA;

    fn database(folder: &Path, also: &str) -> std::path::PathBuf {
        let file = folder.join("annalist.db");
        let connection = open_for_writing(&file).unwrap();
        connection
            .execute_batch(&format!(
                "INSERT INTO items (item_id, timestamp, attributes) VALUES
                     ('file#T1', 'F1', '{{\"file#F1\":\"old/1\",\"text\":\"old/1\"}}'), ('file#T1', 'F2', '{{}}');
                 INSERT INTO leases VALUES (1, 'events', 9999999999999, 1, 7);
                 INSERT INTO existence_check_cache VALUES ('T1#U1#C1', 9999999999, 1);
                 {also}"
            ))
            .unwrap();
        file
    }

    fn adopted(also: &str, schema: usize) -> Result<(Adopted, Connection, tempfile::TempDir), BackupError> {
        let folder = tempfile::tempdir().unwrap();
        let file = database(folder.path(), also);
        let moved = |name: &str, value: &str| {
            (name == "file#F1").then(|| value.strip_prefix("old").map(|rest| format!("new{rest}"))).flatten()
        };
        let adopted = adopt(&file, schema, "old", moved)?;
        Ok((adopted, open_for_reading(&file).unwrap(), folder))
    }

    #[test]
    fn rows_name_the_new_place_nobody_holds_a_job_and_nothing_is_confirmed() {
        let (adopted, connection, _folder) = adopted("CREATE VIEW mine AS SELECT 1", SCHEMA).unwrap();
        assert_eq!(adopted, Adopted { moved_rows: 1 });
        let row = |query: &str| connection.query_row(query, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(
            row("SELECT attributes FROM items WHERE timestamp = 'F1'"),
            r#"{"file#F1":"new/1","text":"old/1"}"#
        );
        assert_eq!(row("SELECT CAST(visible_at_ms AS TEXT) FROM leases"), "0");
        assert_eq!(row("SELECT CAST(count(*) AS TEXT) FROM existence_check_cache"), "0");
    }

    #[test]
    fn a_database_that_is_not_as_this_program_makes_them_is_refused() {
        for (also, schema, says) in [
            ("", SCHEMA - 1, "schema"),
            ("DROP VIEW messages", SCHEMA, "messages"),
            ("CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM jobs; END", SCHEMA, "`t`"),
            ("DROP TABLE jobs; CREATE VIEW jobs AS SELECT 1", SCHEMA, "jobs"),
        ] {
            let refused = adopted(also, schema).err().unwrap().to_string();
            assert!(refused.contains(says) && !refused.contains('\n'), "{also}: {refused}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("annalist.db");
        std::fs::write(&file, "no database").unwrap();
        assert!(matches!(adopt(&file, SCHEMA, "old", |_, _| None), Err(BackupError::Database(_))));
    }
}
