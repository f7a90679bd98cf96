//! The jobs of the responder and of the poster.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Question, QuestionId, QuestionText};
use crate::{Malformed, read_job};
use ports::queue::job::encode_job;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use slack::ids::{FileId, UserId};

/// A question that must be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionJob {
    /// The message that asks.
    pub id: QuestionId,
    /// The content of the question; missing if the question already has its row.
    pub content: Option<QuestionText>,
    /// How often it was restarted.
    pub attempt: u32,
}

/// An answer that must be posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyJob {
    /// The message that asked.
    #[serde(flatten)]
    pub id: QuestionId,
    /// How often it was restarted.
    #[serde(default)]
    pub attempt: u32,
}

/// A question in the body of a job.
#[derive(Serialize, Deserialize)]
struct QuestionFields {
    #[serde(flatten)]
    id: QuestionId,
    #[serde(default)]
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mentioned: Option<UserId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileId>,
}

fn dedup(kind: &str, id: &QuestionId, attempt: u32) -> DedupId {
    let QuestionId { team, channel, ts, .. } = id;
    let attempt = attempt.to_string();
    DedupId::from_parts(&[kind, team.as_str(), channel.as_str(), ts.as_str(), &attempt].map(str::as_bytes))
}

impl From<Question> for QuestionJob {
    fn from(Question { id, content: asked }: Question) -> Self {
        Self { id, content: Some(asked), attempt: 0 }
    }
}

impl QuestionJob {
    /// The job as a message.
    pub fn outgoing(&self) -> Outgoing {
        let Self { id, content: asked, attempt } = self;
        let (id, attempt, asked) = (id.clone(), *attempt, asked.clone());
        let (user, text, mentioned, files) = match asked {
            Some(QuestionText { user, text, mentioned, files }) => (Some(user), Some(text), mentioned, files),
            None => (None, None, None, Vec::new()),
        };
        Outgoing {
            queue: QueueName::Questions,
            group: GroupId::from_parts(&[id.team.as_str(), id.channel.as_str(), id.thread_ts.as_str()]),
            dedup: dedup("question", &id, attempt),
            body: encode_job("question", &QuestionFields { id, attempt, user, text, mentioned, files }),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if an id is missing or malformed.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        let QuestionFields { id, attempt, user, text, mentioned, files } = read_job("question", raw)?;
        let text = text.unwrap_or_default();
        let asked = user.map(|user| QuestionText { user, text, mentioned, files });
        Ok(Self { id, content: asked, attempt })
    }
}

impl ReplyJob {
    /// The job as a message.
    pub fn outgoing(&self) -> Outgoing {
        let Self { id, attempt } = self;
        Outgoing {
            queue: QueueName::Replies,
            group: GroupId::from_parts(&[id.team.as_str(), id.channel.as_str()]),
            dedup: dedup("reply", id, *attempt),
            body: encode_job("reply", self),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if an id is missing or malformed.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        read_job("reply", raw)
    }
}

#[cfg(test)]
mod tests {
    use ports::queue::job::{Job, Payload};
    use serde_json::json;
    use slack::ids::{ChannelId, TeamId, Ts};

    use super::*;

    fn id() -> QuestionId {
        QuestionId {
            team: TeamId::parse("T1").unwrap(),
            channel: ChannelId::parse("C1").unwrap(),
            ts: Ts::parse("2.000000").unwrap(),
            thread_ts: Ts::parse("1.000000").unwrap(),
        }
    }

    fn question(asked: Option<QuestionText>, attempt: u32) -> QuestionJob {
        QuestionJob { id: id(), content: asked, attempt }
    }

    #[test]
    fn questions_are_serial_per_thread_and_answers_per_channel() {
        let asked = QuestionText {
            user: UserId::parse("U1").unwrap(),
            text: "why \"so\"?".into(),
            mentioned: UserId::parse("U0").ok(),
            files: vec![FileId::parse("F1").unwrap()],
        };
        let (first, again) = (question(Some(asked), 0), question(None, 1));
        let (sent, sent_again) = (first.outgoing(), again.outgoing());
        assert_eq!((sent.group.as_str(), sent.queue), ("T1#C1#1.000000", QueueName::Questions));
        assert_ne!(sent.dedup, sent_again.dedup, "the queue would drop the second as a duplicate");
        for (job, body) in [(&first, &sent.body), (&again, &sent_again.body)] {
            let Payload::Question(raw) = Job::decode(body).unwrap().payload else { panic!("{body}") };
            assert_eq!(QuestionJob::decode(raw).as_ref(), Ok(job));
        }
        let reply = ReplyJob { id: id(), attempt: 0 };
        let sent = reply.outgoing();
        assert_eq!((sent.group.as_str(), sent.queue), ("T1#C1", QueueName::Replies));
        let Payload::Reply(raw) = Job::decode(&sent.body).unwrap().payload else { panic!("{sent:?}") };
        assert_eq!(ReplyJob::decode(raw), Ok(reply));
    }

    #[test]
    fn a_job_without_a_valid_message_is_malformed() {
        for body in [
            json!({}),
            json!([]),
            json!({ "team": "T1", "channel": "c#", "ts": "1.000000", "thread_ts": "1.000000" }),
            json!({ "team": "T1", "channel": "C1", "ts": "soon", "thread_ts": "1.000000" }),
            json!({ "team": "T1", "channel": "C1", "ts": "1.000000", "thread_ts": "1.000000", "user": "u#" }),
        ] {
            let raw = RawValue::from_string(body.to_string()).unwrap();
            assert!(QuestionJob::decode(&raw).is_err(), "{body}");
        }
    }
}
