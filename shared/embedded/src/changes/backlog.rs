//! How far a follower is behind.

use rusqlite::{Connection, params};

use super::{Position, changes, epoch};
use ports::archive::rows::FOLLOWED;

/// Up to this number, rows are counted exactly.
const COUNTED: i64 = 10_000;

/// The approximate number of new and changed messages after a position.
pub(super) fn count(connection: &Connection, position: Option<&Position>) -> rusqlite::Result<u64> {
    let epoch = epoch(connection)?.unwrap_or_default();
    let position = match position {
        Some(position) if position.continues(connection, &epoch)? => Some(position),
        Some(_) | None => None,
    };
    let (row, change) = match position {
        Some(position) => (position.row, position.change),
        None => (0, changes(connection)?.1),
    };
    let read = position.and_then(|position| position.pass.as_ref()).map_or(0, |pass| pass.read);
    let newest: i64 = connection
        .prepare_cached("SELECT coalesce(max(rowid), 0) FROM items")?
        .query_row([], |row| row.get(0))?;
    let mut new = newest - row - read;
    if newest - row <= COUNTED {
        let counted: i64 = connection
            .prepare_cached("SELECT count(*) FROM items WHERE rowid > ?1 AND substr(item_id, 1, ?2) = ?3")?
            .query_row(params![row, i64::try_from(FOLLOWED.len()).unwrap_or_default(), FOLLOWED], |row| {
                row.get(0)
            })?;
        new = counted - read;
    }
    let mut changed = changes(connection)?.1 - change;
    if changed <= COUNTED {
        changed = connection
            .prepare_cached(
                "SELECT count(DISTINCT item_rowid) FROM changes WHERE seq > ?1 AND item_rowid <= ?2",
            )?
            .query_row([change, row], |row| row.get(0))?;
    }
    Ok(u64::try_from(new + changed).unwrap_or_default())
}
