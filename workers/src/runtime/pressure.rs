//! Messages first: while this process drains a backlog of messages, its other workers take small steps.
//!
//! They share its processors and its writer thread. Waiting loses none of their work, and none of them stops
//! completely.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A backlog fills a batch every few milliseconds; after this time without a full batch, the backlog is gone.
const PRESSING_FOR: Duration = Duration::from_millis(250);

/// How often a waiting worker checks whether the backlog is gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// After a step, a worker rests for this multiple of its duration: three slots of two workers then use a
/// fifth of one processor in total.
const REST: u32 = 30;

/// A longer step, such as a large file, was mostly waiting for other services.
const LONGEST_REST: Duration = Duration::from_secs(3);

/// Whether messages are pressing; shared by the workers of one process.
#[derive(Debug, Clone, Default)]
pub struct Pressure(Arc<Mutex<Option<Instant>>>);

impl Pressure {
    /// Records that the queue had more messages than one batch takes.
    pub(super) fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_pressing(&self) -> bool {
        let noted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.is_some_and(|noted| noted.elapsed() < PRESSING_FOR)
    }

    /// Rests after a step that took this long, for as long as messages are pressing.
    pub(super) async fn rest_after(&self, step: Duration) {
        let until = Instant::now() + (step * REST).min(LONGEST_REST);
        while self.is_pressing() && Instant::now() < until {
            sleep(CHECK_INTERVAL.min(until - Instant::now())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_worker_rests_only_while_a_backlog_lasts() {
        let pressure = Pressure::default();
        let began = Instant::now();
        pressure.rest_after(Duration::from_millis(100)).await;
        assert_eq!(began.elapsed(), Duration::ZERO);

        pressure.note();
        pressure.rest_after(Duration::from_millis(100)).await;
        assert!(
            (PRESSING_FOR..PRESSING_FOR + CHECK_INTERVAL).contains(&began.elapsed()),
            "{:?}",
            began.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_lasting_backlog_leaves_each_worker_a_share() {
        let pressure = Pressure::default();
        let pressing = pressure.clone();
        let backlog = tokio::spawn(async move {
            loop {
                pressing.note();
                sleep(Duration::from_millis(10)).await;
            }
        });
        tokio::task::yield_now().await;
        let began = Instant::now();
        pressure.rest_after(Duration::from_millis(10)).await;
        assert_eq!(began.elapsed(), Duration::from_millis(10) * REST);
        pressure.rest_after(Duration::from_secs(60)).await;
        assert_eq!(began.elapsed(), Duration::from_millis(10) * REST + LONGEST_REST);
        backlog.abort();
    }
}
