//! Single flight: a caller whose question is already pending waits for the same answer.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// A pending question.
#[derive(Clone)]
pub(in crate::admission) struct PendingAnswer<A> {
    began: Instant,
    task: AbortHandle,
    /// Wakes its waiters in the order of their arrival.
    answer: Shared<BoxFuture<'static, Option<A>>>,
}

impl<A: Clone> PendingAnswer<A> {
    /// When the question was asked: a later caller need not wait as long.
    pub(in crate::admission) fn began(&self) -> Instant {
        self.began
    }

    /// The answer; `None` if the task that asked has crashed.
    pub(in crate::admission) async fn answer(self) -> Option<A> {
        self.answer.await
    }
}

/// All pending questions of one kind.
pub(in crate::admission) struct SingleFlight<K, A>(Mutex<HashMap<K, PendingAnswer<A>>>);

impl<K, A> SingleFlight<K, A>
where
    K: Eq + Hash,
    A: Clone + Send + Sync + 'static,
{
    pub(in crate::admission) fn new() -> Self {
        Self(Mutex::default())
    }

    /// The pending question of this key, if there is one.
    pub(in crate::admission) fn pending(&self, key: &K) -> Option<PendingAnswer<A>> {
        self.pending_questions().get(key).cloned()
    }

    /// The question of this key: the pending one, or a new one. It continues in its own task even if no
    /// caller waits.
    pub(in crate::admission) fn join<F>(&self, key: K, ask: impl FnOnce() -> F) -> PendingAnswer<A>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let mut questions = self.pending_questions();
        if let Some(question) = questions.get(&key) {
            return question.clone();
        }
        let task = tokio::spawn(ask());
        let (began, abort) = (Instant::now(), task.abort_handle());
        let question = PendingAnswer { began, task: abort, answer: task.map(Result::ok).boxed().shared() };
        questions.insert(key, question.clone());
        question
    }

    /// The pending questions, without those whose tasks have ended, even by a panic: the next caller asks
    /// again.
    fn pending_questions(&self) -> MutexGuard<'_, HashMap<K, PendingAnswer<A>>> {
        // Each change is one insert or one removal.
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.retain(|_, question| !question.task.is_finished());
        questions
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn concurrent_callers_share_an_answer_and_a_later_caller_asks_again() {
        let questions: SingleFlight<&str, usize> = SingleFlight::new();
        let asked = Arc::new(AtomicUsize::new(0));
        let ask = || {
            let asked = Arc::clone(&asked);
            async move { asked.fetch_add(1, Ordering::SeqCst) + 1 }
        };
        let together: Vec<_> = (0..10).map(|_| questions.join("a", ask)).collect();
        for question in together {
            assert_eq!(question.answer().await, Some(1));
        }
        assert_eq!(questions.join("a", ask).answer().await, Some(2));
        assert_eq!(questions.join("b", ask).answer().await, Some(3));
    }

    #[tokio::test]
    async fn a_question_that_crashes_is_asked_again() {
        let questions: SingleFlight<&str, usize> = SingleFlight::new();
        assert_eq!(questions.join("a", || async { panic!("as planned") }).answer().await, None);
        assert_eq!(questions.join("a", || async { 1 }).answer().await, Some(1));
    }
}
