//! Jobs of the historian: a span of a channel to be read.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Malformed;
use ports::queue::job::encode_backfill;
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use slack::envelope::{object, text_or_none};
use slack::ids::{ChannelId, TeamId, Ts};

/// A span of a channel to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanJob {
    /// The workspace.
    pub team: TeamId,
    /// The channel.
    pub channel: ChannelId,
    /// Its oldest moment.
    pub from: Ts,
    /// Its end, which is not part of it, and the end of the fact that it was read.
    pub to: Ts,
    /// Why, for logs.
    pub why: String,
    /// How often the reading was interrupted so that others had their turn.
    pub page: u32,
    /// When it was found to be missing, by Slack's clock; `None` in jobs of earlier versions.
    pub looked: Option<Ts>,
}

#[derive(Serialize)]
struct Encoded<'a> {
    team: &'a TeamId,
    channel: &'a ChannelId,
    from: &'a Ts,
    to: &'a Ts,
    why: &'a str,
    page: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    looked: Option<&'a Ts>,
}

#[derive(Default, Deserialize)]
struct Decoded<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    channel: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    from: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    to: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    why: Option<Cow<'a, str>>,
    #[serde(default)]
    page: u32,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    looked: Option<Cow<'a, str>>,
}

impl SpanJob {
    /// The job as a message.
    #[must_use]
    pub fn outgoing(&self) -> Outgoing {
        let Self { team, channel, from, to, why, page, looked } = self;
        let parts = ["span", team.as_str(), channel.as_str(), from.as_str(), to.as_str(), &page.to_string()];
        let encoded = Encoded { team, channel, from, to, why, page: *page, looked: looked.as_ref() };
        Outgoing {
            queue: QueueName::Backfill,
            group: GroupId::of(&[team.as_str()]),
            dedup: DedupId::of(&parts.map(str::as_bytes)),
            // Ids and text always serialise.
            body: encode_backfill(&serde_json::to_string(&encoded).unwrap_or_default()),
        }
    }

    /// Reads the job in a message.
    ///
    /// # Errors
    /// [`Malformed`] if an id or a time is missing or malformed, or the span ends before it begins.
    pub fn decode(raw: &RawValue) -> Result<Self, Malformed> {
        let missing = |field| Malformed::Missing { event: "backfill job", field };
        let decoded: Decoded<'_> = object(raw);
        let team = TeamId::parse(decoded.team.as_deref().ok_or(missing("team"))?)?;
        let channel = ChannelId::parse(decoded.channel.as_deref().ok_or(missing("channel"))?)?;
        let from = Ts::parse(decoded.from.as_deref().ok_or(missing("from"))?)?;
        let to = Ts::parse(decoded.to.as_deref().ok_or(missing("to"))?)?;
        if to < from {
            return Err(missing("to"));
        }
        let why = decoded.why.map(Cow::into_owned).unwrap_or_default();
        let looked = decoded.looked.and_then(|looked| Ts::parse(&looked).ok());
        Ok(Self { team, channel, from, to, why, page: decoded.page, looked })
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
    fn what_is_no_span_is_malformed() {
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
