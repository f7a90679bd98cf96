//! The input of a worker: decoded jobs, each with the slot for its outcome.

use std::collections::HashSet;
use std::sync::OnceLock;

use ports::queue::job::Origin;
use ports::queue::{Delivery, GroupId};

use super::JobOutcome;
use super::job::DecodedPayload;
use crate::failure::JobFailure;

/// A received job and its outcome. It outlives the worker's call: if the call is cancelled or panics, the
/// outcomes so far stay.
pub struct ReceivedJob {
    delivery: Delivery,
    outcome: OnceLock<JobOutcome>,
}

impl ReceivedJob {
    /// A job without an outcome.
    pub fn new(delivery: Delivery) -> Self {
        Self { delivery, outcome: OnceLock::new() }
    }

    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Sets the outcome of the job. Only the first outcome counts.
    pub fn settle(&self, outcome: JobOutcome) {
        drop(self.outcome.set(outcome));
    }

    /// The outcome of the job; `None` if no worker has set one.
    pub fn outcome(&self) -> Option<&JobOutcome> {
        self.outcome.get()
    }

    /// The delivery and its outcome: a job without one was not reached, and is retried.
    #[must_use]
    pub fn into_outcome(self) -> (Delivery, JobOutcome) {
        let outcome =
            self.outcome.into_inner().unwrap_or_else(|| JobOutcome::retry("the worker did not reach it"));
        (self.delivery, outcome)
    }

    /// Whether later jobs of its group may run.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.outcome(), Some(JobOutcome::Done | JobOutcome::Wait(..) | JobOutcome::Quarantine(_)))
    }
}

/// Jobs that a worker handles together, in the order of the queue.
pub struct Batch<'b> {
    received: &'b [&'b ReceivedJob],
    jobs: Vec<BatchJob<'b>>,
}

/// A decoded job of a batch.
pub struct BatchJob<'b> {
    /// The received delivery.
    pub delivery: &'b Delivery,
    pub payload: DecodedPayload<'b>,
    /// Set if it was sent back: by a person from quarantine, or after it has waited aside.
    pub origin: Option<Origin>,
    received: &'b ReceivedJob,
}

impl<'b> Batch<'b> {
    /// Decodes jobs. A job that cannot be decoded is settled here: it is quarantined, or retried if a newer
    /// version wrote it; in the latter case its group stops there.
    pub fn decode(received: &'b [&'b ReceivedJob]) -> Self {
        let mut jobs = Vec::with_capacity(received.len());
        let mut stopped: HashSet<&GroupId> = HashSet::new();
        for job in received {
            let delivery = job.delivery();
            if stopped.contains(&delivery.group) {
                continue;
            }
            match DecodedPayload::decode(delivery) {
                Ok((payload, origin)) => jobs.push(BatchJob { delivery, payload, origin, received: job }),
                Err(failure) => {
                    job.settle(failure.outcome(delivery.receive_count));
                    if !job.is_final() {
                        stopped.insert(&delivery.group);
                    }
                }
            }
        }
        Self { received, jobs }
    }

    /// The jobs to handle. A job that is not settled when the worker returns was not reached: it is retried.
    pub fn jobs(&self) -> &[BatchJob<'b>] {
        &self.jobs
    }

    /// All received jobs, including those that could not be decoded.
    pub fn received(&self) -> &'b [&'b ReceivedJob] {
        self.received
    }
}

impl BatchJob<'_> {
    /// Sets the outcome of the job. Call it once all effects of the job are durable: from then on it may be
    /// acked.
    pub fn settle(&self, outcome: JobOutcome) {
        self.received.settle(outcome);
    }

    /// Whether it was sent back: it has been tried before.
    pub(crate) fn is_replayed(&self) -> bool {
        self.origin.is_some()
    }

    /// Whether it has failed, and will be set aside.
    pub(crate) fn is_set_aside(&self) -> bool {
        matches!(self.received.outcome(), Some(JobOutcome::Wait(..)))
    }

    /// Settles the job from the result of its work.
    pub(crate) fn finish(&self, result: Result<(), impl Into<JobFailure>>) {
        match result {
            Ok(()) => self.settle(JobOutcome::Done),
            Err(failure) => self.fail(failure.into()),
        }
    }

    /// Settles a job that failed.
    pub(crate) fn fail(&self, failure: JobFailure) {
        self.settle(failure.outcome(self.receives()));
    }

    /// Whether a job that fails like this is retried, so that the later jobs of its group wait.
    pub(crate) fn would_retry(&self, failure: &JobFailure) -> bool {
        matches!(failure.clone().outcome(self.receives()), JobOutcome::Retry(_))
    }

    /// How often it was received. One that has waited aside is not new.
    fn receives(&self) -> u32 {
        let is_trial = self.origin.as_ref().is_some_and(|origin| origin.trial.is_some());
        if is_trial { u32::MAX } else { self.delivery.receive_count }
    }

    /// Quarantines a job that belongs on another queue.
    pub(crate) fn refuse_payload(&self) {
        let kind = self.payload.kind();
        self.settle(JobOutcome::Quarantine(format!("this queue does not carry {kind}")));
    }
}

#[cfg(test)]
mod tests {
    use ports::clock::TimestampMs;
    use ports::queue::{MessageId, Receipt};

    use super::*;

    fn received(group: &str, body: &str) -> ReceivedJob {
        ReceivedJob::new(Delivery {
            message_id: MessageId("1".into()),
            group: GroupId::from_parts(&[group]),
            body: body.into(),
            receive_count: 1,
            sent_at: TimestampMs(1_700_000_000_000),
            receipt: Receipt("1".into()),
        })
    }

    /// Bodies like these may wait on a queue while the workers are upgraded.
    #[test]
    fn jobs_of_earlier_builds_are_decoded() {
        let job = received(
            "a",
            r#"{"v":1,"run":"0123456789abcdef","event":{"team_id":"T1","event":{"type":"message","channel":"C1"}}}"#,
        );
        let jobs = [&job];
        let batch = Batch::decode(&jobs);
        let [BatchJob { payload: DecodedPayload::Event(event_job), origin: None, .. }] = batch.jobs() else {
            panic!("no event")
        };
        assert_eq!(event_job.run.as_ref().map(|run| run.as_str()), Some("0123456789abcdef"));
        assert_eq!(event_job.event.as_ref().map(|event| event.team.as_str()), Some("T1"));

        let job = received(
            "a",
            r#"{"v":1,"origin":{"sent_at_ms":7,"message_id":"m"},"file":{"team":"T1","channel":"C1","ts":"1.000000","object":{"id":"F1"}}}"#,
        );
        let jobs = [&job];
        let batch = Batch::decode(&jobs);
        let [BatchJob { payload: DecodedPayload::File(file), origin: Some(_), .. }] = batch.jobs() else {
            panic!("no file")
        };
        assert_eq!(file.object.id.as_str(), "F1");

        let image = received(
            "a",
            r#"{"v":1,"image":{"team":"T1","user":"U1","url":"https://a.slack-edge.com/1.png"}}"#,
        );
        let refused =
            received("a", r#"{"v":1,"refused":{"team_id":"T1","from":"5.000000","to":"6.000000"}}"#);
        let jobs = [&image, &refused];
        let batch = Batch::decode(&jobs);
        assert!(matches!(batch.jobs()[0].payload, DecodedPayload::Image(_)));
        assert!(
            matches!(&batch.jobs()[1].payload, DecodedPayload::Refused { team, .. } if team.as_str() == "T1")
        );
    }

    #[test]
    fn a_job_that_cannot_be_decoded_is_quarantined_and_a_newer_one_stops_its_group() {
        let good = r#"{"v":1,"event":{"team_id":"T1"}}"#;
        let jobs =
            [("a", "not a job"), ("a", good), ("b", r#"{"v":2,"wonder":1}"#), ("b", good), ("c", good)]
                .map(|(group, body)| received(group, body));
        let references: Vec<&ReceivedJob> = jobs.iter().collect();
        let batch = Batch::decode(&references);
        let groups: Vec<&str> = batch.jobs().iter().map(|job| job.delivery.group.as_str()).collect();
        assert_eq!(groups, ["a", "c"]);
        assert!(matches!(jobs[0].outcome(), Some(JobOutcome::Quarantine(_))));
        assert!(matches!(jobs[2].outcome(), Some(JobOutcome::Retry(_))));
        assert!(jobs[3].outcome().is_none(), "not reached");
    }

    #[test]
    fn an_unsettled_job_is_retried_and_only_the_first_outcome_counts() {
        let good = r#"{"v":1,"event":{"team_id":"T1"}}"#;
        let jobs = [received("a", good), received("b", good)];
        let references: Vec<&ReceivedJob> = jobs.iter().collect();
        let batch = Batch::decode(&references);
        batch.jobs()[0].settle(JobOutcome::Done);
        batch.jobs()[0].settle(JobOutcome::retry("too late"));
        let outcomes = jobs.map(|job| job.into_outcome().1);
        assert_eq!(outcomes, [JobOutcome::Done, JobOutcome::retry("the worker did not reach it")]);
    }
}
