//! The job of a shared file.
//!
//! The file's own row decides: a stored file is never requested again, however many messages share it. Each
//! write may be repeated, and redelivery recovers from a crash between two writes, because it first checks
//! the row and the store.

use metrics::counter;
use ports::archive::{ArchiveExt, Guard, Item, ItemKey, Update, WriteOutcome};
use ports::files::FileKey;
use ports::metrics::FILES;
use rules::file::row::{self, Share, StoredBytes};
use rules::file::{FileJob, FileState};

use super::FileDownloader;
use super::canvas::{self as canvas_versions, EditedCanvas};
use super::claim::DownloadTurn;
use super::erased::forget_file;
use super::fetch::{Fetched, Trouble};
use super::known_file::KnownFile;
use crate::failure::{JobFailure, PortError};

impl FileDownloader {
    /// Fetches a file unless it is stored, and writes its state to its messages. `receives` counts
    /// deliveries, including this one.
    pub(super) async fn file(&self, job: &FileJob, receives: u32) -> Result<(), JobFailure> {
        let Some(known) = self.read_known_file(job).await? else { return Ok(self.forget(job).await?) };
        if known.held_as.is_some() {
            return self.already_held(job, known, receives).await;
        }
        match self.decide_without_request(job, &known, receives).await {
            Ok(None) => {}
            Ok(Some(fetched)) => return self.settle(job, known, receives, Ok(fetched)).await.map(drop),
            Err(trouble) => return self.settle(job, known, receives, Err(trouble)).await.map(drop),
        }
        // The work is expensive from here on: the claim keeps other processes from doing it meanwhile.
        match self.claim_file(job).await? {
            DownloadTurn::Ours(mut guard) => {
                let work = async {
                    let fetched = self.fetch(job, &known, receives).await;
                    self.settle(job, known, receives, fetched).await
                };
                let settled =
                    guard.keep(work).await.map_err(|lost| JobFailure::Transient(lost.to_string()))?;
                match settled {
                    // The row records the result, whatever happens to the claim.
                    Ok(Settled::Held) => {
                        if let Err(error) = guard.complete().await {
                            tracing::debug!(%error, "a file is stored, but its claim could not be completed");
                        }
                    }
                    // A completed claim without a stored file would prevent the next attempt.
                    Ok(Settled::NotHeld) | Err(_) => guard.release().await,
                }
                settled.map(drop)
            }
            DownloadTurn::Held(known) => self.already_held(job, known, receives).await,
            DownloadTurn::Erased => Ok(self.forget(job).await?),
            DownloadTurn::Later(failure) => {
                counter!(FILES, "outcome" => "retry").increment(1);
                // Show readers that the file exists while it waits.
                self.write(&[&seen(job, &known)]).await?;
                Err(failure)
            }
        }
    }

    /// Reads the file's state from the archive; `None` if the message or the file is erased.
    pub(super) async fn read_known_file(&self, job: &FileJob) -> Result<Option<KnownFile>, JobFailure> {
        let FileJob { team, share, object, .. } = job;
        let keys = [ItemKey::file(team, &object.id), ItemKey::message(team, &share.channel, &share.ts)];
        let rows = self.archive.get_all(&[&keys[0], &keys[1]]).await?;
        // An erased row stays erased. File rows are deleted now; earlier versions erased them.
        if rows.iter().flatten().any(Item::is_erased) {
            return Ok(None);
        }
        let row = rows.into_iter().next().flatten();
        let stored = row.as_ref();
        let key = FileKey::shared(team, &share.channel, &share.ts, &object.id);
        let is_taken = |key: &FileKey| stored.is_some_and(|row| row::has_key(row, &object.id, key));
        // A canvas has a key per job, so that two versions never share one.
        let key = if object.is_canvas() || is_taken(&key) { job.version_key() } else { key };
        let is_done = object.is_canvas() && is_taken(&key);
        // The object of a changed canvas is that of an earlier version.
        let is_outdated = object.is_canvas() && job.refresh;
        let matching = || row::matching_key(stored.filter(|_| !is_outdated)?, team, object);
        Ok(Some(KnownFile {
            state: stored.and_then(|row| row::state(row, &object.id)),
            held_as: is_done.then(|| key.clone()).or_else(matching),
            key,
            shares: stored.map(|row| row::shares(row).collect()).unwrap_or_default(),
            row,
        }))
    }

    async fn already_held(&self, job: &FileJob, known: KnownFile, receives: u32) -> Result<(), JobFailure> {
        let Some(key) = known.held_as.clone() else { return Ok(()) };
        let row = std::iter::once(seen(job, &known)).chain(known.still_held(job)).collect();
        let deleted = known.marked_deleted(job);
        // A first delivery has nothing to repair: the other messages have the state already. If there are
        // several versions, each message has its own.
        let edited = EditedCanvas::known(&known, receives);
        let others = (receives > 1 && !known.has_versions()).then_some(known.shares);
        self.write_state(job, FileState::Stored(key), others, &deleted, row, edited).await?;
        counter!(FILES, "outcome" => "already_held").increment(1);
        Ok(())
    }

    /// Stores the result of an attempt.
    async fn settle(
        &self,
        job: &FileJob,
        known: KnownFile,
        receives: u32,
        fetched: Result<Fetched, Trouble>,
    ) -> Result<Settled, JobFailure> {
        let seen = seen(job, &known);
        let fetched = match fetched {
            Err(Trouble::Transient(reason)) if receives >= self.settings.file_tries => {
                self.last_failure(job, reason).await
            }
            fetched => fetched,
        };
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(trouble) => {
                counter!(FILES, "outcome" => "retry").increment(1);
                // Show readers that the file exists while it waits.
                self.write(&[&seen]).await?;
                return Err(match trouble {
                    Trouble::Transient(reason) => JobFailure::Transient(reason),
                    Trouble::Local(failure) => failure,
                });
            }
        };
        let (team, object) = (&job.team, &job.object);
        let state = fetched.state();
        let (row, settled) = match &fetched {
            Fetched::Held(held) => (Some(row::stored(team, &object.id, held)), Settled::Held),
            Fetched::Known(_) => (known.still_held(job), Settled::Held),
            Fetched::Verdict(_) | Fetched::Failed(_) => {
                (Some(row::settled(team, &object.id, &state)), Settled::NotHeld)
            }
        };
        let edited = EditedCanvas::after(&fetched, &known, receives);
        let deleted = known.marked_deleted(job);
        let missed = canvas_versions::missed(job, &known, &fetched);
        let was_held = matches!(known.state, Some(FileState::Stored(_)));
        // An earlier attempt for another message may have received a more final result. But if another
        // message has stored bytes, they are another version, which is unrelated to this one.
        let (state, others) =
            if was_held { (state, None) } else { (state.max(known.state), Some(known.shares)) };
        let rows = std::iter::once(seen).chain(row).chain(missed).collect();
        self.write_state(job, state, others, &deleted, rows, edited).await?;
        note(job, &fetched);
        Ok(settled)
    }

    /// Writes a file's row, then the messages that share it: this job's message and `others`. Without others,
    /// the state applies to this message only, whatever the row contains. The `deleted` messages get the mark
    /// that the file was deleted in Slack.
    ///
    /// The order matters: a message with a more final state than the row would keep it after another job,
    /// which reads the row, had fetched the file to another key. If this job's message is erased, the bytes
    /// stored for it are deleted. The messages of an `edited` canvas follow its text.
    async fn write_state(
        &self,
        job: &FileJob,
        state: FileState,
        others: Option<Vec<Share>>,
        deleted: &[Share],
        row: Vec<Update>,
        edited: Option<EditedCanvas>,
    ) -> Result<(), JobFailure> {
        let mut state = state;
        let written = self.archive.write_all(&row.iter().collect::<Vec<_>>()).await;
        for (update, outcome) in row.iter().zip(written) {
            let WriteOutcome::Rejected(stored) = outcome? else { continue };
            if matches!(update.guard, Guard::Unchanged { .. }) {
                let gone = "the file was removed meanwhile, with the last message that shared it";
                return Err(JobFailure::Transient(gone.into()));
            }
            // Another writer stored a more final state.
            if others.is_some() {
                state = state.max(row::state(&stored, &job.object.id));
            }
        }
        let others = others.into_iter().flatten().filter(|share| *share != job.share);
        let on_message = |share: Share| row::on_message(&job.team, &share, &job.object.id, &state);
        let deleted = deleted.iter().map(|share| row::deleted_on_message(&job.team, share, &job.object.id));
        let mut messages: Vec<Update> =
            std::iter::once(job.share.clone()).chain(others).map(on_message).chain(deleted).collect();
        if let Some(edited) = edited {
            messages.extend(self.store_text(job, edited).await?);
        }
        let refused = self.write(&messages.iter().collect::<Vec<_>>()).await?;
        let is_erased = refused.iter().any(|stored| stored.key == messages[0].key && stored.is_erased());
        if is_erased { Ok(self.forget(job).await?) } else { Ok(()) }
    }

    /// Removes the bytes stored for the erased message of a job.
    async fn forget(&self, job: &FileJob) -> Result<(), PortError> {
        let FileJob { team, share, object, .. } = job;
        forget_file(&*self.archive, &*self.files, team, share, object, Some(job.version_key())).await
    }
}

/// Whether the file is stored now.
#[derive(Clone, Copy)]
enum Settled {
    Held,
    NotHeld,
}

/// The update that records the share of a file in a message. A row lists a limited number of shares.
fn seen(job: &FileJob, known: &KnownFile) -> Update {
    row::seen(&job.team, &job.object, known.room_for_share(job))
}

fn note(job: &FileJob, fetched: &Fetched) {
    let (team, file) = (&job.team, &job.object.id);
    let outcome = match fetched {
        Fetched::Held(StoredBytes { size_bytes, .. }) => {
            tracing::debug!(%team, %file, size_bytes, "a file is stored");
            "stored"
        }
        Fetched::Known(_) => "already_held",
        Fetched::Verdict(verdict) => {
            tracing::info!(%team, %file, verdict = verdict.label(), "a file is not fetched");
            verdict.label()
        }
        Fetched::Failed(reason) => {
            tracing::warn!(%team, %file, reason, "a file could not be fetched: `annalist files retry` asks again");
            "failed"
        }
    };
    counter!(FILES, "outcome" => outcome).increment(1);
}
