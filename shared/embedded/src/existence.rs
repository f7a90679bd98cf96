//! The existence port on the `existence_check_cache` table.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};

use super::reader::ReaderPool;
use super::writer::{Transaction, WriteError, WriterThread};
use ports::existence::{CacheKey, Existence, ExistenceError, Verified};

/// Number of expired rows that each write removes in addition to the number it adds: so they never pile up,
/// and the write stays fast.
const REMOVED_AT_ONCE: i64 = 64;

/// The cache in an open data folder.
pub(super) struct EmbeddedExistence {
    writer: Arc<WriterThread>,
    readers: Arc<ReaderPool>,
}

impl EmbeddedExistence {
    pub(super) fn new(writer: Arc<WriterThread>, readers: Arc<ReaderPool>) -> Self {
        Self { writer, readers }
    }
}

#[async_trait]
impl Existence for EmbeddedExistence {
    async fn look_up(&self, keys: &[CacheKey]) -> Result<Vec<Option<Verified>>, ExistenceError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        let read = self.readers.read(move |connection| {
            let mut statement = connection
                .prepare_cached("SELECT ttl, verified_at FROM existence_check_cache WHERE cache_key = ?1")?;
            let found = keys.iter().map(|key| {
                let row = statement.query_row([key.as_str()], |row| {
                    Ok(Verified { ttl_s: row.get(0)?, verified_at_s: row.get(1)? })
                });
                row.optional()
            });
            found.collect()
        });
        read.await.map_err(ExistenceError::Unavailable)
    }

    async fn remember(&self, rows: &[(CacheKey, Verified)]) -> Result<(), ExistenceError> {
        if rows.is_empty() {
            return Ok(());
        }
        let rows = rows.to_vec();
        let work = move |transaction: &Transaction<'_>| {
            let mut put = transaction.connection.prepare_cached(
                "INSERT INTO existence_check_cache (cache_key, ttl, verified_at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (cache_key) DO UPDATE SET (ttl, verified_at) = (excluded.ttl, excluded.verified_at)",
            )?;
            for (key, row) in &rows {
                put.execute(params![key.as_str(), row.ttl_s, row.verified_at_s])?;
            }
            let mut remove = transaction.connection.prepare_cached(
                "DELETE FROM existence_check_cache WHERE cache_key IN
                 (SELECT cache_key FROM existence_check_cache WHERE ttl <= ?1 ORDER BY ttl LIMIT ?2)",
            )?;
            let max = i64::try_from(rows.len()).unwrap_or(i64::MAX).saturating_add(REMOVED_AT_ONCE);
            remove.execute(params![transaction.now.seconds(), max])?;
            Ok(())
        };
        self.writer.run(work).await.map_err(unavailable)
    }

    async fn ready(&self) -> Result<(), ExistenceError> {
        self.writer.run(|_| Ok(())).await.map_err(unavailable)
    }
}

fn unavailable(error: WriteError) -> ExistenceError {
    ExistenceError::Unavailable(error.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Database;
    use super::*;
    use ports::clock::{Clock, ManualClock, TimestampMs};
    use slack::ids::{ChannelId, TeamId, UserId};

    fn rows(from: usize, clock: &ManualClock) -> Vec<(CacheKey, Verified)> {
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        let user = |n: usize| UserId::parse(&format!("U{n:05}")).unwrap();
        let key = |n| CacheKey::new(&team, &user(n), &channel);
        (from..from + 200).map(|n| (key(n), Verified::at(clock.now()))).collect()
    }

    #[tokio::test]
    async fn expired_rows_do_not_pile_up() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let database = Database::open(folder.path(), Arc::clone(&clock) as _).unwrap();
        let count = async || {
            let sql = "SELECT count(*) FROM existence_check_cache";
            database.readers.read(move |read| read.query_row(sql, [], |row| row.get::<_, i64>(0))).await
        };
        for round in 0..5 {
            database.existence().remember(&rows(round * 200, &clock)).await.unwrap();
            // The rows of earlier rounds have expired and are removed.
            assert_eq!(count().await, Ok(200), "round {round}");
            clock.advance(Duration::from_secs(301));
        }
    }
}
