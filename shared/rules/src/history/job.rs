//! Jobs of the historian: a span of a channel to be read, and a turn of reading a workspace's history.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Malformed, read_job};
use ports::queue::job::encode_job;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use slack::ids::{ChannelId, TeamId, Ts};

/// A span of a channel to be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanJob {
    pub team: TeamId,
    pub channel: ChannelId,
    /// Its inclusive start.
    pub from: Ts,
    /// Its exclusive end, which is also the end in the fact that it was read.
    pub to: Ts,
    /// The reason, for logs.
    #[serde(default)]
    pub why: String,
    /// How often the reading was interrupted to let other jobs run.
    #[serde(default)]
    pub page: u32,
    /// When the span was found to be missing, by Slack's clock; `None` in jobs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked: Option<Ts>,
}

impl SpanJob {
    /// The job as a message.
    pub fn outgoing(&self) -> Outgoing {
        let Self { team, channel, from, to, page, .. } = self;
        let parts = ["span", team.as_str(), channel.as_str(), from.as_str(), to.as_str(), &page.to_string()];
        Outgoing {
            queue: QueueName::Backfill,
            group: GroupId::from_parts(&[team.as_str()]),
            dedup: DedupId::from_parts(&parts.map(str::as_bytes)),
            body: encode_job("backfill", self),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if an id or a time is missing or malformed, or the span ends before it begins.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        let job: Self = read_job("backfill", raw)?;
        if job.to < job.from {
            return Err(Malformed::Job("backfill"));
        }
        Ok(job)
    }
}

/// A turn of reading everything that Slack still shows of a workspace. The facts in the archive say what is next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillJob {
    pub team: TeamId,
    /// The number of the turn: each sends the next one, while anything is unread.
    pub n: u32,
    /// When the first turn was sent, in milliseconds since the Unix epoch: it tells this reading from others.
    pub began_ms: i64,
}

impl FillJob {
    /// The job as a message. Its group is that of the workspace's spans, so that both take turns.
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

    /// The job of the next turn.
    #[must_use]
    pub fn next(&self) -> Self {
        Self { n: self.n.saturating_add(1), ..self.clone() }
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
    use serde_json::json;

    use super::*;

    fn job() -> SpanJob {
        SpanJob {
            team: TeamId::parse("T1").unwrap(),
            channel: ChannelId::parse("C1").unwrap(),
            from: Ts::parse("1.000000").unwrap(),
            to: Ts::parse("9.000000").unwrap(),
            why: "downtime".to_owned(),
            page: 0,
            looked: Some(Ts::parse("10.000000").unwrap()),
        }
    }

    #[test]
    fn a_span_is_a_job_of_its_workspace_and_the_next_page_is_another() {
        let (first, next) = (job().outgoing(), SpanJob { page: 1, ..job() }.outgoing());
        assert_eq!((first.group.as_str(), first.queue), ("T1", QueueName::Backfill));
        assert_ne!(first.dedup, next.dedup);
        assert_eq!(
            first.body,
            r#"{"v":1,"backfill":{"team":"T1","channel":"C1","from":"1.000000","to":"9.000000","why":"downtime","page":0,"looked":"10.000000"}}"#
        );
        let Payload::Backfill(raw) = Job::decode(&first.body).unwrap().payload else { panic!("{first:?}") };
        assert_eq!(SpanJob::decode(raw), Ok(job()));
        let earlier = SpanJob { looked: None, ..job() };
        let body = earlier.outgoing().body;
        assert!(body.ends_with(r#""page":0}}"#), "{body}");
        let Payload::Backfill(raw) = Job::decode(&body).unwrap().payload else { panic!("{body}") };
        assert_eq!(SpanJob::decode(raw), Ok(earlier));
    }

    #[test]
    fn an_invalid_span_is_malformed() {
        for body in [
            json!({}),
            json!([]),
            json!({ "team": "T1", "channel": "C1", "from": "9.000000", "to": "1.000000" }),
            json!({ "team": "T1", "channel": "c#", "from": "1.000000", "to": "9.000000" }),
            json!({ "team": "T1", "channel": "C1", "from": "soon", "to": "9.000000" }),
        ] {
            let raw = RawValue::from_string(body.to_string()).unwrap();
            assert!(SpanJob::decode(&raw).is_err(), "{body}");
        }
    }
}
