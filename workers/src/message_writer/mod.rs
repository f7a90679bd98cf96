//! message-writer: from Slack's events to messages, revisions, people and emoji.
//!
//! * [`audience`] decides, in the order of the channel, which events are stored at all.
//! * [`parking`] is where those wait of which nobody can say it yet.
//! * [`foresight`] says what of them is checked for its existence, before anything is written.
//! * [`content`] writes versions of messages, so that any order gives the same rows.
//! * [`follow_up`] is what other workers do next.

mod audience;
mod content;
mod follow_up;
mod foresight;
mod parking;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use metrics::counter;
use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Update, WriteOutcome};
use ports::clock::{SharedClock, SystemClock};
use ports::metrics::{EVENTS_DROPPED, EVENTS_UNKNOWN};
use ports::queue::{Delivery, GroupId, Outgoing, Queue, QueueName};
use process::config::existence::ExistenceMode;
use rules::Change;
use rules::message::{Content, KeptVersions};
use slack::catalogue::{ChannelChange, Rule};

use crate::clearance::{self, Cleared};
use crate::existence::Check;
use crate::failure::Failure;
use crate::runs::{Runs, Sightings};
use crate::runtime::{Batch, BatchJob, DecodedPayload, EventJob, Worker};

use audience::{Audiences, Sights, Verdict, says_public};
use content::Written;

/// The worker's name in the topology.
pub const NAME: &str = "message-writer";

/// Events taken at once. On one machine a batch costs three syncs however large it is; SQS hands out ten.
const MAX_BATCH: usize = 512;

/// Turns events into rows of the archive.
pub struct MessageWriter {
    archive: Arc<dyn Archive>,
    queue: Arc<dyn Queue>,
    audiences: Audiences,
    check: Option<Check>,
    runs: Runs,
    clock: SharedClock,
}

/// A job on its way through its group.
struct Candidate<'b> {
    job: &'b BatchJob<'b>,
    event_job: &'b EventJob<'b>,
    /// Whether all of it exists.
    cleared: Cleared,
}

/// What is to be done about an event.
enum Step {
    Store(EventEffects),
    /// Nothing of it is stored.
    Pass,
    /// Whether it may be stored is not known yet.
    Wait(Awaited),
}

/// What shows whether an event may be stored, and is not there yet.
#[derive(Clone, Copy)]
enum Awaited {
    /// The event does not say who may read its channel.
    Audience,
    /// The event deletes a file and names no channel: only the file's row shows that it was shared in public.
    FileRow,
}

/// What an event brings: what it writes, and what other workers do next.
#[derive(Default)]
struct EventEffects {
    changes: Vec<Change>,
    follow_ups: Vec<Outgoing>,
}

impl MessageWriter {
    /// A writer to this archive, whose follow-ups go to this queue.
    #[must_use]
    pub fn new(archive: Arc<dyn Archive>, queue: Arc<dyn Queue>) -> Self {
        Self {
            archive,
            queue,
            audiences: Audiences::default(),
            check: None,
            runs: Runs::default(),
            clock: SystemClock::shared(),
        }
    }

    /// The same, and nothing is written before this check has said that what it tells of exists.
    #[must_use]
    pub fn checked_by(self, check: Check) -> Self {
        Self { check: Some(check), ..self }
    }

    /// The same, on another clock.
    #[must_use]
    pub fn timed_by(self, clock: SharedClock) -> Self {
        Self { clock, ..self }
    }

    /// What the existence check says of each job, and of channels whose events do not say who may read them.
    async fn clear(&self, jobs: &[&EventJob<'_>]) -> (Vec<Cleared>, Sights) {
        let (archive, audiences) = (&*self.archive, &self.audiences);
        let Some((check, mode)) = clearance::in_force(self.check.as_ref()) else {
            return (vec![Cleared::Clear; jobs.len()], None);
        };
        let sights = match mode {
            ExistenceMode::Enforce => {
                Some(check.look_at(foresight::unseen(archive, audiences, jobs).await).await)
            }
            // Observing holds up nothing.
            ExistenceMode::Observe | ExistenceMode::Off => None,
        };
        let claims = foresight::claims(archive, audiences, &sights, jobs).await;
        (clearance::clear(check, mode, claims).await, sights)
    }

    /// What the events of one group change; those that fail are settled. Which of them are stored depends on the ones before,
    /// so they are judged in order; what they write does not. If one waits to be checked, those behind it wait with it.
    async fn admit_group<'b>(
        &self,
        candidates: Vec<Candidate<'b>>,
        sights: &Sights,
        sightings: &Sightings,
    ) -> Vec<(&'b BatchJob<'b>, EventEffects)> {
        let mut admitted = Vec::with_capacity(candidates.len());
        let mut unseen = Vec::new();
        for candidate in candidates {
            match self.admit(&candidate, sights, sightings).await {
                Ok(Step::Wait(_)) => unseen.push(candidate),
                Ok(Step::Store(effects)) => admitted.push((candidate.job, effects)),
                Ok(Step::Pass) => admitted.push((candidate.job, EventEffects::default())),
                Err(failure) => {
                    let waits = matches!(failure, Failure::Postponed(..));
                    candidate.job.settle(failure.outcome());
                    if waits {
                        break;
                    }
                }
            }
        }
        for candidate in unseen {
            // An event behind it may have shown its channel to be public.
            let effects = match self.admit(&candidate, sights, sightings).await {
                Ok(Step::Wait(awaited)) => self.wait_beside(candidate.job.delivery, awaited, sights),
                Ok(Step::Store(effects)) => Ok(effects),
                Ok(Step::Pass) => Ok(EventEffects::default()),
                Err(failure) => Err(failure),
            };
            match effects {
                Ok(effects) => admitted.push((candidate.job, effects)),
                Err(failure) => candidate.job.settle(failure.outcome()),
            }
        }
        admitted
    }

    /// What a job brings.
    async fn admit(
        &self,
        candidate: &Candidate<'_>,
        sights: &Sights,
        sightings: &Sightings,
    ) -> Result<Step, Failure> {
        let EventJob { raw, envelope, event, run, .. } = candidate.event_job;
        let cleared = || candidate.cleared.clone();
        let Some(event) = event else {
            counter!(EVENTS_UNKNOWN).increment(1);
            return Ok(Step::Pass);
        };
        if matches!(candidate.cleared, Cleared::Clear) {
            sightings.note(run.clone(), event);
        }
        match event.rule() {
            None => {
                counter!(EVENTS_UNKNOWN).increment(1);
                return Ok(Step::Pass);
            }
            Some(Rule::Channel(ChannelChange::IdChanged)) => {
                if self.audiences.is_carried_over(&*self.archive, event).await? {
                    cleared().require()?;
                    self.audiences.carry_over(&*self.archive, event).await?;
                }
                return Ok(Step::Pass);
            }
            // The channel-indexer's, or of another member who joins a channel: nothing of it is stored here.
            Some(Rule::Channel(_) | Rule::Gap(_) | Rule::Joined | Rule::Ignored(_)) => return Ok(Step::Pass),
            Some(Rule::Message | Rule::Reaction(_)) => {
                // It sets the public mark: nothing of what does not exist may. Any other may be dropped as it is.
                if says_public(event) {
                    cleared().require()?;
                }
                match self.audiences.judge(&*self.archive, event, sights).await? {
                    Verdict::Store => cleared().require()?,
                    Verdict::Drop(reason) => {
                        counter!(EVENTS_DROPPED, "reason" => reason).increment(1);
                        return Ok(Step::Pass);
                    }
                    Verdict::Wait => return Ok(Step::Wait(Awaited::Audience)),
                }
            }
            Some(Rule::User | Rule::Team(_) | Rule::Emoji | Rule::FileDeleted) => cleared().require()?,
        }
        let changes = event.changes()?;
        // A file without a row may be one of a private channel, whose id is not written, or of a message that comes later.
        if event.rule() == Some(Rule::FileDeleted) && !self.are_there(&changes).await? {
            return Ok(Step::Wait(Awaited::FileRow));
        }
        self.audiences.note_team(&*self.archive, &event.team).await?;
        let follow_ups = follow_up::of(event, envelope, raw.get(), &changes);
        Ok(Step::Store(EventEffects { changes, follow_ups }))
    }

    /// What becomes of an event that may be one of a private channel, as far as is known. It waits for a time, and is dropped
    /// in the end; while Slack can be asked who may read its channel, that has no end.
    fn wait_beside(
        &self,
        job: &Delivery,
        awaited: Awaited,
        sights: &Sights,
    ) -> Result<EventEffects, Failure> {
        if !parking::is_aside(job) {
            return Ok(EventEffects { changes: Vec::new(), follow_ups: vec![parking::aside(job)] });
        }
        let next_look = parking::next_look(job, self.clock.now());
        let (wait, dropped, why) = match awaited {
            Awaited::Audience => (
                next_look.or(sights.is_some().then(parking::last_look)),
                "channel_unknown",
                "it does not say who may read its channel, and nothing else has yet",
            ),
            Awaited::FileRow => {
                (next_look, "unknown_file", "no message of a public channel shares the file yet")
            }
        };
        let Some(after) = wait else {
            counter!(EVENTS_DROPPED, "reason" => dropped).increment(1);
            return Ok(EventEffects::default());
        };
        Err(Failure::Postponed(why.into(), after))
    }

    /// Whether each of these changes is of an item that there is.
    async fn are_there(&self, changes: &[Change]) -> Result<bool, ArchiveError> {
        let keys: Vec<&ItemKey> = changes.iter().map(|change| &update(change).key).collect();
        Ok(self.archive.get_all(&keys).await?.iter().all(Option::is_some))
    }

    /// Writes the changes of many events: what each begins with together, the rest side by side.
    async fn write(&self, events: &[(&BatchJob<'_>, EventEffects)]) -> Vec<Result<(), ArchiveError>> {
        let archive = &*self.archive;
        let beginnings: Vec<&Update> = events
            .iter()
            .flat_map(|(_, effects)| effects.changes.iter().take(beginning(&effects.changes)).map(update))
            .collect();
        let changed: Vec<&Content> =
            events.iter().filter_map(|(_, effects)| first_change(&effects.changes)).collect();
        let mut begun = archive.write_all(&beginnings).await.into_iter();
        let mut written = content::write_changes(archive, &changed).await.into_iter();
        let finishing = events.iter().map(|(_, EventEffects { changes, .. })| {
            let begun = begun.by_ref().take(beginning(changes)).collect();
            let written = first_change(changes).and_then(|_| written.next());
            finish(archive, changes, begun, written)
        });
        join_all(finishing).await
    }
}

/// How many of an event's changes can be written before anything is read: all of a plain message.
fn beginning(changes: &[Change]) -> usize {
    // What a second content does depends on how the first one fared.
    match changes.iter().position(|change| matches!(change, Change::Content(_))) {
        Some(index) if first_change(&changes[index..]).is_some() => index,
        Some(index) => index + 1,
        None => changes.len(),
    }
}

/// The change of a message behind an event's beginning: content that most likely replaces another.
fn first_change(changes: &[Change]) -> Option<&Content> {
    let first_content = changes.iter().find_map(|change| match change {
        Change::Content(content) => Some(&**content),
        Change::Register(_) => None,
    });
    first_content.filter(|content| content.is_change())
}

/// A change as one update that reads nothing first.
fn update(change: &Change) -> &Update {
    match change {
        Change::Content(content) => content.if_absent(),
        Change::Register(update) => update,
    }
}

/// Does what is left of an event, given what became of its beginning and of the change behind that.
async fn finish(
    archive: &dyn Archive,
    changes: &[Change],
    begun: Vec<Result<WriteOutcome, ArchiveError>>,
    mut written: Option<Result<KeptVersions, ArchiveError>>,
) -> Result<(), ArchiveError> {
    let mut begun = begun.into_iter();
    let mut before: Option<Written<'_>> = None;
    for change in changes {
        match (change, begun.next()) {
            (Change::Register(_), Some(outcome)) => drop(outcome?),
            (Change::Register(update), None) => drop(archive.write(update).await?),
            (Change::Content(content), Some(outcome)) => {
                before = Some((content, content::settle(archive, content, outcome?).await?));
            }
            (Change::Content(content), None) => {
                let standing = match written.take() {
                    Some(standing) => standing?,
                    None => content::write(archive, content, before.take()).await?,
                };
                before = Some((content, standing));
            }
        }
    }
    Ok(())
}

#[async_trait]
impl Worker for MessageWriter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn queue(&self) -> QueueName {
        QueueName::Events
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    async fn work(&self, batch: &Batch<'_>) {
        let mut events = Vec::with_capacity(batch.jobs().len());
        for job in batch.jobs() {
            match &job.payload {
                DecodedPayload::Event(event_job) => events.push((job, &**event_job)),
                DecodedPayload::File(_) | DecodedPayload::Image(_) | DecodedPayload::Refused(_) => {
                    job.refuse_payload();
                }
            }
        }
        let event_jobs: Vec<&EventJob<'_>> = events.iter().map(|(_, event_job)| *event_job).collect();
        let (cleared, sights) = self.clear(&event_jobs).await;
        let mut groups: BTreeMap<&GroupId, Vec<Candidate<'_>>> = BTreeMap::new();
        for ((job, event_job), cleared) in events.into_iter().zip(cleared) {
            let candidate = Candidate { job, event_job, cleared };
            groups.entry(&job.delivery.group).or_default().push(candidate);
        }
        let sightings = Sightings::default();
        let admitted =
            join_all(groups.into_values().map(|group| self.admit_group(group, &sights, &sightings))).await;
        let admitted: Vec<(&BatchJob<'_>, EventEffects)> = admitted.into_iter().flatten().collect();
        // Side by side, so that one machine needs no sync of its own for it.
        let runs = self.runs.write(&*self.archive, sightings, batch.received().len());
        let (written, runs) = tokio::join!(self.write(&admitted), runs);
        // Nothing follows from an event that is not stored yet.
        let mut stored = Vec::with_capacity(admitted.len());
        for ((job, effects), written) in admitted.into_iter().zip(written) {
            match written.and_then(|()| runs.clone()) {
                Ok(()) => stored.push((job, effects.follow_ups)),
                Err(error) => job.finish(Err(error)),
            }
        }
        follow_up::send(&*self.queue, stored).await;
    }
}
