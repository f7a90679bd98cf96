//! message-writer: turns Slack's events into messages, revisions, people and emoji.
//!
//! * [`decision`] is the rule by which admission decides on events.
//! * [`deferral`] parks and drops events, in the order that this needs; [`parking`] is the group of a parked one.
//! * [`follow_up`] creates jobs for other workers. [`questions`] finds questions to the responder.

mod decision;
mod deferral;
mod follow_up;
mod parking;
mod questions;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use metrics::counter;
use ports::archive::{Archive, ArchiveError, Item, ItemKey};
use ports::clock::{SharedClock, SystemClock};
use ports::metrics::EVENTS_UNKNOWN;
use ports::queue::{Outgoing, Queue, QueueName};
use rules::audience::DropReason;
use rules::file::row::Share;
use rules::schedule::AppOnDay;
use rules::visibility::VisibilityEvidence;
use rules::{Change, SlackEvent, file};
use slack::catalogue::{ChannelChange, EventRule};
use slack::envelope::Envelope;
use slack::ids::{ChannelId, TeamId, Ts};

use crate::admission::{Admitted, BatchAdmission, ExistenceCheck, Step, TeamChannel, event_job};
use crate::failure::JobFailure;
use crate::runs::Runs;
use crate::runtime::{Batch, BatchJob, EventJob, Worker};
use crate::store::changes;

use deferral::Awaited;
use questions::Asking;

/// Events in a batch. On one machine, a batch costs three disk syncs however large it is, and memory for
/// three concurrent batches; SQS delivers at most ten.
const MAX_BATCH: usize = 512;

/// Turns events into rows of the archive.
pub struct MessageWriter {
    archive: Arc<dyn Archive>,
    queue: Arc<dyn Queue>,
    admission: BatchAdmission,
    runs: Runs,
    clock: SharedClock,
    asking: Option<Asking>,
}

/// What has failed in a batch so far.
struct BatchFailures<'b> {
    /// Channels about which what its events show could not be written.
    unmarked: HashMap<TeamChannel, ArchiveError>,
    jobs: &'b [BatchJob<'b>],
}

impl BatchFailures<'_> {
    /// Whether an event of this workspace is set aside. Its row is written after the batch.
    fn is_set_aside(&self, team: &TeamId) -> bool {
        let of_team = |job: &BatchJob<'_>| {
            event_job(job).and_then(|job| job.event.as_ref()).is_some_and(|event| event.team == *team)
        };
        self.jobs.iter().any(|job| job.is_set_aside() && of_team(job))
    }
}

/// What the events of a batch show about a channel.
#[derive(Default)]
struct ShownVisibility {
    /// The latest event that sets its public mark.
    opened: Option<Ts>,
    /// The latest evidence that it is public, and that it is private.
    evidence: [Option<VisibilityEvidence>; 2],
}

/// The effects of an event: its writes, and the jobs for other workers.
#[derive(Default)]
struct EventEffects {
    changes: Vec<Change>,
    follow_ups: Vec<Outgoing>,
}

impl MessageWriter {
    /// A writer to this archive, whose follow-ups are sent to this queue.
    #[must_use]
    pub fn new(archive: Arc<dyn Archive>, queue: Arc<dyn Queue>) -> Self {
        Self {
            archive,
            queue,
            admission: BatchAdmission::default(),
            runs: Runs::default(),
            clock: SystemClock::shared(),
            asking: None,
        }
    }

    /// The same writer, which writes an event only after this check has confirmed that its IDs exist.
    #[must_use]
    pub fn checked_by(self, check: ExistenceCheck) -> Self {
        Self { admission: BatchAdmission { check: Some(check), ..self.admission }, ..self }
    }

    /// The same writer with another clock.
    #[must_use]
    pub fn timed_by(self, clock: SharedClock) -> Self {
        Self { clock, ..self }
    }

    /// The same writer, which sends questions up to this age to the responder.
    #[must_use]
    pub fn asking(self, max_age: Duration) -> Self {
        let max_age_s = i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX);
        Self { asking: Some(Asking::new(max_age_s)), ..self }
    }

    /// Writes the public marks that the events of a batch set, and what they show about whether their channels
    /// are public; returns the channels for which that failed.
    async fn mark(&self, admitted: &[Admitted<'_>]) -> HashMap<TeamChannel, ArchiveError> {
        let mut shown: BTreeMap<TeamChannel, ShownVisibility> = BTreeMap::new();
        for Admitted { job, step } in admitted {
            let Some(EventJob { event: Some(event), .. }) = event_job(job) else { continue };
            if let Some(channel) = step.marked_by(event) {
                let opened = &mut shown.entry((event.team.clone(), channel)).or_default().opened;
                *opened = opened.take().max(Some(event.clock()));
            }
            if matches!(step, Step::Store { .. })
                && let (Some(evidence), Ok(channel)) =
                    (VisibilityEvidence::from_event(event), event.channel())
            {
                let of_channel = shown.entry((event.team.clone(), channel)).or_default();
                let known = &mut of_channel.evidence[usize::from(evidence.is_private())];
                *known = Some(match known.take() {
                    Some(known) => known.later(evidence),
                    None => evidence,
                });
            }
        }
        let writes = shown.into_iter().map(|((team, channel), shown)| async move {
            let written = self.write_shown(&team, &channel, shown).await;
            written.err().map(|error| ((team, channel), error))
        });
        join_all(writes).await.into_iter().flatten().collect()
    }

    async fn write_shown(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        shown: ShownVisibility,
    ) -> Result<(), ArchiveError> {
        let marks = &self.admission.audiences.marks;
        let evidence = shown.evidence.iter().flatten();
        marks.note_shown(&*self.archive, (team, channel), shown.opened.as_ref(), evidence).await
    }

    /// The effects of an event, once the marks of its batch are written.
    async fn effects(
        &self,
        Admitted { job, step }: Admitted<'_>,
        failures: &BatchFailures<'_>,
    ) -> Result<EventEffects, JobFailure> {
        let Some(EventJob { raw, envelope, event: Some(event), .. }) = event_job(job) else {
            counter!(EVENTS_UNKNOWN).increment(1);
            return Ok(EventEffects::default());
        };
        let channel = match step {
            Step::Store { .. } => event.channel().ok(),
            Step::CarryOver(new) => {
                let failed = failures.unmarked.get(&(event.team.clone(), new));
                return failed.map_or(Ok(EventEffects::default()), |error| Err(error.clone().into()));
            }
            // The next message of the channel may show its visibility, and must not wait for this event.
            Step::Wait(Some(failure)) if parking::is_parked(job.delivery) || !job.would_retry(&failure) => {
                return Err(failure);
            }
            Step::Wait(_) => return self.park_or_postpone(job, event, failures, Awaited::Audience).await,
            Step::Drop(reason) => return self.drop_event(job, event, failures, reason).await,
            Step::Pass => {
                if event.rule() == Some(EventRule::Channel(ChannelChange::IdChanged)) {
                    self.check_order(job, event, failures).await?;
                }
                return Ok(EventEffects::default());
            }
            Step::Unknown => {
                counter!(EVENTS_UNKNOWN).increment(1);
                return Ok(EventEffects::default());
            }
        };
        if let Some(channel) = channel.filter(|_| !failures.unmarked.is_empty())
            && let Some(error) = failures.unmarked.get(&(event.team.clone(), channel))
        {
            return Err(error.clone().into());
        }
        if event.rule() == Some(EventRule::FileChanged) {
            return self.changed_file(job, event, envelope, failures).await;
        }
        let mut changes = event.changes()?;
        // A file without a row may belong to a private channel, whose ID is not stored, or to a message that
        // arrives later.
        let mut deletions = Vec::new();
        if event.rule() == Some(EventRule::FileDeleted) {
            let keys: Vec<&ItemKey> = changes.iter().map(Change::key).collect();
            let rows = self.archive.get_all(&keys).await?;
            if rows.iter().any(Option::is_none) {
                return if self.may_be_shared(job, event).await? {
                    self.park_or_postpone(job, event, failures, Awaited::FileRow).await
                } else {
                    self.drop_event(job, event, failures, DropReason::UnknownFile).await
                };
            }
            for row in rows.iter().flatten() {
                let share = self.unerased_share(&event.team, row).await?;
                deletions.extend(share.and_then(|share| file::job::deletion_job(&event.team, row, share)));
            }
        }
        let app = AppOnDay::from_event(envelope, event);
        self.admission.audiences.marks.note_team(&*self.archive, &event.team, app).await?;
        let mut follow_ups = follow_up::for_event(event, envelope, raw.get(), &changes);
        follow_ups.extend(deletions);
        changes.extend(event.author_updates().into_iter().map(Change::Register));
        Ok(EventEffects { changes, follow_ups })
    }

    /// The effects of a change to a file: the downloader fetches the current version of a canvas. A file
    /// without a row waits as a deleted one does.
    async fn changed_file(
        &self,
        job: &BatchJob<'_>,
        event: &SlackEvent<'_>,
        envelope: &Envelope<'_>,
        failures: &BatchFailures<'_>,
    ) -> Result<EventEffects, JobFailure> {
        let key = ItemKey::file(&event.team, &file::changed(event)?);
        let Some(row) = self.archive.get(&key).await? else {
            return self.park_or_postpone(job, event, failures, Awaited::FileRow).await;
        };
        let share = self.unerased_share(&event.team, &row).await?;
        let event_id = envelope.event_id.as_deref().unwrap_or(event.raw.get()).as_bytes();
        let job = share
            .and_then(|share| file::job::changed_job(&event.team, &row, share, &event.clock(), event_id));
        Ok(EventEffects { changes: Vec::new(), follow_ups: job.into_iter().collect() })
    }

    /// A message that shares a file, given the file's row. An erased message stores no files.
    async fn unerased_share(&self, team: &TeamId, row: &Item) -> Result<Option<Share>, ArchiveError> {
        let shares: Vec<Share> = file::row::shares(row).collect();
        let messages: Vec<ItemKey> =
            shares.iter().map(|share| ItemKey::message(team, &share.channel, &share.ts)).collect();
        let messages = self.archive.get_all(&messages.iter().collect::<Vec<_>>()).await?;
        let is_erased = |message: &Option<Item>| message.as_ref().is_some_and(Item::is_erased);
        let share = shares.into_iter().zip(&messages).find(|(_, message)| !is_erased(message));
        Ok(share.map(|(share, _)| share))
    }
}

#[async_trait]
impl Worker for MessageWriter {
    fn queue(&self) -> QueueName {
        QueueName::Events
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    async fn work(&self, batch: &Batch<'_>) {
        let mut jobs = Vec::with_capacity(batch.jobs().len());
        for job in batch.jobs() {
            if event_job(job).is_some() {
                jobs.push(job);
            } else {
                job.refuse_payload();
            }
        }
        jobs.sort_by(|one, other| one.delivery.group.cmp(&other.delivery.group));
        let (admitted, sightings) =
            self.admission.admit(&*self.archive, jobs.into_iter(), &decision::RULE).await;
        let failures = BatchFailures { unmarked: self.mark(&admitted).await, jobs: batch.jobs() };
        let mut questions = match &self.asking {
            Some(asking) => {
                let jobs = admitted.iter().map(|admitted| event_job(admitted.job));
                Some(asking.read(&*self.archive, jobs, self.clock.now()).await)
            }
            None => None,
        };
        let mut changed: Vec<(&BatchJob<'_>, EventEffects)> = Vec::with_capacity(admitted.len());
        for (index, admitted) in admitted.into_iter().enumerate() {
            let job = admitted.job;
            let question = match &mut questions {
                Some(questions) if matches!(admitted.step, Step::Store { .. }) => questions.job(index),
                Some(_) | None => Ok(None),
            };
            let effects = match question {
                Ok(question) => self.effects(admitted, &failures).await.map(|mut effects| {
                    effects.follow_ups.extend(question);
                    effects
                }),
                Err(error) => Err(error.into()),
            };
            match effects {
                Ok(effects) => changed.push((job, effects)),
                Err(failure) => job.fail(failure),
            }
        }
        // Written concurrently, so that one machine needs no separate disk sync for them.
        let runs = self.runs.write(&*self.archive, sightings, batch.received().len());
        let changes: Vec<&[Change]> = changed.iter().map(|(_, effects)| effects.changes.as_slice()).collect();
        let (written, runs) = tokio::join!(changes::write(&*self.archive, &changes), runs);
        // An event has no follow-ups before it is stored.
        let mut stored = Vec::with_capacity(changed.len());
        for ((job, effects), written) in changed.into_iter().zip(written) {
            match written.and_then(|()| runs.clone()) {
                Ok(()) => stored.push((job, effects.follow_ups)),
                Err(error) => job.finish(Err(error)),
            }
        }
        follow_up::send(&*self.queue, stored).await;
    }
}
