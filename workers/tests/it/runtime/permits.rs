//! A worker that receives jobs only with permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::QueueName;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep};
use workers::runtime::{self, Batch, Worker};

use super::fixture::{RuntimeFixture, Scripted, done, settings};

struct Permitted {
    inner: Arc<Scripted>,
    permits: Semaphore,
    permit_calls: AtomicUsize,
}

#[async_trait]
impl Worker for Permitted {
    fn queue(&self) -> QueueName {
        self.inner.queue()
    }

    fn max_batch(&self) -> usize {
        1
    }

    async fn permit(&self) {
        self.permit_calls.fetch_add(1, Ordering::SeqCst);
        self.permits.acquire().await.unwrap().forget();
    }

    async fn work(&self, batch: &Batch<'_>) {
        self.inner.work(batch).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_is_received_only_with_a_permit_and_an_empty_receive_uses_none() {
    let fixture = RuntimeFixture::new();
    let worker = Arc::new(Permitted {
        inner: Scripted::new(|_, _| done()),
        permits: Semaphore::new(2),
        permit_calls: AtomicUsize::new(0),
    });
    let (stop, shutdown) = watch::channel(false);
    let running = tokio::spawn(runtime::run(worker.clone(), fixture.ports(), settings(), shutdown));
    // Many empty receives.
    sleep(Duration::from_secs(300)).await;
    assert_eq!(worker.permit_calls.load(Ordering::SeqCst), 1);

    fixture.send(&["a1", "b1", "c1"]).await;
    sleep(Duration::from_secs(300)).await;
    assert_eq!(worker.inner.done(), ["a1", "b1"]);
    let depth = fixture.queue.depth(QueueName::Events.into()).await.unwrap();
    assert_eq!((depth.waiting, depth.in_flight), (1, 0), "a job without a permit has no lease");

    worker.permits.add_permits(1);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(worker.inner.done(), ["a1", "b1", "c1"]);

    let began = Instant::now();
    stop.send_replace(true);
    running.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "the shutdown waits for no permit");
}
