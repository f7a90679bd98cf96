//! The archive port on the `items` table.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Statement, params};
use serde_json::Value;

use super::changes;
use super::erasures::Erasures;
use super::reader::ReaderPool;
use super::rows::{item, unavailable};
use super::writer::{Transaction, WriterThread};
use ports::archive::erasure::author;
use ports::archive::{
    Archive, ArchiveError, Attributes, Item, ItemKey, MAX_ITEM_BYTES, Page, Partition, Query, Update,
    WriteAdmission, WriteOutcome,
};

/// The archive in an open data folder.
pub(super) struct EmbeddedArchive {
    writer: Arc<WriterThread>,
    readers: Arc<ReaderPool>,
    erasures: Arc<Erasures>,
}

/// An update that most likely has no existing item, in the form in which it is inserted.
struct FreshItem {
    /// Its index among the updates.
    index: usize,
    key: ItemKey,
    author: Option<String>,
    rendered: Rendered,
}

impl EmbeddedArchive {
    pub(super) fn new(writer: Arc<WriterThread>, readers: Arc<ReaderPool>) -> Self {
        Self { writer, readers, erasures: Arc::default() }
    }
}

#[async_trait]
impl Archive for EmbeddedArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        // Most updates have no existing item. These are rendered here, outside the writer thread, and not
        // copied; only updates of an existing item are.
        let mut outcomes: Vec<Option<Result<WriteOutcome, ArchiveError>>> = Vec::with_capacity(updates.len());
        let mut fresh = Vec::with_capacity(updates.len());
        for (index, update) in updates.iter().enumerate() {
            let rendered = update
                .initial_attributes()
                .map(|fresh| Rendered::new(fresh.iter().map(|(name, value)| (*name, &**value))));
            let size =
                rendered.as_ref().map_or(Ok(()), |rendered| check_size(&update.key, rendered.json.len()));
            outcomes.push(size.err().map(Err));
            if let (Some(rendered), None) = (rendered, &outcomes[index]) {
                let author = author(update).map(str::to_owned);
                fresh.push(FreshItem { index, key: update.key.clone(), author, rendered });
            }
        }
        if !fresh.is_empty() {
            let erasures = Arc::clone(&self.erasures);
            let work = move |transaction: &Transaction<'_>| insert_all(transaction, &erasures, &fresh);
            match self.writer.run(work).await {
                Ok(inserted) => {
                    inserted.into_iter().for_each(|(index, outcome)| outcomes[index] = Some(Ok(outcome)));
                }
                Err(error) => return vec![Err(unavailable(error)); updates.len()],
            }
        }
        let existing: Vec<(usize, Update)> = updates
            .iter()
            .enumerate()
            .filter(|(index, _)| outcomes[*index].is_none())
            .map(|(index, update)| (index, (*update).clone()))
            .collect();
        if !existing.is_empty() {
            let erasures = Arc::clone(&self.erasures);
            let work = move |transaction: &Transaction<'_>| {
                let merge = |update| merge(transaction, &erasures, update);
                let merges = existing.iter().map(|(index, update)| Ok((*index, merge(update)?)));
                merges.collect::<rusqlite::Result<Vec<_>>>()
            };
            match self.writer.run(work).await {
                Ok(merged) => merged.into_iter().for_each(|(index, outcome)| outcomes[index] = Some(outcome)),
                Err(error) => {
                    let unanswered = outcomes.iter_mut().filter(|outcome| outcome.is_none());
                    unanswered.for_each(|outcome| *outcome = Some(Err(unavailable(error.clone()))));
                }
            }
        }
        outcomes.into_iter().flatten().collect()
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        Ok(self.get_all(&[key]).await?.pop().flatten())
    }

    async fn get_all(&self, keys: &[&ItemKey]) -> Result<Vec<Option<Item>>, ArchiveError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<ItemKey> = keys.iter().map(|key| (*key).clone()).collect();
        self.readers
            .read(move |connection| {
                // Without it, each of several items is a transaction, which costs as much as reading the item.
                let several = (keys.len() > 1).then(|| connection.unchecked_transaction());
                let _transaction = several.transpose()?;
                keys.iter().map(|key| Ok(read_item(connection, key)?.map(|(_, item)| item))).collect()
            })
            .await
            .map_err(ArchiveError::Unavailable)
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        let query = query.clone();
        self.readers
            .read(move |connection| run_query(connection, &query))
            .await
            .map_err(ArchiveError::Unavailable)
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        let (expected, erasures) = (expected.clone(), Arc::clone(&self.erasures));
        let work =
            move |transaction: &Transaction<'_>| match read_item(transaction.connection, &expected.key)? {
                Some((rowid, stored)) if stored == expected => {
                    erasures.note_write(&expected.key);
                    transaction.connection.execute("DELETE FROM items WHERE rowid = ?1", [rowid])?;
                    Ok(true)
                }
                Some(_) | None => Ok(false),
            };
        self.writer.run(work).await.map_err(unavailable)
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        let (key, erasures) = (key.clone(), Arc::clone(&self.erasures));
        let work = move |transaction: &Transaction<'_>| {
            erasures.note_write(&key);
            put_mark(transaction, &Item::erased(key.clone()), read_item(transaction.connection, &key)?)
        };
        self.writer.run(work).await.map_err(unavailable)
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        let (key, erasures) = (key.clone(), Arc::clone(&self.erasures));
        let work = move |transaction: &Transaction<'_>| {
            let facts = erasures.current_facts(transaction)?;
            match read_item(transaction.connection, &key)? {
                Some((rowid, item)) if facts.expires(&item) => {
                    put_mark(transaction, &Item::expired(key.clone()), Some((rowid, item)))
                }
                Some(_) | None => Ok(false),
            }
        };
        self.writer.run(work).await.map_err(unavailable)
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.writer.run(|_| Ok(())).await.map_err(unavailable)
    }
}

fn check_size(key: &ItemKey, json_bytes: usize) -> Result<(), ArchiveError> {
    let bytes = key.item_id.len() + key.timestamp.len() + json_bytes;
    if bytes > MAX_ITEM_BYTES { Err(ArchiveError::TooLarge { bytes }) } else { Ok(()) }
}

/// An item's attributes as they are stored.
struct Rendered {
    parent: Option<String>,
    json: String,
}

impl Rendered {
    fn new<'a>(attributes: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let mut parent = None;
        let mut json = Vec::with_capacity(2048);
        json.push(b'{');
        for (name, value) in attributes {
            if name == "parent" {
                parent = value.as_str().map(str::to_owned);
            }
            if json.len() > 1 {
                json.push(b',');
            }
            // Strings and JSON values always serialise.
            drop(serde_json::to_writer(&mut json, name));
            json.push(b':');
            drop(serde_json::to_writer(&mut json, value));
        }
        json.push(b'}');
        Self { parent, json: String::from_utf8(json).unwrap_or_default() }
    }
}

/// Inserts the items whose keys are new, unless a fact covers them. Returns the outcomes of these.
fn insert_all(
    transaction: &Transaction<'_>,
    erasures: &Erasures,
    fresh: &[FreshItem],
) -> rusqlite::Result<Vec<(usize, WriteOutcome)>> {
    let mut statement = transaction.connection.prepare_cached(INSERT)?;
    let mut outcomes = Vec::with_capacity(fresh.len());
    for FreshItem { index, key, author, rendered } in fresh {
        // A covered update may need the whole stored item: it is merged.
        if !erasures.current_facts(transaction)?.covers_content(key, author.as_deref())
            && insert_with(&mut statement, key, rendered)?
        {
            erasures.note_write(key);
            outcomes.push((*index, WriteOutcome::Applied));
        }
    }
    Ok(outcomes)
}

/// Inserts an item if its key is new. Returns whether it was inserted.
fn insert(connection: &Connection, key: &ItemKey, fresh: &Rendered) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(INSERT)?;
    insert_with(&mut statement, key, fresh)
}

const INSERT: &str = "INSERT INTO items (item_id, timestamp, parent, attributes) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (item_id, timestamp) DO NOTHING";

fn insert_with(statement: &mut Statement<'_>, key: &ItemKey, fresh: &Rendered) -> rusqlite::Result<bool> {
    Ok(statement.execute(params![key.item_id, key.timestamp, fresh.parent, fresh.json])? == 1)
}

/// Reads an item, applies the update, and writes it back, all within one transaction.
fn merge(
    transaction: &Transaction<'_>,
    erasures: &Erasures,
    update: &Update,
) -> rusqlite::Result<Result<WriteOutcome, ArchiveError>> {
    let connection = transaction.connection;
    let stored = read_item(connection, &update.key)?;
    let facts = erasures.current_facts(transaction)?;
    match facts.admit(update, stored.as_ref().map(|(_, item)| item)) {
        WriteAdmission::Write => {}
        WriteAdmission::Refuse { mark, is_stored } => {
            if is_stored {
                put_mark(transaction, &mark, stored)?;
            }
            return Ok(Ok(WriteOutcome::Rejected(mark)));
        }
    }
    let Some(attributes) = update.apply(stored.as_ref().map(|(_, item)| &item.attributes)) else {
        let empty = || Item { key: update.key.clone(), attributes: Attributes::new() };
        return Ok(Ok(WriteOutcome::Rejected(stored.map_or_else(empty, |(_, item)| item))));
    };
    let rendered = Rendered::new(attributes.iter().map(|(name, value)| (name.as_str(), value)));
    if let Err(error) = check_size(&update.key, rendered.json.len()) {
        return Ok(Err(error));
    }
    erasures.note_write(&update.key);
    let changed = match stored {
        Some((rowid, _)) => rewrite(transaction, &update.key, rowid, &rendered)?,
        // The item was deleted after the insert had found it.
        None => usize::from(insert(connection, &update.key, &rendered)?),
    };
    // If anything prevented the write, the caller must not get a success.
    if changed == 1 {
        Ok(Ok(WriteOutcome::Applied))
    } else {
        Err(rusqlite::Error::StatementChangedRows(changed))
    }
}

/// Replaces an item with one without content, or stores it. Returns whether the item had content.
fn put_mark(
    transaction: &Transaction<'_>,
    mark: &Item,
    stored: Option<(i64, Item)>,
) -> rusqlite::Result<bool> {
    let rendered = Rendered::new(mark.attributes.iter().map(|(name, value)| (name.as_str(), value)));
    match stored {
        Some((_, item)) if item == *mark => Ok(false),
        Some((rowid, item)) => match rewrite(transaction, &mark.key, rowid, &rendered)? {
            1 => Ok(!item.is_erased()),
            changed => Err(rusqlite::Error::StatementChangedRows(changed)),
        },
        None => insert(transaction.connection, &mark.key, &rendered),
    }
}

/// Rewrites a row under its rowid, by which followers identify it. Returns the number of changed rows.
fn rewrite(
    transaction: &Transaction<'_>,
    key: &ItemKey,
    rowid: i64,
    rendered: &Rendered,
) -> rusqlite::Result<usize> {
    changes::record_update(transaction, key, rowid)?;
    transaction
        .connection
        .prepare_cached("UPDATE items SET parent = ?2, attributes = ?3 WHERE rowid = ?1")?
        .execute(params![rowid, rendered.parent, rendered.json])
}

fn read_item(connection: &Connection, key: &ItemKey) -> rusqlite::Result<Option<(i64, Item)>> {
    connection
        .prepare_cached(
            "SELECT item_id, timestamp, attributes, rowid FROM items WHERE item_id = ?1 AND timestamp = ?2",
        )?
        .query_row(params![key.item_id, key.timestamp], |row| Ok((row.get(3)?, item(row)?)))
        .optional()
}

fn run_query(connection: &Connection, query: &Query) -> rusqlite::Result<Page> {
    let Some(query) = query.narrowed() else { return Ok(Page::default()) };
    let (column, value) = match &query.partition {
        Partition::Item(item_id) => ("item_id", item_id),
        Partition::Parent(parent) => ("parent", parent),
    };
    let (comparison, order) = if query.descending { ("<", "DESC") } else { (">", "ASC") };
    let after = match &query.after {
        Some(_) => format!("AND (timestamp, item_id) {comparison} (?2, ?3)"),
        None => "AND ?2 IS NULL AND ?3 IS NULL".to_owned(),
    };
    let until = if query.until.is_some() { "AND timestamp < ?5" } else { "AND ?5 IS NULL" };
    let sql = format!(
        "SELECT item_id, timestamp, attributes FROM items WHERE {column} = ?1 {after} {until}
         ORDER BY timestamp {order}, item_id {order} LIMIT ?4"
    );
    // One more than the limit shows whether there is a next page.
    let limit = query.limit.max(1);
    let probe = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let (after_timestamp, after_item) = match &query.after {
        Some(key) => (Some(&key.timestamp), Some(&key.item_id)),
        None => (None, None),
    };
    let mut statement = connection.prepare_cached(&sql)?;
    let mut items = statement
        .query_map(params![value, after_timestamp, after_item, probe, query.until], item)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = if has_more { items.last().map(|item| item.key.clone()) } else { None };
    Ok(Page { items, next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DATABASE_FILE, Database};
    use ports::archive::ArchiveExt;
    use ports::clock::SystemClock;

    fn message(ts: &str) -> Update {
        let text = Attributes::from_iter([("text".to_owned(), Value::from("said"))]);
        Update { set: text, ..Update::new(ItemKey::new("message#T1#C1", ts)) }
    }

    /// The results of writing three messages to a database to which a user has added `sql`.
    async fn write_after(sql: &str) -> (Vec<Result<WriteOutcome, ArchiveError>>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
        Connection::open(folder.path().join(DATABASE_FILE)).unwrap().execute_batch(sql).unwrap();
        let archive = database.archive();
        let mut outcomes = Vec::new();
        for ts in ["1.000000", "2.000000", "3.000000"] {
            outcomes.push(archive.write(&message(ts)).await);
        }
        let stored = archive.query(&Query::partition("message#T1#C1".to_owned())).await.unwrap().items.len();
        database.close().await;
        (outcomes, stored)
    }

    #[tokio::test]
    async fn a_failed_write_is_not_reported_as_applied() {
        let unique = "CREATE UNIQUE INDEX evil ON items (item_id) WHERE item_id GLOB 'message#*'";
        let (outcomes, stored) = write_after(unique).await;
        let applied = outcomes.iter().filter(|outcome| matches!(outcome, Ok(WriteOutcome::Applied))).count();
        assert_eq!((applied, stored), (1, 1), "{outcomes:?}");
        assert!(matches!(&outcomes[1], Err(ArchiveError::Unavailable(why)) if why.contains("UNIQUE")));
    }

    #[tokio::test]
    async fn triggers_in_the_schema_do_not_run() {
        let delete =
            "CREATE TRIGGER evil AFTER INSERT ON items BEGIN DELETE FROM items WHERE rowid = new.rowid; END;
            CREATE TRIGGER worse BEFORE INSERT ON items BEGIN SELECT RAISE(IGNORE); END";
        let (outcomes, stored) = write_after(delete).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(WriteOutcome::Applied))), "{outcomes:?}");
        assert_eq!(stored, 3);
    }
}
