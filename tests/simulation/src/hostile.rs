//! Signed events that must not be stored.

use serde_json::{Value, json};
use testkit::corpus::{channel_id, event, user_id};

use super::workload::{INVENTED_CHANNEL, INVENTED_PERSON, PRIVATE_CHANNEL};
use super::world::World;

/// Returns a signed event that must not be stored: malformed ids that would become parts of keys and
/// paths, events with missing fields, and claims that only an attacker with a leaked signing secret would
/// make.
pub(super) fn event(world: &World, channel: &str, clock: &str, text: &str) -> Value {
    let invented = |channel: &str, user: &str| event::posted(channel, &event::message(clock, user, text));
    let posted = |channel: &str, clock: &str| {
        json!({ "type": "message", "channel": channel, "channel_type": "channel", "ts": clock, "event_ts": clock,
            "user": "U0", "text": text })
    };
    match world.random_below(10) {
        // Would close a gap of a private channel, about which nothing may be stored.
        9 => json!({ "type": "member_joined_channel", "channel": PRIVATE_CHANNEL, "user": "U0ANNALIST",
            "channel_type": "C", "event_ts": clock }),
        8 => json!({ "type": "channel_id_changed", "old_channel_id": channel_id(0),
            "new_channel_id": PRIVATE_CHANNEL, "event_ts": clock }),
        0 => posted("C0#../../etc", clock),
        1 => posted(channel, "not a time"),
        2 => json!({ "type": "user_change", "user": { "id": "u/../x" }, "event_ts": clock }),
        3 => invented(channel, INVENTED_PERSON),
        4 => invented(INVENTED_CHANNEL, &user_id(0)),
        5 => invented(PRIVATE_CHANNEL, &user_id(0)),
        6 => event::user_change(INVENTED_PERSON, text, clock),
        _ => {
            json!({ "type": "message", "subtype": "message_changed", "channel": channel, "channel_type": "channel",
            "ts": clock, "event_ts": clock })
        }
    }
}
