//! The job of a shared file.
//!
//! The file's own row decides: what is held is never asked for again, however many messages it is in. Each write may be
//! repeated, and a crash between two of them is healed by redelivery, which looks at the row and at the store first.

use metrics::counter;
use ports::archive::{ArchiveExt, Guard, Item, ItemKey, Update, WriteOutcome};
use ports::files::FileKey;
use ports::metrics::FILES;
use rules::file::row::{self, HeldBytes, MAX_SHARES, Share};
use rules::file::{FileJob, FileObject, FileState};

use super::claim::DownloadTurn;
use super::erased::{ForgetError, forget_file};
use super::fetch::{Fetched, Trouble};
use super::permits::Permit;
use super::{DownloadStop, FileDownloader};
use crate::failure::JobFailure;

/// What the archive knows of a file before anything is asked.
pub(super) struct KnownFile {
    /// What became of it.
    pub(super) state: Option<FileState>,
    /// Under which key it is held as the job's object says, if it is.
    pub(super) held_as: Option<FileKey>,
    row: Option<Item>,
    /// Where its bytes go, if it is fetched.
    pub(super) key: FileKey,
    /// Where it was shared before.
    places: Vec<Share>,
}

impl KnownFile {
    /// Under which key the file is held as an object says, if it is.
    pub(super) fn held_as(&self, job: &FileJob, object: &FileObject) -> Option<FileKey> {
        row::held_as(self.row.as_ref()?, &job.team, object)
    }

    /// Refused if the file is not held any more as it was when it was read here.
    fn still_held(&self, job: &FileJob) -> Option<Update> {
        row::still_held(self.row.as_ref()?, &job.object.id)
    }

    /// Whether several versions are held: each message names its own.
    fn has_versions(&self) -> bool {
        self.row.as_ref().is_some_and(row::has_versions)
    }
}

impl FileDownloader {
    /// Fetches a file unless it is held, and tells the messages it is in. `receives` counts deliveries, this one included.
    pub(super) async fn file(
        &self,
        job: &FileJob,
        receives: u32,
        permit: &mut Permit<'_>,
    ) -> Result<(), DownloadStop> {
        let Some(known) = self.known(job).await? else { return Ok(self.forget(job).await?) };
        if known.held_as.is_some() {
            return self.already_held(job, known, receives).await;
        }
        match self.without_asking(job, &known.key, receives, permit).await {
            Ok(None) => {}
            Ok(Some(said)) => return self.settle(job, known, receives, Ok(said)).await.map(drop),
            Err(trouble) => return self.settle(job, known, receives, Err(trouble)).await.map(drop),
        }
        // From here on the work is expensive: no other process does the same meanwhile.
        match self.turn(job).await? {
            DownloadTurn::Ours(mut guard) => {
                let work = async {
                    let fetched = self.fetch(job, &known, receives, permit).await;
                    self.settle(job, known, receives, fetched).await
                };
                let kept = guard.keep(work).await.map_err(|lost| JobFailure::Transient(lost.to_string()))?;
                match kept {
                    // Its row says so, whatever becomes of the claim.
                    Ok(Settled::Held) => self.complete(guard).await,
                    // A claim that says more than the row would keep the next from trying.
                    Ok(Settled::NotHeld) | Err(_) => guard.release().await,
                }
                kept.map(drop)
            }
            DownloadTurn::Held(known) => self.already_held(job, known, receives).await,
            DownloadTurn::Erased => Ok(self.forget(job).await?),
            DownloadTurn::Later(retry) => {
                counter!(FILES, "outcome" => "retry").increment(1);
                // While it waits, people see that there is a file.
                self.write(&[&seen(job, &known)]).await?;
                Err(DownloadStop::After(retry))
            }
        }
    }

    /// What the archive knows; `None` if the message is erased, or the file is.
    pub(super) async fn known(&self, job: &FileJob) -> Result<Option<KnownFile>, JobFailure> {
        let FileJob { team, share, object, .. } = job;
        let keys = [ItemKey::file(team, &object.id), ItemKey::message(team, &share.channel, &share.ts)];
        let rows = self.archive.get_all(&[&keys[0], &keys[1]]).await?;
        // What is erased stays so. Rows of files are removed now, and were erased by earlier versions.
        if rows.iter().flatten().any(Item::is_erased) {
            return Ok(None);
        }
        let row = rows.into_iter().next().flatten();
        let stored = row.as_ref();
        let key = FileKey::shared(team, &share.channel, &share.ts, &object.id);
        let is_taken = stored.is_some_and(|row| row::holds(row, &object.id, &key));
        Ok(Some(KnownFile {
            state: stored.and_then(|row| row::state(row, &object.id)),
            held_as: stored.and_then(|row| row::held_as(row, team, object)),
            key: if is_taken { key.version(&object.fingerprint()[..8]).unwrap_or(key) } else { key },
            places: stored.map(|row| row::shares(row).collect()).unwrap_or_default(),
            row,
        }))
    }

    async fn already_held(&self, job: &FileJob, known: KnownFile, receives: u32) -> Result<(), DownloadStop> {
        let Some(key) = known.held_as.clone() else { return Ok(()) };
        let row = std::iter::once(seen(job, &known)).chain(known.still_held(job)).collect();
        // A first delivery has nothing to heal: the others know already. And of several versions each has its own.
        let others = (receives > 1 && !known.has_versions()).then_some(known.places);
        self.tell(job, FileState::Stored(key), others, row).await?;
        counter!(FILES, "outcome" => "already_held").increment(1);
        Ok(())
    }

    /// Writes down what came of asking.
    async fn settle(
        &self,
        job: &FileJob,
        known: KnownFile,
        receives: u32,
        fetched: Result<Fetched, Trouble>,
    ) -> Result<Settled, DownloadStop> {
        let seen = seen(job, &known);
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(Trouble::Transient(reason)) if receives >= self.settings.file_tries => {
                Fetched::Failed(reason)
            }
            Err(trouble) => {
                counter!(FILES, "outcome" => "retry").increment(1);
                // While it waits, people see that there is a file.
                self.write(&[&seen]).await?;
                return Err(match trouble {
                    Trouble::Transient(reason) => JobFailure::Transient(reason).into(),
                    Trouble::Ours(failure) => failure.into(),
                });
            }
        };
        let (team, object) = (&job.team, &job.object);
        let state = fetched.state();
        let (row, settled) = match &fetched {
            Fetched::Held(held) => (Some(row::held(team, &object.id, held)), Settled::Held),
            Fetched::Known(_) => (known.still_held(job), Settled::Held),
            Fetched::Verdict(_) | Fetched::Failed(_) => {
                (Some(row::settled(team, &object.id, &state)), Settled::NotHeld)
            }
        };
        let was_held = matches!(known.state, Some(FileState::Stored(_)));
        // An earlier attempt, for another message, may have been told something more final. But what another message holds
        // is another version: it is not what this one names, nor the other way round.
        let (state, others) =
            if was_held { (state, None) } else { (state.max(known.state), Some(known.places)) };
        self.tell(job, state, others, std::iter::once(seen).chain(row).collect()).await?;
        note(job, &fetched);
        Ok(settled)
    }

    /// Writes a file's row, then the messages it is in: this job's and the others it was shared in. Without others, the
    /// state is this message's alone, whatever the row says.
    ///
    /// In this order: a message that said more than the row would go on saying it after another job, which goes by the
    /// row, had fetched the file to another place. If this job's message is erased, so is what was stored for it.
    async fn tell(
        &self,
        job: &FileJob,
        state: FileState,
        others: Option<Vec<Share>>,
        row: Vec<Update>,
    ) -> Result<(), JobFailure> {
        let mut state = state;
        let written = self.archive.write_all(&row.iter().collect::<Vec<_>>()).await;
        for (update, outcome) in row.iter().zip(written) {
            let WriteOutcome::Rejected(stored) = outcome? else { continue };
            if matches!(update.guard, Guard::Unchanged { .. }) {
                let gone = "the file was removed meanwhile, with the last message that shared it";
                return Err(JobFailure::Transient(gone.into()));
            }
            // Another writer knew something more final.
            if others.is_some() {
                state = state.max(row::state(&stored, &job.object.id));
            }
        }
        let others = others.into_iter().flatten().filter(|place| *place != job.share);
        let on_message = |place: Share| row::on_message(&job.team, &place, &job.object.id, &state);
        let messages: Vec<Update> =
            std::iter::once(job.share.clone()).chain(others).map(on_message).collect();
        let refused = self.write(&messages.iter().collect::<Vec<_>>()).await?;
        let is_erased = refused.iter().any(|stored| stored.key == messages[0].key && stored.is_erased());
        if is_erased { Ok(self.forget(job).await?) } else { Ok(()) }
    }

    /// The message of a job is erased.
    async fn forget(&self, job: &FileJob) -> Result<(), ForgetError> {
        let FileJob { team, share, object, .. } = job;
        forget_file(&*self.archive, &*self.files, team, share, object).await
    }
}

/// Whether the file is held now.
#[derive(Clone, Copy)]
enum Settled {
    Held,
    NotHeld,
}

/// A file was seen in a message. Its row remembers a limited number of them.
fn seen(job: &FileJob, known: &KnownFile) -> Update {
    let remembered = known.places.len() < MAX_SHARES || known.places.contains(&job.share);
    row::seen(&job.team, &job.object, remembered.then_some(&job.share))
}

fn note(job: &FileJob, fetched: &Fetched) {
    let (team, file) = (&job.team, &job.object.id);
    let outcome = match fetched {
        Fetched::Held(HeldBytes { size_bytes, .. }) => {
            tracing::debug!(%team, %file, size_bytes, "a file is held");
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
