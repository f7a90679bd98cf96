//! A pool of read-only connections. A read sees the commits before its start.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connection::open_for_reading;

/// Maximum number of concurrent reads. More would not be faster: reads come from the page cache and are
/// CPU-bound, and opening a connection costs more than most reads.
const CONNECTIONS: usize = 4;

/// A small pool of read-only connections.
pub(super) struct ReaderPool {
    file: PathBuf,
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
    /// The connection for `data_version`, whose values are comparable only within one connection.
    probe: Mutex<Option<Connection>>,
}

impl ReaderPool {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            permits: Semaphore::new(CONNECTIONS),
            idle: Mutex::new(Vec::new()),
            probe: Mutex::new(None),
        }
    }

    /// Runs a read on a thread that may block.
    pub(super) async fn read<T, F>(self: &Arc<Self>, work: F) -> Result<T, String>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let _permit = self.permits.acquire().await.map_err(|closed| closed.to_string())?;
        let readers = Arc::clone(self);
        match ports::blocking::read(move || readers.read_now(work)).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(panic) => Err(panic.to_string()),
        }
    }

    fn read_now<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let connection = match self.idle().pop() {
            Some(connection) => connection,
            None => open_for_reading(&self.file)?,
        };
        let result = work(&connection)?;
        self.idle().push(connection);
        Ok(result)
    }

    /// Returns a number that changes with every commit of another connection. Takes microseconds.
    pub(super) fn data_version(&self) -> Option<i64> {
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        if probe.is_none() {
            *probe = open_for_reading(&self.file).ok();
        }
        let connection = probe.as_ref()?;
        let mut statement = connection.prepare_cached("PRAGMA data_version").ok()?;
        statement.query_row([], |row| row.get(0)).ok()
    }

    /// Closes the idle connections, so that the log can be checkpointed and removed.
    pub(super) fn close(&self) {
        self.idle().clear();
        self.probe.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        // A panic elsewhere leaves a list of connections, all of them usable.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
