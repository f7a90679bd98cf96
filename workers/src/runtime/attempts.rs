//! Detects poison: jobs that crash their handler, in any way.
//!
//! A process that crashes cannot count its own crash. So a job that was received more than once runs alone,
//! and before it runs, a durable marker is written for the attempt. When the handler returns, with any
//! result, or is cancelled, the marker is removed. Markers that stay are crashes. A first delivery costs
//! nothing, and a job that only waited behind another is never charged.
//!
//! A handler crashes its process while it computes, never while it waits. So while it waits, or has come a
//! good way, its marker says so ([`BatchAttempts::rest`]); a process that ends then was ended from outside,
//! which also shows that the attempts before were no crashes of this job: its markers begin anew. The same holds
//! if the job was received in between and never begun: what ended that process was not this job. A job whose
//! process is ended again and again from outside is therefore hardly ever poison, and one that ends its process
//! itself is, after however long a wait.
//!
//! A lease may end early, and then the last marker belongs to a handler that is still running. So enough
//! markers are not poison yet: the job first waits until its last handler has stopped and removed its marker.
//! The verdict itself is a conditional write: it counts only if the markers are unchanged since they were
//! read, and from then on no process removes them.
//!
//! A marker that cannot be removed because the archive is unavailable is remembered and removed later.
//! Otherwise it would count as a crash, and an archive outage would turn the jobs it delayed into poison.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ArchiveExt, Guard, Item, ItemKey, Update, WriteOutcome};
use ports::queue::{Delivery, MessageId, QueueRef};

use super::{JobOutcome, JobRetry};
use crate::quarantine::aside::team_of_group;

/// The register that contains a job's [`AttemptState`].
const STATE: &str = "attempts";

/// The attribute that contains the number of the receive in which the last attempt began.
const RECEIVE: &str = "receive";

/// Maximum number of remembered removals: some megabytes. A further marker counts as a crash.
const MAX_PENDING_REMOVALS: usize = 10_000;

/// The attempts of one worker.
pub(super) struct Attempts {
    pub(super) archive: Arc<dyn Archive>,
    pub(super) queue: QueueRef,
    pub(super) worker: &'static str,
    pub(super) max_crashes: u32,
    /// After this time, a handler whose lease was lost has stopped.
    pub(super) visibility_timeout: Duration,
    pub(super) pending_removals: Mutex<BTreeSet<AttemptMarker>>,
}

/// The attempts of one batch that have begun and not ended. They are stored outside the handler's future: if
/// the lease ends first, that future is dropped, which is not a crash.
pub(super) struct BatchAttempts<'a> {
    attempts: &'a Attempts,
    open: Mutex<BTreeMap<MessageId, AttemptMarker>>,
}

/// Proof that a marker was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AttemptMarker {
    key: ItemKey,
    number: u32,
    receive: u32,
}

/// The state of a job that ran alone and whose markers are still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttemptState {
    /// This many attempts began and did not end; the last one may be running.
    Tried(u32),
    /// The handler of this attempt waits, or makes progress: if its process ends now, it is not the cause.
    Resting(u32),
    /// This many attempts crashed; none is running.
    Crashed(u32),
    /// This many attempts crashed, and the job is poison.
    Poison(u32),
}

impl AttemptState {
    /// The state once the job is begun again. `follows` is whether it was begun in the receive before too.
    fn next(before: Option<Self>, follows: bool, max_crashes: u32) -> Self {
        match before {
            None | Some(Self::Resting(_)) => Self::Tried(1),
            Some(Self::Tried(_)) if !follows => Self::Tried(1),
            Some(Self::Tried(attempts)) if attempts >= max_crashes => Self::Crashed(attempts),
            Some(Self::Crashed(attempts)) if attempts >= max_crashes => Self::Poison(attempts),
            Some(Self::Tried(attempts) | Self::Crashed(attempts)) => Self::Tried(attempts + 1),
            Some(verdict @ Self::Poison(_)) => verdict,
        }
    }

    /// The state as it is stored.
    fn label(self) -> String {
        match self {
            Self::Tried(attempts) => format!("{attempts:06}"),
            Self::Resting(attempts) => format!("{attempts:06} resting"),
            Self::Crashed(attempts) => format!("{attempts:06} crashed"),
            Self::Poison(attempts) => format!("{attempts:06} poison"),
        }
    }

    fn from_label(label: &str) -> Option<Self> {
        match label.split_once(' ') {
            None => Some(Self::Tried(label.parse().ok()?)),
            Some((attempts, "resting")) => Some(Self::Resting(attempts.parse().ok()?)),
            Some((attempts, "crashed")) => Some(Self::Crashed(attempts.parse().ok()?)),
            Some((attempts, "poison")) => Some(Self::Poison(attempts.parse().ok()?)),
            Some(_) => None,
        }
    }

    fn item(self, marker: &AttemptMarker) -> Item {
        let attributes =
            [(STATE.to_owned(), self.label().into()), (RECEIVE.to_owned(), marker.receive.into())];
        Item { key: marker.key.clone(), attributes: attributes.into_iter().collect() }
    }
}

impl Attempts {
    pub(super) fn for_batch(&self) -> BatchAttempts<'_> {
        BatchAttempts { attempts: self, open: Mutex::default() }
    }

    /// Removes the marker of a job that is now in quarantine.
    pub(super) async fn forget(&self, delivery: &Delivery) {
        let forgotten = async {
            if let Some(item) = self.archive.get(&self.key(delivery).await?).await? {
                self.archive.delete_unchanged(&item).await?;
            }
            Ok::<_, ArchiveError>(())
        };
        if let Err(error) = forgotten.await {
            tracing::warn!(worker = self.worker, message_id = %delivery.message_id, %error, "failed to remove the attempt marker of a quarantined job");
        }
    }

    /// Removes the markers whose removal failed before, up to the first one that fails again: then the
    /// archive is still unavailable.
    pub(super) async fn flush_pending_removals(&self) -> Result<(), ArchiveError> {
        let pending: Vec<AttemptMarker> = self.pending_removals().iter().cloned().collect();
        for marker in pending {
            self.try_remove(&marker).await?;
        }
        Ok(())
    }

    /// Removes a marker, now or later.
    async fn remove(&self, marker: &AttemptMarker) {
        if let Err(error) = self.try_remove(marker).await {
            tracing::warn!(worker = self.worker, %error, "failed to remove an attempt marker; will retry");
        }
    }

    async fn try_remove(&self, marker: &AttemptMarker) -> Result<(), ArchiveError> {
        let removed = self.delete(marker).await;
        let mut pending = self.pending_removals();
        if removed.is_ok() {
            pending.remove(marker);
        } else if pending.len() < MAX_PENDING_REMOVALS {
            pending.insert(marker.clone());
        }
        removed
    }

    /// Deletes the markers up to this one. Markers of a later attempt stay, and so does a verdict.
    async fn delete(&self, marker: &AttemptMarker) -> Result<(), ArchiveError> {
        let number = marker.number;
        for state in
            [AttemptState::Tried(number), AttemptState::Resting(number), AttemptState::Crashed(number)]
        {
            if self.archive.delete_unchanged(&state.item(marker)).await? {
                break;
            }
        }
        Ok(())
    }

    /// Advances and returns the state of a job that was received again, and is about to run alone.
    async fn advance(&self, key: &ItemKey, receive: u32) -> Result<AttemptState, ArchiveError> {
        let stored = self.archive.get(key).await?;
        let before = stored.as_ref().and_then(|item| AttemptState::from_label(item.text(STATE)?));
        // A row of an earlier version does not say.
        let last = stored.as_ref().and_then(|item| item.attributes.get(RECEIVE)?.as_u64());
        let follows = last.is_none_or(|last| u64::from(receive) <= last + 1);
        let after = AttemptState::next(before, follows, self.max_crashes);
        // Only an attempt has a receive: the handler of the last one may still remove its marker.
        let receive = matches!(after, AttemptState::Tried(_)).then_some(receive);
        let is_stored = before == Some(after) && receive.is_none_or(|receive| last == Some(receive.into()));
        if !is_stored && !self.write(key, receive, before, after).await? {
            // Another process runs it: this lease is lost, and the heartbeat will detect it.
            return Err(ArchiveError::Unavailable("the job is being tried elsewhere".into()));
        }
        Ok(after)
    }

    /// Changes a job's state; returns whether it was still the state that was read.
    async fn write(
        &self,
        key: &ItemKey,
        receive: Option<u32>,
        before: Option<AttemptState>,
        after: AttemptState,
    ) -> Result<bool, ArchiveError> {
        let guard = Guard::Unchanged {
            register: STATE.into(),
            expected: before.map(AttemptState::label),
            version: after.label(),
        };
        let set = receive.map(|receive| (RECEIVE.to_owned(), receive.into())).into_iter().collect();
        let update = Update { guard, set, ..Update::new(key.clone()) };
        Ok(self.archive.write(&update).await? == WriteOutcome::Applied)
    }

    /// The key of a job's row. Attempts that an earlier version began are continued where it stored them.
    async fn key(&self, delivery: &Delivery) -> Result<ItemKey, ArchiveError> {
        let other = ItemKey::other_attempts(self.queue, &delivery.message_id);
        let Some(team) = team_of_group(&delivery.group) else { return Ok(other) };
        let is_other = self.archive.get(&other).await?.is_some();
        Ok(if is_other { other } else { ItemKey::attempts(self.queue, &team, &delivery.message_id) })
    }

    fn pending_removals(&self) -> MutexGuard<'_, BTreeSet<AttemptMarker>> {
        self.pending_removals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchAttempts<'_> {
    /// Starts an attempt of a job that runs alone.
    ///
    /// # Errors
    /// The outcome of the job, if it must not run.
    pub(super) async fn begin(&self, delivery: &Delivery) -> Result<(), JobOutcome> {
        // Markers whose removal is pending are not crashes.
        self.attempts.flush_pending_removals().await.map_err(JobOutcome::retry)?;
        let key = self.attempts.key(delivery).await.map_err(JobOutcome::retry)?;
        let receive = delivery.receive_count;
        match self.attempts.advance(&key, receive).await.map_err(JobOutcome::retry)? {
            AttemptState::Tried(number) | AttemptState::Resting(number) => {
                self.open().insert(delivery.message_id.clone(), AttemptMarker { key, number, receive });
                Ok(())
            }
            // A handler that still has the job detects within the visibility timeout that its lease has
            // ended: it stops, and removes its marker.
            AttemptState::Crashed(_) => Err(JobOutcome::Retry(JobRetry {
                reason: "its last handler may still be running".into(),
                after: Some(self.attempts.visibility_timeout),
            })),
            AttemptState::Poison(crashes) => {
                Err(JobOutcome::Quarantine(format!("it crashed its handler {crashes} times")))
            }
        }
    }

    /// Records that the handler of an attempt waits or makes progress.
    pub(super) async fn rest(&self, message: &MessageId) {
        self.change(message, AttemptState::Tried, AttemptState::Resting).await;
    }

    /// Records that the handler of an attempt continues after it waited.
    pub(super) async fn resume(&self, message: &MessageId) {
        self.change(message, AttemptState::Resting, AttemptState::Tried).await;
    }

    /// Changes the state of a running attempt. If that fails, or another process has the job meanwhile, the
    /// attempt is at worst counted as a crash.
    async fn change(
        &self,
        message: &MessageId,
        before: fn(u32) -> AttemptState,
        after: fn(u32) -> AttemptState,
    ) {
        let Some(AttemptMarker { key, number, .. }) = self.open().get(message).cloned() else { return };
        if let Err(error) = self.attempts.write(&key, None, Some(before(number)), after(number)).await {
            tracing::debug!(worker = self.attempts.worker, %error, "failed to record whether a handler waits");
        }
    }

    /// Ends an attempt whose handler returned.
    pub(super) async fn end(&self, message: &MessageId) {
        let marker = self.open().get(message).cloned();
        if let Some(marker) = marker {
            self.attempts.remove(&marker).await;
            self.open().remove(message);
        }
    }

    /// Records a handler crash that this process survived, so that no process has to wait to know that the
    /// handler has stopped.
    pub(super) async fn crash(&self, message: &MessageId) {
        let marker = self.open().remove(message);
        let Some(AttemptMarker { key, number, .. }) = marker else { return };
        let after = AttemptState::Crashed(number);
        let mut written = Ok(false);
        for before in [AttemptState::Tried(number), AttemptState::Resting(number)] {
            written = self.attempts.write(&key, None, Some(before), after).await;
            if !matches!(written, Ok(false)) {
                break;
            }
        }
        if let Err(error) = written {
            let worker = self.attempts.worker;
            tracing::warn!(worker, %error, "failed to record that the crashed handler has exited");
        }
    }

    /// Ends all attempts of the batch: a handler that was cancelled did not crash.
    pub(super) async fn end_all(&self) {
        let open = std::mem::take(&mut *self.open());
        for marker in open.into_values() {
            self.attempts.remove(&marker).await;
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<MessageId, AttemptMarker>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::AttemptState::{self, Crashed, Poison, Resting, Tried};

    #[test]
    fn enough_crashes_are_poison_once_no_handler_runs() {
        let process_crashes =
            [None, Some(Tried(1)), Some(Tried(2)), Some(Tried(3)), Some(Crashed(3)), Some(Poison(3))];
        for pair in process_crashes.windows(2) {
            assert_eq!(Some(AttemptState::next(pair[0], true, 3)), pair[1], "{pair:?}");
        }
        // It was received in between and not begun, and the process ended all the same.
        for number in 1..=3 {
            assert_eq!(AttemptState::next(Some(Tried(number)), false, 3), Tried(1));
            assert_eq!(AttemptState::next(Some(Resting(number)), false, 3), Tried(1));
        }
        // A process that survived the panic has recorded it: the job is retried immediately.
        for follows in [true, false] {
            assert_eq!(AttemptState::next(Some(Crashed(2)), follows, 3), Tried(3));
            assert_eq!(AttemptState::next(Some(Poison(3)), follows, 3), Poison(3));
        }
        // The process ended while the handler waited: it was ended from outside, as perhaps before.
        for number in 1..=3 {
            assert_eq!(AttemptState::next(Some(Resting(number)), true, 3), Tried(1));
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for state in [Tried(1), Resting(2), Crashed(3), Poison(1_000_000)] {
            assert_eq!(AttemptState::from_label(&state.label()), Some(state));
        }
        for other in ["", "x", "000001 ", "000001 done", "poison"] {
            assert_eq!(AttemptState::from_label(other), None, "{other:?}");
        }
    }
}
