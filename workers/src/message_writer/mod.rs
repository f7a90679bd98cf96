//! message-writer: from Slack's events to messages, revisions, people and emoji.
//!
//! * [`audience`] decides, in the order of the channel, which events are stored at all.
//! * [`content`] writes versions of messages, so that any order gives the same rows.

mod audience;
mod content;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use metrics::counter;
use shared::archive::{self, Archive, ArchiveError};
use shared::queue::job::{Job, JobError};
use shared::queue::route::INVALID_GROUP;
use shared::queue::{Delivery, GroupId, QueueName};
use shared::rules::{Change, Event, Kind, Malformed};
use shared::slack::envelope::Envelope;
use shared::telemetry::metrics::{EVENTS_DROPPED, EVENTS_UNKNOWN};

use crate::runtime::{Outcome, Worker};

use audience::{Audiences, Verdict};

/// The worker's name in the topology.
pub const NAME: &str = "message-writer";

/// Events taken at once. On one machine a batch costs three syncs however large it is; SQS hands out ten.
const MAX_BATCH: usize = 512;

/// Turns events into rows of the archive.
pub struct MessageWriter {
    archive: Arc<dyn Archive>,
    audiences: Audiences,
}

impl MessageWriter {
    /// A writer to this archive.
    #[must_use]
    pub fn new(archive: Arc<dyn Archive>) -> Self {
        Self { archive, audiences: Audiences::default() }
    }

    /// The events of one group, in order. Which of them are stored depends on the ones before; what they write does
    /// not, so it is written side by side.
    async fn handle_group(&self, jobs: Vec<(usize, &Delivery)>) -> Vec<(usize, Outcome)> {
        let mut outcomes = Vec::with_capacity(jobs.len());
        let mut kept = Vec::with_capacity(jobs.len());
        for (place, job) in jobs {
            match self.admit(job).await {
                Ok(Some(changes)) => kept.push((place, changes)),
                Ok(None) => outcomes.push((place, Outcome::Done)),
                Err(failure) => outcomes.push((place, failure.outcome())),
            }
        }
        let written = join_all(kept.into_iter().map(|(place, changes)| async move {
            let result = self.write(changes).await;
            (place, result.map_or_else(|error| Failure::from(error).outcome(), |()| Outcome::Done))
        }));
        outcomes.extend(written.await);
        outcomes
    }

    /// What a job changes, or `None` where nothing of it is stored.
    async fn admit(&self, job: &Delivery) -> Result<Option<Vec<Change>>, Failure> {
        if job.group.as_str() == INVALID_GROUP {
            return Err(Failure::Permanent("an id does not have Slack's shape".into()));
        }
        let decoded = Job::decode(&job.body)?;
        let raw = decoded.event.ok_or_else(|| Failure::Permanent("the job has no event".into()))?;
        let envelope =
            Envelope::peek(raw.get().as_bytes()).map_err(|error| Failure::Permanent(error.to_string()))?;
        if envelope.event.is_none() {
            counter!(EVENTS_UNKNOWN).increment(1);
            return Ok(None);
        }
        let event = Event::read(&envelope)?;
        match event.kind() {
            Kind::Unknown => {
                counter!(EVENTS_UNKNOWN).increment(1);
                return Ok(None);
            }
            Kind::ChannelIdChanged => {
                self.audiences.carry_over(&*self.archive, &event).await?;
                return Ok(None);
            }
            Kind::Message | Kind::Reaction => match self.audiences.judge(&*self.archive, &event).await? {
                Verdict::Store => {}
                Verdict::Drop(reason) => {
                    counter!(EVENTS_DROPPED, "reason" => reason).increment(1);
                    return Ok(None);
                }
            },
            Kind::User | Kind::Emoji => {}
        }
        let changes = event.changes()?;
        self.audiences.note_team(&*self.archive, &event.team).await?;
        Ok(Some(changes))
    }

    /// Writes an event's changes, contents before what they replaced.
    async fn write(&self, changes: Vec<Change>) -> Result<(), ArchiveError> {
        let mut standing = None;
        for change in changes {
            match change {
                Change::Content(content) => {
                    standing = Some(content::write(&*self.archive, &content, standing).await?)
                }
                Change::Register(update) => drop(archive::write(&*self.archive, &update).await?),
            }
        }
        Ok(())
    }
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

    async fn handle(&self, jobs: &[Delivery]) -> Vec<Outcome> {
        let mut groups: HashMap<&GroupId, Vec<(usize, &Delivery)>> = HashMap::new();
        for (place, job) in jobs.iter().enumerate() {
            groups.entry(&job.group).or_default().push((place, job));
        }
        let mut outcomes = vec![Outcome::retry("not reached"); jobs.len()];
        let handled = join_all(groups.into_values().map(|group| self.handle_group(group))).await;
        for (place, outcome) in handled.into_iter().flatten() {
            outcomes[place] = outcome;
        }
        outcomes
    }
}

/// Why a job is not done: whether trying again can help is all the runtime needs to know.
enum Failure {
    Permanent(String),
    Transient(String),
}

impl Failure {
    fn outcome(self) -> Outcome {
        match self {
            Self::Permanent(reason) => Outcome::Quarantine(reason),
            Self::Transient(reason) => Outcome::retry(reason),
        }
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Unavailable(_) => Self::Transient(error.to_string()),
            ArchiveError::TooLarge { .. } => Self::Permanent(error.to_string()),
        }
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Malformed(_) => Self::Permanent(error.to_string()),
            JobError::Newer(_) => Self::Transient(error.to_string()),
        }
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::Permanent(malformed.to_string())
    }
}
