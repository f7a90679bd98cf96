//! Ingest as a Lambda function behind a Function URL: the same router, one request at a time.
//! <https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html>
//!
//! A function is frozen as soon as it has answered, so nothing may be left to do by then: the router answers only after
//! the queue has.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use lambda_http::{Error, Request};
use shared::telemetry::emf::Emf;
use tower::{ServiceExt, service_fn};

/// Metrics are written at most this often: a line for every event would cost as much as the queue does. What is not
/// written when the function ends is lost.
const BETWEEN_FLUSHES: Duration = Duration::from_secs(10);

/// Or after so many requests: a line has room for a hundred values of a distribution.
const REQUESTS_BETWEEN_FLUSHES: u32 = 90;

/// Serves Lambda's Runtime API until the function ends.
///
/// # Errors
/// Where the Runtime API does not answer.
pub async fn serve(router: Router, metrics: Emf) -> Result<(), Error> {
    let due = Arc::new(Due::new(Instant::now()));
    let answer = service_fn(move |request: Request| {
        let (router, due) = (router.clone(), Arc::clone(&due));
        async move {
            let response = router.oneshot(request).await;
            if due.comes(Instant::now()) {
                metrics.flush();
            }
            response
        }
    });
    lambda_http::run(answer).await
}

/// When metrics are written.
struct Due(Mutex<Since>);

/// The last flush, and the requests since then.
struct Since {
    flushed_at: Instant,
    requests: u32,
}

impl Due {
    fn new(now: Instant) -> Self {
        Self(Mutex::new(Since { flushed_at: now, requests: 0 }))
    }

    /// Whether metrics are due after one more request; if so, they are taken to be written.
    fn comes(&self, now: Instant) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.requests += 1;
        let due = since.requests >= REQUESTS_BETWEEN_FLUSHES
            || now.saturating_duration_since(since.flushed_at) >= BETWEEN_FLUSHES;
        if due {
            *since = Since { flushed_at: now, requests: 0 };
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_now_and_then_and_before_a_line_is_full() {
        let start = Instant::now();
        let due = Due::new(start);
        assert!(!due.comes(start));
        assert!(due.comes(start + BETWEEN_FLUSHES));
        let burst: Vec<bool> =
            (0..REQUESTS_BETWEEN_FLUSHES).map(|_| due.comes(start + BETWEEN_FLUSHES)).collect();
        assert_eq!(burst.iter().position(|due| *due), Some(burst.len() - 1));
    }
}
