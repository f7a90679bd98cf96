//! The changes port on the `items` and `changes` tables.
//!
//! New messages are found by their rowids, so that an insert costs nothing extra: a message is never deleted,
//! and SQLite gives a new row a greater rowid than all existing rows. An update writes a row to `changes` in
//! the same transaction. A trigger could not do this, because our connections run no triggers.
//!
//! A follower without a position first reads all messages in slices of time ([`first_pass`]).
//!
//! A position is the rowid of a permanent row. A transient row ([`is_transient`]) may be the last one and
//! be deleted, and then a message may reuse its rowid.

mod backlog;
mod first_pass;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use super::reader::ReaderPool;
use super::rows::{item, unavailable};
use super::writer::{Transaction, WriterThread};
use backlog::count;
use first_pass::FirstPass;
use ports::archive::rows::{FOLLOWED, is_transient};
use ports::archive::{ArchiveError, Item, ItemKey};
use ports::changes::{ChangeBatch, ChangeCursor, ChangedSpan, Changes, SpanBatch, is_followed};

/// Maximum number of stored changes. A follower that is farther behind reads everything again, which is
/// faster by then.
const KEPT: i64 = 1_000_000;

/// How long changes are stored.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// The oldest changes are removed whenever this number has been added.
const REMOVED_EVERY: i64 = 1024;

/// Maximum number of rows removed at once: more than were added since the last removal.
const REMOVED_AT_ONCE: i64 = 4 * REMOVED_EVERY;

/// A read transaction ends after this number of rows if it has made progress: an open read prevents the log
/// from being emptied.
const VISITED: usize = 20_000;

/// A batch ends when its items have this size.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// Creates the identity of an archive: followers compare its epoch with that of their cursors.
const CREATE_IDENTITY: &str = "INSERT INTO items (item_id, timestamp, attributes) VALUES (?1, ?2,
    json_object('id', lower(hex(randomblob(16))), 'epoch', lower(hex(randomblob(16)))))
    ON CONFLICT (item_id, timestamp) DO NOTHING";

/// Starts a new epoch of an archive that has an identity.
const RENEW_EPOCH: &str =
    "UPDATE items SET attributes = json_set(attributes, '$.epoch', lower(hex(randomblob(16))))
    WHERE item_id = ?1 AND timestamp = ?2";

/// The changes in an open data folder.
pub(super) struct EmbeddedChanges {
    writer: Arc<WriterThread>,
    readers: Arc<ReaderPool>,
}

/// The content of a cursor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    /// The epoch of the archive: in another one, the same rowids identify other rows.
    epoch: String,
    /// The last row that was read as a new one.
    row: i64,
    /// The last change that was read.
    change: i64,
    /// The position in the first pass; `None` after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pass: Option<FirstPass>,
}

/// Collects what a follower needs of the changed rows.
trait ChangeCollector: Default + Send + 'static {
    /// Adds a row, and returns the number of bytes that are kept.
    fn add(&mut self, row: &rusqlite::Row<'_>) -> rusqlite::Result<usize>;

    fn len(&self) -> usize;
}

impl ChangeCollector for Vec<Item> {
    fn add(&mut self, row: &rusqlite::Row<'_>) -> rusqlite::Result<usize> {
        self.push(item(row)?);
        Ok(row.get_ref(2)?.as_str()?.len())
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl ChangeCollector for BTreeSet<ChangedSpan> {
    fn add(&mut self, row: &rusqlite::Row<'_>) -> rusqlite::Result<usize> {
        self.extend(ChangedSpan::for_row(&ItemKey::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
        Ok(0)
    }

    fn len(&self) -> usize {
        self.len()
    }
}

/// The result of one read transaction.
enum ReadChanges<T> {
    Batch {
        collected: T,
        position: Position,
        /// Whether there are no further changes.
        is_all: bool,
    },
    Rebuild,
    /// The archive has no identity yet.
    Unidentified,
}

impl EmbeddedChanges {
    pub(super) fn new(writer: Arc<WriterThread>, readers: Arc<ReaderPool>) -> Self {
        Self { writer, readers }
    }

    /// Reads from a cursor until changes are found; `None` if the cursor cannot be continued.
    async fn read<T: ChangeCollector>(
        &self,
        cursor: Option<&ChangeCursor>,
        limit: usize,
    ) -> Result<Option<(T, ChangeCursor, bool)>, ArchiveError> {
        let mut position = match cursor.map(Position::read) {
            Some(None) => return Ok(None),
            Some(position) => position,
            None => None,
        };
        let mut is_identified = false;
        loop {
            let from = position.clone();
            let found = self.readers.read(move |connection| find(connection, from, limit.max(1))).await;
            match found.map_err(ArchiveError::Unavailable)? {
                ReadChanges::Batch { collected, position: found, is_all }
                    if is_all || T::len(&collected) > 0 =>
                {
                    return Ok(Some((collected, found.cursor(), is_all)));
                }
                ReadChanges::Batch { position: found, .. } => position = Some(found),
                ReadChanges::Rebuild => return Ok(None),
                ReadChanges::Unidentified if is_identified => {
                    let row = ItemKey::archive_identity().item_id;
                    return Err(ArchiveError::Unavailable(format!("the row {row} has no epoch")));
                }
                ReadChanges::Unidentified => {
                    self.identify().await?;
                    is_identified = true;
                }
            }
        }
    }

    /// The id of this archive, which a restored one shares.
    pub(super) async fn archive_id(&self) -> Result<String, ArchiveError> {
        self.identify().await?;
        let identity = ItemKey::archive_identity();
        let id = self.readers.read(move |connection| {
            let select = "SELECT attributes ->> '$.id' FROM items WHERE item_id = ?1 AND timestamp = ?2";
            connection.query_row(select, [&identity.item_id, &identity.timestamp], |row| row.get(0))
        });
        id.await.map_err(ArchiveError::Unavailable)
    }

    async fn identify(&self) -> Result<(), ArchiveError> {
        let identity = ItemKey::archive_identity();
        let create = move |transaction: &Transaction<'_>| {
            transaction.connection.execute(CREATE_IDENTITY, [&identity.item_id, &identity.timestamp])
        };
        self.writer.run(create).await.map(drop).map_err(unavailable)
    }
}

#[async_trait]
impl Changes for EmbeddedChanges {
    async fn since(&self, cursor: Option<&ChangeCursor>, limit: usize) -> Result<ChangeBatch, ArchiveError> {
        Ok(match self.read(cursor, limit).await? {
            Some((items, next, _)) => ChangeBatch::Items { items, next },
            None => ChangeBatch::Rebuild,
        })
    }

    async fn spans_since(
        &self,
        cursor: Option<&ChangeCursor>,
        limit: usize,
    ) -> Result<Option<SpanBatch>, ArchiveError> {
        let read = self.read(cursor, limit).await?;
        Ok(read.map(|(spans, next, is_all)| SpanBatch { spans, next, is_all }))
    }

    async fn backlog_estimate(&self, cursor: Option<&ChangeCursor>) -> Result<Option<u64>, ArchiveError> {
        let position = cursor.and_then(Position::read);
        let counted = self.readers.read(move |connection| {
            let transaction = connection.unchecked_transaction()?;
            count(&transaction, position.as_ref())
        });
        Ok(Some(counted.await.map_err(ArchiveError::Unavailable)?))
    }
}

impl Position {
    fn read(cursor: &ChangeCursor) -> Option<Self> {
        serde_json::from_str(cursor.as_str()).ok()
    }

    fn cursor(&self) -> ChangeCursor {
        // Strings and numbers always serialise.
        ChangeCursor::new(serde_json::to_string(self).unwrap_or_default())
    }

    /// Whether all later changes are still known: the row exists, and no change after this one was removed.
    fn continues(&self, connection: &Connection, epoch: &str) -> rusqlite::Result<bool> {
        if self.epoch != epoch {
            return Ok(false);
        }
        let (oldest, newest) = changes(connection)?;
        let has_changes = self.change + 1 >= oldest && self.change <= newest;
        let mut row = connection.prepare_cached("SELECT 1 FROM items WHERE rowid = ?1")?;
        Ok(has_changes && (self.row == 0 || row.exists([self.row])?))
    }
}

/// Records the update of an existing row.
pub(super) fn record_update(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    rowid: i64,
) -> rusqlite::Result<()> {
    if !is_followed(key) {
        return Ok(());
    }
    let connection = transaction.connection;
    let now = transaction.now.0;
    connection
        .prepare_cached("INSERT INTO changes (item_rowid, changed_at_ms) VALUES (?1, ?2)")?
        .execute([rowid, now])?;
    let newest = connection.last_insert_rowid();
    if newest % REMOVED_EVERY == 0 {
        let oldest_kept_ms = now.saturating_sub(i64::try_from(KEPT_FOR.as_millis()).unwrap_or(i64::MAX));
        let (oldest, _) = changes(connection)?;
        connection
            .prepare_cached("DELETE FROM changes WHERE seq < ?1 AND (seq <= ?2 OR changed_at_ms < ?3)")?
            .execute([newest.min(oldest + REMOVED_AT_ONCE), newest - KEPT, oldest_kept_ms])?;
    }
    Ok(())
}

/// Starts a new epoch: the rowids that followers know are no longer valid.
pub(super) fn renew_epoch(connection: &Connection) -> rusqlite::Result<()> {
    let identity = ItemKey::archive_identity();
    connection.execute(RENEW_EPOCH, [&identity.item_id, &identity.timestamp]).map(drop)
}

/// The oldest and the newest change; zeros if there are no changes.
fn changes(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let ends =
        "SELECT coalesce((SELECT min(seq) FROM changes), 0), coalesce((SELECT max(seq) FROM changes), 0)";
    connection.prepare_cached(ends)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
}

fn epoch(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let identity = ItemKey::archive_identity();
    let epoch = "SELECT json_extract(attributes, '$.epoch') FROM items WHERE item_id = ?1 AND timestamp = ?2";
    let epoch =
        connection.prepare_cached(epoch)?.query_row([&identity.item_id, &identity.timestamp], |row| {
            Ok(row.get_ref(0)?.as_str().map(str::to_owned).ok())
        });
    Ok(epoch.optional()?.flatten())
}

/// Reads the changes after a position in one transaction.
fn find<T: ChangeCollector>(
    connection: &Connection,
    from: Option<Position>,
    limit: usize,
) -> rusqlite::Result<ReadChanges<T>> {
    let transaction = connection.unchecked_transaction()?;
    let Some(epoch) = epoch(&transaction)? else {
        return Ok(if from.is_some() { ReadChanges::Rebuild } else { ReadChanges::Unidentified });
    };
    let position = match from {
        Some(from) if !from.continues(&transaction, &epoch)? => return Ok(ReadChanges::Rebuild),
        Some(from) => from,
        // Changes from now on are reported, whether they happen before or after the row is read.
        None => {
            let pass = Some(FirstPass::begin(&transaction)?);
            Position { epoch, row: 0, change: changes(&transaction)?.1, pass }
        }
    };
    let mut batch = ChangedRows { collected: T::default(), bytes: 0, limit, position };
    let is_all = batch.read_first(&transaction)?
        && batch.read_changed(&transaction)?
        && batch.read_new(&transaction)?;
    Ok(ReadChanges::Batch { collected: batch.collected, position: batch.position, is_all })
}

struct ChangedRows<T> {
    collected: T,
    bytes: usize,
    limit: usize,
    position: Position,
}

impl<T: ChangeCollector> ChangedRows<T> {
    fn is_full(&self) -> bool {
        self.collected.len() >= self.limit || self.bytes >= BATCH_BYTES
    }

    fn push(&mut self, row: &rusqlite::Row<'_>) -> rusqlite::Result<()> {
        self.bytes += self.collected.add(row)?;
        Ok(())
    }

    /// Reads updated rows. Returns whether these were all.
    fn read_changed(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut changed =
            connection.prepare_cached("SELECT seq, item_rowid FROM changes WHERE seq > ?1 ORDER BY seq")?;
        let mut read =
            connection.prepare_cached("SELECT item_id, timestamp, attributes FROM items WHERE rowid = ?1")?;
        let mut seen = HashSet::new();
        let mut rows = changed.query([self.position.change])?;
        while let Some(row) = rows.next()? {
            let (seq, rowid): (i64, i64) = (row.get(0)?, row.get(1)?);
            // A row after the position will be read as a new one, with its current content.
            if rowid <= self.position.row && !seen.contains(&rowid) {
                if self.is_full() || seen.len() >= VISITED {
                    return Ok(false);
                }
                seen.insert(rowid);
                let mut found = read.query([rowid])?;
                if let Some(found) = found.next()? {
                    self.push(found)?;
                }
            }
            self.position.change = seq;
        }
        Ok(true)
    }

    /// Reads new rows. Returns whether these were all.
    fn read_new(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut new = connection.prepare_cached(
            "SELECT item_id, timestamp, attributes, rowid FROM items WHERE rowid > ?1 ORDER BY rowid",
        )?;
        let from = self.position.row;
        let mut visited = 0;
        let mut rows = new.query([from])?;
        while let Some(row) = rows.next()? {
            if self.is_full() || (visited >= VISITED && self.position.row > from) {
                return Ok(false);
            }
            visited += 1;
            let item_id = row.get_ref(0)?.as_str()?;
            if is_transient(item_id) {
                continue;
            }
            if item_id.starts_with(FOLLOWED) {
                self.push(row)?;
            }
            self.position.row = row.get(3)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
