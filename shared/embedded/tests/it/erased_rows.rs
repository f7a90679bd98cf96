//! What people see with `sqlite3` in an archive with erased rows.

use embedded::{DATABASE_FILE, Database};
use ports::archive::{ArchiveExt, ItemKey, Update};
use ports::clock::SystemClock;
use rusqlite::Connection;
use serde_json::{Value, json};

fn row(item_id: &str, timestamp: &str, attributes: Value) -> Update {
    let Value::Object(set) = attributes else { panic!("no object") };
    Update { set, ..Update::new(ItemKey::new(item_id, timestamp)) }
}

#[tokio::test]
async fn no_view_shows_an_erased_row() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
    let rows = [
        row(
            "message#T1#C1",
            "1.000000",
            json!({ "team_id": "T1", "channel_id": "C1", "text": "t", "content_version": "1" }),
        ),
        row("user#T1", "U1", json!({ "team_id": "T1", "name": "ada" })),
        row(
            "file#T1",
            "F1",
            json!({ "team_id": "T1", "name": "a.txt", "file#F1": "9/stored/slack/T1/C1/1.000000/F1" }),
        ),
        row(
            "channel#T1#C1",
            "1.000000",
            json!({ "team_id": "T1", "channel_id": "C1", "name": "c", "folded": "1" }),
        ),
        row("meta#T1#public", "C1", json!({ "seen": true })),
    ];
    let shown = || -> Vec<i64> {
        let connection = Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
        let count = |sql: &str| connection.query_row(sql, [], |row| row.get(0)).unwrap();
        [
            "messages",
            "users",
            "files",
            "channels",
            "channel_configuration WHERE last_message_timestamp IS NOT NULL",
        ]
        .iter()
        .map(|view| count(&format!("SELECT count(*) FROM {view}")))
        .collect()
    };
    let archive = database.archive();
    for row in &rows {
        archive.write(row).await.unwrap();
    }
    assert_eq!(shown(), [1; 5]);
    for row in &rows[..4] {
        archive.erase(&row.key).await.unwrap();
    }
    assert_eq!(shown(), [0; 5]);
    database.close().await;
}
