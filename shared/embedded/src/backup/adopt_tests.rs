use std::path::PathBuf;

use super::*;
use crate::connection::{SCHEMA, first_altered_object};

fn database(folder: &Path, extra_sql: &str) -> PathBuf {
    let file = folder.join("packed.db");
    drop(open_for_writing(&file).unwrap());
    // Without the hardening of our own connections.
    let connection = Connection::open(&file).unwrap();
    connection
        .execute_batch(&format!(
            "INSERT INTO items (item_id, timestamp, parent, attributes) VALUES
                 ('file#T1', 'F1', NULL, '{{\"text\":\"kept\"}}'), ('message#T1#C1', '1.000000', 'thread#T1#1', '{{}}');
             INSERT INTO jobs VALUES (7, 'events', 'T1#C1', 1, 'body');
             INSERT INTO leases VALUES (7, 'events', 9999999999999, 1, 7);
             INSERT INTO existence_check_cache VALUES ('T1#U1#C1', 9999999999, 1);
             {extra_sql}"
        ))
        .unwrap();
    file
}

fn adopted(extra_sql: &str, schema: usize) -> Result<(Adopted, Connection, tempfile::TempDir), BackupError> {
    let folder = tempfile::tempdir().unwrap();
    let (file, own) = (database(folder.path(), extra_sql), folder.path().join("own.db"));
    let adopted = adopt(&file, schema, &own)?;
    Ok((adopted, Connection::open(own).unwrap(), folder))
}

fn text(connection: &Connection, query: &str) -> String {
    connection.query_row(query, [], |row| row.get::<_, String>(0)).unwrap()
}

#[test]
fn rows_are_copied_without_active_leases_and_confirmations() {
    let (adopted, own, _folder) = adopted("", SCHEMA).unwrap();
    assert_eq!(adopted, Adopted { left_out: None });
    assert_eq!(text(&own, "SELECT attributes FROM items WHERE timestamp = 'F1'"), r#"{"text":"kept"}"#);
    assert_eq!(text(&own, "SELECT timestamp FROM items WHERE parent = 'thread#T1#1'"), "1.000000");
    assert_eq!(text(&own, "SELECT body FROM jobs WHERE seq = 7"), "body");
    assert_eq!(text(&own, "SELECT CAST(visible_at_ms AS TEXT) FROM leases"), "0");
    assert_eq!(text(&own, "SELECT CAST(count(*) AS TEXT) FROM existence_check_cache"), "0");
    assert_eq!(text(&own, "PRAGMA integrity_check"), "ok");
}

#[test]
fn active_schema_objects_are_never_copied() {
    let trigger =
        "CREATE TRIGGER evil AFTER INSERT ON items BEGIN DELETE FROM items WHERE rowid = new.rowid; END;";
    let unique = "CREATE UNIQUE INDEX evil ON items (item_id) WHERE item_id LIKE 'message#%';";
    let failing = "CREATE INDEX evil ON items
        (abs(CASE WHEN attributes LIKE '%CENSORME%' THEN -9223372036854775808 ELSE 1 END));";
    let renamed =
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET type = 'TRIGGER' WHERE name = 'evil';";
    for extra_sql in [
        &format!("{trigger}{renamed}"),
        trigger,
        unique,
        failing,
        "CREATE VIEW evil AS SELECT load_extension('x') FROM items;",
        "CREATE TABLE evil (y, x AS (abs(-9223372036854775808)));",
        "CREATE VIRTUAL TABLE evil USING fts5(x);",
        "DROP INDEX items_key; DROP VIEW messages; CREATE VIEW messages AS SELECT 'a lie' AS text;",
        "CREATE TABLE pragma_table_xinfo (name, type, hidden); CREATE TABLE sneaky (x);",
    ] {
        let (adopted, own, _folder) = adopted(extra_sql, SCHEMA).unwrap();
        assert!(adopted.left_out.is_some(), "{extra_sql}");
        assert_eq!(first_altered_object(&own).unwrap(), None, "{extra_sql}");
        own.execute_batch(
            "INSERT INTO items VALUES ('message#T1#C1', '2.000000', NULL, '{\"text\":\"CENSORME\"}'),
                 ('message#T1#C1', '3.000000', NULL, '{}')",
        )
        .unwrap();
        assert_eq!(text(&own, "SELECT CAST(count(*) AS TEXT) FROM items"), "4", "{extra_sql}");
    }
}

#[test]
fn a_trigger_is_accepted_only_if_the_schema_has_it() {
    let with = |body: &str| {
        let connection = Connection::open_in_memory().unwrap();
        let schema = "CREATE TABLE items (item_id); CREATE VIEW shown AS SELECT item_id FROM items";
        let trigger = format!("CREATE TRIGGER write INSTEAD OF INSERT ON shown BEGIN {body}; END");
        connection.execute_batch(&format!("{schema}; {trigger}")).unwrap();
        connection
    };
    let expected = with("INSERT INTO items VALUES (new.item_id)");
    assert_eq!(left_out(&with("INSERT INTO items VALUES (new.item_id)"), &expected).unwrap(), None);
    let other = left_out(&with("DELETE FROM items"), &expected).unwrap();
    assert_eq!(other, Some((1, "write".to_owned())));
    let more = with("INSERT INTO items VALUES (new.item_id)");
    more.execute_batch("CREATE TRIGGER more AFTER INSERT ON items BEGIN DELETE FROM items; END").unwrap();
    assert_eq!(left_out(&more, &expected).unwrap(), Some((1, "more".to_owned())));
}

#[test]
fn foreign_tables_and_invalid_rows_are_rejected() {
    let table = |sql: &str| format!("DROP VIEW messages; DROP TABLE items; {sql}");
    for (extra_sql, schema, expected) in [
        ("", SCHEMA - 1, "schema"),
        ("", 0, "schema"),
        ("DROP TABLE jobs; CREATE VIEW jobs AS SELECT 1", SCHEMA, "jobs"),
        ("ALTER TABLE jobs ADD COLUMN more TEXT", SCHEMA, "jobs"),
        (
            &table("CREATE TABLE items (item_id, timestamp, parent, attributes AS (timestamp))"),
            SCHEMA,
            "items",
        ),
        (
            &table("CREATE VIRTUAL TABLE items USING fts5(item_id, timestamp, parent, attributes)"),
            SCHEMA,
            "items",
        ),
        ("INSERT INTO items VALUES ('message#T1#C1', '2.000000', NULL, 'no JSON')", SCHEMA, "not an item"),
        ("DROP INDEX items_key; INSERT INTO items VALUES ('file#T1', 'F1', NULL, '{}')", SCHEMA, "UNIQUE"),
    ] {
        let refused =
            adopted(extra_sql, schema).err().unwrap_or_else(|| panic!("{extra_sql} is accepted")).to_string();
        assert!(refused.contains(expected) && !refused.contains('\n'), "{extra_sql}: {refused}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("packed.db");
    std::fs::write(&file, "no database").unwrap();
    assert!(matches!(adopt(&file, SCHEMA, &folder.path().join("own.db")), Err(BackupError::Database(_))));
}

#[test]
fn two_tables_on_one_page_are_rejected() {
    let extra_sql = "PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'items') WHERE name = 'jobs';";
    assert!(matches!(adopted(extra_sql, SCHEMA), Err(BackupError::Database(_))));
}

#[test]
fn a_database_of_every_earlier_schema_is_migrated() {
    for schema in 1..SCHEMA {
        let folder = tempfile::tempdir().unwrap();
        let (file, own) = (folder.path().join("packed.db"), folder.path().join("own.db"));
        let earlier = create_empty_file(&file, schema).unwrap();
        earlier
            .execute_batch("INSERT INTO items VALUES ('user#T1', 'U1', NULL, '{\"name\":\"ana\"}')")
            .unwrap();
        drop(earlier);
        assert_eq!(adopt(&file, schema, &own).unwrap(), Adopted { left_out: None }, "{schema}");
        let own = Connection::open(own).unwrap();
        assert_eq!(first_altered_object(&own).unwrap(), None);
        assert_eq!(text(&own, "SELECT name FROM users"), "ana");
    }
}
