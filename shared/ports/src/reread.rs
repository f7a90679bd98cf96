//! A value that is read again from its source while the process runs: the tokens and the signing secret change
//! without a restart.
//!
//! Ages are by the wall clock: a function is frozen between two events, and AWS does not document whether its
//! monotonic clocks continue in the meantime.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use crate::clock::{SharedClock, TimestampMs};

/// How often a value is read again.
#[derive(Debug, Clone, Copy)]
pub struct RereadLimits {
    /// A value of this age is read again at its next use.
    pub max_age: Duration,
    /// The minimum interval between two reads, however many callers ask for one.
    pub min_interval: Duration,
    /// The timeout of a read. No caller waits longer.
    pub time_limit: Duration,
}

/// A read of the value, which gets the last one, and returns the same if nothing changed. An error contains no
/// secret.
pub type ReadAgain<T> =
    Box<dyn Fn(Arc<T>) -> Pin<Box<dyn Future<Output = Result<Arc<T>, String>> + Send>> + Send + Sync>;

/// A value with its source. If reading fails, the last value stays in use.
pub struct Reread<T> {
    state: Mutex<RereadState<T>>,
    source: Option<RereadSource<T>>,
}

struct RereadState<T> {
    value: Arc<T>,
    /// When the last read began.
    read_at: TimestampMs,
    is_failing: bool,
}

struct RereadSource<T> {
    name: &'static str,
    read: ReadAgain<T>,
    limits: RereadLimits,
    clock: SharedClock,
    /// Locked while the value is read.
    reading: tokio::sync::Mutex<()>,
}

impl<T> Reread<T> {
    /// A value that never changes, such as that of a variable.
    pub fn fixed(value: T) -> Self {
        Self::with_source(Arc::new(value), TimestampMs::default(), None)
    }

    /// A value that was just read from its source. `name` is the setting, for the log.
    pub fn new(
        name: &'static str,
        value: Arc<T>,
        limits: RereadLimits,
        clock: SharedClock,
        read: ReadAgain<T>,
    ) -> Self {
        let read_at = clock.now();
        let reading = tokio::sync::Mutex::default();
        Self::with_source(value, read_at, Some(RereadSource { name, read, limits, clock, reading }))
    }

    fn with_source(value: Arc<T>, read_at: TimestampMs, source: Option<RereadSource<T>>) -> Self {
        Self { state: Mutex::new(RereadState { value, read_at, is_failing: false }), source }
    }

    /// The last value, without a read.
    pub fn last(&self) -> Arc<T> {
        Arc::clone(&self.state().value)
    }

    /// The value, which is read again first if it is too old.
    pub async fn fresh(&self) -> Arc<T> {
        match &self.source {
            Some(source) if self.is_due(source, source.limits.max_age) => self.reread().await,
            Some(_) | None => self.last(),
        }
    }

    /// The value, which is read again first unless it was just read: the last one does not fit. Concurrent
    /// callers wait for the same read.
    pub async fn reread(&self) -> Arc<T> {
        if let Some(source) = &self.source {
            let _reading = source.reading.lock().await;
            if self.is_due(source, source.limits.min_interval) {
                self.read(source).await;
            }
        }
        self.last()
    }

    async fn read(&self, source: &RereadSource<T>) {
        let last = {
            let mut state = self.state();
            // Before the read, so that a caller that does not wait for its end cannot cause another one.
            state.read_at = source.clock.now();
            Arc::clone(&state.value)
        };
        let read = timeout(source.limits.time_limit, (source.read)(last)).await;
        let read = read.unwrap_or_else(|_| Err("it was not read in time".to_owned()));
        let name = source.name;
        let mut state = self.state();
        match read {
            Ok(value) => {
                if std::mem::take(&mut state.is_failing) {
                    tracing::info!(name, "a setting can be read again");
                }
                state.value = value;
            }
            Err(error) => {
                // Once for each outage.
                if !std::mem::replace(&mut state.is_failing, true) {
                    tracing::warn!(name, error, "cannot read a setting again; the last value stays in use");
                }
            }
        }
    }

    fn is_due(&self, source: &RereadSource<T>, age: Duration) -> bool {
        let (now, read_at) = (source.clock.now(), self.state().read_at);
        // If it was read in the future, the clock was set back.
        now < read_at || now.since(read_at) >= age
    }

    fn state(&self) -> MutexGuard<'_, RereadState<T>> {
        // Ignore poisoning: no change can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Reread<T> {
    /// Without the value, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reread({})", self.source.as_ref().map_or("fixed", |source| source.name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::clock::ManualClock;

    const LIMITS: RereadLimits = RereadLimits {
        max_age: Duration::from_secs(300),
        min_interval: Duration::from_secs(15),
        time_limit: Duration::from_secs(2),
    };

    /// A value that counts its reads; each takes `took`, and the read with the number `fails` fails.
    fn counted(took: Duration, fails: u32) -> (Reread<u32>, Arc<ManualClock>) {
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let reads = Arc::new(AtomicU32::new(0));
        let read = Box::new(move |_| {
            let number = reads.fetch_add(1, Ordering::SeqCst) + 1;
            let read = async move {
                sleep(took).await;
                if number == fails { Err("hidden".to_owned()) } else { Ok(Arc::new(number)) }
            };
            Box::pin(read) as Pin<Box<dyn Future<Output = _> + Send>>
        });
        (Reread::new("NAME", Arc::new(0), LIMITS, clock.clone(), read), clock)
    }

    #[tokio::test]
    async fn a_value_is_read_again_when_it_is_old_or_does_not_fit_but_not_too_often() {
        let (value, clock) = counted(Duration::ZERO, 2);
        let seconds = Duration::from_secs;
        for (later_s, reread, expected) in [
            (299, false, 0),
            (1, false, 1),
            (14, true, 1),
            // The read fails: the last value stays, and the failed read counts.
            (1, true, 1),
            (14, true, 1),
            (1, true, 3),
            (14, true, 3),
            (285, false, 3),
            (1, false, 4),
        ] {
            clock.advance(seconds(later_s));
            let read = if reread { value.reread().await } else { value.fresh().await };
            assert_eq!((*read, *value.last()), (expected, expected), "{later_s} {reread}");
        }
        clock.set_back(seconds(3_600));
        assert_eq!((*value.fresh().await, *value.reread().await), (5, 5), "the clock was set back");
        assert_eq!(*Reread::fixed(7).reread().await, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_wait_for_one_read_and_none_waits_longer_than_the_time_limit() {
        let (value, clock) = counted(Duration::from_secs(1), 0);
        clock.advance(LIMITS.min_interval);
        let (first, second) = tokio::join!(value.reread(), value.reread());
        assert_eq!((*first, *second), (1, 1));

        let (slow, clock) = counted(Duration::from_secs(60), 0);
        clock.advance(LIMITS.max_age);
        let began = Instant::now();
        let (first, second) = tokio::join!(slow.reread(), slow.fresh());
        assert_eq!((*first, *second, began.elapsed()), (0, 0, LIMITS.time_limit));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_causes_no_second_read() {
        let (value, clock) = counted(Duration::from_secs(1), 0);
        clock.advance(LIMITS.min_interval);
        let cut = timeout(Duration::from_millis(1), value.reread()).await;
        assert!(cut.is_err());
        assert_eq!(*value.reread().await, 0);
        clock.advance(LIMITS.min_interval);
        assert_eq!(*value.reread().await, 2);
    }
}
