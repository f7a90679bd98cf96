//! The job of a shared file.
//!
//! The file's own row decides: what is held is never asked for again, however many messages it is in. Each write may be
//! repeated, and a crash between two of them is healed by redelivery, which looks at the row and at the store first.

use metrics::counter;
use shared::archive::{Item, ItemKey, Update};
use shared::rules::file::row::{self, Held, MAX_SHARES, Share};
use shared::rules::file::{FileJob, State};
use shared::telemetry::metrics::FILES;

use super::fetch::{Fetched, Trouble};
use super::permits::Permit;
use super::{FileDownloader, Stop};
use crate::failure::Failure;

impl FileDownloader {
    /// Fetches a file unless it is held, and tells the messages it is in. `receives` counts deliveries, this one included.
    pub(super) async fn file(
        &self,
        job: &FileJob,
        receives: u32,
        permit: &mut Permit<'_>,
    ) -> Result<(), Stop> {
        let FileJob { team, share, object, .. } = job;
        let keys = [ItemKey::file(team, &object.id), ItemKey::message(team, &share.channel, &share.ts)];
        let rows = self.archive.get_all(&[&keys[0], &keys[1]]).await?;
        // Erased stays erased, its bytes as well.
        if rows.iter().flatten().any(Item::is_erased) {
            return Ok(());
        }
        let stored = rows.into_iter().next().flatten();
        let places: Vec<Share> = stored.as_ref().map(|row| row::shares(row).collect()).unwrap_or_default();
        let known = stored.as_ref().and_then(|row| row::state(row, &object.id));

        let remembered = places.len() < MAX_SHARES || places.contains(share);
        let seen = row::seen(team, object, remembered.then_some(share));
        if let Some(held @ State::Stored(_)) = &known {
            // A first delivery has nothing to heal: the others know already.
            let others = if receives > 1 { places } else { Vec::new() };
            self.tell(job, held, others, vec![seen]).await?;
            counter!(FILES, "outcome" => "already_held").increment(1);
            return Ok(());
        }

        let fetched = match self.fetch(job, receives, permit).await {
            Ok(fetched) => fetched,
            Err(Trouble::Transient(reason)) if receives >= self.settings.file_tries => {
                Fetched::Failed(reason)
            }
            Err(trouble) => {
                counter!(FILES, "outcome" => "retry").increment(1);
                // While it waits, people see that there is a file.
                self.write(&[&seen]).await?;
                return Err(match trouble {
                    Trouble::Transient(reason) => Failure::Transient(reason).into(),
                    Trouble::Ours(failure) => failure.into(),
                });
            }
        };
        let state = fetched.state();
        let row = match &fetched {
            Fetched::Held(held) => row::held(team, &object.id, held),
            Fetched::Verdict(_) | Fetched::Failed(_) => row::settled(team, &object.id, &state),
        };
        // An earlier attempt, for another message, may have been told something more final.
        self.tell(job, &state.max(known), places, vec![seen, row]).await?;
        note(job, &fetched);
        Ok(())
    }

    /// Writes a file's row and the messages it is in, this job's and the others it was shared in.
    async fn tell(
        &self,
        job: &FileJob,
        state: &State,
        others: Vec<Share>,
        row: Vec<Update>,
    ) -> Result<(), Failure> {
        let others = others.into_iter().filter(|place| *place != job.share);
        let on_message = |place: Share| row::on_message(&job.team, &place, &job.object.id, state);
        let messages = std::iter::once(job.share.clone()).chain(others).map(on_message);
        let updates: Vec<Update> = row.into_iter().chain(messages).collect();
        Ok(self.write(&updates.iter().collect::<Vec<_>>()).await?)
    }
}

fn note(job: &FileJob, fetched: &Fetched) {
    let (team, file) = (&job.team, &job.object.id);
    let outcome = match fetched {
        Fetched::Held(Held { size_bytes, .. }) => {
            tracing::debug!(%team, %file, size_bytes, "a file is held");
            "stored"
        }
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
