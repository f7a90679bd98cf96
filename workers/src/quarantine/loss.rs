//! What is lost with a job that a person drops: a gap, if it carried an event.
//!
//! A file or a picture is no event: its message is stored, and its own row says that the bytes are missing.

use ports::archive::{Archive, ArchiveError, ItemKey, Update};
use ports::queue::job::{Job, Payload};
use ports::queue::route::Audience;
use rules::public_mark::MarkState;
use rules::{Event, gap, version};
use slack::envelope::Envelope;
use slack::ids::{ChannelId, TeamId, Ts};

use super::Quarantined;

/// A time that may be missing something once a job is dropped.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// The workspace.
    pub team: TeamId,
    /// `None` if the event is about no channel, or about one with an invalid id.
    pub channel: Option<ChannelId>,
    /// The gap's row.
    pub(super) gap: Update,
}

/// What would be lost with a job. `None` if its event would not have been kept in any case, or names no workspace for a
/// gap.
///
/// # Errors
/// As [`Archive::get`].
pub async fn loss(archive: &dyn Archive, job: &Quarantined) -> Result<Option<Loss>, ArchiveError> {
    let Some((loss, audience)) = read(job) else { return Ok(None) };
    let kept = match (audience, &loss.channel) {
        (Audience::Direct, _) => false,
        (Audience::Private, Some(channel)) => {
            let mark = archive.get(&ItemKey::public_mark(&loss.team, channel)).await?;
            MarkState::of(mark.as_ref()) == MarkState::Public
        }
        (Audience::Private | Audience::Public | Audience::Untyped, _) => true,
    };
    Ok(Some(loss).filter(|_| kept))
}

fn read(job: &Quarantined) -> Option<(Loss, Audience)> {
    let payload = Job::decode(&job.payload).ok()?.payload;
    if let Payload::Refused(time) = payload {
        // It is a gap already.
        let (team, gap) = gap::refused(time).ok()?;
        return Some((Loss { team, channel: None, gap }, Audience::Untyped));
    }
    let Payload::Event(raw) = payload else { return None };
    let envelope = Envelope::peek(raw.get().as_bytes()).ok()?;
    let team = TeamId::parse(envelope.team_id.as_deref()?).ok()?;
    if envelope.event.is_none() {
        // A minute that Slack held back names itself.
        let gap = gap::rate_limited(&team, raw).ok()?;
        return Some((Loss { team, channel: None, gap }, Audience::Untyped));
    }
    let event = Event::read(&envelope).ok()?;
    let channel = event.channel().ok();
    let clock = Some(event.clock()).filter(|clock| *clock != version::zero());
    // Slack always says when. For any other event, the time at which it was sent here is the best guess.
    let clock = clock.or_else(|| sent_at(job))?;
    let gap = gap::dropped(&team, channel.clone(), clock);
    Some((Loss { team, channel, gap }, Audience::of(&event.header)))
}

fn sent_at(job: &Quarantined) -> Option<Ts> {
    let ms = u64::try_from(job.first_seen.0).ok()?;
    Ts::parse(&format!("{}.{:03}000", ms / 1000, ms % 1000)).ok()
}

#[cfg(test)]
mod tests {
    use ports::archive::{Attributes, Item};
    use ports::clock::TimestampMs;
    use ports::queue::QueueName;
    use serde_json::{Value, json};

    use super::*;

    fn lost(event: &Value) -> Option<(String, Audience)> {
        let envelope = json!({ "team_id": "T1", "event": event });
        read(&job(&json!({ "v": 1, "event": envelope })))
            .map(|(loss, audience)| (loss.gap.key.timestamp, audience))
    }

    fn job(payload: &Value) -> Quarantined {
        Quarantined {
            id: String::new(),
            queue: QueueName::Events,
            group: String::new(),
            reason: String::new(),
            attempts: 1,
            first_seen: TimestampMs(1_700_000_000_123),
            last_seen: TimestampMs(0),
            payload: payload.to_string(),
            item: Item { key: ItemKey::new("i", "t"), attributes: Attributes::new() },
        }
    }

    #[test]
    fn an_event_is_lost_from_its_channel_at_its_own_time() {
        let message =
            json!({ "type": "message", "channel": "C1", "channel_type": "channel", "event_ts": "5.000100" });
        assert_eq!(lost(&message), Some(("C1#5.000100#dropped".into(), Audience::Public)));
        let person = json!({ "type": "user_change", "user": { "id": "U1" }, "event_ts": "6.000000" });
        assert_eq!(lost(&person), Some(("all#6.000000#dropped".into(), Audience::Untyped)));
        let odd = json!({ "type": "message", "channel": "c#1", "event_ts": "soon" });
        assert_eq!(lost(&odd), Some(("all#1700000000.123000#dropped".into(), Audience::Untyped)));
    }

    #[test]
    fn a_lost_minute_is_itself_and_what_holds_no_event_is_no_gap() {
        let minute = json!({ "v": 1, "event": { "type": "app_rate_limited", "team_id": "T1", "minute_rate_limited": 60 } });
        assert_eq!(read(&job(&minute)).unwrap().0.gap.key.timestamp, "all#60.000000#rate_limited");
        let refused = json!({ "v": 1, "refused": { "team_id": "T1", "from": "5.000000", "to": "6.000000" } });
        assert_eq!(read(&job(&refused)).unwrap().0.gap.key.timestamp, "all#5.000000#refused#6.000000");
        for nothing in [
            json!({ "v": 1, "file": { "team": "T1" } }),
            json!({ "v": 1, "event": { "team_id": "t#1", "event": {} } }),
            json!({ "v": 1, "event": 7 }),
            json!("not a job"),
        ] {
            assert!(read(&job(&nothing)).is_none(), "{nothing}");
        }
    }
}
