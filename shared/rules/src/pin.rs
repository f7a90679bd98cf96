//! Pins: one register per message, which contains the newest change and the person who made it.
//!
//! A change that an event reports has the event's clock. A pin that Slack lists has clock 0, so that every
//! event wins over it, and a missing pin removes nothing. The register may exist before the message does.
//!
//! Each pin also leaves a mark that is never removed: [`crate::project::is_pinned`] says for the row of a
//! marked message whether it is pinned now.
//!
//! <https://docs.slack.dev/reference/events/pin_added>

use serde_json::{Map, Value, json};

use super::{Change, Malformed, SlackEvent, message, version};
use ports::archive::{Attributes, Guard, Item, ItemKey, Update};
use slack::catalogue::PinChange;
use slack::ids::{ChannelId, TeamId, Ts, UserId};

/// The register of a message's pin: the clock of the change, what it was, the time of the pin, and the
/// person.
const REGISTER: &str = "pin";

const ADDED: &str = "added";
const REMOVED: &str = "removed";

/// The change that a pin event makes to its message.
pub(super) fn changes(event: &SlackEvent<'_>, change: PinChange) -> Result<Vec<Change>, Malformed> {
    let missing = |field| Malformed::Missing { event: "pin", field };
    let channel = event.channel()?;
    let ts = event.header.item().and_then(|item| item.ts()).ok_or(missing("item.message.ts"))?;
    let ts = Ts::of_message(&ts)?;
    let user = event.user("pin")?;
    // At one clock, removed wins over added: any fixed order will do.
    let state = match change {
        PinChange::Added => ADDED,
        PinChange::Removed => REMOVED,
    };
    let clock = event.clock();
    let version = version_text(&clock, state, &clock, user.as_str());
    let updates = updates(&event.team, &channel, &ts, version);
    Ok(updates.into_iter().map(Change::Register).collect())
}

/// A pin that Slack lists: when the message was pinned, and by whom. Old exports state neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPin {
    at: Ts,
    user: Option<UserId>,
}

impl ListedPin {
    /// The updates that store the pin of a message.
    pub fn updates(&self, team: &TeamId, channel: &ChannelId, ts: &Ts) -> [Update; 2] {
        let user = self.user.as_ref().map_or("", UserId::as_str);
        updates(team, channel, ts, version_text(&version::zero(), ADDED, &self.at, user))
    }
}

/// The pin in a message object of history: `pinned_to` lists the channels in which it is pinned.
pub(super) fn listed(channel: &ChannelId, object: &Map<String, Value>) -> Option<ListedPin> {
    let is_channel = |value: &Value| value.as_str() == Some(channel.as_str());
    let info = object.get("pinned_info").filter(|info| info.get("channel").is_none_or(is_channel));
    let is_listed = match object.get("pinned_to") {
        Some(Value::Array(channels)) => channels.iter().any(is_channel),
        Some(one) => is_channel(one),
        None => false,
    };
    let is_pinned = is_listed || info.is_some_and(|info| info.get("channel").is_some());
    is_pinned.then(|| {
        let member = |name| info.and_then(|info| info.get(name));
        pin_of(member("pinned_ts"), member("pinned_by"))
    })
}

/// The message and the pin in an item of `pins.list`; `None` for a file, which no message of the channel
/// shows.
///
/// <https://docs.slack.dev/reference/methods/pins.list>
pub fn in_list(item: &Value) -> Option<(Ts, ListedPin)> {
    let ts = Ts::of_message(item.pointer("/message/ts")?.as_str()?).ok()?;
    Some((ts, pin_of(item.get("created"), item.get("created_by"))))
}

fn pin_of(at: Option<&Value>, user: Option<&Value>) -> ListedPin {
    let at = match at {
        Some(Value::Number(seconds)) => seconds.as_i64().and_then(|s| Ts::parse(&format!("{s}.000000")).ok()),
        Some(Value::String(text)) => Ts::parse(text).or_else(|_| Ts::parse(&format!("{text}.000000"))).ok(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
    };
    let user = user.and_then(Value::as_str).and_then(|user| UserId::parse(user).ok());
    ListedPin { at: at.unwrap_or_else(version::zero), user }
}

fn version_text(clock: &Ts, state: &str, at: &Ts, user: &str) -> String {
    format!("{}/{state}/{}/{user}", clock.padded(), at.padded())
}

fn updates(team: &TeamId, channel: &ChannelId, ts: &Ts, version: String) -> [Update; 2] {
    let pin = Update {
        guard: Guard::Greater { register: REGISTER.into(), version },
        set_if_absent: message::identity(team, channel, ts),
        ..Update::new(ItemKey::message(team, channel, ts))
    };
    [pin, Update::mark(ItemKey::pin(team, channel, ts))]
}

/// A person's place in the register after they were erased. It is greater than any id.
const ERASED: &str = "~";

/// The update that erases the person from the pin of a message, if they pinned it, or removed the pin, before
/// `until`. The pin stays.
pub fn without_person(row: &Item, user: &UserId, until: &Ts) -> Option<Update> {
    let version = row.text(REGISTER)?;
    let (kept, found) = version.rsplit_once('/')?;
    let at = kept.rsplit_once('/').and_then(|(_, at)| Ts::unpadded(at))?;
    (found == user.as_str() && at < *until).then(|| Update {
        guard: Guard::Greater { register: REGISTER.into(), version: format!("{kept}/{ERASED}") },
        ..Update::new(row.key.clone())
    })
}

/// Whether an attribute is the register of the pin.
pub(super) fn is_register(name: &str) -> bool {
    name == REGISTER
}

/// The pin that a message has now: `{"user", "ts"}`, without what is not known.
pub(super) fn project(attributes: &Attributes) -> Option<Value> {
    let mut parts = attributes.get(REGISTER)?.as_str()?.splitn(4, '/').skip(1);
    if parts.next()? != ADDED {
        return None;
    }
    let mut pin = json!({});
    let at = parts.next().and_then(Ts::unpadded).filter(|at| *at != version::zero());
    if let Some(at) = at {
        pin["ts"] = at.as_str().into();
    }
    if let Some(user) = parts.next().filter(|user| !user.is_empty() && *user != ERASED) {
        pin["user"] = user.into();
    }
    Some(pin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{channel, team, ts, with_event};
    use crate::project;

    const BEGAN_S: i64 = 1_700_000_000;

    fn event(kind: &str, second: i64, user: &str) -> Vec<Update> {
        let event = json!({
            "type": kind, "user": user, "channel_id": "C1", "event_ts": format!("{}.000100", BEGAN_S + second),
            "item": { "type": "message", "channel": "C1", "created": BEGAN_S + second, "created_by": user,
                "message": { "ts": "1700000005.000000", "text": "a", "pinned_to": ["C1"] } },
        });
        let changes = with_event(event, |event| event.changes()).unwrap();
        changes
            .into_iter()
            .map(|change| match change {
                Change::Register(update) => update,
                Change::Content(_) => panic!("a pin is no content"),
            })
            .collect()
    }

    fn history(object: Value) -> Option<Vec<Update>> {
        let Value::Object(object) = object else { panic!("no object") };
        Some(listed(&channel("C1"), &object)?.updates(&team(), &channel("C1"), &ts(BEGAN_S + 5)).into())
    }

    /// The row of the message after these updates in any order, and its pin.
    fn pinned(updates: &[Vec<Update>]) -> Option<Value> {
        let mut rows = Vec::new();
        for turn in 0..updates.len() * 2 {
            let mut order: Vec<&Update> = updates.iter().flatten().collect();
            order.rotate_left(turn % updates.len().max(1));
            if turn >= updates.len() {
                order.reverse();
            }
            let mut row: Option<Attributes> = None;
            for update in order.iter().chain(&order) {
                if update.key == ItemKey::message(&team(), &channel("C1"), &ts(BEGAN_S + 5)) {
                    row = update.apply(row.as_ref()).or(row);
                }
            }
            rows.push(row.unwrap());
        }
        assert!(rows.iter().all(|row| *row == rows[0]), "{rows:?}");
        let row = Item {
            key: ItemKey::message(&team(), &channel("C1"), &ts(BEGAN_S + 5)),
            attributes: rows[0].clone(),
        };
        assert_eq!(project::message(&row), None, "it waits for its message");
        project(&row.attributes)
    }

    #[test]
    fn the_newest_change_wins_in_any_order_and_a_listed_pin_is_older_than_any_event() {
        let (added, removed) = (event("pin_added", 10, "U1"), event("pin_removed", 20, "U2"));
        let again = event("pin_added", 30, "U3");
        let stale =
            history(json!({ "pinned_to": ["C1"], "pinned_info": { "channel": "C1", "pinned_by": "U9",
            "pinned_ts": BEGAN_S + 40 } }))
            .unwrap();
        assert_eq!(
            pinned(std::slice::from_ref(&added)),
            Some(json!({ "user": "U1", "ts": "1700000010.000100" }))
        );
        assert_eq!(pinned(&[added.clone(), removed.clone()]), None);
        assert_eq!(pinned(&[added.clone(), removed.clone(), stale.clone()]), None);
        assert_eq!(
            pinned(&[removed, added, again, stale.clone()]),
            Some(json!({ "user": "U3", "ts": "1700000030.000100" }))
        );
        assert_eq!(pinned(&[stale]), Some(json!({ "user": "U9", "ts": "1700000040.000000" })));
    }

    #[test]
    fn a_listed_pin_is_read_from_every_shape_that_slack_uses() {
        let unknown = Some(json!({}));
        for (object, expected) in [
            (json!({ "pinned_to": ["C1"] }), unknown.clone()),
            (json!({ "pinned_to": "C1" }), unknown.clone()),
            (json!({ "pinned_to": ["C2", "C1"], "pinned_info": null }), unknown.clone()),
            (
                json!({ "pinned_to": ["C1"], "pinned_info": { "pinned_by": 7, "pinned_ts": [] } }),
                unknown.clone(),
            ),
            (json!({ "pinned_to": ["C1"], "pinned_info": { "channel": "C2", "pinned_by": "U2" } }), unknown),
            (
                json!({ "pinned_info": { "channel": "C1", "pinned_by": "U2", "pinned_ts": "1700000000" } }),
                Some(json!({ "user": "U2", "ts": "1700000000.000000" })),
            ),
            (json!({ "pinned_to": ["C2"], "pinned_info": { "channel": "C2", "pinned_by": "U2" } }), None),
            (json!({ "pinned_to": [], "pinned_info": {} }), None),
            (json!({ "pinned_to": null, "pinned_info": [] }), None),
            (json!({ "text": "a" }), None),
        ] {
            assert_eq!(history(object.clone()).and_then(|pin| pinned(&[pin])), expected, "{object}");
        }
    }

    #[test]
    fn two_listed_pins_leave_the_same_row_in_any_order() {
        let pin = |by: &str, at: i64| {
            history(json!({ "pinned_to": ["C1"], "pinned_info": { "channel": "C1", "pinned_by": by, "pinned_ts": BEGAN_S + at } }))
                .unwrap()
        };
        let later = pinned(&[pin("U1", 20), pin("U2", 10), history(json!({ "pinned_to": ["C1"] })).unwrap()]);
        assert_eq!(later, Some(json!({ "user": "U1", "ts": "1700000020.000000" })));
    }

    #[test]
    fn an_erased_person_does_not_return_with_the_same_event() {
        let event = &event("pin_added", 10, "U1")[0];
        let attributes = event.apply(None).unwrap();
        let row = Item { key: event.key.clone(), attributes };
        let user = UserId::parse("U1").unwrap();
        assert_eq!(without_person(&row, &user, &ts(BEGAN_S + 10)), None, "it is not before the time");
        assert_eq!(without_person(&row, &UserId::parse("U2").unwrap(), &ts(BEGAN_S + 99)), None);
        let erased =
            without_person(&row, &user, &ts(BEGAN_S + 99)).unwrap().apply(Some(&row.attributes)).unwrap();
        assert!(!json!(erased).to_string().contains("U1"));
        assert_eq!(project(&erased), Some(json!({ "ts": "1700000010.000100" })));
        assert_eq!(event.apply(Some(&erased)), None);
        let row = Item { attributes: erased, ..row };
        assert_eq!(without_person(&row, &user, &ts(BEGAN_S + 99)), None);
    }

    #[test]
    fn an_item_of_a_list_is_a_message_and_a_pinned_file_is_not() {
        let item = json!({ "type": "message", "created": BEGAN_S + 10, "created_by": "U1", "channel": "C1",
            "message": { "ts": "1700000005.000000" } });
        let (found, pin) = in_list(&item).unwrap();
        assert_eq!(
            (found, pin),
            (ts(BEGAN_S + 5), ListedPin { at: ts(BEGAN_S + 10), user: UserId::parse("U1").ok() })
        );
        for other in [
            json!({ "type": "file", "file": { "id": "F1" } }),
            json!({ "message": { "ts": 5 } }),
            json!({ "message": { "ts": "5.000000" } }),
            json!([7]),
        ] {
            assert_eq!(in_list(&other), None, "{other}");
        }
    }

    #[test]
    fn a_pin_event_needs_its_message_and_a_pinned_file_is_ignored() {
        let read = |item: Value| {
            let event = json!({ "type": "pin_added", "user": "U1", "channel_id": "C1", "event_ts": "1700000009.000000", "item": item });
            with_event(event, |event| event.changes().map(|changes| changes.len()))
        };
        assert_eq!(read(json!({ "type": "message", "channel": "C1", "ts": "1700000005.000000" })), Ok(2));
        assert_eq!(read(json!({ "message": { "ts": "1700000005.000000" } })), Ok(2));
        assert_eq!(read(json!({ "type": "file", "file": { "id": "F1" } })), Ok(0));
        for malformed in [
            json!({ "type": "message" }),
            json!(null),
            json!({ "message": { "ts": "x" } }),
            json!({ "message": { "ts": "170000000.000100" } }),
            json!([]),
        ] {
            assert!(read(malformed.clone()).is_err(), "{malformed}");
        }
        assert!(
            read(json!({ "type": "message", "channel": "C2", "message": { "ts": "1700000005.000000" } }))
                .is_err()
        );
    }
}
