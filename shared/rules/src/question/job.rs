//! The jobs of the responder and of the poster.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{AskedText, Question, QuestionId};
use crate::Malformed;
use ports::queue::job::{encode_question, encode_reply};
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use slack::envelope::{object, text_or_none};
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

/// A question to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionJob {
    /// Which message asks.
    pub id: QuestionId,
    /// What it asks; missing if the question has its row already.
    pub asked: Option<AskedText>,
    /// How often it was begun anew.
    pub attempt: u32,
}

/// An answer to be posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyJob {
    /// Which message asked.
    pub id: QuestionId,
    /// How often it was begun anew.
    pub attempt: u32,
}

/// Both of them: a reply has the first fields only.
#[derive(Default, Serialize, Deserialize)]
struct Encoded<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    channel: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    ts: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    thread_ts: Option<Cow<'a, str>>,
    #[serde(default)]
    attempt: u32,
    #[serde(borrow, default, deserialize_with = "text_or_none", skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none", skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none", skip_serializing_if = "Option::is_none")]
    mentioned: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
}

impl<'a> Encoded<'a> {
    fn of(id: &'a QuestionId, attempt: u32) -> Self {
        let QuestionId { team, channel, ts, thread_ts } = id;
        Self {
            team: Some(team.as_str().into()),
            channel: Some(channel.as_str().into()),
            ts: Some(ts.as_str().into()),
            thread_ts: Some(thread_ts.as_str().into()),
            attempt,
            ..Self::default()
        }
    }

    fn id(&self, event: &'static str) -> Result<QuestionId, Malformed> {
        let missing = |field| Malformed::Missing { event, field };
        Ok(QuestionId {
            team: TeamId::parse(self.team.as_deref().ok_or(missing("team"))?)?,
            channel: ChannelId::parse(self.channel.as_deref().ok_or(missing("channel"))?)?,
            ts: Ts::parse(self.ts.as_deref().ok_or(missing("ts"))?)?,
            thread_ts: Ts::parse(self.thread_ts.as_deref().ok_or(missing("thread_ts"))?)?,
        })
    }

    /// Ids and text always serialise.
    fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn dedup(kind: &str, id: &QuestionId, attempt: u32) -> DedupId {
    let QuestionId { team, channel, ts, .. } = id;
    let attempt = attempt.to_string();
    DedupId::of(&[kind, team.as_str(), channel.as_str(), ts.as_str(), &attempt].map(str::as_bytes))
}

impl From<Question> for QuestionJob {
    fn from(Question { id, asked }: Question) -> Self {
        Self { id, asked: Some(asked), attempt: 0 }
    }
}

impl QuestionJob {
    /// The job as a message.
    #[must_use]
    pub fn outgoing(&self) -> Outgoing {
        let Self { id, asked, attempt } = self;
        let mut encoded = Encoded::of(id, *attempt);
        if let Some(AskedText { user, text, mentioned, files }) = asked {
            encoded.user = Some(user.as_str().into());
            encoded.text = Some(text.as_str().into());
            encoded.mentioned = mentioned.as_ref().map(|user| user.as_str().into());
            encoded.files = files.iter().map(ToString::to_string).collect();
        }
        Outgoing {
            queue: QueueName::Questions,
            group: GroupId::of(&[id.team.as_str(), id.channel.as_str(), id.thread_ts.as_str()]),
            dedup: dedup("question", id, *attempt),
            body: encode_question(&encoded.json()),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if an id is missing or malformed.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        let encoded: Encoded<'_> = object(raw);
        let id = encoded.id("question job")?;
        let Encoded { attempt, user, text, mentioned, files, .. } = encoded;
        let asked = match user {
            Some(user) => Some(AskedText {
                user: UserId::parse(&user)?,
                text: text.map(Cow::into_owned).unwrap_or_default(),
                mentioned: mentioned.map(|user| UserId::parse(&user)).transpose()?,
                files: files.iter().filter_map(|file| FileId::parse(file).ok()).collect(),
            }),
            None => None,
        };
        Ok(Self { id, asked, attempt })
    }
}

impl ReplyJob {
    /// The job as a message.
    #[must_use]
    pub fn outgoing(&self) -> Outgoing {
        let Self { id, attempt } = self;
        Outgoing {
            queue: QueueName::Replies,
            group: GroupId::of(&[id.team.as_str(), id.channel.as_str()]),
            dedup: dedup("reply", id, *attempt),
            body: encode_reply(&Encoded::of(id, *attempt).json()),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if an id is missing or malformed.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        let encoded: Encoded<'_> = object(raw);
        Ok(Self { id: encoded.id("reply job")?, attempt: encoded.attempt })
    }
}

#[cfg(test)]
mod tests {
    use ports::queue::job::{Job, Payload};
    use serde_json::json;

    use super::*;

    fn id() -> QuestionId {
        QuestionId {
            team: TeamId::parse("T1").unwrap(),
            channel: ChannelId::parse("C1").unwrap(),
            ts: Ts::parse("2.000000").unwrap(),
            thread_ts: Ts::parse("1.000000").unwrap(),
        }
    }

    fn question(asked: Option<AskedText>, attempt: u32) -> QuestionJob {
        QuestionJob { id: id(), asked, attempt }
    }

    #[test]
    fn a_question_is_serial_with_its_thread_and_an_answer_with_its_channel() {
        let asked = AskedText {
            user: UserId::parse("U1").unwrap(),
            text: "why \"so\"?".into(),
            mentioned: UserId::parse("U0").ok(),
            files: vec![FileId::parse("F1").unwrap()],
        };
        let (first, again) = (question(Some(asked), 0), question(None, 1));
        let (sent, sent_again) = (first.outgoing(), again.outgoing());
        assert_eq!((sent.group.as_str(), sent.queue), ("T1#C1#1.000000", QueueName::Questions));
        assert_ne!(sent.dedup, sent_again.dedup, "a queue would take the second for the first");
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
    fn what_names_no_message_is_malformed() {
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
