//! Priority for requests: while Slack sends a burst of events, the workers of the same process wait.
//!
//! Slack gives up on a request after 3 s and slows down for an app that responds late; a job on the queue is
//! durable and can wait. Both share the machine's CPUs, so ingest acknowledges a burst first and the workers
//! drain it afterwards.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The number of concurrent requests that counts as a burst. Requests share group commits, so at Slack's
/// limit of 30,000 events an hour for a workspace rarely more than one is open at once.
const BURST: usize = 32;

/// A burst is over after this interval with fewer requests: requests that shared a commit are answered
/// together, and the senders need a moment to send the next ones.
const CALM: Duration = Duration::from_millis(5);

/// How often a waiting worker checks whether the burst is over.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The maximum wait of a worker before its next batch, so that an endless burst cannot stop it.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Counts the requests that ingest is answering; shared with the workers of the same process.
#[derive(Debug, Clone, Default)]
pub struct OpenRequests(Arc<OpenCount>);

#[derive(Debug, Default)]
struct OpenCount {
    open: AtomicUsize,
    /// When a request was last part of a burst.
    last_of_burst: Mutex<Option<Instant>>,
}

/// One request, counted until this is dropped.
#[derive(Debug)]
pub struct OpenRequest(Arc<OpenCount>);

impl OpenRequests {
    /// Counts a request.
    pub fn open(&self) -> OpenRequest {
        if self.0.open.fetch_add(1, Ordering::Relaxed) + 1 >= BURST {
            *self.0.last_of_burst.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        OpenRequest(Arc::clone(&self.0))
    }

    /// Resolves when there is no burst, or after [`LONGEST_WAIT`].
    pub async fn wait_for_burst_to_end(&self) {
        let until = Instant::now() + LONGEST_WAIT;
        while self.is_burst() && Instant::now() < until {
            sleep(POLL_INTERVAL).await;
        }
    }

    fn is_burst(&self) -> bool {
        let last_of_burst = *self.0.last_of_burst.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.open.load(Ordering::Relaxed) >= BURST || last_of_burst.is_some_and(|at| at.elapsed() < CALM)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_worker_waits_until_a_burst_ends() {
        let requests = OpenRequests::default();
        let began = Instant::now();
        let mut open: Vec<OpenRequest> = (1..BURST).map(|_| requests.open()).collect();
        requests.wait_for_burst_to_end().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "a few requests are not a burst");

        open.push(requests.open());
        let ends = async {
            sleep(Duration::from_secs(1)).await;
            open.pop();
        };
        tokio::join!(requests.wait_for_burst_to_end(), ends);
        assert!((Duration::from_secs(1)..Duration::from_millis(1_010)).contains(&began.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_continues_if_new_requests_follow_a_shared_commit() {
        let requests = OpenRequests::default();
        let began = Instant::now();
        // Both are shorter than [`CALM`], after which a burst is over.
        let (answered_after, next_after) = (Duration::from_millis(3), Duration::from_millis(2));
        let senders = async {
            for _ in 0..10 {
                let open: Vec<OpenRequest> = (0..BURST).map(|_| requests.open()).collect();
                sleep(answered_after).await;
                drop(open);
                sleep(next_after).await;
            }
        };
        tokio::join!(senders, async {
            sleep(Duration::from_millis(1)).await;
            requests.wait_for_burst_to_end().await;
        });
        let last_sent = (answered_after + next_after) * 9;
        assert!((last_sent + CALM..last_sent + CALM + POLL_INTERVAL * 2).contains(&began.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_burst_cannot_stop_a_worker() {
        let requests = OpenRequests::default();
        let _open: Vec<OpenRequest> = (0..BURST).map(|_| requests.open()).collect();
        let began = Instant::now();
        requests.wait_for_burst_to_end().await;
        assert!((LONGEST_WAIT..LONGEST_WAIT + POLL_INTERVAL * 2).contains(&began.elapsed()));
    }
}
