//! Selects jobs in quarantine by workspace, reason and queue.

use ports::queue::QueueName;
use ports::queue::job::{Job, Payload};
use rules::gap::{self, run};
use serde::Deserialize;
use slack::envelope::Envelope;
use slack::ids::TeamId;

use super::{Quarantined, redaction};

/// The jobs that a person means. A job matches if every field that is set matches; the default matches every
/// job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuarantineFilter {
    /// The workspace of the job.
    pub team: Option<TeamId>,
    /// A part of the reason as it is listed, in upper or lower case.
    pub reason: Option<String>,
    /// The queue of the job.
    pub queue: Option<QueueName>,
}

impl QuarantineFilter {
    /// Whether jobs of this queue may match.
    pub(super) fn includes(&self, queue: QueueName) -> bool {
        self.queue.is_none_or(|only| only == queue)
    }

    pub(super) fn matches(&self, job: &Quarantined) -> bool {
        let has_reason = |part: &String| {
            redaction::text_without_secrets(&job.reason).to_lowercase().contains(&part.to_lowercase())
        };
        self.includes(job.queue)
            && self.team.as_ref().is_none_or(|team| job.team().as_ref() == Some(team))
            && self.reason.as_ref().is_none_or(has_reason)
    }
}

/// The workspace in the job of other payloads than events.
#[derive(Deserialize)]
struct TeamField {
    team: TeamId,
}

/// The workspace that a job's body names.
pub(super) fn team_of(body: &str) -> Option<TeamId> {
    match Job::decode(body).ok()?.payload {
        Payload::Event(raw) => Envelope::peek(raw.get().as_bytes()).ok()?.workspace(),
        Payload::Refused(raw) => gap::refused(raw).ok().map(|(team, _)| team),
        Payload::Run(raw) => run::begun(raw).ok().map(|(team, ..)| team),
        Payload::File(raw)
        | Payload::Image(raw)
        | Payload::Backfill(raw)
        | Payload::Fill(raw)
        | Payload::Night(raw)
        | Payload::Sync(raw)
        | Payload::Stats(raw)
        | Payload::Question(raw)
        | Payload::Reply(raw)
        | Payload::Wake(raw) => Some(serde_json::from_str::<TeamField>(raw.get()).ok()?.team),
    }
}

#[cfg(test)]
mod tests {
    use ports::queue::job::{encode_event, encode_job};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_workspace_of_every_kind_of_job_is_found_and_hostile_ones_have_none() {
        let refused = json!({ "team_id": "T1", "from": "1.000000", "to": "2.000000" });
        for body in [
            encode_event(r#"{"team_id":"T1","event":{"type":"message"}}"#),
            encode_event(r#"{"team_id":"T9","authorizations":[{"team_id":"T1"}],"event":{}}"#),
            encode_job("refused", &refused),
        ]
        .into_iter()
        .chain(
            ["file", "image", "backfill", "stats", "question", "reply", "night", "sync"]
                .map(|kind| encode_job(kind, &json!({ "team": "T1", "channel": "C1", "other": [null] }))),
        ) {
            assert_eq!(team_of(&body).as_ref().map(TeamId::as_str), Some("T1"), "{body}");
        }
        for body in [
            "no job".to_owned(),
            "null".to_owned(),
            "{}".to_owned(),
            encode_event("null"),
            encode_event(r#"{"team_id":7}"#),
            encode_event(r#"{"team_id":"a#b","event":[]}"#),
            encode_job("file", &json!(null)),
            encode_job("file", &json!({ "team": ["T1"] })),
            encode_job("question", &json!({ "team": "t#1" })),
            encode_job("refused", &json!({ "team_id": "T1", "from": 3 })),
        ] {
            assert_eq!(team_of(&body), None, "{body}");
        }
    }
}
