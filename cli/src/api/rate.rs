//! The limit on the calls of each reader.

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use reader::access::Reader;
use viewer::program_error;

/// Calls that a reader may make at once, if the limit in a minute allows as many.
const BURST: NonZeroU32 = NonZeroU32::new(60).unwrap();

/// The number of readers above which those who made no call lately are forgotten.
const MAX_REMEMBERED: usize = 10_000;

/// The calls of each reader.
pub(crate) struct CallLimits {
    calls: RateLimiter<String, HashMapStateStore<String>, DefaultClock>,
    clock: DefaultClock,
}

impl CallLimits {
    /// `None` without a limit, which zero stands for.
    pub(crate) fn per_minute(calls: u32) -> Option<Arc<Self>> {
        let calls = NonZeroU32::new(calls)?;
        let quota = Quota::per_minute(calls).allow_burst(calls.min(BURST));
        Some(Arc::new(Self { calls: RateLimiter::hashmap(quota), clock: DefaultClock::default() }))
    }

    /// Counts a call, and returns after how many seconds it may be made if it is too many.
    fn count(&self, reader: &Reader) -> Result<(), u64> {
        if self.calls.len() > MAX_REMEMBERED {
            self.calls.retain_recent();
        }
        let counted = self.calls.check_key(&reader.counted_as());
        counted.map_err(|until| until.wait_time_from(self.clock.now()).as_secs() + 1)
    }

    /// Refuses calls above the limit.
    pub(crate) async fn limit(
        State(limits): State<Arc<Self>>,
        Extension(reader): Extension<Reader>,
        request: Request,
        next: Next,
    ) -> Response {
        match limits.count(&reader) {
            Ok(()) => next.run(request).await,
            Err(seconds) => {
                let line = format!("too many calls: try again after {seconds} s");
                let refused = program_error(StatusCode::TOO_MANY_REQUESTS, &line);
                ([(RETRY_AFTER, seconds.to_string())], refused).into_response()
            }
        }
    }
}
