use proptest::prelude::*;
use rusqlite::params;

use super::*;
use crate::backup::FilledDatabase;
use crate::connection::open_for_writing;

/// A database with items, a job in progress, a send with bytes, and a claim.
fn database(folder: &Path) -> Connection {
    let connection = open_for_writing(&folder.join(DATABASE_FILE)).unwrap();
    connection
        .execute_batch(
            r#"INSERT INTO items (item_id, timestamp, parent, attributes) VALUES
                   ('message#T1#C1', '2.000000', 'thread#T1#1', '{"content_version":"1","text":"zwei \" ☃"}'),
                   ('message#T1#C1', '1.000000', NULL, '{"file#F1":"0/pending"}'),
                   ('meta#archive', 'identity', NULL, '{"id":"an id","epoch":"first"}'),
                   ('meta#attempts#events', '7', NULL, '{}');
               INSERT INTO jobs VALUES (7, 'events', 'T1#C1', 1, 'body'), (9, 'events', 'T1#C1', 2, 'next');
               INSERT INTO leases VALUES (7, 'events', 9999999999999, 1, 7);
               INSERT INTO sends VALUES (9, 'events', x'00ff10', 1);
               INSERT INTO claims VALUES ('download#F1', 'in_progress', 'i', 1, 2, 3, 'F1', NULL, NULL, 5);
               INSERT INTO existence_check_cache VALUES ('T1#U1#C1', 9999999999, 1);"#,
        )
        .unwrap();
    connection
}

/// The lines of each table, and the number of messages.
fn lines(folder: &Path) -> (Vec<(String, Vec<String>, String)>, usize) {
    let (mut tables, mut messages) = (Vec::new(), 0);
    let read = read_rows(folder, ReadLimits::default(), |row| {
        match row {
            ReadRow::Table { name, columns } => {
                let columns = columns.iter().map(|column| (*column).to_owned()).collect();
                tables.push((name.to_owned(), columns, String::new()));
            }
            ReadRow::Row { line, is_message, .. } => {
                messages += usize::from(is_message);
                let (_, _, lines) = tables.last_mut().unwrap();
                lines.push_str(std::str::from_utf8(line).unwrap());
                lines.push('\n');
            }
        }
        Ok::<(), std::convert::Infallible>(())
    });
    read.unwrap();
    (tables, messages)
}

fn restore(tables: &[(String, Vec<String>, String)]) -> Result<tempfile::TempDir, BackupError> {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join(DATABASE_FILE);
    std::fs::write(&own, "").unwrap();
    let filled = FilledDatabase::create(&own, SCHEMA)?;
    for (name, columns, lines) in tables {
        filled.insert_lines(name, columns, lines)?;
    }
    filled.finish()?;
    Ok(folder)
}

#[test]
fn the_lines_of_a_database_restore_it_with_free_jobs_that_are_numbered_anew() {
    let folder = tempfile::tempdir().unwrap();
    let _open = database(folder.path());
    let (before, messages) = lines(folder.path());
    assert_eq!(messages, 1);
    let names: Vec<&str> = before.iter().map(|(name, _, _)| name.as_str()).collect();
    assert_eq!(names, ["items", "jobs", "leases", "sends", "claims"]);
    let restored = restore(&before).unwrap();
    let (after, _) = lines(restored.path());
    let items = before[0].2.lines().take(2).collect::<Vec<_>>();
    assert_eq!(after[0].2.lines().take(2).collect::<Vec<_>>(), items, "in their order");
    assert!(after[0].2.contains("an id") && !after[0].2.contains("first"), "{}", after[0].2);
    assert!(!after[0].2.contains("attempts"));
    let expected = [
        "[1,\"events\",\"T1#C1\",1,\"body\"]\n[2,\"events\",\"T1#C1\",2,\"next\"]\n",
        "[1,\"events\",0,1,7]\n",
        "[2,\"events\",{\"bytes\":\"00ff10\"},1]\n",
    ];
    assert_eq!([&after[1].2, &after[2].2, &after[3].2], expected);
    assert_eq!(after[4], before[4]);
}

#[test]
fn rows_are_those_of_one_moment_and_have_the_same_lines_after_a_vacuum() {
    let folder = tempfile::tempdir().unwrap();
    let open = database(folder.path());
    let mut first = None;
    let read = read_rows(folder.path(), ReadLimits::default(), |row| {
        if let ReadRow::Row { line, .. } = row {
            first.get_or_insert_with(|| line.to_owned());
            open.execute_batch("DELETE FROM claims; DELETE FROM jobs").unwrap();
            if line.starts_with(b"[\"download#F1\"") {
                return Err("the claim of the beginning");
            }
        }
        Ok(())
    });
    assert!(matches!(read, Err(ReadStopped::Caller("the claim of the beginning"))), "{read:?}");
    open.execute_batch("DELETE FROM items WHERE timestamp = '7'").unwrap();
    let (before, _) = lines(folder.path());
    open.execute_batch("VACUUM").unwrap();
    assert_eq!(lines(folder.path()).0, before);
}

#[test]
fn a_read_ends_at_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let open = database(folder.path());
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(STEP_BYTES));
    open.execute("INSERT INTO items VALUES ('message#T1#C1', '3.000000', NULL, ?1)", [&large]).unwrap();
    let no_time = ReadLimits { duration: Duration::ZERO, ..ReadLimits::default() };
    let no_log = ReadLimits { log_bytes: 0, ..ReadLimits::default() };
    for (limits, expected) in [(no_time, "hour"), (no_log, "gibibyte")] {
        open.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let read = read_rows(folder.path(), limits, |row| {
            if matches!(row, ReadRow::Table { name: "items", .. }) {
                let write = "UPDATE items SET attributes = ?1 WHERE timestamp = '2.000000'";
                open.execute(write, [large.replace("xx", expected)]).unwrap();
            }
            Ok::<(), std::convert::Infallible>(())
        });
        assert!(matches!(&read, Err(ReadStopped::Limit(why)) if why.contains(expected)), "{read:?}");
    }
}

#[test]
fn lines_that_are_no_rows_of_this_schema_are_refused() {
    let columns = ["item_id", "timestamp", "parent", "attributes"].map(str::to_owned).to_vec();
    for (name, line) in [
        ("items", "null"),
        ("items", "[]"),
        ("items", "[\"a\",\"1\",null]"),
        ("items", "[\"a\",\"1\",null,\"{}\",1]"),
        ("items", "[\"a\",\"1\",null,\"[]\"]"),
        ("items", "[\"a\",\"1\",null,{\"bytes\":\"00\"}]"),
        ("items", "[\"a\",\"1\",null,null]"),
        ("items", "[null,\"1\",null,\"{}\"]"),
        ("items", "[{\"bytes\":\"0\"},\"1\",null,\"{}\"]"),
        ("items", "[[[[]]],\"1\",null,\"{}\"]"),
        ("changes", "[1,1,1]"),
        ("sqlite_schema", "[]"),
        ("items (item_id) VALUES ('x'); --", "[]"),
    ] {
        let refused = restore(&[(name.to_owned(), columns.clone(), format!("{line}\n"))]);
        assert!(matches!(&refused, Err(BackupError::Database(_))), "{name} {line}: {refused:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_text_and_any_bytes_survive(text in "\\PC{0,20}", bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        let folder = tempfile::tempdir().unwrap();
        let open = database(folder.path());
        open.execute("INSERT INTO items VALUES (?1, 'x', ?1, '{}')", [&text]).unwrap();
        open.execute("INSERT INTO sends VALUES (10, ?1, ?2, 3)", params![text, bytes]).unwrap();
        let restored = restore(&lines(folder.path()).0).unwrap();
        let copy = Connection::open(restored.path().join(DATABASE_FILE)).unwrap();
        let found: String = copy.query_row("SELECT parent FROM items WHERE timestamp = 'x'", [], |row| row.get(0)).unwrap();
        prop_assert_eq!(found, text);
        let found: Vec<u8> = copy.query_row("SELECT dedup FROM sends WHERE sent_at_ms = 3", [], |row| row.get(0)).unwrap();
        prop_assert_eq!(found, bytes);
    }
}
