//! Reads the embedded database from outside, read-only, without being one of the processes that share it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::tests::harness::process::Process;
use anyhow::{Context, bail};
use embedded::DATABASE_FILE;
use ports::queue::QueueName;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::driver::Sample;
use crate::pool::{ExpectedRow, Pool};
use crate::report::{RunCost, SortedTimes};

/// Much longer than a backlog of the bench takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);
/// Polling interval of the database.
const INTERVAL: Duration = Duration::from_millis(3);
/// Polling interval of counted days, which take minutes.
const COUNT_INTERVAL: Duration = Duration::from_millis(100);
/// Number of the oldest samples that are checked per poll: the checks must not become the load.
const SAMPLES_PER_POLL: usize = 16;

/// A reader of a data folder.
pub(crate) struct Observer {
    database: Connection,
}

impl Observer {
    /// Opens the database in a data folder that a server has made.
    pub(crate) fn open(data: &Path) -> anyhow::Result<Self> {
        let file = data.join(DATABASE_FILE);
        let database = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .with_context(|| format!("cannot read {}", file.display()))?;
        database.busy_timeout(Duration::from_secs(5))?;
        Ok(Self { database })
    }

    /// Returns the number of jobs of a queue that are waiting or in progress.
    pub(crate) fn backlog(&self, queue: QueueName) -> anyhow::Result<usize> {
        let sql = "SELECT count(*) FROM jobs WHERE queue = ?1";
        let count: i64 =
            self.database.prepare_cached(sql)?.query_row([queue.spec().label], |row| row.get(0))?;
        Ok(usize::try_from(count)?)
    }

    /// Returns the number of messages in the archive.
    pub(crate) fn rows(&self) -> anyhow::Result<usize> {
        self.rows_of("message")
    }

    /// Returns the number of rows in partitions of this kind, such as `message`.
    pub(crate) fn rows_of(&self, kind: &str) -> anyhow::Result<usize> {
        let sql = "SELECT count(*) FROM items WHERE item_id >= ?1 || '#' AND item_id < ?1 || '$'";
        let count: i64 = self.database.prepare_cached(sql)?.query_row([kind], |row| row.get(0))?;
        Ok(usize::try_from(count)?)
    }

    fn is_drained(&self, queue: QueueName) -> anyhow::Result<bool> {
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM jobs WHERE queue = ?1)";
        Ok(self.database.prepare_cached(sql)?.query_row([queue.spec().label], |row| row.get(0))?)
    }

    fn is_readable(&self, row: &ExpectedRow) -> anyhow::Result<bool> {
        let sql = "SELECT 1 FROM items WHERE item_id = ?1 AND timestamp = ?2";
        let mut statement = self.database.prepare_cached(sql)?;
        Ok(statement.query_row([&row.item_id, &row.timestamp], |_| Ok(())).optional()?.is_some())
    }

    pub(crate) async fn wait_until_drained(&self, queue: QueueName) -> anyhow::Result<()> {
        let started = Instant::now();
        while !self.is_drained(queue)? {
            if started.elapsed() > DEADLINE {
                bail!("{} jobs are still queued after {DEADLINE:?}", self.backlog(queue)?);
            }
            sleep(INTERVAL).await;
        }
        Ok(())
    }

    /// Starts a worker, ends it once it has drained its queue, and returns its cost for these events.
    pub(crate) async fn drain(
        &self,
        queue: QueueName,
        events: usize,
        worker: impl Future<Output = Process>,
    ) -> anyhow::Result<RunCost> {
        let started = Instant::now();
        let worker = worker.await;
        self.wait_until_drained(queue).await?;
        let cost = RunCost::for_events(events, started.elapsed(), &worker.usage());
        worker.sigkill().await;
        Ok(cost)
    }

    /// Waits until this number of channel days is counted and no day is due.
    pub(crate) async fn wait_until_counted(&self, days: usize, deadline: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        // The due rows of later changes may not exist yet.
        while self.rows_of("rollup")? < days || self.rows_of("rollupdue")? > 0 {
            if started.elapsed() > deadline {
                bail!("only {} days are counted after {deadline:?}", self.rows_of("rollup")?);
            }
            sleep(COUNT_INTERVAL).await;
        }
        Ok(())
    }

    /// Measures how long acked messages take to become readable, until the samples end and all are readable.
    pub(crate) async fn measure_lags(
        &self,
        pool: &Arc<Pool>,
        mut samples: mpsc::UnboundedReceiver<Sample>,
    ) -> anyhow::Result<SortedTimes> {
        let started = Instant::now();
        let (mut lags, mut waiting, mut ended) = (Vec::new(), VecDeque::new(), false);
        while !ended || !waiting.is_empty() {
            loop {
                match samples.try_recv() {
                    Ok(sample) => waiting.push_back(sample),
                    Err(mpsc::error::TryRecvError::Empty) => break,
                    Err(mpsc::error::TryRecvError::Disconnected) => {
                        ended = true;
                        break;
                    }
                }
            }
            let mut unseen = VecDeque::new();
            for (n, acked_at) in waiting.drain(..waiting.len().min(SAMPLES_PER_POLL)) {
                if pool.row(n).is_some_and(|row| self.is_readable(row).unwrap_or(false)) {
                    lags.push(acked_at.elapsed());
                } else {
                    unseen.push_back((n, acked_at));
                }
            }
            unseen.append(&mut waiting);
            waiting = unseen;
            if started.elapsed() > DEADLINE {
                bail!("{} acked messages are not readable after {DEADLINE:?}", waiting.len());
            }
            sleep(INTERVAL).await;
        }
        Ok(SortedTimes::from_unsorted(lags))
    }
}
