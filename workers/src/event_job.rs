//! The event in a job, as every worker that takes events reads it.

use serde_json::value::RawValue;
use shared::queue::Delivery;
use shared::queue::job::Job;
use shared::queue::route::INVALID_GROUP;
use shared::queue::run::RunId;
use shared::slack::envelope::Envelope;

use crate::failure::Failure;

/// The request that a job carries, its envelope, and the run of ingest that took it at Slack's first try.
pub(crate) fn read(job: &Delivery) -> Result<(&RawValue, Envelope<'_>, Option<RunId>), Failure> {
    if job.group.as_str() == INVALID_GROUP {
        return Err(Failure::Permanent("an id does not have Slack's shape".into()));
    }
    let decoded = Job::decode(&job.body)?;
    let raw = decoded.event.ok_or_else(|| Failure::Permanent("the job has no event".into()))?;
    let envelope =
        Envelope::peek(raw.get().as_bytes()).map_err(|error| Failure::Permanent(error.to_string()))?;
    Ok((raw, envelope, decoded.run))
}
