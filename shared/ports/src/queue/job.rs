//! Jobs, the bodies of messages: `{"v":1,"event":…}`, the bytes that Slack signed without the verification
//! token, with the `run` of ingest that accepted the event; or a `file` or an `image` to fetch; or an
//! interval in which requests were `refused`; or a span to `backfill`, a day for `stats`, a `question` to
//! answer, or a `reply` to post; or a `night` of a workspace, or the `sync` of its directory; or the `run` of ingest that begins; or a `wake`, with which the runtime sends jobs
//! back that wait aside.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::run::RunId;
use super::wait_cause::WaitCause;
use super::{MAX_MESSAGE_BYTES, Outgoing};
use crate::clock::TimestampMs;

/// The version this build writes. A job with a higher version waits for a newer worker that can decode it.
pub const VERSION: u32 = 1;

/// The largest request body whose job still fits [`MAX_MESSAGE_BYTES`], with room for the run and for the
/// origin that a replay adds.
pub const MAX_EVENT_BYTES: usize = MAX_MESSAGE_BYTES - 256;

/// A decoded job.
#[derive(Debug, Serialize)]
pub struct Job<'a> {
    /// Set on a job that was replayed from quarantine: its identity when it first failed, so that a second
    /// failure finds the same quarantine row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The run of ingest that accepted the event, if it was Slack's first delivery attempt: a retried event
    /// may be from a time when ingest was not running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The work to do.
    #[serde(flatten)]
    pub payload: Payload<'a>,
}

/// The work that a job describes.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload<'a> {
    /// An event envelope from Slack.
    Event(&'a RawValue),
    /// A file of a message to fetch.
    File(&'a RawValue),
    /// An avatar or an emoji to fetch.
    Image(&'a RawValue),
    /// An interval in which ingest refused requests that Slack had signed.
    Refused(&'a RawValue),
    /// A span of Slack's history, which earlier versions sent.
    Backfill(&'a RawValue),
    /// A turn of reading what Slack still shows of a workspace.
    Fill(&'a RawValue),
    /// A channel's day to count.
    Stats(&'a RawValue),
    /// A question to the responder.
    Question(&'a RawValue),
    /// An answer to post.
    Reply(&'a RawValue),
    /// A turn of a night's work in a workspace.
    Night(&'a RawValue),
    /// A workspace whose directory is to be synced.
    Sync(&'a RawValue),
    /// The beginning of a run of ingest, which has no event yet.
    Run(&'a RawValue),
    /// A turn of the jobs of a workspace that wait aside: see [`super::waiting`].
    Wake(&'a RawValue),
}

/// A job as decoded from a message: exactly one of the fields from `event` on is set, or `run` is an object.
#[derive(Deserialize)]
struct JobBody<'a> {
    v: u32,
    origin: Option<Origin>,
    /// The id of an event's run, or a payload.
    #[serde(borrow)]
    run: Option<&'a RawValue>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    file: Option<&'a RawValue>,
    #[serde(borrow)]
    image: Option<&'a RawValue>,
    #[serde(borrow)]
    refused: Option<&'a RawValue>,
    #[serde(borrow)]
    backfill: Option<&'a RawValue>,
    #[serde(borrow)]
    fill: Option<&'a RawValue>,
    #[serde(borrow)]
    stats: Option<&'a RawValue>,
    #[serde(borrow)]
    question: Option<&'a RawValue>,
    #[serde(borrow)]
    reply: Option<&'a RawValue>,
    #[serde(borrow)]
    night: Option<&'a RawValue>,
    #[serde(borrow)]
    sync: Option<&'a RawValue>,
    #[serde(borrow)]
    wake: Option<&'a RawValue>,
}

/// A job as encoded for a message.
#[derive(Serialize)]
struct VersionedJob<'j, 'a> {
    v: u32,
    #[serde(flatten)]
    job: &'j Job<'a>,
}

/// The origin of a job that was sent back to its queue: from quarantine, or after it has waited aside.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Origin {
    /// When it was first sent, in milliseconds since the Unix epoch.
    pub sent_at_ms: i64,
    /// Its message id at that time.
    pub message_id: String,
    /// How often it was sent back as a dead letter.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trips: u32,
    /// Set if it has waited aside, and is now tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

/// The turn in which a job that waited aside was sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct Trial {
    pub cause: WaitCause,
    pub turn: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde needs")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How the body of a job with an origin begins.
const WITH_ORIGIN: &str = "{\"v\":1,\"origin\":";

impl Origin {
    /// The origin of this job, without reading the rest of a job that has none.
    pub fn of(body: &str) -> Option<Self> {
        body.starts_with(WITH_ORIGIN).then(|| Job::decode(body).ok()?.origin).flatten()
    }

    /// When the job was first sent.
    pub fn sent_at(&self) -> TimestampMs {
        TimestampMs(self.sent_at_ms)
    }
}

/// How every body begins that [`encode_job`] encodes, and one that is part of a bulk.
const VERSIONED: &str = "{\"v\":1,";
const IN_BULK: &str = "{\"v\":1,\"bulk\":true,";

/// The same job as part of a bulk of work: it is set aside when it is received, and sent back without this mark
/// while its queue has little to do.
pub fn in_bulk(job: Outgoing) -> Outgoing {
    let body = job.body.strip_prefix(VERSIONED).map(|rest| format!("{IN_BULK}{rest}"));
    Outgoing { body: body.unwrap_or(job.body), ..job }
}

/// Whether a body is part of a bulk of work.
pub fn is_in_bulk(body: &str) -> bool {
    body.starts_with(IN_BULK)
}

/// A body that is not a job this build understands.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// Not a job at all: retrying cannot help.
    #[error("the message is not a job: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It has no payload that this version knows: retrying cannot help.
    #[error(
        "the job has no event, file, image, refused time, span to backfill, history to fill, day to count, question, reply, night, sync, run or wake"
    )]
    NoPayload,
    /// Written by a newer version: a newer worker will understand it.
    #[error("the job has version {0}, this worker understands {VERSION}: upgrade it")]
    Newer(u32),
}

/// Encodes a job of this kind, which is the field name that [`Job::decode`] reads. Ids and texts always
/// serialise.
pub fn encode_job(kind: &str, job: &impl Serialize) -> String {
    let json = serde_json::to_string(job).unwrap_or_default();
    format!("{{\"v\":{VERSION},\"{kind}\":{json}}}")
}

/// Encodes an event. `envelope` must be JSON; it is embedded unchanged.
pub fn encode_event(envelope: &str) -> String {
    format!("{{\"v\":{VERSION},\"event\":{envelope}}}")
}

/// Encodes an event that a run of ingest accepted.
pub fn encode_event_of_run(run: &RunId, envelope: &str) -> String {
    format!("{{\"v\":{VERSION},\"run\":\"{run}\",\"event\":{envelope}}}")
}

impl<'a> Job<'a> {
    /// Decodes a message's body.
    ///
    /// # Errors
    /// [`JobError`], whose variants say whether retrying can help.
    pub fn decode(body: &'a str) -> Result<Self, JobError> {
        let JobBody {
            v,
            origin,
            run,
            event,
            file,
            image,
            refused,
            backfill,
            fill,
            stats,
            question,
            reply,
            night,
            sync,
            wake,
        } = serde_json::from_str(body)?;
        if v > VERSION {
            return Err(JobError::Newer(v));
        }
        let payload = refused.map(Payload::Refused).or(event.map(Payload::Event));
        let payload = payload.or(file.map(Payload::File)).or(image.map(Payload::Image));
        let payload = payload.or(backfill.map(Payload::Backfill)).or(fill.map(Payload::Fill));
        let payload = payload.or(stats.map(Payload::Stats));
        let payload = payload.or(question.map(Payload::Question)).or(reply.map(Payload::Reply));
        let payload = payload.or(night.map(Payload::Night)).or(sync.map(Payload::Sync));
        let payload = payload.or(wake.map(Payload::Wake));
        let is_payload = |raw: &&RawValue| raw.get().starts_with('{');
        let payload = payload.or(run.filter(is_payload).map(Payload::Run));
        // A malformed id must not fail the event.
        let run = run.and_then(|raw| RunId::parse(&serde_json::from_str::<Cow<'_, str>>(raw.get()).ok()?));
        Ok(Self { origin, run, payload: payload.ok_or(JobError::NoPayload)? })
    }

    /// The encoded body of this job.
    ///
    /// # Errors
    /// None in practice: every part was read from JSON.
    pub fn encode(&self) -> serde_json::Result<String> {
        serde_json::to_string(&VersionedJob { v: VERSION, job: self })
    }

    /// The event envelope, if the job has one.
    pub fn event(&self) -> Option<&'a RawValue> {
        if let Payload::Event(event) = self.payload { Some(event) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{DedupId, GroupId, QueueName};

    #[test]
    fn an_event_is_preserved_byte_for_byte() {
        let envelope = "{ \"event\" : {\"a\":1.0e2,\"é\":\"\\u00e9\"},\n \"z\":null }";
        let body = encode_event(envelope);
        assert_eq!(Job::decode(&body).unwrap().event().unwrap().get(), envelope);
    }

    #[test]
    fn a_job_of_a_bulk_is_the_same_job() {
        let job = Outgoing {
            queue: QueueName::Files,
            group: GroupId::from_parts(&["T1", "F1"]),
            dedup: DedupId::from_parts(&[b"F1"]),
            body: encode_job("file", &7),
        };
        let bulk = in_bulk(job.clone());
        assert!(is_in_bulk(&bulk.body) && !is_in_bulk(&job.body));
        assert_eq!((&bulk.group, &bulk.dedup), (&job.group, &job.dedup));
        assert_eq!(Job::decode(&bulk.body).unwrap().encode().unwrap(), job.body);
        assert_eq!(Origin::of(&bulk.body), None);
    }

    /// Such bodies may be on a queue during an upgrade of the workers.
    #[test]
    fn bodies_of_earlier_builds_can_be_decoded() {
        let run = "0123456789abcdef";
        let event = r#"{"v":1,"run":"0123456789abcdef","event":{"team_id":"T1","event":{"type":"message"}}}"#;
        let job = Job::decode(event).unwrap();
        assert_eq!(job.run.as_ref().map(RunId::as_str), Some(run));
        assert_eq!(job.event().unwrap().get(), r#"{"team_id":"T1","event":{"type":"message"}}"#);
        assert_eq!(job.encode().unwrap(), event);

        let replayed = r#"{"v":1,"origin":{"sent_at_ms":7,"message_id":"m"},"file":{"team":"T1"}}"#;
        let job = Job::decode(replayed).unwrap();
        assert_eq!(job.origin, Some(Origin { sent_at_ms: 7, message_id: "m".into(), trips: 0, trial: None }));
        assert!(matches!(job.payload, Payload::File(file) if file.get() == r#"{"team":"T1"}"#));
        assert_eq!(job.encode().unwrap(), replayed);

        let image = r#"{"v":1,"image":{"team":"T1","user":"U1"}}"#;
        let job = Job::decode(image).unwrap();
        assert!(
            matches!(job.payload, Payload::Image(image) if image.get() == r#"{"team":"T1","user":"U1"}"#)
        );
        assert_eq!(job.encode().unwrap(), image);

        let refused = r#"{"v":1,"refused":{"team_id":"T1","from":"5.000000","to":"6.000000"}}"#;
        let job = Job::decode(refused).unwrap();
        assert!(matches!(job.payload, Payload::Refused(time) if time.get().contains("5.000000")));
        assert_eq!(job.encode().unwrap(), refused);
        assert!(job.event().is_none());
    }

    #[test]
    fn the_beginning_of_a_run_is_a_payload_of_its_own() {
        let begins = r#"{"v":1,"run":{"team_id":"T1","run":"0123456789abcdef","at":"5.000000"}}"#;
        let job = Job::decode(begins).unwrap();
        assert!(matches!(job.payload, Payload::Run(run) if run.get().contains("5.000000")));
        assert_eq!((job.run.as_ref(), job.encode().unwrap().as_str()), (None, begins));
    }

    #[test]
    fn an_encoded_job_has_its_version_and_its_kind() {
        assert_eq!(encode_event("{\"a\":1}"), "{\"v\":1,\"event\":{\"a\":1}}");
        assert_eq!(encode_job("file", &[1]), "{\"v\":1,\"file\":[1]}");
    }

    #[test]
    fn the_largest_event_fits_a_message() {
        let origin = Origin {
            sent_at_ms: i64::MAX,
            message_id: "f".repeat(64),
            trips: 9,
            trial: Some(Trial { cause: WaitCause::Redelivered, turn: u64::MAX }),
        };
        let event = RawValue::from_string("1".repeat(MAX_EVENT_BYTES)).unwrap();
        let job = Job { origin: Some(origin), run: Some(RunId::begin()), payload: Payload::Event(&event) };
        assert!(job.encode().unwrap().len() <= MAX_MESSAGE_BYTES);
    }

    #[test]
    fn an_event_carries_its_run_and_an_invalid_run_is_ignored() {
        let run = RunId::begin();
        let body = encode_event_of_run(&run, "{\"a\":1}");
        let job = Job::decode(&body).unwrap();
        assert_eq!(job.event().unwrap().get(), "{\"a\":1}");
        assert_eq!(job.run, Some(run));
        for odd in ["7", "null", "\"x#y\"", "{}", "[\"0123456789abcdef\"]"] {
            let body = format!("{{\"v\":1,\"run\":{odd},\"event\":{{}}}}");
            assert_eq!(Job::decode(&body).unwrap().run, None, "{odd}");
        }
    }

    #[test]
    fn a_newer_job_is_distinguished_from_a_broken_one() {
        assert!(matches!(Job::decode("{\"v\":2,\"wonder\":{}}"), Err(JobError::Newer(2))));
        assert!(matches!(Job::decode("{\"v\":1,\"wonder\":{}}"), Err(JobError::NoPayload)));
        assert!(matches!(Job::decode("{\"event\":{}}"), Err(JobError::Malformed(_))));
    }
}
