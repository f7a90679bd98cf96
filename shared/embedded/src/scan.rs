//! Reads every row in the order of the keys, even those that cannot be read as items.

use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use ports::archive::{Item, ItemKey};

/// A row, or why it is not an item.
#[derive(Debug, Clone, PartialEq)]
pub struct ScannedRow {
    pub key: ItemKey,
    pub item: Result<Item, String>,
}

/// Returns the rows after a key. An empty page is the end.
pub(super) fn page(
    connection: &Connection,
    after: Option<&ItemKey>,
    limit: usize,
) -> rusqlite::Result<Vec<ScannedRow>> {
    let (item_id, timestamp) = after.map_or(("", ""), |key| (&*key.item_id, &*key.timestamp));
    let mut statement = connection.prepare_cached(
        "SELECT item_id, timestamp, attributes FROM items WHERE (item_id, timestamp) > (?1, ?2)
         ORDER BY item_id, timestamp LIMIT ?3",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![item_id, timestamp, limit], |row| {
        let key = ItemKey::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?);
        let attributes = row.get_ref(2)?.as_str().map_err(|error| error.to_string());
        let attributes = attributes.and_then(|json| {
            serde_json::from_str::<Map<String, Value>>(json).map_err(|error| error.to_string())
        });
        let item = attributes.map(|attributes| Item { key: key.clone(), attributes });
        Ok(ScannedRow { key, item })
    })?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_in_the_order_of_keys_even_one_that_is_no_item() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE items (item_id, timestamp, parent, attributes)").unwrap();
        for (item_id, timestamp, attributes) in
            [("b", "1", "{\"a\":1}"), ("a", "2", "[]"), ("a", "1", "{"), ("a", "3", "{}")]
        {
            let values = params![item_id, timestamp, attributes];
            connection.execute("INSERT INTO items VALUES (?1, ?2, NULL, ?3)", values).unwrap();
        }
        connection.execute("INSERT INTO items VALUES ('c', '1', NULL, x'00')", []).unwrap();
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let rows = page(&connection, after.as_ref(), 2).unwrap();
            let Some(last) = rows.last() else { break };
            after = Some(last.key.clone());
            seen.extend(rows.into_iter().map(|row| (row.key.item_id, row.key.timestamp, row.item.is_ok())));
        }
        let expected =
            [("a", "1", false), ("a", "2", false), ("a", "3", true), ("b", "1", true), ("c", "1", false)];
        assert_eq!(
            seen,
            expected.map(|(item_id, timestamp, is_ok)| (item_id.into(), timestamp.into(), is_ok))
        );
    }
}
