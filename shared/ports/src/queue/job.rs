//! What travels on a queue: `{"v":1,"event":…}`, the event as the bytes Slack signed but for the verification token, with the `run` of ingest that took
//! it; or a `file` or an `image` to be fetched; or a time in which requests were `refused`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::MAX_MESSAGE_BYTES;
use super::run::{RunId, run_or_none};
use crate::clock::TimestampMs;

/// The version this build writes. A job of a higher version waits for a newer worker instead of being guessed at.
pub const VERSION: u32 = 1;

/// The largest request body whose job still fits [`MAX_MESSAGE_BYTES`], with room for the run and for the origin that a
/// replay adds.
pub const MAX_EVENT_BYTES: usize = MAX_MESSAGE_BYTES - 256;

/// A decoded job.
#[derive(Debug, Deserialize, Serialize)]
pub struct Job<'a> {
    /// The payload's version.
    pub v: u32,
    /// Set on a job that was replayed from quarantine: what it was when it first failed, so that failing again finds
    /// the same quarantine row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The run of ingest that took the event, where Slack delivered it at its first try: one that it delivers again may
    /// be from a time when nobody was there to take it.
    #[serde(default, deserialize_with = "run_or_none", skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// An event envelope as Slack sent it.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub event: Option<&'a RawValue>,
    /// A file of a message.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub file: Option<&'a RawValue>,
    /// An avatar or an emoji.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub image: Option<&'a RawValue>,
    /// A time in which requests were refused although Slack had signed them.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<&'a RawValue>,
}

/// Where a replayed job came from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Origin {
    /// When it was first sent, in milliseconds since the Unix epoch.
    pub sent_at_ms: i64,
    /// The message id it had then.
    pub message_id: String,
}

impl Origin {
    /// When the job was first sent.
    #[must_use]
    pub fn sent_at(&self) -> TimestampMs {
        TimestampMs(self.sent_at_ms)
    }
}

/// A body that is not a job this build understands.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// Not a job at all: trying again cannot help.
    #[error("the message is not a job: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Written by a newer version: a newer worker will understand it.
    #[error("the job has version {0}, this worker understands {VERSION}: upgrade it")]
    Newer(u32),
}

/// Encodes an event. `envelope` must be JSON; it is carried as it is.
#[must_use]
pub fn encode_event(envelope: &str) -> String {
    encode("event", envelope)
}

/// Encodes an event that was taken in a run of ingest.
#[must_use]
pub fn encode_event_of_run(run: &RunId, envelope: &str) -> String {
    format!("{{\"v\":{VERSION},\"run\":\"{run}\",\"event\":{envelope}}}")
}

/// Encodes a file to be fetched, which must be JSON.
#[must_use]
pub fn encode_file(file: &str) -> String {
    encode("file", file)
}

/// Encodes an avatar or an emoji to be fetched, which must be JSON.
#[must_use]
pub fn encode_image(image: &str) -> String {
    encode("image", image)
}

/// Encodes a time in which requests were refused, which must be JSON.
#[must_use]
pub fn encode_refused(time: &str) -> String {
    encode("refused", time)
}

fn encode(kind: &str, json: &str) -> String {
    format!("{{\"v\":{VERSION},\"{kind}\":{json}}}")
}

impl<'a> Job<'a> {
    /// Decodes a message's body.
    ///
    /// # Errors
    /// [`JobError`], whose variants say whether trying again can help.
    pub fn decode(body: &'a str) -> Result<Self, JobError> {
        let job: Self = serde_json::from_str(body)?;
        if job.v > VERSION { Err(JobError::Newer(job.v)) } else { Ok(job) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_travels_byte_for_byte() {
        let envelope = "{ \"event\" : {\"a\":1.0e2,\"é\":\"\\u00e9\"},\n \"z\":null }";
        let body = encode_event(envelope);
        assert_eq!(Job::decode(&body).unwrap().event.unwrap().get(), envelope);
    }

    #[test]
    fn each_kind_of_job_is_told_from_the_others() {
        let kinds = |body: &str| {
            let job = Job::decode(body).unwrap();
            [job.event, job.file, job.image, job.refused]
                .map(|part| part.map(RawValue::get).map(str::to_owned))
        };
        let some = || Some("{\"a\":1}".to_owned());
        assert_eq!(kinds("{\"v\":1,\"event\":{\"a\":1}}"), [some(), None, None, None]);
        assert_eq!(kinds(&encode_file("{\"a\":1}")), [None, some(), None, None]);
        assert_eq!(kinds(&encode_image("{\"a\":1}")), [None, None, some(), None]);
        assert_eq!(kinds(&encode_refused("{\"a\":1}")), [None, None, None, some()]);
    }

    #[test]
    fn the_largest_event_fits_a_message() {
        let origin = Origin { sent_at_ms: i64::MAX, message_id: "f".repeat(64) };
        let event = RawValue::from_string("1".repeat(MAX_EVENT_BYTES)).unwrap();
        let run = Some(RunId::begin());
        let (file, image, refused) = (None, None, None);
        let job = Job { v: VERSION, origin: Some(origin), run, event: Some(&event), file, image, refused };
        assert!(serde_json::to_string(&job).unwrap().len() <= MAX_MESSAGE_BYTES);
    }

    #[test]
    fn an_event_carries_its_run_and_none_fails_for_an_odd_one() {
        let run = RunId::begin();
        let body = encode_event_of_run(&run, "{\"a\":1}");
        let job = Job::decode(&body).unwrap();
        assert_eq!((job.run, job.event.unwrap().get()), (Some(run), "{\"a\":1}"));
        for odd in ["7", "null", "\"x#y\"", "{}", "[\"0123456789abcdef\"]"] {
            let body = format!("{{\"v\":1,\"run\":{odd},\"event\":{{}}}}");
            assert_eq!(Job::decode(&body).unwrap().run, None, "{odd}");
        }
    }

    #[test]
    fn a_newer_job_is_told_from_a_broken_one() {
        assert!(matches!(Job::decode("{\"v\":2,\"wonder\":{}}"), Err(JobError::Newer(2))));
        assert!(matches!(Job::decode("{\"event\":{}}"), Err(JobError::Malformed(_))));
    }
}
