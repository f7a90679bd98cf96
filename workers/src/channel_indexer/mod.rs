//! channel-indexer: turns channel events into channel rows, the ChannelIndex and gaps.
//!
//! * [`store`] stores events, folds rows and projects the index.

mod store;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use metrics::counter;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Update};
use ports::metrics::{EVENTS_DROPPED, EVENTS_UNKNOWN};
use ports::queue::route::Audience;
use ports::queue::{GroupId, QueueName};
use rules::audience::{Decision, shows_public};
use rules::channel::{ChannelEvent, index};
use rules::visibility::VisibilityEvidence;
use rules::{Malformed, SlackEvent, gap};
use slack::catalogue::{APP_RATE_LIMITED, EventRule};
use slack::envelope::Envelope;
use slack::ids::TeamId;

use crate::audience::{Audiences, BatchFacts};
use crate::directory::Joiner;
use crate::existence::{Clearance, EventEntities, ExistenceCheck, require_clearance};
use crate::failure::JobFailure;
use crate::marks::note_visibility;
use crate::runs::{Runs, Sightings};
use crate::runtime::{Batch, BatchJob, DecodedPayload, EventJob, JobOutcome, Worker};

pub use store::store;

/// Maximum events in a batch: each batch writes a shard of the index once, however many channels changed.
const MAX_BATCH: usize = 512;

/// Stores channels and their index.
pub struct ChannelIndexer {
    archive: Arc<dyn Archive>,
    joiner: Option<Joiner>,
    shard_bytes: usize,
    audiences: Audiences,
    check: Option<ExistenceCheck>,
    runs: Runs,
}

impl ChannelIndexer {
    /// An indexer for this archive. If there is a `joiner`, it is asked to join every new channel, because
    /// Slack delivers messages only from channels the app is in.
    pub fn new(archive: Arc<dyn Archive>, joiner: Option<Joiner>) -> Self {
        Self {
            archive,
            joiner,
            shard_bytes: index::SHARD_BYTES,
            audiences: Audiences::default(),
            check: None,
            runs: Runs::default(),
        }
    }

    /// The same indexer, which writes an event only after this check has confirmed that its IDs exist.
    #[must_use]
    pub fn checked_by(self, check: ExistenceCheck) -> Self {
        Self { check: Some(check), ..self }
    }

    /// Sets the shard size; tests use small shards.
    #[must_use]
    pub fn with_shard_bytes(self, shard_bytes: usize) -> Self {
        Self { shard_bytes, ..self }
    }

    /// Facts about the channels of a batch's events.
    async fn facts(&self, batch: &Batch<'_>) -> BatchFacts {
        let events = batch.jobs().iter().filter_map(|job| {
            let DecodedPayload::Event(event_job) = &job.payload else { return None };
            event_job.event.as_ref()
        });
        let events: Vec<&SlackEvent<'_>> =
            events.filter(|event| event.rule() != Some(EventRule::Message)).collect();
        self.audiences.facts(&*self.archive, &events).await
    }

    /// The effects of a job, given the effects of the jobs before it.
    fn effects_of(payload: &DecodedPayload<'_>, facts: &mut BatchFacts) -> Result<JobEffects, JobFailure> {
        if let DecodedPayload::Refused { team, gap } = payload {
            let (team, gaps) = (Some(team.clone()), vec![gap.clone()]);
            return Ok(JobEffects { team, gaps, ..JobEffects::default() });
        }
        let DecodedPayload::Event(event_job) = payload else { return Ok(JobEffects::default()) };
        let EventJob { raw, envelope, event, .. } = &**event_job;
        if envelope.kind.as_deref() == Some(APP_RATE_LIMITED) {
            let missing = Malformed::Missing { event: APP_RATE_LIMITED, field: "team_id" };
            let team = envelope.workspace().ok_or(missing)?;
            let gap = gap::rate_limited(&team, raw)?;
            return Ok(JobEffects { team: Some(team), gaps: vec![gap], ..JobEffects::default() });
        }
        let Some(event) = event else { return Ok(JobEffects::skipped(Skipped::Unknown)) };
        let change = ChannelEvent::read(event)?;
        let gaps = match gap::joined(event)?.filter(|_| self_joined(event, envelope)) {
            Some(joined) => vec![joined],
            None => gap::facts(event)?,
        };
        if change.is_none() && gaps.is_empty() {
            let known = event.rule().is_some();
            return Ok(JobEffects::skipped(if known { Skipped::Known } else { Skipped::Unknown }));
        }
        if !is_stored(event, facts)? {
            return Ok(JobEffects::skipped(Skipped::Private));
        }
        for channel in change.iter().flat_map(ChannelEvent::channels) {
            facts.add_row(&event.team, channel);
        }
        let visibility = VisibilityEvidence::from_event(event).filter(|_| change.is_none());
        Ok(JobEffects { team: Some(event.team.clone()), gaps, visibility, event: change, skipped: None })
    }
}

/// Whether an event is stored. Messages come through the message-writer, which has already decided on them.
fn is_stored(event: &SlackEvent<'_>, facts: &BatchFacts) -> Result<bool, JobFailure> {
    if event.rule() == Some(EventRule::Message) {
        return Ok(Audience::from_event(&event.header) != Audience::Direct);
    }
    Ok(matches!(facts.decide(event)?, Decision::Store { .. }))
}

/// Whether an event implies that its channel is public. The message-writer lets through only messages of
/// channels that are or were public.
fn implies_public(event: &SlackEvent<'_>) -> bool {
    event.rule() == Some(EventRule::Message) || shows_public(event)
}

/// Whether the app itself joined.
fn self_joined(event: &SlackEvent<'_>, envelope: &Envelope<'_>) -> bool {
    event.header.user().is_some_and(|user| envelope.is_own_user(&user))
}

/// The entities a job claims to exist.
fn event_entities(job: &BatchJob<'_>, team: &TeamId) -> Result<EventEntities, JobFailure> {
    let sent_at = job.delivery.sent_at;
    let entities = if let DecodedPayload::Event(event_job) = &job.payload
        && let Some(event) = &event_job.event
    {
        EventEntities::from_event(event, &event_job.envelope, sent_at)?.with_public(implies_public(event))
    } else {
        EventEntities::team(team, sent_at)
    };
    Ok(entities.replayed(job.is_replayed()))
}

/// The writes of one job.
#[derive(Default)]
struct JobEffects {
    team: Option<TeamId>,
    gaps: Vec<Update>,
    visibility: Option<VisibilityEvidence>,
    event: Option<ChannelEvent>,
    skipped: Option<Skipped>,
}

/// Why a job writes nothing.
enum Skipped {
    /// The event type is unknown.
    Unknown,
    /// The event has nothing to store.
    Known,
    Private,
}

impl JobEffects {
    fn skipped(why: Skipped) -> Self {
        Self { skipped: Some(why), ..Self::default() }
    }

    fn count(&self) {
        match self.skipped {
            Some(Skipped::Unknown) => counter!(EVENTS_UNKNOWN).increment(1),
            Some(Skipped::Known) | None => {}
            Some(Skipped::Private) => {
                counter!(EVENTS_DROPPED, "reason" => "private_channel").increment(1);
            }
        }
    }
}

#[async_trait]
impl Worker for ChannelIndexer {
    fn queue(&self) -> QueueName {
        QueueName::Channels
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    async fn work(&self, batch: &Batch<'_>) {
        let mut facts = self.facts(batch).await;
        let clearances = self.clear(batch, facts.clone()).await;
        let mut waiting: HashSet<&GroupId> = HashSet::new();
        let mut finished: Vec<&BatchJob<'_>> = Vec::new();
        let (mut changed, mut events) = (Vec::new(), Vec::new());
        let sightings = Sightings::default();
        for (job, clearance) in batch.jobs().iter().zip(clearances) {
            if !matches!(job.payload, DecodedPayload::Event(_) | DecodedPayload::Refused { .. }) {
                job.refuse_payload();
                continue;
            }
            if waiting.contains(&job.delivery.group) {
                job.settle(JobOutcome::retry("an earlier job of its group waits for the existence check"));
                continue;
            }
            let effects = match admit_checked(&job.payload, &clearance, &mut facts, &sightings) {
                Ok(effects) => effects,
                Err(failure) => {
                    if job.would_retry(&failure) {
                        waiting.insert(&job.delivery.group);
                    }
                    job.fail(failure);
                    continue;
                }
            };
            effects.count();
            match (self.write_facts(&effects).await, effects.event) {
                (Err(error), _) => job.finish(Err(error)),
                (Ok(()), Some(event)) => {
                    changed.push(job);
                    events.push(event);
                }
                (Ok(()), None) => finished.push(job),
            }
        }
        let stored = store(&*self.archive, &events, self.shard_bytes).await;
        for ((job, event), stored) in changed.into_iter().zip(&events).zip(stored) {
            match stored {
                Ok(()) => {
                    self.ask_to_join(event);
                    finished.push(job);
                }
                Err(error) => job.finish(Err(error)),
            }
        }
        let runs = self.runs.write(&*self.archive, sightings, batch.received().len()).await;
        for job in finished {
            job.finish(runs.clone());
        }
    }
}

impl ChannelIndexer {
    /// The existence-check result of each job that would be stored if all its entities existed.
    async fn clear(&self, batch: &Batch<'_>, mut facts: BatchFacts) -> Vec<Clearance> {
        let Some((check, mode)) = ExistenceCheck::active(self.check.as_ref()) else {
            return vec![Some(Ok(())); batch.jobs().len()];
        };
        let claim = |job: &BatchJob<'_>| match Self::effects_of(&job.payload, &mut facts) {
            Ok(JobEffects { team: Some(team), .. }) => event_entities(job, &team).map(Some),
            // A failure here recurs when the job is admitted for real.
            Ok(JobEffects { team: None, .. }) | Err(_) => Ok(None),
        };
        let claims = batch.jobs().iter().map(claim).collect();
        check.check_batch(mode, claims).await
    }

    /// Writes what no channel is folded from: gaps, what an event shows about its channel, the team.
    async fn write_facts(&self, effects: &JobEffects) -> Result<(), ArchiveError> {
        let gaps: Vec<&Update> = effects.gaps.iter().collect();
        for written in self.archive.write_all(&gaps).await {
            written?;
        }
        note_visibility(&*self.archive, effects.visibility.as_slice()).await?;
        if let Some(team) = &effects.team {
            self.audiences.marks.note_team(&*self.archive, team).await?;
        }
        Ok(())
    }

    fn ask_to_join(&self, event: &ChannelEvent) {
        if let Some(joiner) = &self.joiner
            && event.is_creation()
        {
            joiner.ask(event.team(), event.channel());
        }
    }
}

/// The effects of a job if all its entities exist. A quarantined job has no effects.
fn admit_checked(
    payload: &DecodedPayload<'_>,
    clearance: &Clearance,
    facts: &mut BatchFacts,
    sightings: &Sightings,
) -> Result<JobEffects, JobFailure> {
    if let Some(Err(failure)) = clearance {
        return Err(failure.clone());
    }
    if let (Some(Ok(())), DecodedPayload::Event(event_job)) = (clearance, payload)
        && let Some(event) = &event_job.event
    {
        sightings.note(event_job.run.clone(), event);
    }
    let effects = ChannelIndexer::effects_of(payload, facts)?;
    if effects.skipped.is_none() {
        require_clearance(clearance)?;
    }
    Ok(effects)
}
