use std::path::Path;
use std::sync::Arc;

use ports::archive::{Archive, ArchiveExt, Update};
use ports::clock::{ManualClock, TimestampMs};

use super::*;
use crate::backup::adopt::adopt;
use crate::{DATABASE_FILE, Database};

struct ChangesFolder {
    database: Database,
    archive: Arc<dyn Archive>,
    changes: Arc<dyn Changes>,
    clock: Arc<ManualClock>,
    folder: tempfile::TempDir,
}

impl ChangesFolder {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let database = Database::open(folder.path(), Arc::clone(&clock) as Arc<_>).unwrap();
        Self { archive: database.archive(), changes: database.changes(), database, clock, folder }
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join(DATABASE_FILE)
    }

    async fn write(&self, item_id: &str, timestamp: &str, text: &str) -> ItemKey {
        let key = ItemKey::new(item_id, timestamp);
        let set = [("text".to_owned(), text.into())].into_iter().collect();
        self.archive.write(&Update { set, ..Update::new(key.clone()) }).await.unwrap();
        key
    }

    async fn message(&self, ts: &str, text: &str) -> ItemKey {
        self.write("message#T1#C1", ts, text).await
    }

    /// The messages of the next batch, and the cursor after it.
    async fn since(
        &self,
        cursor: Option<&ChangeCursor>,
        limit: usize,
    ) -> Option<(Vec<String>, ChangeCursor)> {
        match self.changes.since(cursor, limit).await.unwrap() {
            ChangeBatch::Items { items, next } => {
                Some((items.into_iter().map(|item| item.key.timestamp).collect(), next))
            }
            ChangeBatch::Rebuild => None,
            ChangeBatch::Spans { .. } => panic!("spans"),
        }
    }
}

fn run(file: &Path, sql: &str) {
    Connection::open(file).unwrap().execute_batch(sql).unwrap();
}

fn number(file: &Path, sql: &str) -> i64 {
    Connection::open(file).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_batch_shows_whether_the_follower_has_caught_up() {
    let folder = ChangesFolder::open();
    for ts in ["1700000000.000100", "1700000001.000100", "1700090000.000100"] {
        folder.message(ts, "text").await;
    }
    let [part, all] = [1, 10].map(|limit| folder.changes.spans_since(None, limit));
    let (part, all) = (part.await.unwrap().unwrap(), all.await.unwrap().unwrap());
    assert_eq!((part.spans.len(), part.is_all), (1, false));
    assert_eq!((all.spans.len(), all.is_all), (2, true));
    let nothing = folder.changes.spans_since(Some(&all.next), 10).await.unwrap().unwrap();
    assert!(nothing.spans.is_empty() && nothing.is_all && nothing.next == all.next);
}

#[tokio::test]
async fn a_message_that_reuses_the_rowid_of_a_deleted_row_is_found() {
    let folder = ChangesFolder::open();
    folder.message("1.000000", "first").await;
    let (_, cursor) = folder.since(None, 10).await.unwrap();
    let job = folder.write("quarantine#events", "1", "a job").await;
    let rowid = number(&folder.file(), "SELECT max(rowid) FROM items");
    let (found, cursor) = folder.since(Some(&cursor), 10).await.unwrap();
    assert!(found.is_empty());
    let job = folder.archive.get(&job).await.unwrap().unwrap();
    assert!(folder.archive.delete_unchanged(&job).await.unwrap());
    folder.message("2.000000", "second").await;
    assert_eq!(number(&folder.file(), "SELECT max(rowid) FROM items"), rowid, "the rowid was not reused");
    assert_eq!(folder.since(Some(&cursor), 10).await.unwrap().0, ["2.000000"]);
}

#[tokio::test]
async fn a_row_keeps_its_rowid_when_it_is_updated() {
    let folder = ChangesFolder::open();
    for ts in ["1.000000", "2.000000"] {
        folder.message(ts, "first").await;
    }
    let (_, cursor) = folder.since(None, 10).await.unwrap();
    let rowid = "SELECT rowid FROM items WHERE timestamp = '1.000000'";
    let before = number(&folder.file(), rowid);
    folder.message("1.000000", "second").await;
    assert_eq!(number(&folder.file(), rowid), before);
    let (found, cursor) = folder.since(Some(&cursor), 10).await.unwrap();
    assert_eq!(found, ["1.000000"]);
    assert!(folder.since(Some(&cursor), 10).await.unwrap().0.is_empty());
}

#[tokio::test]
async fn a_restored_archive_is_followed_from_its_beginning() {
    let folder = ChangesFolder::open();
    let passing = folder.write("quarantine#events", "1", "a job").await;
    folder.message("1.000000", "first").await;
    folder.message("1.000000", "second").await;
    folder.message("2.000000", "first").await;
    let (_, cursor) = folder.since(None, 10).await.unwrap();
    let passing = folder.archive.get(&passing).await.unwrap().unwrap();
    assert!(folder.archive.delete_unchanged(&passing).await.unwrap());
    let id = "SELECT attributes ->> '$.id' FROM items WHERE item_id = 'meta#archive'";
    let text = |file: &Path| -> String {
        Connection::open(file).unwrap().query_row(id, [], |row| row.get(0)).unwrap()
    };
    let before = text(&folder.file());
    folder.database.close().await;

    let restored = tempfile::tempdir().unwrap();
    let own = restored.path().join(DATABASE_FILE);
    std::fs::File::create(&own).unwrap();
    adopt(&folder.file(), crate::connection::SCHEMA, &own).unwrap();
    assert_eq!(text(&own), before, "it is the same archive");
    let database = Database::open(restored.path(), folder.clock.clone() as Arc<_>).unwrap();
    let changes = database.changes();
    assert_eq!(changes.since(Some(&cursor), 10).await.unwrap(), ChangeBatch::Rebuild);
    assert_eq!(changes.backlog_estimate(Some(&cursor)).await.unwrap(), Some(2));
    let ChangeBatch::Items { items, next } = changes.since(None, 10).await.unwrap() else {
        panic!("no items")
    };
    assert_eq!(items.len(), 2);
    assert!(matches!(changes.since(Some(&next), 10).await.unwrap(), ChangeBatch::Items { .. }));
}

#[tokio::test]
async fn an_older_file_that_replaced_a_newer_one_is_detected() {
    let folder = ChangesFolder::open();
    folder.message("1.000000", "first").await;
    folder.message("2.000000", "first").await;
    folder.message("1.000000", "second").await;
    let (_, new) = folder.since(None, 10).await.unwrap();
    let before: Position = Position::read(&new).unwrap();
    for position in [
        Position { row: before.row + 1, ..before.clone() },
        Position { change: before.change + 1, ..before.clone() },
        Position { epoch: "another".into(), ..before.clone() },
    ] {
        assert!(folder.since(Some(&position.cursor()), 10).await.is_none(), "{position:?}");
    }
    assert!(folder.since(Some(&before.cursor()), 10).await.is_some());
}

#[tokio::test]
async fn old_changes_are_removed_and_a_follower_behind_them_rebuilds() {
    let folder = ChangesFolder::open();
    folder.message("1.000000", "first").await;
    let (_, cursor) = folder.since(None, 10).await.unwrap();
    folder.message("1.000000", "second").await;
    assert!(folder.since(Some(&cursor), 10).await.is_some());
    // The number of the next change triggers the removal of the oldest ones.
    let fill = "WITH RECURSIVE n(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM n WHERE x < 1023)
        INSERT INTO changes SELECT x, 1, 1700000000000 FROM n";
    run(&folder.file(), fill);
    folder.clock.advance(KEPT_FOR + Duration::from_secs(1));
    folder.message("1.000000", "third").await;
    assert_eq!(number(&folder.file(), "SELECT count(*) FROM changes"), 1);
    assert_eq!(number(&folder.file(), "SELECT seq FROM changes"), 1024);
    assert!(folder.since(Some(&cursor), 10).await.is_none());

    let (_, cursor) = folder.since(None, 10).await.unwrap();
    folder.message("1.000000", "fourth").await;
    assert_eq!(folder.since(Some(&cursor), 10).await.unwrap().0, ["1.000000"]);
    run(&folder.file(), "UPDATE changes SET seq = 979 * 1024 - 1 WHERE seq = 1025");
    folder.message("1.000000", "fifth").await;
    assert_eq!(
        number(&folder.file(), "SELECT count(*) FROM changes"),
        2,
        "the changes up to number 1024 are removed"
    );
    assert!(folder.since(Some(&cursor), 10).await.is_none());
}

#[tokio::test]
async fn a_message_behind_many_other_rows_is_in_the_next_batch() {
    let folder = ChangesFolder::open();
    folder.message("1.000000", "first").await;
    let (_, cursor) = folder.since(None, 10).await.unwrap();
    let fill = |kind: &str| {
        format!(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3 * {VISITED} / 2)
            INSERT INTO items (item_id, timestamp, attributes) SELECT '{kind}', x, '{{}}' FROM n"
        )
    };
    for (kind, ts) in [("user#T1", "2.000000"), ("quarantine#events", "3.000000")] {
        run(&folder.file(), &fill(kind));
        folder.message(ts, "behind them").await;
    }
    let (found, cursor) = folder.since(Some(&cursor), 10).await.unwrap();
    assert_eq!(found, ["2.000000"]);
    let (found, cursor) = folder.since(Some(&cursor), 10).await.unwrap();
    assert_eq!(found, ["3.000000"]);
    assert!(folder.since(Some(&cursor), 10).await.unwrap().0.is_empty());
    assert_eq!(folder.changes.backlog_estimate(Some(&cursor)).await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_batch_of_large_messages_is_short() {
    let folder = ChangesFolder::open();
    let text = "x".repeat(3 * 1024 * 1024);
    for number in 0..8 {
        folder.message(&format!("{number}.000000"), &text).await;
    }
    let (found, cursor) = folder.since(None, 1000).await.unwrap();
    assert_eq!(found.len(), 6);
    let (found, cursor) = folder.since(Some(&cursor), 1000).await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(folder.since(Some(&cursor), 1000).await.unwrap().0.is_empty());
}

#[tokio::test]
async fn the_first_pass_reads_all_channels_in_slices_of_time_and_misses_no_change() {
    let folder = ChangesFolder::open();
    let mut expected = BTreeSet::new();
    // As an import stores them: one channel after another. Some timestamps have fewer digits.
    for channel in ["C1", "C2", "C3"] {
        for number in 0..40 {
            let ts = format!("17{:02}000000.000100", number % 20 * 3 + number / 20);
            let ts = if number == 7 { format!("{number}.000000") } else { ts };
            folder.write(&format!("message#T1#{channel}"), &ts, "first").await;
            expected.insert(format!("{channel} {ts}"));
        }
    }
    let read = async |limit: usize, change: bool| {
        let (mut cursor, mut all, mut order) = (None, Vec::new(), Vec::new());
        let mut batches = 0;
        loop {
            let behind = folder.changes.backlog_estimate(cursor.as_ref()).await.unwrap().unwrap();
            let ChangeBatch::Items { items, next } =
                folder.changes.since(cursor.as_ref(), limit).await.unwrap()
            else {
                panic!("a rebuild")
            };
            assert!(items.len() as u64 <= behind, "{behind} are less than {}", items.len());
            if items.is_empty() {
                assert_eq!(behind, 0);
                return (all, order);
            }
            for item in &items {
                let channel = item.key.item_id.rsplit('#').next().unwrap();
                all.push((
                    format!("{channel} {}", item.key.timestamp),
                    item.text("text").unwrap().to_owned(),
                ));
                order.push(item.key.timestamp[..4].to_owned());
            }
            batches += 1;
            if change && batches < 9 {
                // One that was read, one that was not, and new ones before and after the position.
                folder.write("message#T1#C1", "1701000000.000100", &format!("changed {batches}")).await;
                folder.write("message#T1#C3", "1757000000.000100", &format!("changed {batches}")).await;
                folder.write("message#T1#C0", &format!("1700{batches:06}.000100"), "new").await;
                folder.write("message#T1#C4", &format!("1799{batches:06}.000100"), "new").await;
                folder.write("channel#T1#C4", "1799000000.000100", "no message").await;
            }
            cursor = Some(next);
        }
    };
    for limit in [1, 7, 1_000] {
        let (all, order) = read(limit, false).await;
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(all.len(), expected.len());
        assert_eq!(all.into_iter().map(|(key, _)| key).collect::<BTreeSet<_>>(), expected);
    }
    let (all, _) = read(10, true).await;
    for batch in 1..9 {
        expected.insert(format!("C0 1700{batch:06}.000100"));
        expected.insert(format!("C4 1799{batch:06}.000100"));
    }
    let last: std::collections::BTreeMap<String, String> = all.into_iter().collect();
    assert_eq!(last.keys().cloned().collect::<BTreeSet<_>>(), expected);
    for key in ["C1 1701000000.000100", "C3 1757000000.000100"] {
        assert_eq!(last[key], "changed 8", "{key}");
    }
}
