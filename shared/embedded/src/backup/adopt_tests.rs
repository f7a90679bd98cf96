use std::path::PathBuf;
use std::time::Duration;

use ports::clock::SystemClock;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName, ReceiveRequest};

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
    assert_eq!(adopted, Adopted { left_out: None, reader_tokens: 0 });
    assert_eq!(text(&own, "SELECT attributes FROM items WHERE timestamp = 'F1'"), r#"{"text":"kept"}"#);
    assert_eq!(text(&own, "SELECT timestamp FROM items WHERE parent = 'thread#T1#1'"), "1.000000");
    assert_eq!(text(&own, "SELECT body FROM jobs WHERE seq = 1"), "body");
    assert_eq!(text(&own, "SELECT CAST(seq AS TEXT) FROM leases"), "1");
    assert_eq!(text(&own, "SELECT CAST(visible_at_ms AS TEXT) FROM leases"), "0");
    assert_eq!(text(&own, "SELECT CAST(count(*) AS TEXT) FROM existence_check_cache"), "0");
    assert_eq!(text(&own, "PRAGMA integrity_check"), "ok");
}

/// Jobs and sends with these numbers, instead of the others; every job's body is its position in the order.
fn numbered(jobs: &[i64], sends: &[i64]) -> String {
    let mut jobs = jobs.to_vec();
    jobs.sort_unstable();
    let job = |(position, seq): (usize, &i64)| {
        format!(
            "INSERT INTO jobs VALUES ({seq}, 'events', 'T1#C{position}', 1, '{position}');
                 INSERT INTO leases VALUES ({seq}, 'events', 9999999999999, {position}, 7);"
        )
    };
    let sends = sends.iter().map(|seq| format!("INSERT INTO sends VALUES ({seq}, 'events', x'00', 1);"));
    let jobs: String = jobs.iter().enumerate().map(job).collect();
    format!("DELETE FROM jobs; DELETE FROM leases; {jobs}{}", sends.collect::<String>())
}

/// Job numbers that a worker would not reach, or that leave no number for the next job.
const EXTREME: [(&[i64], &[i64]); 7] = [
    (&[3, 5], &[i64::MAX]),
    (&[3, i64::MAX], &[3, i64::MAX]),
    (&[1_000_000_000_000], &[]),
    (&[i64::MAX - 1, i64::MAX], &[]),
    (&[-5, -1], &[2]),
    (&[i64::MIN, 0, 7], &[i64::MIN]),
    (&[], &[i64::MAX]),
];

#[tokio::test]
async fn jobs_are_numbered_anew_so_that_workers_receive_them_and_what_follows() {
    for (jobs, sends) in EXTREME {
        let data = tempfile::tempdir().unwrap();
        let (file, own) = (database(data.path(), &numbered(jobs, sends)), data.path().join("annalist.db"));
        adopt(&file, SCHEMA, &own).unwrap();
        let opened = crate::Database::open(data.path(), SystemClock::shared()).unwrap();
        let queue = opened.queue();
        queue.ready().await.unwrap();
        let job = |number: usize| Outgoing {
            queue: QueueName::Events,
            group: GroupId::from_parts(&["T1", "new"]),
            dedup: DedupId::from_parts(&[&number.to_be_bytes()]),
            body: format!("new {number}"),
        };
        for sent in queue.send((0..2).map(job).collect()).await {
            sent.unwrap();
        }
        let request = ReceiveRequest {
            queue: QueueName::Events.into(),
            max: 10,
            visibility_timeout: Duration::from_secs(60),
            wait: Duration::ZERO,
        };
        let received = queue.receive(request).await.unwrap();
        let bodies: Vec<_> = received.iter().map(|delivery| delivery.body.clone()).collect();
        let old = (0..jobs.len()).map(|position| position.to_string());
        let expected: Vec<_> = old.chain(["new 0".to_owned(), "new 1".to_owned()]).collect();
        assert_eq!(bodies, expected, "{jobs:?} {sends:?}");
        // The receive counts came along.
        assert!(
            received.iter().take(jobs.len()).enumerate().all(|(position, delivery)| {
                delivery.receive_count == u32::try_from(position).unwrap() + 1
            })
        );
        opened.close().await;
    }
}

#[tokio::test]
async fn a_folder_whose_job_numbers_are_out_of_range_is_refused_and_a_gap_in_them_is_not() {
    for (jobs, sends) in EXTREME {
        let data = tempfile::tempdir().unwrap();
        let file = database(data.path(), &numbered(jobs, sends));
        std::fs::rename(file, data.path().join("annalist.db")).unwrap();
        let usable = jobs.iter().chain(sends).all(|seq| (1..=1_000_000_000_000).contains(seq));
        match crate::Database::open(data.path(), SystemClock::shared()) {
            Err(error) => {
                let error = error.to_string();
                assert!(!usable && error.contains("annalist backup") && !error.contains('\n'), "{error}");
            }
            Ok(opened) => {
                assert!(usable, "{jobs:?} {sends:?}");
                let job = Outgoing {
                    queue: QueueName::Events,
                    group: GroupId::from_parts(&["T1", "new"]),
                    dedup: DedupId::from_parts(&[b"new"]),
                    body: "new".into(),
                };
                opened.queue().send(vec![job]).await[0].as_ref().unwrap();
                let (wait, visibility_timeout) = (Duration::ZERO, Duration::from_secs(60));
                let request =
                    ReceiveRequest { queue: QueueName::Events.into(), max: 10, visibility_timeout, wait };
                let received = opened.queue().receive(request).await.unwrap();
                assert_eq!(received.len(), jobs.len() + 1, "{jobs:?} {sends:?}");
                opened.close().await;
            }
        }
    }
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
        assert_eq!(
            adopt(&file, schema, &own).unwrap(),
            Adopted { left_out: None, reader_tokens: 0 },
            "{schema}"
        );
        let own = Connection::open(own).unwrap();
        assert_eq!(first_altered_object(&own).unwrap(), None);
        assert_eq!(text(&own, "SELECT name FROM users"), "ana");
    }
}
