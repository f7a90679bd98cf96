//! Compares the clocks of an event with its arrival. The clocks decide what wins in a row, and a row never
//! goes back: a clock from the far future would win forever over everything that Slack sends later.

use super::message::MessageUpdate;
use super::{MAX_AHEAD_S, Malformed, SlackEvent, user_group};
use slack::catalogue::EventRule;
use slack::ids::Ts;

pub(super) fn check(event: &SlackEvent<'_>, came_at_ms: i64) -> Result<(), Malformed> {
    let came_micros = came_at_ms.saturating_mul(1_000);
    let check = |field: &'static str, clock: Option<Ts>| {
        let Some(found) = clock else { return Ok(()) };
        let ahead_s = found.micros().saturating_sub(came_micros).div_euclid(1_000_000);
        let is_ahead = found.micros() > came_micros.saturating_add(MAX_AHEAD_S * 1_000_000);
        if is_ahead { Err(Malformed::FromTheFuture { field, found, ahead_s }) } else { Ok(()) }
    };
    check("event_ts", Some(event.clock()))?;
    match event.rule() {
        Some(EventRule::Message) => {
            // An unreadable message is rejected when it is stored.
            let Ok(Some(updates)) = event.message_updates() else { return Ok(()) };
            check("ts", Some(updates.clock.clone()))?;
            check("deleted_ts", updates.deleted.clone())?;
            for MessageUpdate { object, .. } in &updates.messages {
                check("ts", parsed(object.ts.as_deref()))?;
                check("thread_ts", parsed(object.thread_ts.as_deref()))?;
                check("edited.ts", object.edited_ts().ok().flatten())?;
            }
            Ok(())
        }
        Some(EventRule::Reaction(_) | EventRule::Pin(_)) => {
            check("item.ts", event.header.item().and_then(|item| parsed(item.ts().as_deref())))
        }
        Some(EventRule::UserGroup(_)) => check("date_update", user_group::changed_at(event)),
        Some(
            EventRule::User
            | EventRule::Team(_)
            | EventRule::Emoji
            | EventRule::FileChanged
            | EventRule::FileDeleted
            | EventRule::Channel(_)
            | EventRule::Gap(_)
            | EventRule::Joined
            | EventRule::Ignored(_),
        )
        | None => Ok(()),
    }
}

/// `None` for a malformed timestamp: the rule that needs it rejects the event.
fn parsed(text: Option<&str>) -> Option<Ts> {
    Ts::parse(text?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use slack::envelope::Envelope;

    const CAME_S: i64 = 1_700_000_000;

    fn checked(fields: &str) -> Result<(), Malformed> {
        let body = format!(r#"{{"team_id":"T1","event_time":{CAME_S},"event":{{{fields}}}}}"#);
        let envelope = Envelope::peek(body.as_bytes()).unwrap();
        SlackEvent::read(&envelope).unwrap().check_clocks(CAME_S * 1_000)
    }

    /// An event for each field with a clock that decides what wins; `CLOCK` marks the field.
    const EVENTS: [&str; 16] = [
        r#""type":"user_change","user":{"id":"U1"},"event_ts":"CLOCK""#,
        r#""type":"subteam_updated","subteam":{"id":"S1"},"event_ts":"CLOCK""#,
        r#""type":"subteam_members_changed","subteam_id":"S1","event_ts":"CLOCK""#,
        r#""type":"emoji_changed","subtype":"add","name":"a","event_ts":"CLOCK""#,
        r#""type":"channel_rename","channel":{"id":"C1","name":"a"},"event_ts":"CLOCK""#,
        r#""type":"pin_added","user":"U1","channel_id":"C1","item":{"type":"message","message":{"ts":"CLOCK"}}"#,
        r#""type":"message","channel":"C1","ts":"CLOCK""#,
        r#""type":"message","channel":"C1","ts":"1700000001.000000","thread_ts":"CLOCK""#,
        r#""type":"message","channel":"C1","ts":"1700000001.000000","edited":{"ts":"CLOCK"}"#,
        r#""type":"message","subtype":"message_changed","channel":"C1","message":{"ts":"CLOCK"}"#,
        r#""type":"message","subtype":"message_changed","channel":"C1","message":{"ts":"1700000001.000000","edited":{"ts":"CLOCK"}}"#,
        r#""type":"message","subtype":"message_deleted","channel":"C1","deleted_ts":"CLOCK""#,
        r#""type":"message","channel":"C1","ts":"1700000002.000000","root":{"ts":"1700000001.000000","text":"a","edited":{"ts":"CLOCK"}}"#,
        r#""type":"message","subtype":"message_deleted","channel":"C1","deleted_ts":"1700000001.000000","previous_message":{"ts":"1700000001.000000","edited":{"ts":"CLOCK"}}"#,
        r#""type":"reaction_added","user":"U1","reaction":"a","item":{"type":"message","channel":"C1","ts":"CLOCK"}"#,
        r#""type":"reaction_removed","user":"U1","reaction":"a","event_ts":"CLOCK","item":{"type":"message","channel":"C1","ts":"1700000001.000000"}"#,
    ];

    #[test]
    fn each_clock_may_be_ahead_by_the_tolerance_of_the_signature_check_and_no_more() {
        for event in EVENTS {
            let at = |clock: &str| checked(&event.replace("CLOCK", clock));
            for fine in ["1700000001.000000", "1700000000.000100", "1700000300.000000", "no clock"] {
                assert_eq!(at(fine), Ok(()), "{event} {fine}");
            }
            for ahead in ["1700000300.000001", "1700000301.000000", "9999999999.999999"] {
                let found = at(ahead);
                assert!(matches!(found, Err(Malformed::FromTheFuture { .. })), "{event} {ahead}: {found:?}");
            }
        }
        let why = checked(&EVENTS[0].replace("CLOCK", "1700000400.000000")).unwrap_err().to_string();
        assert!(why.contains("event_ts 1700000400.000000 is 400 s later") && why.contains("replay"), "{why}");
    }

    #[test]
    fn the_time_of_the_envelope_counts_if_the_event_has_none() {
        let body =
            r#"{"team_id":"T1","event_time":9999999999,"event":{"type":"user_change","user":{"id":"U1"}}}"#;
        let envelope = Envelope::peek(body.as_bytes()).unwrap();
        assert!(SlackEvent::read(&envelope).unwrap().check_clocks(CAME_S * 1_000).is_err());
        // Nothing overflows.
        for came_ms in [i64::MIN, i64::MAX] {
            drop(SlackEvent::read(&envelope).unwrap().check_clocks(came_ms));
        }
    }
}
