//! The writer thread: group commit.
//!
//! All operations that wait when the thread is free go into one transaction, and no caller is answered before
//! the log is synced. So one sync covers all operations that arrived during the previous one, which makes
//! durable answers cheap.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{Semaphore, oneshot, watch};

use super::connection::sleep;
use super::database_files::DatabaseFiles;
use super::operation::{AnsweredOperation, Operation};
pub(super) use super::operation::{Transaction, WriteError};
use super::process_lock::ProcessLock;
use super::turns::{LockTurns, is_nice};
use ports::clock::SharedClock;

/// Releases the claims of a process. The rows stay, because they show what a dead process was working on.
const RELEASE_CLAIMS: &str =
    "UPDATE claims SET lease_until = 0 WHERE process = ?1 AND status = 'in_progress'";

/// Maximum number of operations that wait for the thread; further callers wait for a permit.
const WAITING: usize = 8192;

/// A transaction ends after this time, so that no answer waits for an endless queue of other operations.
const MAX_TRANSACTION: Duration = Duration::from_millis(20);

/// A transaction stays open this long for each further operation: after a commit, all callers that were
/// answered return at about the same time, and a sync for the first one alone would make the others wait for
/// two syncs.
const GATHER: Duration = Duration::from_micros(150);

/// Maximum total time for which a transaction stays open for further operations.
const MAX_GATHERING: Duration = Duration::from_millis(2);

/// How long to wait for the write lock of another process before the operations fail. Transactions take about
/// 20 ms.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval between two attempts to get the lock.
const LOCK_RETRY: Duration = Duration::from_millis(1);

/// How long the lock stays free after a commit if another process waits for it: longer than [`LOCK_RETRY`],
/// otherwise the other process would never get it.
const TURN_FOR_OTHERS: Duration = Duration::from_millis(2);

/// A background process leaves the lock free for this multiple of the time it held it, if another process
/// waits: others also read again what it may have changed, so its share costs them three times as much. It
/// only loses time in conflicts: light traffic hardly slows it down.
const BACKGROUND_REST: u32 = 19;

/// As [`BACKGROUND_REST`], if the process was started with `nice`: a low thread priority alone would not
/// shorten the time for which it holds the lock.
const NICE_REST: u32 = 99;

/// Maximum rest: one slow sync must not delay an import for minutes.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// After this time without a write, the log is checkpointed and emptied, so that acked and dropped messages
/// do not stay in it. No caller waits for that, and it takes milliseconds. Waiting consumers check every
/// second, but write nothing.
const IDLE: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(5) };

/// The interval between two checks for other processes.
const PROCESS_CHECK: Duration = Duration::from_millis(200);

/// The handle of the writer thread.
pub(super) struct WriterThread {
    sender: Mutex<Option<mpsc::Sender<Box<dyn Operation>>>>,
    permits: Arc<Semaphore>,
    /// The multiple of the time it held the lock for which the thread leaves it free for others.
    rest: Arc<AtomicU32>,
    stopped: watch::Receiver<bool>,
}

impl WriterThread {
    pub(super) fn start(
        connection: Connection,
        file: PathBuf,
        process_lock: ProcessLock,
        turns: LockTurns,
        clock: SharedClock,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let permits = Arc::new(Semaphore::new(WAITING));
        let rest = Arc::new(AtomicU32::new(0));
        let (stopping, stopped) = watch::channel(false);
        let files = DatabaseFiles::opened(&file)?;
        let thread = Thread {
            files,
            changes: connection.total_changes(),
            connection,
            process_lock,
            turns,
            clock,
            permits: Arc::clone(&permits),
            rest: Arc::clone(&rest),
            processes_checked_at: None,
            wrote_at: Some(Instant::now()),
            rollbacks: 0,
            foreign_commits: 0,
            data_version: 0,
        };
        std::thread::Builder::new().name("annalist-writer".into()).spawn(move || {
            thread.run(&receiver);
            stopping.send_replace(true);
        })?;
        Ok(Self { sender: Mutex::new(Some(sender)), permits, rest, stopped })
    }

    /// From now on other processes take precedence.
    pub(super) fn work_in_background(&self) {
        let rest = if is_nice() { NICE_REST } else { BACKGROUND_REST };
        self.rest.store(rest, Ordering::Relaxed);
    }

    /// Runs `work` in the next transaction and returns when it is durable. `work` may run more than once only
    /// if its transaction failed, in which case it was rolled back.
    pub(super) async fn run<T, F>(&self, work: F) -> Result<T, WriteError>
    where
        T: Send + 'static,
        F: FnMut(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        self.run_or_undo(work, drop).await
    }

    /// As [`WriterThread::run`]; `abandoned` gets the result if the caller is cancelled before the answer.
    pub(super) async fn run_or_undo<T, F, A>(&self, work: F, abandoned: A) -> Result<T, WriteError>
    where
        T: Send + 'static,
        F: FnMut(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
        A: FnOnce(T) + Send + 'static,
    {
        // The thread returns the permit when it receives the operation.
        self.permits.acquire().await.map_err(|_| closed())?.forget();
        let (reply, answer) = oneshot::channel();
        let operation = Box::new(AnsweredOperation { work, result: None, reply, abandoned });
        match &*self.sender() {
            Some(sender) => sender.send(operation).map_err(|_| closed())?,
            None => return Err(closed()),
        }
        answer.await.map_err(|_| closed())?
    }

    /// Lets the thread finish the waiting operations, and waits until it has ended.
    pub(super) async fn close(&self) {
        self.sender().take();
        let mut stopped = self.stopped.clone();
        // An error means that the thread has ended already.
        drop(stopped.wait_for(|stopped| *stopped).await);
    }

    fn sender(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<Box<dyn Operation>>>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> WriteError {
    WriteError("the database is closed".into())
}

struct Thread {
    connection: Connection,
    files: DatabaseFiles,
    /// The rows that this connection has ever changed, when the thread last looked.
    changes: u64,
    process_lock: ProcessLock,
    turns: LockTurns,
    clock: SharedClock,
    permits: Arc<Semaphore>,
    rest: Arc<AtomicU32>,
    processes_checked_at: Option<Instant>,
    /// When this thread last wrote to the log; `None` once the log is empty.
    wrote_at: Option<Instant>,
    rollbacks: u64,
    foreign_commits: u64,
    data_version: i64,
}

impl Thread {
    fn run(mut self, receiver: &mpsc::Receiver<Box<dyn Operation>>) {
        while let Some(first) = self.next(receiver) {
            self.permits.add_permits(1);
            self.check_processes();
            let mut batch = vec![first];
            let outcome = catch_unwind(AssertUnwindSafe(|| self.commit(&mut batch, receiver)))
                .unwrap_or_else(|_| Err(WriteError("an operation panicked".into())));
            if let Err(error) = &outcome {
                self.rollbacks += 1;
                // Fails if there is nothing to roll back.
                drop(self.connection.execute_batch("ROLLBACK"));
                // The caller decides what the error means.
                tracing::debug!(%error, operations = batch.len(), "a transaction was rolled back");
            }
            let lock_time = outcome.as_ref().copied().unwrap_or_default();
            let outcome = outcome.map(drop);
            for operation in batch {
                operation.finish(outcome.clone());
            }
            let changes = self.connection.total_changes();
            if std::mem::replace(&mut self.changes, changes) != changes {
                self.wrote_at = Some(Instant::now());
            }
            self.yield_lock(lock_time);
        }
        if !self.files.are_in_place() {
            // The close of the last connection would remove the log of the database that has the name now.
            std::mem::forget(self.connection);
            return;
        }
        // Messages that are still leased no longer have a receiver. Once this process's file is removed, no
        // process could release them.
        let released =
            self.begin().and_then(|()| self.release_leases(&HashSet::from([self.process_lock.id()])));
        if let Err(error) = released {
            drop(self.connection.execute_batch("ROLLBACK"));
            tracing::warn!(%error, "failed to release leases; they will time out");
        }
        self.empty_log();
    }

    /// Leaves the lock free for a while if another process waits for it.
    fn yield_lock(&self, lock_time: Duration) {
        if self.turns.has_waiter() {
            let rest = lock_time * self.rest.load(Ordering::Relaxed);
            sleep(rest.clamp(TURN_FOR_OTHERS, LONGEST_REST));
        }
    }

    /// Waits for the next operation; `None` if no more can come.
    fn next(&mut self, receiver: &mpsc::Receiver<Box<dyn Operation>>) -> Option<Box<dyn Operation>> {
        while let Some(wrote_at) = self.wrote_at {
            match receiver.recv_timeout(IDLE.saturating_sub(wrote_at.elapsed())) {
                Ok(first) => return Some(first),
                Err(RecvTimeoutError::Timeout) => self.empty_log(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        receiver.recv().ok()
    }

    /// Checkpoints and empties the log. While another connection reads or writes, the log stays, and the next
    /// attempt follows after the same interval.
    fn empty_log(&mut self) {
        let emptied = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        self.wrote_at = emptied.unwrap_or(true).then(Instant::now);
    }

    /// Commits one transaction with the operations in `batch` and the waiting ones. Returns how long it held
    /// the lock.
    fn commit(
        &mut self,
        batch: &mut Vec<Box<dyn Operation>>,
        receiver: &mpsc::Receiver<Box<dyn Operation>>,
    ) -> Result<Duration, WriteError> {
        self.begin().map_err(write_error)?;
        let began = Instant::now();
        let data_version: i64 = self
            .connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(write_error)?;
        if data_version != self.data_version {
            self.data_version = data_version;
            self.foreign_commits += 1;
        }
        let transaction = Transaction {
            connection: &self.connection,
            now: self.clock.now(),
            rollbacks: self.rollbacks,
            foreign_commits: self.foreign_commits,
        };
        let mut next = 0;
        loop {
            batch[next].run(&transaction).map_err(write_error)?;
            next += 1;
            if began.elapsed() > MAX_TRANSACTION {
                break;
            }
            match receiver.try_recv().or_else(|_| self.gather(receiver, began)) {
                Ok(operation) => {
                    self.permits.add_permits(1);
                    batch.push(operation);
                }
                Err(_) => break,
            }
        }
        self.connection
            .prepare_cached("COMMIT")
            .and_then(|mut commit| commit.execute([]))
            .map_err(write_error)?;
        if !self.files.are_in_place() {
            return Err(WriteError("annalist.db was removed or replaced: restart annalist".into()));
        }
        Ok(began.elapsed())
    }

    /// Waits a short time for the next operation.
    fn gather(
        &self,
        receiver: &mpsc::Receiver<Box<dyn Operation>>,
        began: Instant,
    ) -> Result<Box<dyn Operation>, RecvTimeoutError> {
        if began.elapsed() > MAX_GATHERING {
            Err(RecvTimeoutError::Timeout)
        } else {
            receiver.recv_timeout(GATHER)
        }
    }

    fn begin(&self) -> rusqlite::Result<()> {
        let deadline = Instant::now() + LOCK_TIMEOUT;
        let mut waiting = None;
        loop {
            match self.connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([])) {
                Ok(_) => return Ok(()),
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    waiting = waiting.or_else(|| self.turns.announce_wait());
                    sleep(LOCK_RETRY);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Releases the leases of processes that have died, so that their messages become visible immediately.
    fn check_processes(&mut self) {
        if self.processes_checked_at.is_some_and(|at| at.elapsed() < PROCESS_CHECK) {
            return;
        }
        self.processes_checked_at = Some(Instant::now());
        let others = match self.process_lock.find_others() {
            Ok(others) => others,
            Err(error) => {
                tracing::warn!(%error, "failed to check for other processes on this data folder");
                return;
            }
        };
        if others.dead.is_empty() {
            return;
        }
        let released =
            self.begin().and_then(|()| self.release_leases(&others.dead.iter().copied().collect()));
        match released {
            Ok(released) => {
                // The cached leases belong to another process.
                self.foreign_commits += 1;
                others.dead.iter().for_each(|dead| self.process_lock.remove_stale(*dead));
                tracing::info!(released, "released the leases of a dead process");
            }
            Err(error) => {
                drop(self.connection.execute_batch("ROLLBACK"));
                tracing::warn!(%error, "failed to release the leases of a dead process; they will time out");
            }
        }
    }

    fn release_leases(&self, owners: &HashSet<i64>) -> rusqlite::Result<usize> {
        let mut released = 0;
        for owner in owners {
            released +=
                self.connection.execute("UPDATE leases SET visible_at_ms = 0 WHERE owner = ?1", [owner])?;
            // Its claims become free for the process that receives its jobs.
            self.connection.execute(RELEASE_CLAIMS, [owner])?;
        }
        self.connection.execute_batch("COMMIT")?;
        Ok(released)
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn write_error(error: rusqlite::Error) -> WriteError {
    if is_busy(&error) {
        WriteError(format!("another process has locked the database for {} s", LOCK_TIMEOUT.as_secs()))
    } else {
        WriteError(error.to_string())
    }
}

/// Locks a mutex even after a panic of another thread: the guarded value is rebuilt from the database after a
/// rollback.
pub(super) fn lock<T>(mutex: &Arc<Mutex<T>>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
