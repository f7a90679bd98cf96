//! channel-indexer: from what happens to channels to their rows, the ChannelIndex, and gaps.
//!
//! * [`admission`] decides which channels are public enough.
//! * [`store`] keeps events, folds rows and projects the index.

mod admission;
mod store;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use metrics::counter;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Update};
use ports::metrics::{EVENTS_DROPPED, EVENTS_UNKNOWN};
use ports::queue::{GroupId, QueueName};
use rules::channel::{ChannelEvent, index};
use rules::{Event, Malformed, gap};
use slack::catalogue::{APP_RATE_LIMITED, GapKind, Rule};
use slack::envelope::Envelope;
use slack::ids::TeamId;

use crate::clearance::{self, Cleared};
use crate::directory::Joiner;
use crate::existence::{Check, Subject};
use crate::failure::Failure;
use crate::marks::Marks;
use crate::runs::{Runs, Sightings};
use crate::runtime::{Batch, BatchJob, DecodedPayload, EventJob, Outcome, RefusedTime, Worker};

use admission::{Admission, says_public};

pub use store::store;

/// The worker's name in the topology.
pub const NAME: &str = "channel-indexer";

/// Events taken at once: each batch writes a shard of the index once, however many channels changed.
const MAX_BATCH: usize = 512;

/// Keeps channels.
pub struct ChannelIndexer {
    archive: Arc<dyn Archive>,
    joiner: Option<Joiner>,
    shard_bytes: usize,
    marks: Marks,
    check: Option<Check>,
    runs: Runs,
}

impl ChannelIndexer {
    /// An indexer of this archive. Where there is a `joiner`, it is asked to join every new channel: Slack delivers
    /// messages only from channels the app is in.
    #[must_use]
    pub fn new(archive: Arc<dyn Archive>, joiner: Option<Joiner>) -> Self {
        Self {
            archive,
            joiner,
            shard_bytes: index::SHARD_BYTES,
            marks: Marks::default(),
            check: None,
            runs: Runs::default(),
        }
    }

    /// The same, and nothing is written before this check has said that what it tells of exists.
    #[must_use]
    pub fn checked_by(self, check: Check) -> Self {
        Self { check: Some(check), ..self }
    }

    /// With shards of another size: tests have small ones.
    #[must_use]
    pub fn with_shards_of(self, shard_bytes: usize) -> Self {
        Self { shard_bytes, ..self }
    }

    /// What a job brings, given what those in front of it let in.
    async fn admit(
        &self,
        payload: &DecodedPayload<'_>,
        admission: &mut Admission,
    ) -> Result<Brought, Failure> {
        let EventJob { raw, envelope, event, .. } = match payload {
            DecodedPayload::Event(event) => &**event,
            DecodedPayload::Refused(RefusedTime { team, gap }) => {
                let (team, gap) = (Some(team.clone()), Some(gap.clone()));
                return Ok(Brought { team, gap, ..Brought::default() });
            }
            DecodedPayload::File(_) | DecodedPayload::Image(_) => return Ok(Brought::default()),
        };
        if envelope.kind.as_deref() == Some(APP_RATE_LIMITED) {
            let missing = Malformed::Missing { event: APP_RATE_LIMITED, field: "team_id" };
            let team = envelope.team_id.as_deref().ok_or(missing)?;
            let team = TeamId::parse(team).map_err(Malformed::from)?;
            let gap = gap::rate_limited(&team, raw)?;
            return Ok(Brought { team: Some(team), gap: Some(gap), ..Brought::default() });
        }
        let Some(event) = event else { return Ok(Brought::passed_over(PassedOver::Unknown)) };
        let change = ChannelEvent::read(event)?;
        let gap = match gap::joined(event)?.filter(|_| self_joined(event, envelope)) {
            Some(joined) if self.may_note_join(event).await? => Some(joined),
            Some(_) => return Ok(Brought::passed_over(PassedOver::Private)),
            None => gap::opened_by(event)?,
        };
        if is_history_changed(event) && !self.keeps_history_of(event).await? {
            return Ok(Brought::passed_over(PassedOver::Private));
        }
        if change.is_none() && gap.is_none() {
            return Ok(Brought::passed_over(PassedOver::Unknown));
        }
        if let Some(change) = &change
            && !admission.admits(&*self.archive, &self.marks, event, change).await?
        {
            return Ok(Brought::passed_over(PassedOver::Private));
        }
        Ok(Brought { team: Some(event.team.clone()), gap, event: change, passed_over: None })
    }

    /// Whether anything of the channel can be missing here: of one that never was public nothing is kept. An event that
    /// names no channel is about all of them.
    async fn keeps_history_of(&self, event: &Event<'_>) -> Result<bool, Failure> {
        if event.header.channel().is_none() {
            return Ok(true);
        }
        Ok(self.marks.is_public(&*self.archive, &event.team, &event.channel()?).await?)
    }

    /// Of a private channel that never was public nothing is kept, not even that the app is in it.
    async fn may_note_join(&self, event: &Event<'_>) -> Result<bool, Failure> {
        // Here the type of a channel is a letter.
        let private = event.header.channel_type.as_deref() == Some("G");
        Ok(!private || self.marks.is_public(&*self.archive, &event.team, &event.channel()?).await?)
    }
}

/// Whether Slack changed many messages of a channel at once.
fn is_history_changed(event: &Event<'_>) -> bool {
    event.rule() == Some(Rule::Gap(GapKind::HistoryChanged))
}

/// Whether it was the app that joined.
fn self_joined(event: &Event<'_>, envelope: &Envelope<'_>) -> bool {
    event.header.user().is_some_and(|user| envelope.is_own_user(&user))
}

/// What a job claims to exist.
fn subject(job: &BatchJob<'_>, team: &TeamId) -> Result<Subject, Failure> {
    let sent_at = job.delivery.sent_at;
    let subject = match &job.payload {
        DecodedPayload::Event(event_job) => match &event_job.event {
            Some(event) => Subject::of(event, &event_job.envelope, sent_at)?.in_public(says_public(event)),
            None => Subject::team(team, sent_at),
        },
        DecodedPayload::File(_) | DecodedPayload::Image(_) | DecodedPayload::Refused(_) => {
            Subject::team(team, sent_at)
        }
    };
    Ok(subject.replayed(job.replayed))
}

/// What one job writes.
#[derive(Default)]
struct Brought {
    team: Option<TeamId>,
    gap: Option<Update>,
    event: Option<ChannelEvent>,
    passed_over: Option<PassedOver>,
}

/// Why a job writes nothing.
enum PassedOver {
    Unknown,
    Private,
}

impl Brought {
    fn passed_over(why: PassedOver) -> Self {
        Self { passed_over: Some(why), ..Self::default() }
    }

    fn count(&self) {
        match self.passed_over {
            Some(PassedOver::Unknown) => counter!(EVENTS_UNKNOWN).increment(1),
            Some(PassedOver::Private) => {
                counter!(EVENTS_DROPPED, "reason" => "private_channel").increment(1);
            }
            None => {}
        }
    }
}

#[async_trait]
impl Worker for ChannelIndexer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn queue(&self) -> QueueName {
        QueueName::Channels
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }

    async fn work(&self, batch: &Batch<'_>) {
        let cleared = self.clear(batch).await;
        let mut admission = Admission::default();
        let mut waiting: HashSet<&GroupId> = HashSet::new();
        let mut finished: Vec<&BatchJob<'_>> = Vec::new();
        let (mut changed, mut events) = (Vec::new(), Vec::new());
        let sightings = Sightings::default();
        for (job, cleared) in batch.jobs().iter().zip(cleared) {
            if matches!(job.payload, DecodedPayload::File(_) | DecodedPayload::Image(_)) {
                job.refuse_payload();
                continue;
            }
            if waiting.contains(&job.delivery.group) {
                job.settle(Outcome::retry("a job in front of it waits for the existence check"));
                continue;
            }
            let brought = match self.admit_cleared(&job.payload, cleared, &mut admission, &sightings).await {
                Ok(brought) => brought,
                Err(failure) => {
                    if matches!(failure, Failure::Postponed(..)) {
                        waiting.insert(&job.delivery.group);
                    }
                    job.settle(failure.outcome());
                    continue;
                }
            };
            brought.count();
            match (self.write_beside(&brought).await, brought.event) {
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
    /// What the existence check says of each job. What lets in private channels is judged twice, here and where it
    /// counts: a job that is put aside lets in nothing.
    async fn clear(&self, batch: &Batch<'_>) -> Vec<Cleared> {
        let Some((check, mode)) = clearance::in_force(self.check.as_ref()) else {
            return vec![Cleared::Clear; batch.jobs().len()];
        };
        let mut admission = Admission::default();
        let mut claims = Vec::with_capacity(batch.jobs().len());
        for job in batch.jobs() {
            claims.push(match self.admit(&job.payload, &mut admission).await {
                Ok(Brought { team: Some(team), .. }) => subject(job, &team).map(Some),
                // What fails here fails again where it counts.
                Ok(Brought { team: None, .. }) | Err(_) => Ok(None),
            });
        }
        clearance::clear(check, mode, claims).await
    }

    /// What a job brings where all that it claims exists. One that is put aside lets nothing in.
    async fn admit_cleared(
        &self,
        payload: &DecodedPayload<'_>,
        cleared: Cleared,
        admission: &mut Admission,
        sightings: &Sightings,
    ) -> Result<Brought, Failure> {
        if let Cleared::Refused(failure) = cleared {
            return Err(failure);
        }
        if let (Cleared::Clear, DecodedPayload::Event(event_job)) = (&cleared, payload)
            && let Some(event) = &event_job.event
        {
            sightings.note(event_job.run.clone(), event);
        }
        let brought = self.admit(payload, admission).await?;
        if brought.passed_over.is_none() {
            cleared.require()?;
        }
        Ok(brought)
    }

    /// Rows that no channel is folded from.
    async fn write_beside(&self, brought: &Brought) -> Result<(), ArchiveError> {
        if let Some(gap) = &brought.gap {
            self.archive.write(gap).await?;
        }
        if let Some(team) = &brought.team {
            self.marks.note_team(&*self.archive, team).await?;
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
