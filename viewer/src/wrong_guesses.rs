//! Wrong passwords and cookies: each costs time, and the log counts them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Delay of the response to a wrong password or cookie, so that guessing is impractical.
const WRONG_GUESS_DELAY: Duration = Duration::from_secs(1);

/// The interval between two log lines about wrong guesses.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The wrong passwords and cookies of all clients.
#[derive(Default)]
pub(crate) struct WrongGuesses {
    /// Locked while a password is compared, and for a pause after a wrong one. Clients get it
    /// in the order of their requests.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    unlogged: Mutex<UnloggedGuesses>,
}

#[derive(Default)]
struct UnloggedGuesses {
    logged_at: Option<Instant>,
    count: u64,
}

impl WrongGuesses {
    /// Counts a wrong guess, and returns after the time that it costs.
    pub(crate) async fn answer_wrong(&self) {
        if let Some(guesses) = self.count_wrong() {
            tracing::warn!(guesses, "a client sent wrong passwords or cookies for the pages");
        }
        sleep(WRONG_GUESS_DELAY).await;
    }

    /// Counts a wrong guess. Returns the guesses since the last log line, if it is time for another.
    fn count_wrong(&self) -> Option<u64> {
        let mut unlogged = self.unlogged.lock().unwrap_or_else(PoisonError::into_inner);
        unlogged.count += 1;
        if unlogged.logged_at.is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
            return None;
        }
        unlogged.logged_at = Some(Instant::now());
        Some(std::mem::take(&mut unlogged.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses virtual time.
    #[tokio::test(start_paused = true)]
    async fn wrong_guesses_are_logged_once_a_minute_with_their_number() {
        let guesses = WrongGuesses::default();
        assert_eq!(guesses.count_wrong(), Some(1));
        assert!((0..500).all(|_| guesses.count_wrong().is_none()));
        sleep(LOG_INTERVAL).await;
        assert_eq!([guesses.count_wrong(), guesses.count_wrong()], [Some(501), None]);
    }
}
