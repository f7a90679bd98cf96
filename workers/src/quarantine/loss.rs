//! What is lost with a job that a person drops: a gap, if it carried an event. Of one that cannot be read, and of one that was
//! only counted, it is the hour.
//!
//! A file or a picture is no event: its message is stored, and its own row says that the bytes are missing.

use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Query, Update, key, query_all};
use ports::clock::TimestampMs;
use ports::queue::job::{Job, Payload};
use ports::queue::route::Audience;
use rules::public_mark::MarkState;
use rules::{SlackEvent, gap, version};
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

pub(super) fn read(job: &Quarantined) -> Option<(Loss, Audience)> {
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
    let event = SlackEvent::read(&envelope).ok()?;
    let channel = event.channel().ok();
    let clock = Some(event.clock()).filter(|clock| *clock != version::zero());
    // Slack always says when. For any other event, the time at which it was sent here is the best guess.
    let clock = clock.or_else(|| sent_at(job))?;
    // An event that opens a gap itself misses more than its own moment.
    let opened = gap::opened_by(&event).ok().flatten();
    let gap = opened.unwrap_or_else(|| gap::dropped(&team, channel.clone(), clock));
    Some((Loss { team, channel, gap }, Audience::of(&event.header)))
}

fn sent_at(job: &Quarantined) -> Option<Ts> {
    let ms = u64::try_from(job.first_seen.0).ok()?;
    Ts::parse(&format!("{}.{:03}000", ms / 1000, ms % 1000)).ok()
}

const SECOND_MICROS: i64 = 1_000_000;

/// How far ahead of its coming a true clock may be: as far as the clock of this machine may be wrong.
const AHEAD_MICROS: i64 = 5 * 60 * SECOND_MICROS;

/// Slack tries to deliver an event for a day at most; an older clock is made up.
const LATEST_RETRY_MICROS: i64 = 24 * 3_600 * SECOND_MICROS;

/// How late an event usually comes at most, if its own clock cannot be read: Slack's last quick retry is after five minutes.
/// <https://docs.slack.dev/apis/events-api/#retries>
const LATE_MICROS: i64 = 10 * 60 * SECOND_MICROS;

/// Notes the hours in which something is missing, for bodies and when each was sent. If a body names no workspace that is
/// known, something may be missing in each of them. Whatever the bodies are, they leave some 26 rows per day and known
/// workspace at most.
pub(super) async fn note_hours(
    archive: &dyn Archive,
    bodies: &[(&str, TimestampMs)],
) -> Result<(), ArchiveError> {
    let rows = query_all(archive, Query::partition(key::TEAMS)).await?;
    let teams: Vec<TeamId> = rows.iter().filter_map(|row| TeamId::parse(&row.key.timestamp).ok()).collect();
    let mut gaps = BTreeMap::new();
    for (body, sent_at) in bodies {
        let (named, moments) = about_when(body, *sent_at);
        let named = named.filter(|named| teams.contains(named));
        for team in teams.iter().filter(|team| named.as_ref().is_none_or(|named| named == *team)) {
            let hours = moments.iter().map(|micros| gap::dropped_in_hour(team, *micros));
            gaps.extend(hours.map(|gap| (gap.key.timestamp.clone() + team.as_str(), gap)));
        }
    }
    for gap in gaps.into_values() {
        archive.write(&gap).await?;
    }
    Ok(())
}

/// Which workspace misses a job, and about when it happened, in microseconds; no time if it carried no event.
fn about_when(body: &str, sent_at: TimestampMs) -> (Option<TeamId>, Vec<i64>) {
    let job = Job::decode(body).ok();
    let brings_events = |job: &Job<'_>| job.event().is_some() || matches!(job.payload, Payload::Refused(_));
    if job.as_ref().is_some_and(|job| !brings_events(job)) {
        return (None, Vec::new());
    }
    let raw = job.and_then(|job| job.event());
    let envelope = raw.and_then(|raw| Envelope::peek(raw.get().as_bytes()).ok());
    let team = envelope.as_ref().and_then(|envelope| TeamId::parse(envelope.team_id.as_deref()?).ok());
    let event = envelope.and_then(|envelope| SlackEvent::read(&envelope).ok());
    let sent = sent_at.0.saturating_mul(1_000);
    let plausible = sent - LATEST_RETRY_MICROS..=sent + AHEAD_MICROS;
    let moments = match event.map(|event| event.clock().micros()) {
        Some(clock) if plausible.contains(&clock) => vec![clock],
        Some(_) | None => vec![sent - LATE_MICROS, sent],
    };
    (team, moments)
}

#[cfg(test)]
mod tests {
    use ports::archive::{Attributes, Item};
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
        assert_eq!(lost(&message), Some(("C1#5.000100#dropped#5.000100".into(), Audience::Public)));
        let person = json!({ "type": "user_change", "user": { "id": "U1" }, "event_ts": "6.000000" });
        assert_eq!(lost(&person), Some(("all#6.000000#dropped#6.000000".into(), Audience::Untyped)));
        let odd = json!({ "type": "message", "channel": "c#1", "event_ts": "soon" });
        assert_eq!(
            lost(&odd),
            Some(("all#1700000000.123000#dropped#1700000000.123000".into(), Audience::Untyped))
        );
    }

    #[test]
    fn the_clock_of_an_event_counts_if_it_may_be_true_and_else_when_it_came() {
        let sent_at = TimestampMs(1_700_000_000_123);
        let when = |payload: Value| about_when(&payload.to_string(), sent_at);
        let event = |clock: &str| {
            let event = json!({ "type": "message", "channel": "C1", "event_ts": clock });
            json!({ "v": 1, "event": { "team_id": "T1", "event": event } })
        };
        let team = TeamId::parse("T1").ok();
        let came = vec![1_699_999_400_123_000, 1_700_000_000_123_000];
        assert_eq!(when(event("1699990000.000100")), (team.clone(), vec![1_699_990_000_000_100]));
        for made_up in ["5.000100", "1700009999.000100", "999999999999.000000"] {
            assert_eq!(when(event(made_up)), (team.clone(), came.clone()), "{made_up}");
        }
        assert_eq!(when(json!({ "v": 1, "event": { "team_id": "T1", "event": 7 } })), (team, came.clone()));
        for unreadable in [json!({ "v": 1, "event": 7 }), json!({ "v": 1, "refused": {} }), json!("no job")] {
            assert_eq!(when(unreadable), (None, came.clone()));
        }
        assert_eq!(when(json!({ "v": 1, "file": { "team": "T1" } })), (None, Vec::new()));
    }

    #[test]
    fn a_lost_minute_is_itself_and_what_holds_no_event_is_no_gap() {
        let minute = json!({ "v": 1, "event": { "type": "app_rate_limited", "team_id": "T1", "minute_rate_limited": 60 } });
        assert_eq!(read(&job(&minute)).unwrap().0.gap.key.timestamp, "all#60.000000#rate_limited");
        let refused = json!({ "v": 1, "refused": { "team_id": "T1", "from": "5.000000", "to": "6.000000" } });
        assert_eq!(read(&job(&refused)).unwrap().0.gap.key.timestamp, "all#5.000000#refused#6.000000");
        let left = json!({ "type": "channel_left", "channel": "C1", "event_ts": "5.000100" });
        assert_eq!(lost(&left), Some(("C1#5.000100#left".into(), Audience::Untyped)));
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
