//! Jobs that wait for something outside themselves, such as a token: rows `waiting#{queue}#{team}` hold them
//! aside, so that they neither fill the queue nor are received again and again. A `wake` job, one for each
//! queue and workspace, sends them back: first one, then, as long as that succeeds, ten times as many.

use serde::{Deserialize, Serialize};

use super::job::encode_job;
pub use super::wait_cause::WaitCause;
use super::{DedupId, GroupId, Outgoing, QueueName};
use slack::ids::TeamId;

/// A job of the runtime: send back jobs of this workspace that wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    pub team: TeamId,
    /// Its number among the wakes of this queue and workspace: only the latest acts.
    pub number: u64,
}

impl Wake {
    /// The message for a queue, in a group of its own.
    pub fn message(&self, queue: QueueName) -> Outgoing {
        let number = self.number.to_be_bytes();
        Outgoing {
            queue,
            group: GroupId::from_parts(&[self.team.as_str(), "wake"]),
            dedup: DedupId::from_parts(&[
                b"wake",
                queue.spec().label.as_bytes(),
                self.team.as_str().as_bytes(),
                &number,
            ]),
            body: encode_job("wake", self),
        }
    }
}
