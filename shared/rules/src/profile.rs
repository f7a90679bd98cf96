//! The profiles that a user has had: one row for each distinct profile, so that a new profile does not
//! overwrite the old one. Each row is a function of the events alone, so no order of the events loses a
//! profile.

use serde_json::Value;
use serde_json::value::RawValue;

use super::version::{clock_version, hash};
use super::view::PersonView;
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use slack::envelope;
use slack::ids::{TeamId, Ts, UserId};

/// When the user had this profile for the first and for the last time that is known.
const FIRST: &str = "first_ts";
const LAST: &str = "last_ts";

/// Fields that change many times a day and do not identify a user: a change of them does not make a new
/// profile.
const VOLATILE: [&str; 2] = ["updated", "presence"];
const VOLATILE_IN_PROFILE: [&str; 2] = ["status_", "huddle_state"];

/// The updates that store a profile in addition to the user's others; `set` has the attributes of the user's
/// row.
pub(super) fn updates(
    team: &TeamId,
    user: &UserId,
    raw: &RawValue,
    set: &Attributes,
    clock: &Ts,
) -> [Update; 2] {
    let key = ItemKey::profile(team, user, &lasting(raw));
    let identity =
        text_attributes([("type", "profile"), ("team_id", team.as_str()), ("user_id", user.as_str())]);
    let last = Update {
        // If one profile had several statuses, the row keeps the last one.
        guard: Guard::Greater { register: LAST.into(), version: clock_version(clock, raw.get()) },
        set: set.clone(),
        set_if_absent: identity,
        ..Update::new(key.clone())
    };
    let first =
        Update { guard: Guard::Less { register: FIRST.into(), version: clock.padded() }, ..Update::new(key) };
    [last, first]
}

/// A hash of the fields of a profile that are not volatile.
fn lasting(raw: &RawValue) -> String {
    let Ok(Value::Object(mut object)) = envelope::parse_value(raw.get()) else {
        return hash(raw.get());
    };
    object.retain(|name, _| !VOLATILE.contains(&name.as_str()));
    if let Some(profile) = object.get_mut("profile").and_then(Value::as_object_mut) {
        profile.retain(|name, _| !VOLATILE_IN_PROFILE.iter().any(|volatile| name.starts_with(volatile)));
    }
    hash(&Value::Object(object).to_string())
}

/// A profile as readers see it, with its times as Slack writes them.
pub fn projected(item: &Item) -> PersonView {
    let mut visible = item.clone();
    for name in [FIRST, LAST] {
        if let Some(time) = item.text(name).and_then(unpadded) {
            visible.attributes.insert(name.into(), time.as_str().into());
        }
    }
    visible.to_json().into()
}

/// The time at the beginning of a register, as Slack writes it.
pub(super) fn unpadded(register: &str) -> Option<Ts> {
    Ts::unpadded(register.split('/').next()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::directory::user_updates;

    /// The rows after these profiles, each written at its clock.
    fn rows(profiles: &[(&Value, &str)]) -> BTreeMap<ItemKey, Attributes> {
        let (team, user) = (TeamId::parse("T1").unwrap(), UserId::parse("U1").unwrap());
        let mut rows: BTreeMap<ItemKey, Attributes> = BTreeMap::new();
        for (object, clock) in profiles {
            let raw = serde_json::value::to_raw_value(object).unwrap();
            for update in user_updates(&team, &user, &raw, &Ts::parse(clock).unwrap()).unwrap() {
                if let Some(applied) = update.apply(rows.get(&update.key)) {
                    rows.insert(update.key, applied);
                }
            }
        }
        rows
    }

    fn seen(profiles: &[(&Value, &str)]) -> Vec<[String; 3]> {
        let kept = rows(profiles).into_iter().filter(|(key, _)| key.item_id == "userhistory#T1#U1");
        let mut seen: Vec<[String; 3]> = kept
            .map(|(key, attributes)| {
                let row = projected(&Item { key, attributes });
                ["name", FIRST, LAST].map(|name| row.as_json()[name].as_str().unwrap().to_owned())
            })
            .collect();
        seen.sort();
        seen
    }

    #[test]
    fn a_profile_that_is_replaced_is_kept_in_any_order() {
        let profile = |name: &str, status: &str, updated: u32| {
            json!({ "id": "U1", "name": name, "updated": updated,
                "profile": { "status_text": status, "status_emoji": ":tea:", "huddle_state": status } })
        };
        let (ada, lunch, pwned) =
            (profile("ada", "", 1), profile("ada", "lunch", 2), profile("pwned", "", 3));
        let profiles = [(&ada, "1.000000"), (&lunch, "2.000000"), (&pwned, "3.000000"), (&ada, "4.000000")];
        let expected = [["ada", "1.000000", "4.000000"], ["pwned", "3.000000", "3.000000"]];
        let forwards = rows(&profiles);
        assert_eq!(seen(&profiles), expected);
        let mut backwards = profiles;
        backwards.reverse();
        assert_eq!(rows(&backwards), forwards);
    }

    #[test]
    fn a_profile_that_is_not_an_object_is_kept_too() {
        assert_eq!(rows(&[(&json!("text"), "1.000000"), (&json!(7), "2.000000")]).len(), 3);
    }
}
