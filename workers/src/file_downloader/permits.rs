//! The rate and the pauses of file requests to Slack.
//!
//! A permit is granted before a job is received, so that a job whose file cannot be requested yet stays on
//! the queue. A job that needs no request returns its permit for the next one.

use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use slack_api::limits::RuntimeClock;
use tokio::time::{Instant, sleep, sleep_until};

/// The rate is smoothed over this fraction of a minute: that share of it may be requested at once.
const BURSTS_PER_MINUTE: u32 = 6;

/// Slack asks for about a minute. A longer pause is cut to this limit.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// The permits of one worker.
pub(super) struct Permits {
    clock: RuntimeClock,
    limiter: RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Nanos>>,
    state: Mutex<PermitState>,
}

#[derive(Default)]
struct PermitState {
    /// Granted for jobs that have not been received yet.
    granted: u32,
    /// Returned by jobs that needed no permit.
    spare: u32,
    paused_until: Option<Instant>,
}

impl PermitState {
    fn pause(&mut self) -> Option<Instant> {
        self.paused_until = self.paused_until.filter(|until| *until > Instant::now());
        self.paused_until
    }
}

impl Permits {
    pub(super) fn new(per_minute: NonZeroU32) -> Self {
        let clock = RuntimeClock::default();
        let burst = NonZeroU32::new(per_minute.get() / BURSTS_PER_MINUTE).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_minute(per_minute).allow_burst(burst);
        Self { limiter: RateLimiter::direct_with_clock(quota, clock.clone()), clock, state: Mutex::default() }
    }

    /// Waits for a permit and reserves it for the next job.
    pub(super) async fn grant(&self) {
        self.obtain().await;
        self.lock().granted += 1;
    }

    /// The permit of a received job, if one was granted for it.
    pub(super) fn claim(&self) -> Permit<'_> {
        let mut state = self.lock();
        let unused = state.granted > 0;
        state.granted = state.granted.saturating_sub(1);
        drop(state);
        Permit { permits: self, unused }
    }

    /// Pauses all requests for this duration.
    pub(super) fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause.min(LONGEST_PAUSE);
        let mut state = self.lock();
        state.paused_until = state.paused_until.max(Some(until));
    }

    async fn obtain(&self) {
        loop {
            self.until_no_pause().await;
            {
                let mut state = self.lock();
                if state.spare > 0 {
                    state.spare -= 1;
                    return;
                }
            }
            match self.limiter.check() {
                Ok(()) => return,
                Err(not_until) => sleep(not_until.wait_time_from(self.clock.now())).await,
            }
        }
    }

    async fn until_no_pause(&self) {
        loop {
            let pause = self.lock().pause();
            match pause {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PermitState> {
        // Each change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permit of one job. If it is dropped unused, the next job gets it.
pub(super) struct Permit<'p> {
    permits: &'p Permits,
    unused: bool,
}

impl Permit<'_> {
    /// Must be called before each request: the first uses the granted permit, every other one waits for its
    /// own.
    pub(super) async fn request(&mut self) {
        if self.unused {
            self.permits.until_no_pause().await;
            self.unused = false;
        } else {
            self.permits.obtain().await;
        }
    }

    /// Waits until requests are allowed again.
    pub(super) async fn until_no_pause(&self) {
        self.permits.until_no_pause().await;
    }

    /// Pauses the requests of all jobs, because Slack asked for it.
    pub(super) fn pause(&self, pause: Duration) {
        self.permits.pause(pause);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.unused {
            self.permits.lock().spare += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(per_minute: u32) -> Permits {
        Permits::new(NonZeroU32::new(per_minute).unwrap())
    }

    async fn job(permits: &Permits, requests: u32) {
        permits.grant().await;
        let mut permit = permits.claim();
        for _ in 0..requests {
            permit.request().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_files_take_the_time_the_rate_allows() {
        let permits = permits(600);
        let began = Instant::now();
        for _ in 0..1_000 {
            job(&permits, 1).await;
        }
        // The first hundred at once, then ten a second.
        let took = began.elapsed();
        assert!((89.5..=91.0).contains(&took.as_secs_f64()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_without_a_request_returns_its_permit() {
        let permits = permits(6);
        let began = Instant::now();
        for _ in 0..1_000 {
            job(&permits, 0).await;
        }
        job(&permits, 1).await;
        assert!(began.elapsed().is_zero());
        job(&permits, 1).await;
        assert!(began.elapsed().as_secs() >= 9, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_applies_to_every_job_and_to_granted_permits() {
        let permits = permits(600);
        permits.grant().await;
        let mut granted = permits.claim();
        job(&permits, 1).await;
        permits.pause(Duration::from_secs(30));
        permits.pause(Duration::from_secs(1));
        let began = Instant::now();
        tokio::join!(granted.request(), job(&permits, 1));
        assert_eq!(began.elapsed(), Duration::from_secs(30));

        permits.pause(Duration::MAX);
        job(&permits, 1).await;
        assert_eq!(began.elapsed(), Duration::from_secs(30) + LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_request_waits_for_its_own_permit() {
        let permits = permits(6);
        let began = Instant::now();
        job(&permits, 3).await;
        assert_eq!(began.elapsed().as_secs(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_wait_consumes_no_permit() {
        let permits = permits(6);
        job(&permits, 1).await;
        let began = Instant::now();
        for _ in 0..9 {
            drop(tokio::time::timeout(Duration::from_secs(1), permits.grant()).await);
        }
        job(&permits, 1).await;
        assert_eq!(began.elapsed().as_secs(), 10);
    }
}
