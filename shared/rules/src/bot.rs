//! The bots of apps: messages that an app posts without a user have only the id of its bot. A bot's row has
//! the name under which such messages are shown.
//!
//! <https://docs.slack.dev/reference/methods/bots.info>

use serde_json::Value;

use super::shown_text;
use super::version::{VERSION, clock_version};
use ports::archive::{Attributes, Guard, ItemKey, Update, text_attributes};
use slack::ids::{TeamId, Ts, UserId};

/// The attributes of a bot's register.
const BOT: [&str; 4] = ["name", "app_id", "user_id", "icon"];

/// The sizes of a bot's icon, the preferred one first.
const ICONS: [&str; 3] = ["image_72", "image_48", "image_36"];

/// The update of a bot's row from a bot object: the answer of `bots.info`, or the `bot_profile` of a message.
/// `None` if it has no id or no name.
pub fn update(team: &TeamId, object: &Value, clock: &Ts) -> Option<Update> {
    let mut set = Attributes::new();
    set.insert("name".into(), shown_text(&object["name"])?.into());
    let user = shown_text(&object["user_id"]).filter(|user| UserId::parse(user).is_ok());
    let icon = ICONS.into_iter().find_map(|size| shown_text(&object["icons"][size]));
    for (name, text) in [("app_id", shown_text(&object["app_id"])), ("user_id", user), ("icon", icon)] {
        set.extend(text.map(|text| (name.to_owned(), text.into())));
    }
    register(team, &object["id"], object, set, clock)
}

/// The update of the row of the bot that an app's user in the directory names. `None` for other users.
pub(super) fn update_from_user(team: &TeamId, user: &UserId, object: &Value, clock: &Ts) -> Option<Update> {
    let profile = &object["profile"];
    let names = [&profile["display_name"], &object["real_name"], &profile["real_name"], &object["name"]];
    let mut set = text_attributes([("user_id", user.as_str())]);
    set.insert("name".into(), names.into_iter().find_map(shown_text)?.into());
    for (name, text) in [("app_id", &profile["api_app_id"]), ("icon", &profile["image_72"])] {
        set.extend(shown_text(text).map(|text| (name.to_owned(), text.into())));
    }
    register(team, &profile["bot_id"], object, set, clock)
}

/// The newest object wins, by the time at which Slack last changed it.
fn register(team: &TeamId, id: &Value, object: &Value, set: Attributes, clock: &Ts) -> Option<Update> {
    let bot = UserId::parse(id.as_str()?).ok()?;
    let updated = object["updated"].as_i64().and_then(|second| Ts::parse(&format!("{second}.000000")).ok());
    // An object cannot be newer than what carries it.
    let changed = updated.map_or_else(|| clock.clone(), |updated| updated.min(clock.clone()));
    let version = clock_version(&changed, &Value::Object(set.clone()).to_string());
    Some(Update {
        guard: Guard::Greater { register: VERSION.into(), version },
        remove: BOT.into_iter().filter(|name| !set.contains_key(*name)).collect(),
        set,
        set_if_absent: text_attributes([
            ("type", "bot"),
            ("team_id", team.as_str()),
            ("bot_id", bot.as_str()),
        ]),
        ..Update::new(ItemKey::bot(team, &bot))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{team, ts};

    fn user_bot(object: &Value) -> Option<Update> {
        update_from_user(&team(), &UserId::parse("U0JIRA").unwrap(), object, &ts(500))
    }

    #[test]
    fn a_bot_has_the_name_of_its_object_or_of_its_user() {
        let object = json!({ "id": "B0JIRA", "name": "Jira", "app_id": "A1", "user_id": "U0JIRA", "updated": 100,
            "icons": { "image_48": "https://a.test/48.png" } });
        let row = update(&team(), &object, &ts(500)).unwrap().apply(None).unwrap();
        assert_eq!(
            ["name", "app_id", "user_id", "icon"].map(|name| row[name].as_str().unwrap()),
            ["Jira", "A1", "U0JIRA", "https://a.test/48.png"]
        );
        let user = json!({ "id": "U0JIRA", "name": "jira", "real_name": "Jira Cloud",
            "profile": { "display_name": "", "bot_id": "B0JIRA", "api_app_id": "A1" } });
        let renamed = user_bot(&user).unwrap();
        assert_eq!(renamed.key, ItemKey::bot(&team(), &UserId::parse("B0JIRA").unwrap()));
        let row = renamed.apply(Some(&row)).unwrap();
        assert_eq!((&row["name"], row.get("icon")), (&json!("Jira Cloud"), None), "the newest object wins");
    }

    #[test]
    fn an_object_is_not_newer_than_what_carries_it() {
        let version = |updated: Value| {
            let object = json!({ "id": "B1", "name": "a", "updated": updated });
            let row = update(&team(), &object, &ts(500)).unwrap().apply(None).unwrap();
            row[VERSION].as_str().unwrap()[..19].to_owned()
        };
        assert_eq!(version(json!(100)), ts(100).padded());
        for odd in [json!(9_999_999), json!(null), json!("100"), json!(-5), json!(1e300), json!([1])] {
            assert_eq!(version(odd.clone()), ts(500).padded(), "{odd}");
        }
    }

    #[test]
    fn an_object_without_an_id_or_a_name_of_a_sane_length_makes_no_row() {
        let long = "x".repeat(100_000);
        for odd in [
            json!(null),
            json!([]),
            json!("B1"),
            json!({ "id": "B1" }),
            json!({ "id": "b#1", "name": "a" }),
            json!({ "id": 7, "name": "a" }),
            json!({ "id": "B1", "name": "" }),
            json!({ "id": "B1", "name": long }),
            json!({ "id": "B1", "name": ["a"] }),
        ] {
            assert_eq!(update(&team(), &odd, &ts(500)), None, "{odd}");
        }
        let odd = json!({ "id": "B1", "name": "a", "icons": [7], "user_id": "u#", "app_id": long });
        assert_eq!(update(&team(), &odd, &ts(500)).unwrap().set, text_attributes([("name", "a")]));
        for person in [json!({ "name": "ana" }), json!({ "name": "ana", "profile": { "bot_id": null } })] {
            assert_eq!(user_bot(&person), None);
        }
    }
}
