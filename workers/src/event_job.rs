//! The event in a job, as every worker that takes events reads it.

use ports::queue::Delivery;
use ports::queue::job::Job;
use ports::queue::route::INVALID_GROUP;
use ports::queue::run::RunId;
use rules::Event;
use serde_json::value::RawValue;
use slack::envelope::Envelope;

use crate::failure::Failure;

/// Why a request without a workspace is put aside.
const NO_TEAM: &str = "the request names no workspace (team_id)";

/// Why a request with an id that no key may be made of is put aside.
const NOT_AN_ID: &str = "an id does not have Slack's shape";

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
    /// Whether it is no request, and [`Told::raw`] a time in which requests were refused.
    pub(crate) is_refused_time: bool,
}

impl<'j> Told<'j> {
    /// Reads a job.
    pub(crate) fn read(job: &'j Delivery) -> Result<Self, Failure> {
        let decoded = Job::decode(&job.body)?;
        if let Some(raw) = decoded.refused {
            let envelope = Envelope::default();
            let replayed = decoded.origin.is_some();
            return Ok(Self { raw, envelope, event: None, run: None, replayed, is_refused_time: true });
        }
        let raw = decoded.event.ok_or_else(|| Failure::Permanent("the job has no event".into()))?;
        let envelope =
            Envelope::peek(raw.get().as_bytes()).map_err(|error| Failure::Permanent(error.to_string()))?;
        if job.group.as_str() == INVALID_GROUP {
            let why = if envelope.team_id.is_none() { NO_TEAM } else { NOT_AN_ID };
            return Err(Failure::Permanent(why.into()));
        }
        let event = if envelope.event.is_some() { Some(Event::read(&envelope)?) } else { None };
        if let Some(event) = &event {
            event.check_clocks(job.sent_at.0)?;
        }
        let replayed = decoded.origin.is_some();
        Ok(Self { raw, envelope, event, run: decoded.run, replayed, is_refused_time: false })
    }
}
