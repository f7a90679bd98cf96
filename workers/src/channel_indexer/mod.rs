//! channel-indexer: turns channel events into channel rows, the ChannelIndex and gaps.
//!
//! * [`store`] stores events, folds rows and projects the index.

mod store;

use std::sync::Arc;

use async_trait::async_trait;
use metrics::counter;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Update};
use ports::metrics::{EVENTS_DROPPED, EVENTS_UNKNOWN};
use ports::queue::QueueName;
use ports::queue::route::Audience;
use rules::audience::{Decision, DropReason, shows_public};
use rules::channel::{ChannelEvent, index};
use rules::schedule::{AppOnDay, AppState};
use rules::visibility::VisibilityEvidence;
use rules::{Malformed, SlackEvent, gap};
use slack::catalogue::{APP_RATE_LIMITED, EventRule};
use slack::envelope::Envelope;
use slack::ids::TeamId;

use crate::admission::marks::note_visibility;
use crate::admission::{
    Admitted, BatchAdmission, BatchFacts, DecisionRule, EventEntities, ExistenceCheck, Step, event_job,
};
use crate::directory::Joiner;
use crate::failure::JobFailure;
use crate::runs::Runs;
use crate::runtime::{Batch, BatchJob, DecodedPayload, EventJob, Worker};

pub use store::store;

/// Maximum events in a batch: each batch writes a shard of the index once, however many channels changed.
const MAX_BATCH: usize = 512;

/// Stores channels and their index.
pub struct ChannelIndexer {
    archive: Arc<dyn Archive>,
    joiner: Option<Joiner>,
    shard_bytes: usize,
    admission: BatchAdmission,
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
            admission: BatchAdmission::default(),
            runs: Runs::default(),
        }
    }

    /// The same indexer, which writes an event only after this check has confirmed that its IDs exist.
    #[must_use]
    pub fn checked_by(self, check: ExistenceCheck) -> Self {
        Self { admission: BatchAdmission { check: Some(check), ..self.admission }, ..self }
    }

    /// Sets the shard size; tests use small shards.
    #[must_use]
    pub fn with_shard_bytes(self, shard_bytes: usize) -> Self {
        Self { shard_bytes, ..self }
    }
}

/// The rule for the channels queue. An event in which only events that the check refused make its channel known
/// is refused too.
const RULE: DecisionRule = DecisionRule { needs_facts, step, entities, note, fails_if_refused: true };

fn needs_facts(event: &SlackEvent<'_>) -> bool {
    event.rule() != Some(EventRule::Message)
}

fn step(job: &BatchJob<'_>, facts: &BatchFacts) -> Result<Step, JobFailure> {
    let event = event_job(job).and_then(|event_job| event_job.event.as_ref());
    match (ChannelEffects::read(&job.payload)?, event) {
        (Some(ChannelEffects { is_event: true, .. }), Some(event)) if !is_stored(event, facts)? => {
            Ok(Step::Drop(DropReason::PrivateChannel))
        }
        (Some(_), _) => Ok(Step::Store { marks: false }),
        (None, event) if event.is_some_and(|event| event.rule().is_some()) => Ok(Step::Pass),
        (None, _) => Ok(Step::Unknown),
    }
}

/// The row of a channel shows later events that the channel is known.
fn note(job: &BatchJob<'_>, step: &Step, facts: &mut BatchFacts) {
    if !matches!(step, Step::Store { .. }) {
        return;
    }
    // A failure here recurs when the job is written.
    let Ok(Some(ChannelEffects { team, change, .. })) = ChannelEffects::read(&job.payload) else { return };
    for channel in change.iter().flat_map(ChannelEvent::channels) {
        facts.add_row(&team, channel);
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
fn entities(job: &BatchJob<'_>) -> Result<Option<EventEntities>, JobFailure> {
    let sent_at = job.delivery.sent_at;
    if let Some(EventJob { event: Some(event), envelope, .. }) = event_job(job) {
        let entities = EventEntities::from_event(event, envelope, sent_at)?;
        return Ok(Some(entities.with_public(implies_public(event))));
    }
    let effects = ChannelEffects::read(&job.payload)?;
    Ok(effects.map(|effects| EventEntities::team(&effects.team, sent_at)))
}

/// The writes of one job.
struct ChannelEffects {
    team: TeamId,
    app: Option<AppOnDay>,
    /// Gaps, and the state of the app.
    facts: Vec<Update>,
    visibility: Option<VisibilityEvidence>,
    change: Option<ChannelEvent>,
    /// Whether they follow from an event, whose channel decides whether they are written.
    is_event: bool,
}

impl ChannelEffects {
    /// Reads the writes of a job, if it is stored; `None` if there is nothing to write.
    fn read(payload: &DecodedPayload<'_>) -> Result<Option<Self>, JobFailure> {
        let facts = |team, facts| {
            Ok(Some(Self { team, app: None, facts, visibility: None, change: None, is_event: false }))
        };
        if let DecodedPayload::Refused { team, gap: refused } = payload {
            return facts(team.clone(), vec![refused.clone()]);
        }
        if let DecodedPayload::Run { team, .. } = payload {
            return facts(team.clone(), Vec::new());
        }
        let DecodedPayload::Event(event_job) = payload else { return Ok(None) };
        let EventJob { raw, envelope, event, .. } = &**event_job;
        if envelope.kind.as_deref() == Some(APP_RATE_LIMITED) {
            let missing = Malformed::Missing { event: APP_RATE_LIMITED, field: "team_id" };
            let team = envelope.workspace().ok_or(missing)?;
            let limited = gap::rate_limited(&team, raw)?;
            return facts(team, vec![limited]);
        }
        let Some(event) = event else { return Ok(None) };
        let change = ChannelEvent::read(event)?;
        let mut facts = match gap::joined(event)?.filter(|_| self_joined(event, envelope)) {
            Some(joined) => vec![joined],
            None => gap::facts(event)?,
        };
        facts.extend(AppState::from_event(event));
        if change.is_none() && facts.is_empty() {
            return Ok(None);
        }
        let visibility = VisibilityEvidence::from_event(event).filter(|_| change.is_none());
        let app = AppOnDay::from_event(envelope, event);
        Ok(Some(Self { team: event.team.clone(), app, facts, visibility, change, is_event: true }))
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
        let jobs = batch.jobs().iter().filter(|job| {
            let is_channels = matches!(
                job.payload,
                DecodedPayload::Event(_) | DecodedPayload::Refused { .. } | DecodedPayload::Run { .. }
            );
            if !is_channels {
                job.refuse_payload();
            }
            is_channels
        });
        let (admitted, sightings) = self.admission.admit(&*self.archive, jobs, &RULE).await;
        let mut finished: Vec<&BatchJob<'_>> = Vec::new();
        let (mut changed, mut events) = (Vec::new(), Vec::new());
        for Admitted { job, step } in admitted {
            match step {
                Step::Store { .. } | Step::CarryOver(_) => {}
                Step::Unknown => counter!(EVENTS_UNKNOWN).increment(1),
                Step::Drop(reason) => counter!(EVENTS_DROPPED, "reason" => reason.label()).increment(1),
                Step::Pass | Step::Wait(_) => {}
            }
            let effects = match ChannelEffects::read(&job.payload) {
                Ok(effects) => effects.filter(|_| matches!(step, Step::Store { .. })),
                Err(failure) => {
                    job.fail(failure);
                    continue;
                }
            };
            let Some(effects) = effects else {
                finished.push(job);
                continue;
            };
            if let DecodedPayload::Run { team, run, span } = &job.payload {
                sightings.note_span(team.clone(), run.clone(), span.clone());
            }
            match (self.write_facts(&effects).await, effects.change) {
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
    /// Writes what no channel is folded from: facts, what an event shows about its channel, the team.
    async fn write_facts(&self, effects: &ChannelEffects) -> Result<(), ArchiveError> {
        let facts: Vec<&Update> = effects.facts.iter().collect();
        for written in self.archive.write_all(&facts).await {
            written?;
        }
        note_visibility(&*self.archive, effects.visibility.as_slice()).await?;
        self.admission.audiences.marks.note_team(&*self.archive, &effects.team, effects.app.clone()).await
    }

    fn ask_to_join(&self, event: &ChannelEvent) {
        if let Some(joiner) = &self.joiner
            && event.is_creation()
        {
            joiner.ask(event.team(), event.channel());
        }
    }
}
