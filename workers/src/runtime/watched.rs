//! Watches a handler: while it waits or makes progress, its attempt is not charged.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ports::queue::MessageId;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use super::attempts::BatchAttempts;

/// A handler that was not woken for this long waits. Long compared with a read of the archive or a step of a
/// computation, so that most handlers cost no further write.
const WAITS_AFTER: Duration = Duration::from_millis(100);

/// A handler that returned control again and again for this long makes progress. What crashes a process
/// mostly does so within its first step.
const PROGRESSES_AFTER: Duration = Duration::from_secs(1);

/// Records that the handler's future was woken.
struct WakeSignal(Notify);

impl Wake for WakeSignal {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Runs a handler to its end.
pub(super) async fn run<T>(
    handler: impl Future<Output = T>,
    attempts: &BatchAttempts<'_>,
    message: &MessageId,
) -> T {
    let signal = Arc::new(WakeSignal(Notify::new()));
    let waker = Waker::from(Arc::clone(&signal));
    let mut handler = pin!(handler);
    let (mut active_since, mut rests) = (Instant::now(), false);
    loop {
        let step = poll_fn(|_| Poll::Ready(handler.as_mut().poll(&mut Context::from_waker(&waker)))).await;
        if let Poll::Ready(result) = step {
            return result;
        }
        // A handler that has used up its turn wakes itself: the next turn begins only after this one ends.
        yield_now().await;
        let waits = timeout(WAITS_AFTER, signal.0.notified()).await.is_err();
        if !rests && (waits || active_since.elapsed() >= PROGRESSES_AFTER) {
            attempts.rest(message).await;
            rests = true;
        }
        if waits {
            signal.0.notified().await;
            // What it does now may be what crashes it.
            attempts.resume(message).await;
            (active_since, rests) = (Instant::now(), false);
        }
    }
}
