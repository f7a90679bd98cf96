//! Questions on their way: a caller with the same question waits for the same answer.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// One question on its way.
#[derive(Clone)]
pub(super) struct Flight<A> {
    began: Instant,
    /// Wakes those who wait in the order in which they came.
    answer: Shared<BoxFuture<'static, Option<A>>>,
}

impl<A: Clone> Flight<A> {
    /// When it was asked: a later caller need not wait as long.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Its answer; `None` if the asking task has crashed.
    pub(super) async fn landed(self) -> Option<A> {
        self.answer.await
    }
}

/// All questions of one kind that are on their way.
pub(super) struct Flights<K, A>(Arc<Mutex<HashMap<K, Flight<A>>>>);

impl<K, A> Flights<K, A>
where
    K: Eq + Hash + Clone + Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// The flight of this key, if there is one.
    pub(super) fn on_its_way(&self, key: &K) -> Option<Flight<A>> {
        lock(&self.0).get(key).cloned()
    }

    /// The flight of this key: the one on its way, or else a new one. It goes on in a task of its own, even if no caller waits.
    pub(super) fn join<F>(&self, key: K, ask: impl FnOnce() -> F) -> Flight<A>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let mut flights = lock(&self.0);
        if let Some(flight) = flights.get(&key) {
            return flight.clone();
        }
        let (landed, answer) = oneshot::channel();
        let answer = answer.map(Result::ok).boxed().shared();
        let flight = Flight { began: Instant::now(), answer };
        flights.insert(key.clone(), flight.clone());
        let asking = ask();
        // Removed even if the task panics: the next one asks again.
        let takeoff = Takeoff { flights: Arc::clone(&self.0), key };
        tokio::spawn(async move {
            let answer = asking.await;
            drop(takeoff);
            // All waiting callers may be gone.
            drop(landed.send(answer));
        });
        flight
    }
}

struct Takeoff<K: Eq + Hash, A> {
    flights: Arc<Mutex<HashMap<K, Flight<A>>>>,
    key: K,
}

impl<K: Eq + Hash, A> Drop for Takeoff<K, A> {
    fn drop(&mut self) {
        lock(&self.flights).remove(&self.key);
    }
}

fn lock<K, A>(flights: &Mutex<HashMap<K, Flight<A>>>) -> MutexGuard<'_, HashMap<K, Flight<A>>> {
    // Each change is one insert or one removal.
    flights.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn whoever_asks_meanwhile_hears_the_same_answer_and_whoever_asks_later_asks_again() {
        let flights: Flights<&str, usize> = Flights::new();
        let asked = Arc::new(AtomicUsize::new(0));
        let ask = || {
            let asked = Arc::clone(&asked);
            async move { asked.fetch_add(1, Ordering::SeqCst) + 1 }
        };
        let together: Vec<_> = (0..10).map(|_| flights.join("a", ask)).collect();
        for flight in together {
            assert_eq!(flight.landed().await, Some(1));
        }
        assert_eq!(flights.join("a", ask).landed().await, Some(2));
        assert_eq!(flights.join("b", ask).landed().await, Some(3));
    }

    #[tokio::test]
    async fn a_question_that_crashes_is_asked_again() {
        let flights: Flights<&str, usize> = Flights::new();
        assert_eq!(flights.join("a", || async { panic!("as planned") }).landed().await, None);
        assert_eq!(flights.join("a", || async { 1 }).landed().await, Some(1));
    }
}
