//! The event in a job, as every worker that takes events reads it.

use serde_json::value::RawValue;
use shared::queue::Delivery;
use shared::queue::job::Job;
use shared::queue::route::INVALID_GROUP;
use shared::queue::run::RunId;
use shared::rules::Event;
use shared::slack::envelope::Envelope;

use crate::failure::Failure;

/// A job as it was read: once, for all that looks at it.
pub(crate) struct Told<'j> {
    /// The request that Slack sent.
    pub(crate) raw: &'j RawValue,
    /// What it says of itself.
    pub(crate) envelope: Envelope<'j>,
    /// The event, where the request brings one.
    pub(crate) event: Option<Event<'j>>,
    /// The run of ingest that took it at Slack's first try.
    pub(crate) run: Option<RunId>,
    /// It was in quarantine, and a person had it tried again.
    pub(crate) replayed: bool,
}

impl<'j> Told<'j> {
    /// Reads a job.
    pub(crate) fn read(job: &'j Delivery) -> Result<Self, Failure> {
        if job.group.as_str() == INVALID_GROUP {
            return Err(Failure::Permanent("an id does not have Slack's shape".into()));
        }
        let decoded = Job::decode(&job.body)?;
        let raw = decoded.event.ok_or_else(|| Failure::Permanent("the job has no event".into()))?;
        let envelope =
            Envelope::peek(raw.get().as_bytes()).map_err(|error| Failure::Permanent(error.to_string()))?;
        let event = if envelope.event.is_some() { Some(Event::read(&envelope)?) } else { None };
        if let Some(event) = &event {
            event.check_clocks(job.sent_at.0)?;
        }
        Ok(Self { raw, envelope, event, run: decoded.run, replayed: decoded.origin.is_some() })
    }
}
