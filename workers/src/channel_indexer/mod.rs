//! channel-indexer: from what happens to channels to their rows, the ChannelIndex, and gaps.
//!
//! * [`admission`] decides which channels are public enough.
//! * [`store`] keeps events, folds rows and projects the index.

mod admission;
mod store;

use std::sync::Arc;

use async_trait::async_trait;
use metrics::counter;
use shared::archive::{self, Archive, ArchiveError, ItemKey, Update};
use shared::queue::{Delivery, QueueName};
use shared::rules::channel::{ChannelEvent, index};
use shared::rules::{Event, Malformed, gap};
use shared::slack::ids::TeamId;
use shared::telemetry::metrics::{EVENTS_DROPPED, EVENTS_UNKNOWN};

use crate::directory::Joiner;
use crate::event_job;
use crate::failure::Failure;
use crate::marks::Marks;
use crate::runtime::{Outcome, Worker};

use admission::Admission;

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
}

impl ChannelIndexer {
    /// An indexer of this archive. Where there is a `joiner`, it is asked to join every new channel: Slack delivers
    /// messages only from channels the app is in.
    #[must_use]
    pub fn new(archive: Arc<dyn Archive>, joiner: Option<Joiner>) -> Self {
        Self { archive, joiner, shard_bytes: index::SHARD_BYTES, marks: Marks::default() }
    }

    /// With shards of another size: tests have small ones.
    #[must_use]
    pub fn with_shards_of(self, shard_bytes: usize) -> Self {
        Self { shard_bytes, ..self }
    }

    /// What a job brings.
    async fn admit(&self, job: &Delivery, admission: &mut Admission) -> Result<Brought, Failure> {
        let (raw, envelope) = event_job::read(job)?;
        if envelope.kind.as_deref() == Some("app_rate_limited") {
            let missing = Malformed::Missing { event: "app_rate_limited", field: "team_id" };
            let team = envelope.team_id.as_deref().ok_or(missing)?;
            let team = TeamId::parse(team).map_err(Malformed::from)?;
            let gap = gap::rate_limited(&team, raw)?;
            return Ok(Brought { team: Some(team), gap: Some(gap), event: None });
        }
        if envelope.event.is_none() {
            counter!(EVENTS_UNKNOWN).increment(1);
            return Ok(Brought::default());
        }
        let event = Event::read(&envelope)?;
        let mut brought = Brought { team: Some(event.team.clone()), ..Brought::default() };
        let told = ChannelEvent::read(&event)?;
        let opened = gap::opened_by(&event)?;
        if told.is_none() && opened.is_none() {
            counter!(EVENTS_UNKNOWN).increment(1);
            return Ok(Brought::default());
        }
        if let Some(told) = told {
            if !admission.admits(&*self.archive, &self.marks, &event, &told).await? {
                counter!(EVENTS_DROPPED, "reason" => "private_channel").increment(1);
                return Ok(Brought::default());
            }
            brought.event = Some(told);
        }
        brought.gap = opened;
        Ok(brought)
    }
}

/// What one job writes.
#[derive(Default)]
struct Brought {
    team: Option<TeamId>,
    gap: Option<Update>,
    event: Option<ChannelEvent>,
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

    async fn handle(&self, jobs: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::Done; jobs.len()];
        let mut admission = Admission::default();
        let mut events = Vec::new();
        let mut places = Vec::new();
        for (place, job) in jobs.iter().enumerate() {
            let brought = match self.admit(job, &mut admission).await {
                Ok(brought) => brought,
                Err(failure) => {
                    outcomes[place] = failure.outcome();
                    continue;
                }
            };
            let written = self.write_beside(&brought).await;
            match (written, brought.event) {
                (Err(error), _) => outcomes[place] = Failure::from(error).outcome(),
                (Ok(()), Some(event)) => {
                    places.push(place);
                    events.push(event);
                }
                (Ok(()), None) => {}
            }
        }
        let stored = store(&*self.archive, &events, self.shard_bytes).await;
        for ((place, event), stored) in places.into_iter().zip(&events).zip(stored) {
            match stored {
                Ok(()) => self.ask_to_join(event),
                Err(error) => outcomes[place] = Failure::from(error).outcome(),
            }
        }
        outcomes
    }
}

impl ChannelIndexer {
    /// Rows that no channel is folded from.
    async fn write_beside(&self, brought: &Brought) -> Result<(), ArchiveError> {
        if let Some(gap) = &brought.gap {
            archive::write(&*self.archive, gap).await?;
        }
        if let Some(team) = &brought.team {
            self.marks.ensure(&*self.archive, ItemKey::team(team)).await?;
        }
        Ok(())
    }

    fn ask_to_join(&self, event: &ChannelEvent) {
        if let Some(joiner) = &self.joiner
            && event.kind() == "channel_created"
        {
            joiner.ask(event.team(), event.channel());
        }
    }
}
