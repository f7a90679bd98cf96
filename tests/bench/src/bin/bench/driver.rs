//! Sends requests as Slack does, as fast as possible or at a fixed rate, on one thread.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::connection::Connection;
use crate::pool::Pool;
use crate::report::SortedTimes;

/// Delay before a sender repeats a request that was not answered 200.
const RETRY_DELAY: Duration = Duration::from_millis(10);
/// At most one acked message per interval is reported as a sample.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// When requests are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SendingPace {
    /// Each connection sends the next request as soon as the last one is answered.
    ClosedLoop,
    /// Requests per second, whether or not the server keeps up. Latency counts from the moment a request was due.
    PerSecond(u64),
}

/// A load to drive.
#[derive(Debug, Clone)]
pub(crate) struct DrivenLoad {
    /// The requests of the pool.
    pub(crate) range: Range<usize>,
    /// Whether to start over at the end of the range. Only for a server that accepts duplicates.
    pub(crate) repeat: bool,
    /// Maximum duration; `None` ends the load with the range.
    pub(crate) max_duration: Option<Duration>,
    /// When requests are sent.
    pub(crate) pace: SendingPace,
    pub(crate) connections: usize,
}

impl DrivenLoad {
    /// Every request of a pool once, in a closed loop.
    pub(crate) fn whole(pool: &Pool, connections: usize) -> Self {
        let (range, pace) = (0..pool.len(), SendingPace::ClosedLoop);
        Self { range, repeat: false, max_duration: None, pace, connections }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct LoadResult {
    /// Requests answered 200.
    pub(crate) acked: usize,
    /// Other answers. Their requests are repeated until they are acked.
    pub(crate) refused: usize,
    /// From the first request to the last answer.
    pub(crate) elapsed: Duration,
    /// The latencies of acked requests.
    pub(crate) latencies: SortedTimes,
}

impl LoadResult {
    /// Acks per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.acked as f64 / self.elapsed.as_secs_f64()
    }
}

/// The index of an acked request and the time of the ack.
pub(crate) type Sample = (usize, Instant);

struct DriverState {
    pool: Arc<Pool>,
    load: DrivenLoad,
    started: Instant,
    sent: Cell<usize>,
    refused: Cell<usize>,
    latencies: RefCell<Vec<Duration>>,
    samples: Option<mpsc::UnboundedSender<Sample>>,
    last_sample: Cell<Instant>,
}

/// Drives a load on a thread of its own.
pub(crate) async fn drive(
    address: SocketAddr,
    pool: &Arc<Pool>,
    load: DrivenLoad,
    samples: Option<mpsc::UnboundedSender<Sample>>,
) -> anyhow::Result<LoadResult> {
    let pool = Arc::clone(pool);
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, drive_here(address, pool, load, samples))
    })
    .await
    .context("the driver panicked")?
}

async fn drive_here(
    address: SocketAddr,
    pool: Arc<Pool>,
    load: DrivenLoad,
    samples: Option<mpsc::UnboundedSender<Sample>>,
) -> anyhow::Result<LoadResult> {
    let mut connections = Vec::with_capacity(load.connections);
    for _ in 0..load.connections {
        connections.push(Connection::open(address).await?);
    }
    let started = Instant::now();
    let shared = Rc::new(DriverState {
        latencies: RefCell::new(Vec::with_capacity(load.range.len())),
        pool,
        load,
        started,
        sent: Cell::new(0),
        refused: Cell::new(0),
        samples,
        last_sample: Cell::new(started),
    });
    let senders: Vec<_> = connections
        .into_iter()
        .map(|connection| tokio::task::spawn_local(send(connection, Rc::clone(&shared))))
        .collect();
    for sender in senders {
        sender.await.context("a sender panicked")??;
    }
    let elapsed = started.elapsed();
    let latencies = SortedTimes::from_unsorted(shared.latencies.take());
    Ok(LoadResult { acked: latencies.len(), refused: shared.refused.get(), elapsed, latencies })
}

async fn send(mut connection: Connection, shared: Rc<DriverState>) -> anyhow::Result<()> {
    while let Some((n, due)) = shared.next() {
        if due > Instant::now() {
            tokio::time::sleep_until(due.into()).await;
        }
        while connection.exchange(shared.pool.request(n)).await? != 200 {
            shared.refused.set(shared.refused.get() + 1);
            tokio::time::sleep(RETRY_DELAY).await;
        }
        shared.acked(n, due);
    }
    Ok(())
}

impl DriverState {
    /// Returns the next request and the time at which it is due.
    fn next(&self) -> Option<(usize, Instant)> {
        let sent = self.sent.get();
        let offset = if self.load.repeat { sent % self.load.range.len() } else { sent };
        let now = Instant::now();
        let due = match self.load.pace {
            SendingPace::ClosedLoop => now,
            SendingPace::PerSecond(rate) => self.started + Duration::from_secs_f64(sent as f64 / rate as f64),
        };
        let late = self.load.max_duration.is_some_and(|time| due.max(now) > self.started + time);
        if offset >= self.load.range.len() || late {
            return None;
        }
        self.sent.set(sent + 1);
        Some((self.load.range.start + offset, due))
    }

    fn acked(&self, n: usize, due: Instant) {
        let now = Instant::now();
        self.latencies.borrow_mut().push(now - due);
        if let Some(samples) = &self.samples
            && now - self.last_sample.get() >= SAMPLE_INTERVAL
            && self.pool.row(n).is_some()
        {
            self.last_sample.set(now);
            // The observer may have stopped already.
            let _ = samples.send((n, now));
        }
    }
}
