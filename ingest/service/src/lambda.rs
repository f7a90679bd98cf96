//! Ingest as a Lambda function behind a Function URL: the same router, one request at a time.
//! <https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html>
//!
//! A function is frozen as soon as it has responded, so no work may remain by then: the router responds only
//! after the queue has confirmed the event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::http::Uri;
use ingest::READY_PATH;
use lambda_http::{Error, Request};
use ports::clock::{SharedClock, TimestampMs};
use process::telemetry::emf::Emf;
use process::telemetry::throttle::LogThrottle;
use tower::{ServiceExt, service_fn};

/// Metrics are written rarely, because a line for every event would cost as much as the queue. They are
/// written after this number of requests at the latest: a line can contain a hundred values of a
/// distribution. Metrics that are not written before the function ends are lost.
const REQUESTS_BETWEEN_FLUSHES: u32 = 90;

/// Serves Lambda's Runtime API until the function ends.
///
/// # Errors
/// If the Runtime API does not respond.
pub(crate) async fn serve(router: Router, metrics: Emf, clock: SharedClock) -> Result<(), Error> {
    let due = Arc::new(MetricsSchedule::new());
    let answer = service_fn(move |request: Request| {
        let (router, due, clock) = (router.clone(), Arc::clone(&due), Arc::clone(&clock));
        let metrics = metrics.clone();
        async move {
            let response = router.oneshot(hide_ready_path(request)).await;
            if due.is_due_after_request(clock.now()) {
                metrics.flush();
            }
            response
        }
    });
    lambda_http::run(answer).await
}

/// Hides `/readyz`, which calls the queue: anyone on the internet could cause the cost of such calls. No load
/// balancer checks a function, so the path does not exist here.
fn hide_ready_path(mut request: Request) -> Request {
    if request.uri().path() == READY_PATH {
        *request.uri_mut() = Uri::from_static("/");
    }
    request
}

/// Decides when metrics are written. Uses the wall clock: a function is frozen between two events, and AWS
/// does not document whether its monotonic clocks continue in the meantime.
struct MetricsSchedule {
    throttle: LogThrottle,
    requests: AtomicU32,
}

impl MetricsSchedule {
    fn new() -> Self {
        Self { throttle: LogThrottle::new(), requests: AtomicU32::new(0) }
    }

    /// Counts a request and returns whether metrics must be written now; if so, starts a new interval.
    fn is_due_after_request(&self, now: TimestampMs) -> bool {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let due = self.throttle.permit_line(now).is_some() || requests >= REQUESTS_BETWEEN_FLUSHES;
        if due {
            self.requests.store(0, Ordering::Relaxed);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_function_has_no_ready_path() {
        let path_after = |uri: &str| {
            let mut request = Request::default();
            *request.uri_mut() = uri.parse().unwrap();
            hide_ready_path(request).uri().path().to_owned()
        };
        for uri in ["/readyz", "https://a.lambda-url.eu-central-1.on.aws/readyz?x=1"] {
            assert_eq!(path_after(uri), "/");
        }
        for uri in ["/healthz", "/slack/events", "/readyz/"] {
            assert_eq!(path_after(uri), uri);
        }
    }

    #[test]
    fn metrics_are_written_after_the_first_request_at_intervals_and_before_a_line_is_full() {
        let (due, start) = (MetricsSchedule::new(), TimestampMs(1_700_000_000_000));
        assert!(due.is_due_after_request(start), "a function that receives one event reports it");
        assert!(!due.is_due_after_request(start));
        let later = start.plus(Duration::from_secs(10));
        assert!(due.is_due_after_request(later));
        let burst: Vec<bool> =
            (0..REQUESTS_BETWEEN_FLUSHES).map(|_| due.is_due_after_request(later)).collect();
        assert_eq!(burst.iter().position(|due| *due), Some(burst.len() - 1));
    }
}
