//! A worker whose concurrency a test can see.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::QueueName;
use tokio::sync::watch;
use workers::runtime::{Batch, Worker};

/// A worker that records which groups it works on at once.
pub(crate) struct WatchedWorker<W> {
    worker: W,
    now: Mutex<BTreeSet<String>>,
    /// The most groups at once so far.
    pub(crate) most: watch::Sender<usize>,
    /// The jobs that are done.
    pub(crate) done: watch::Sender<usize>,
}

impl<W> WatchedWorker<W> {
    pub(crate) fn new(worker: W) -> Arc<Self> {
        Arc::new(Self {
            worker,
            now: Mutex::default(),
            most: watch::Sender::new(0),
            done: watch::Sender::new(0),
        })
    }
}

#[async_trait]
impl<W: Worker> Worker for WatchedWorker<W> {
    fn queue(&self) -> QueueName {
        self.worker.queue()
    }

    fn max_batch(&self) -> usize {
        self.worker.max_batch()
    }

    fn slots(&self) -> Option<usize> {
        self.worker.slots()
    }

    fn poll_interval(&self) -> Option<Duration> {
        self.worker.poll_interval()
    }

    fn first_poll_delay(&self) -> Duration {
        self.worker.first_poll_delay()
    }

    async fn poll(&self) {
        self.worker.poll().await;
    }

    async fn work(&self, batch: &Batch<'_>) {
        let groups: Vec<String> = batch.jobs().iter().map(|job| job.delivery.group.to_string()).collect();
        {
            let mut now = self.now.lock().unwrap();
            for group in &groups {
                assert!(now.insert(group.clone()), "{group} is worked on twice at once");
            }
            self.most.send_modify(|most| *most = now.len().max(*most));
        }
        self.worker.work(batch).await;
        let mut now = self.now.lock().unwrap();
        now.retain(|group| !groups.contains(group));
        self.done.send_modify(|done| *done += groups.len());
    }
}
