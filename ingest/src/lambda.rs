//! Ingest as a Lambda function behind a Function URL: the same router, one request at a time.
//! <https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html>
//!
//! A function is frozen as soon as it has answered, so nothing may be left to do by then: the router answers only after
//! the queue has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use hyper::Uri;
use lambda_http::{Error, Request};
use ports::clock::{SharedClock, TimestampMs};
use process::telemetry::emf::Emf;
use tower::{ServiceExt, service_fn};

use crate::READY_PATH;
use crate::throttle::LogThrottle;

/// Metrics are written rarely, because a line for every event would cost as much as the queue does, but after this number of
/// requests at the latest: a line has room for a hundred values of a distribution. What is not written when the function
/// ends is lost.
const REQUESTS_BETWEEN_FLUSHES: u32 = 90;

/// Serves Lambda's Runtime API until the function ends.
///
/// # Errors
/// If the Runtime API does not answer.
pub async fn serve(router: Router, metrics: Emf, clock: SharedClock) -> Result<(), Error> {
    let due = Arc::new(MetricsSchedule::new());
    let answer = service_fn(move |request: Request| {
        let (router, due, clock) = (router.clone(), Arc::clone(&due), Arc::clone(&clock));
        let metrics = metrics.clone();
        async move {
            let response = router.oneshot(for_slack(request)).await;
            if due.comes(clock.now()) {
                metrics.flush();
            }
            response
        }
    });
    lambda_http::run(answer).await
}

/// `/readyz` asks the queue, which costs a call that anyone on the internet could cause. No load balancer asks a function
/// whether it is ready, so here the path does not exist.
fn for_slack(mut request: Request) -> Request {
    if request.uri().path() == READY_PATH {
        *request.uri_mut() = Uri::from_static("/");
    }
    request
}

/// When metrics are written. By the wall clock: a function is frozen between two events, and AWS does not document whether its other
/// clocks go on meanwhile.
struct MetricsSchedule {
    throttle: LogThrottle,
    requests: AtomicU32,
}

impl MetricsSchedule {
    fn new() -> Self {
        Self { throttle: LogThrottle::new(), requests: AtomicU32::new(0) }
    }

    /// Whether metrics are due after one more request; if so, they are taken to be written.
    fn comes(&self, now: TimestampMs) -> bool {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let due = self.throttle.pass(now).is_some() || requests >= REQUESTS_BETWEEN_FLUSHES;
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
    fn a_function_does_not_say_whether_it_is_ready() {
        let asked = |uri: &str| {
            let mut request = Request::default();
            *request.uri_mut() = uri.parse().unwrap();
            for_slack(request).uri().path().to_owned()
        };
        for uri in ["/readyz", "https://a.lambda-url.eu-central-1.on.aws/readyz?x=1"] {
            assert_eq!(asked(uri), "/");
        }
        for uri in ["/healthz", "/slack/events", "/readyz/"] {
            assert_eq!(asked(uri), uri);
        }
    }

    #[test]
    fn metrics_are_written_at_first_then_now_and_then_and_before_a_line_is_full() {
        let (due, start) = (MetricsSchedule::new(), TimestampMs(1_700_000_000_000));
        assert!(due.comes(start), "a function that sees one event says so");
        assert!(!due.comes(start));
        let later = start.plus(Duration::from_secs(10));
        assert!(due.comes(later));
        let burst: Vec<bool> = (0..REQUESTS_BETWEEN_FLUSHES).map(|_| due.comes(later)).collect();
        assert_eq!(burst.iter().position(|due| *due), Some(burst.len() - 1));
    }
}
