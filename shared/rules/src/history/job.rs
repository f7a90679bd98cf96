//! The job of the historian: a turn of reading a workspace's history.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Malformed, read_job};
use ports::clock::TimestampMs;
use ports::queue::job::encode_job;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use slack::ids::TeamId;

/// A turn of reading what is unread of a workspace's history. The facts in the archive say what is next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillJob {
    pub team: TeamId,
    /// The number of the turn: each sends the next one, while anything is unread.
    pub n: u32,
    /// When it was sent, in milliseconds since the Unix epoch: the workspace's row names the job that was sent last,
    /// and only that one is done.
    pub began_ms: i64,
}

impl FillJob {
    /// The job as a message. A workspace is one group: Slack's limits for its history are per workspace.
    pub fn outgoing(&self) -> Outgoing {
        let Self { team, n, began_ms } = self;
        let parts = ["fill", team.as_str(), &n.to_string(), &began_ms.to_string()];
        Outgoing {
            queue: QueueName::Backfill,
            group: GroupId::from_parts(&[team.as_str()]),
            dedup: DedupId::from_parts(&parts.map(str::as_bytes)),
            body: encode_job("fill", self),
        }
    }

    /// The job of the next turn, sent now.
    #[must_use]
    pub fn next(&self, now: TimestampMs) -> Self {
        Self { team: self.team.clone(), n: self.n.saturating_add(1), began_ms: now.0 }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or malformed.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        read_job("fill", raw)
    }
}

#[cfg(test)]
mod tests {
    use ports::queue::job::{Job, Payload};

    use super::*;

    #[test]
    fn a_turn_is_a_job_of_its_workspace_and_the_next_turn_is_another() {
        let first = FillJob { team: TeamId::parse("T1").unwrap(), n: 0, began_ms: 7 };
        let (sent, next) = (first.outgoing(), first.next(TimestampMs(9)).outgoing());
        assert_eq!((sent.group.as_str(), sent.queue), ("T1", QueueName::Backfill));
        assert_eq!(sent.body, r#"{"v":1,"fill":{"team":"T1","n":0,"began_ms":7}}"#);
        assert_eq!(next.body, r#"{"v":1,"fill":{"team":"T1","n":1,"began_ms":9}}"#);
        assert_ne!(sent.dedup, next.dedup);
        let Payload::Fill(raw) = Job::decode(&sent.body).unwrap().payload else { panic!("{sent:?}") };
        assert_eq!(FillJob::decode(raw), Ok(first));
        assert!(FillJob::decode(&RawValue::from_string(r#"{"team":"T1"}"#.to_owned()).unwrap()).is_err());
    }
}
