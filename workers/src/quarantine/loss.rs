//! The loss caused by a job that a person drops: a gap, if the job carried an event. For an unreadable job,
//! and for one that was only counted, the gap is the hour.
//!
//! A file or a picture is not an event: its message is stored. The state of a dropped file says that its bytes
//! are missing, so that `annalist files retry` asks for it again.

use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Update, WriteOutcome, key};
use ports::clock::TimestampMs;
use ports::queue::job::{Job, Payload};
use ports::queue::route::Audience;
use reader::find;
use rules::file::{FileJob, FileState, row};
use rules::public_mark::MarkState;
use rules::{SlackEvent, gap, version};
use slack::envelope::Envelope;
use slack::ids::{ChannelId, TeamId, Ts};

use super::Quarantined;

/// The gap that dropping a job causes.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    pub team: TeamId,
    /// `None` if the event has no channel, or one with an invalid ID.
    pub channel: Option<ChannelId>,
    /// The gap's row.
    pub(super) gap: Update,
}

/// The loss caused by dropping a job. `None` if its event would not have been stored in any case, or names no
/// workspace for a gap.
pub async fn loss(archive: &dyn Archive, job: &Quarantined) -> Result<Option<Loss>, ArchiveError> {
    let Some((loss, audience)) = read(job) else { return Ok(None) };
    let is_stored = match (audience, &loss.channel) {
        (Audience::Direct, _) => false,
        (Audience::Private, Some(channel)) => {
            let mark = archive.get(&ItemKey::public_mark(&loss.team, channel)).await?;
            MarkState::from_row(mark.as_ref()) == MarkState::Public
        }
        (Audience::Private | Audience::Public | Audience::Untyped, _) => true,
    };
    Ok(Some(loss).filter(|_| is_stored))
}

pub(super) fn read(job: &Quarantined) -> Option<(Loss, Audience)> {
    let payload = Job::decode(&job.payload).ok()?.payload;
    if let Payload::Refused(time) = payload {
        // The job already describes a gap.
        let (team, gap) = gap::refused(time).ok()?;
        return Some((Loss { team, channel: None, gap }, Audience::Untyped));
    }
    let Payload::Event(raw) = payload else { return None };
    let envelope = Envelope::peek(raw.get().as_bytes()).ok()?;
    let team = envelope.workspace()?;
    if envelope.event.is_none() {
        // A minute that Slack rate-limited describes its own gap.
        let gap = gap::rate_limited(&team, raw).ok()?;
        return Some((Loss { team, channel: None, gap }, Audience::Untyped));
    }
    let event = SlackEvent::read(&envelope).ok()?;
    let channel = event.channel().ok();
    let clock = Some(event.clock()).filter(|clock| *clock != version::zero());
    // Slack always sends a timestamp. For an event without one, the time when the job was sent is the best
    // estimate.
    let clock = clock.or_else(|| sent_at(job))?;
    // An event that opens a gap itself loses more than its own moment.
    let mut facts = gap::facts(&event).ok().into_iter().flatten();
    let opened = facts.find(|fact| fact.key.item_id == key::gaps(&team));
    let gap = opened.unwrap_or_else(|| gap::dropped(&team, channel.clone(), clock));
    Some((Loss { team, channel, gap }, Audience::from_event(&event.header)))
}

fn sent_at(job: &Quarantined) -> Option<Ts> {
    let ms = u64::try_from(job.first_seen.0).ok()?;
    Ts::parse(&format!("{}.{:03}000", ms / 1000, ms % 1000)).ok()
}

/// Why a file is missing whose job was dropped.
const DROPPED: &str = "its job was dropped from quarantine";

/// Writes that the file of a dropped job is missing, unless its bytes are stored or its message is erased.
pub(super) async fn note_missing_file(archive: &dyn Archive, body: &str) -> Result<(), ArchiveError> {
    let Some(Payload::File(raw)) = Job::decode(body).ok().map(|job| job.payload) else { return Ok(()) };
    let job = FileJob::decode(raw).ok();
    // A tombstone brings no bytes.
    let Some(FileJob { team, share, object, .. }) = job.filter(|job| !job.object.is_tombstone()) else {
        return Ok(());
    };
    let row = archive.get(&ItemKey::file(&team, &object.id)).await?;
    let known = row.as_ref().and_then(|row| row::state(row, &object.id));
    let state = FileState::failed(DROPPED).max(known);
    let on_message = row::on_message(&team, &share, &object.id, &state);
    if let WriteOutcome::Rejected(message) = archive.write(&on_message).await?
        && message.is_erased()
    {
        return Ok(());
    }
    for update in [row::seen(&team, &object, Some(&share)), row::settled(&team, &object.id, &state)] {
        archive.write(&update).await?;
    }
    Ok(())
}

const SECOND_MICROS: i64 = 1_000_000;

/// How far an event's clock may be ahead of its arrival: as far as the clock of this machine may be wrong.
const AHEAD_MICROS: i64 = 5 * 60 * SECOND_MICROS;

/// Slack retries an event for at most a day; an older clock is implausible.
const LATEST_RETRY_MICROS: i64 = 24 * 3_600 * SECOND_MICROS;

/// The usual maximum delay of an event whose clock cannot be read: Slack's last quick retry is after five
/// minutes.
/// <https://docs.slack.dev/apis/events-api/#retries>
const LATE_MICROS: i64 = 10 * 60 * SECOND_MICROS;

/// Writes gaps for the hours in which something is missing, for these bodies and their sent times. If a body
/// names no known workspace, every known workspace gets a gap. Whatever the bodies contain, they cause at
/// most some 26 rows per day and known workspace.
pub(super) async fn note_hours(
    archive: &dyn Archive,
    bodies: &[(&str, TimestampMs)],
) -> Result<(), ArchiveError> {
    let teams = find::teams(archive).await?;
    let mut gaps = BTreeMap::new();
    for (body, sent_at) in bodies {
        let (named, moments) = workspace_and_moments(body, *sent_at);
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

/// The workspace of a job, and the approximate moments of its event, in microseconds; empty if it carried no
/// event.
fn workspace_and_moments(body: &str, sent_at: TimestampMs) -> (Option<TeamId>, Vec<i64>) {
    let job = Job::decode(body).ok();
    let carries_events = |job: &Job<'_>| job.event().is_some() || matches!(job.payload, Payload::Refused(_));
    if job.as_ref().is_some_and(|job| !carries_events(job)) {
        return (None, Vec::new());
    }
    let raw = job.and_then(|job| job.event());
    let envelope = raw.and_then(|raw| Envelope::peek(raw.get().as_bytes()).ok());
    let team = envelope.as_ref().and_then(Envelope::workspace);
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
    fn a_plausible_event_clock_counts_and_otherwise_the_arrival() {
        let sent_at = TimestampMs(1_700_000_000_123);
        let when = |payload: Value| workspace_and_moments(&payload.to_string(), sent_at);
        let event = |clock: &str| {
            let event = json!({ "type": "message", "channel": "C1", "event_ts": clock });
            json!({ "v": 1, "event": { "team_id": "T1", "event": event } })
        };
        let team = TeamId::parse("T1").ok();
        let arrival = vec![1_699_999_400_123_000, 1_700_000_000_123_000];
        assert_eq!(when(event("1699990000.000100")), (team.clone(), vec![1_699_990_000_000_100]));
        for made_up in ["5.000100", "1700009999.000100", "999999999999.000000"] {
            assert_eq!(when(event(made_up)), (team.clone(), arrival.clone()), "{made_up}");
        }
        assert_eq!(
            when(json!({ "v": 1, "event": { "team_id": "T1", "event": 7 } })),
            (team, arrival.clone())
        );
        for unreadable in [json!({ "v": 1, "event": 7 }), json!({ "v": 1, "refused": {} }), json!("no job")] {
            assert_eq!(when(unreadable), (None, arrival.clone()));
        }
        assert_eq!(when(json!({ "v": 1, "file": { "team": "T1" } })), (None, Vec::new()));
    }

    #[test]
    fn a_rate_limited_minute_is_its_own_gap_and_a_job_without_an_event_leaves_none() {
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
