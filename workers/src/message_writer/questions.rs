//! Finds stored messages that ask the responder a question. Used only if questions are answered: a queue
//! without a consumer would fill up.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

use ports::archive::{Archive, ArchiveError, ItemKey};
use ports::clock::TimestampMs;
use ports::queue::Outgoing;
use rules::question::job::QuestionJob;
use rules::question::recognition::PossibleQuestion;

use crate::runtime::EventJob;

/// Maximum number of cached threads in which the app has posted; at the limit, the cache is cleared.
const MAX_REMEMBERED: usize = 10_000;

/// Finds questions.
pub(super) struct Asking {
    max_age_s: i64,
    /// Threads in which the app has posted; this never changes back.
    known: Mutex<HashSet<ItemKey>>,
}

/// Possible questions of a batch.
pub(super) struct BatchQuestions {
    possible: Vec<Option<PossibleQuestion>>,
    own_threads: Result<HashSet<ItemKey>, ArchiveError>,
}

impl Asking {
    /// A finder that ignores questions older than this.
    pub(super) fn new(max_age_s: i64) -> Self {
        Self { max_age_s, known: Mutex::default() }
    }

    /// Reads a batch. The relevant threads are read in one call.
    pub(super) async fn read<'j>(
        &self,
        archive: &dyn Archive,
        jobs: impl Iterator<Item = Option<&'j EventJob<'j>>>,
        now: TimestampMs,
    ) -> BatchQuestions {
        let possible: Vec<Option<PossibleQuestion>> = jobs
            .map(|job| {
                let job = job?;
                PossibleQuestion::read(job.event.as_ref()?, &job.envelope, now, self.max_age_s)
            })
            .collect();
        let wanted: BTreeSet<ItemKey> =
            possible.iter().flatten().filter_map(PossibleQuestion::thread).collect();
        let own_threads = self.own(archive, wanted).await;
        BatchQuestions { possible, own_threads }
    }

    async fn own(
        &self,
        archive: &dyn Archive,
        mut wanted: BTreeSet<ItemKey>,
    ) -> Result<HashSet<ItemKey>, ArchiveError> {
        let mut own: HashSet<ItemKey> = HashSet::new();
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            wanted.retain(|key| !known.contains(key) || !own.insert(key.clone()));
        }
        if wanted.is_empty() {
            return Ok(own);
        }
        let keys: Vec<&ItemKey> = wanted.iter().collect();
        let found = archive.get_all(&keys).await?;
        let found: Vec<ItemKey> = found.into_iter().flatten().map(|row| row.key).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + found.len() > MAX_REMEMBERED {
            known.clear();
        }
        known.extend(found.iter().cloned());
        own.extend(found);
        Ok(own)
    }
}

impl BatchQuestions {
    /// The job for the question of this job of the batch, if it asks one.
    pub(super) fn job(&mut self, index: usize) -> Result<Option<Outgoing>, ArchiveError> {
        let Some(possible) = self.possible.get_mut(index).and_then(Option::take) else { return Ok(None) };
        let is_own_thread = match possible.thread() {
            Some(thread) => self.own_threads.as_ref().map_err(Clone::clone)?.contains(&thread),
            None => false,
        };
        Ok(possible.into_question(is_own_thread).map(|question| QuestionJob::from(question).outgoing()))
    }
}
