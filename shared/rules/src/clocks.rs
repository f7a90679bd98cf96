//! The clocks of an event, compared with the time at which it came. They decide what wins in a row, and a row never goes
//! back: one from the far future would win for ever over what Slack says from then on.

use super::message::MessageUpdate;
use super::{Malformed, SlackEvent};
use slack::catalogue::EventRule;
use slack::ids::Ts;
use slack::signature::WINDOW_S;

/// How far ahead of its coming an event's clocks may be: as far as the clock of the machine may be from Slack's before no
/// request of Slack's passes the check of its signature. So a machine whose clock is wrong quarantines nothing that it let in.
#[expect(clippy::cast_possible_wrap, reason = "five minutes")]
pub const MAX_AHEAD_S: i64 = WINDOW_S as i64;

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
            // What cannot be read is refused if it is to be stored.
            let Ok(Some(told)) = event.told() else { return Ok(()) };
            check("ts", Some(told.clock.clone()))?;
            check("deleted_ts", told.deleted.clone())?;
            for MessageUpdate { object, .. } in &told.messages {
                check("ts", parsed(object.ts.as_deref()))?;
                check("thread_ts", parsed(object.thread_ts.as_deref()))?;
                check("edited.ts", object.edited_ts().ok().flatten())?;
            }
            Ok(())
        }
        Some(EventRule::Reaction(_)) => {
            check("item.ts", event.header.item().and_then(|item| parsed(item.ts.as_deref())))
        }
        Some(
            EventRule::User
            | EventRule::Team(_)
            | EventRule::Emoji
            | EventRule::FileDeleted
            | EventRule::Channel(_)
            | EventRule::Gap(_)
            | EventRule::Joined
            | EventRule::Ignored(_),
        )
        | None => Ok(()),
    }
}

/// What has another shape than a timestamp is refused by whatever needs it.
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

    /// Each place of a clock that decides what wins, with `CLOCK` for it.
    const PLACES: [&str; 13] = [
        r#""type":"user_change","user":{"id":"U1"},"event_ts":"CLOCK""#,
        r#""type":"emoji_changed","subtype":"add","name":"a","event_ts":"CLOCK""#,
        r#""type":"channel_rename","channel":{"id":"C1","name":"a"},"event_ts":"CLOCK""#,
        r#""type":"message","channel":"C1","ts":"CLOCK""#,
        r#""type":"message","channel":"C1","ts":"1.000000","thread_ts":"CLOCK""#,
        r#""type":"message","channel":"C1","ts":"1.000000","edited":{"ts":"CLOCK"}"#,
        r#""type":"message","subtype":"message_changed","channel":"C1","message":{"ts":"CLOCK"}"#,
        r#""type":"message","subtype":"message_changed","channel":"C1","message":{"ts":"1.000000","edited":{"ts":"CLOCK"}}"#,
        r#""type":"message","subtype":"message_deleted","channel":"C1","deleted_ts":"CLOCK""#,
        r#""type":"message","channel":"C1","ts":"2.000000","root":{"ts":"1.000000","text":"a","edited":{"ts":"CLOCK"}}"#,
        r#""type":"message","subtype":"message_deleted","channel":"C1","deleted_ts":"1.000000","previous_message":{"ts":"1.000000","edited":{"ts":"CLOCK"}}"#,
        r#""type":"reaction_added","user":"U1","reaction":"a","item":{"type":"message","channel":"C1","ts":"CLOCK"}"#,
        r#""type":"reaction_removed","user":"U1","reaction":"a","event_ts":"CLOCK","item":{"type":"message","channel":"C1","ts":"1.000000"}"#,
    ];

    #[test]
    fn each_clock_may_be_as_far_ahead_as_a_request_may_be_and_no_further() {
        for place in PLACES {
            let at = |clock: &str| checked(&place.replace("CLOCK", clock));
            for fine in ["1.000000", "1700000000.000100", "1700000300.000000", "no clock"] {
                assert_eq!(at(fine), Ok(()), "{place} {fine}");
            }
            for ahead in ["1700000300.000001", "1700000301.000000", "999999999999.999999"] {
                let found = at(ahead);
                assert!(matches!(found, Err(Malformed::FromTheFuture { .. })), "{place} {ahead}: {found:?}");
            }
        }
        let why = checked(&PLACES[0].replace("CLOCK", "1700000400.000000")).unwrap_err().to_string();
        assert!(why.contains("event_ts 1700000400.000000 is 400 s later") && why.contains("replay"), "{why}");
    }

    #[test]
    fn the_time_of_the_envelope_counts_where_the_event_has_none() {
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
