//! Other organisations: workspaces whose people write in channels that this workspace shares with them.
//!
//! A row exists as soon as a message or a shared channel names the organisation. Its name comes from
//! `team.info`, which the directory sync asks for at most once a week.
//!
//! <https://docs.slack.dev/reference/methods/team.info>

use serde_json::Value;

use super::shown_text;
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use slack::ids::{TeamId, Ts};

/// The register of Slack's latest answer about an organisation: Slack's clock.
const ASKED: &str = "asked";

/// How long an answer is used, even if Slack did not show the organisation: a name rarely changes.
const ASK_EVERY_S: i64 = 7 * 86_400;

/// The sizes of an organisation's icon, the preferred one first.
const ICONS: [&str; 3] = ["image_68", "image_88", "image_44"];

/// The update that creates the row of an organisation that is only named.
pub fn named(team: &TeamId, organisation: &TeamId) -> Update {
    let identity =
        [("type", "organisation"), ("team_id", team.as_str()), ("organisation_id", organisation.as_str())];
    let set_if_absent = text_attributes(identity);
    Update { set_if_absent, ..Update::new(ItemKey::organisation(team, organisation)) }
}

/// The update with Slack's answer about an organisation: its team object, or `None` if Slack did not show it.
/// A refusal or an answer without a name keeps the known name.
pub fn answered(team: &TeamId, organisation: &TeamId, object: Option<&Value>, clock: &Ts) -> Update {
    let mut set = Attributes::new();
    let object = object.filter(|object| object["id"].as_str() == Some(organisation.as_str()));
    if let Some(object) = object
        && let Some(name) = shown_text(&object["name"])
    {
        let icon = ICONS.into_iter().find_map(|size| shown_text(&object["icon"][size]));
        set.insert("name".into(), name.into());
        for (name, text) in [("domain", shown_text(&object["domain"])), ("icon", icon)] {
            set.extend(text.map(|text| (name.to_owned(), text.into())));
        }
    }
    let is_named = set.contains_key("name");
    let remove = ["domain", "icon"].into_iter().filter(|name| is_named && !set.contains_key(*name)).collect();
    Update {
        guard: Guard::Greater { register: ASKED.into(), version: clock.padded() },
        remove,
        set,
        ..named(team, organisation)
    }
}

/// The name of an organisation, if Slack has shown it.
pub fn name(row: &Item) -> Option<&str> {
    row.text("name")
}

/// The organisation of a row about which Slack must be asked, by Slack's clock.
pub fn to_ask(row: &Item, now: &Ts) -> Option<TeamId> {
    let asked = row.text(ASKED).and_then(Ts::unpadded);
    let is_due = asked.is_none_or(|asked| now.micros() - asked.micros() >= ASK_EVERY_S * 1_000_000);
    TeamId::parse(&row.key.timestamp).ok().filter(|_| is_due)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{team, ts};

    fn other() -> TeamId {
        TeamId::parse("T2").unwrap()
    }

    #[test]
    fn slack_is_asked_about_an_organisation_once_a_week_even_if_it_shows_nothing() {
        let row = |attributes| Item { key: ItemKey::organisation(&team(), &other()), attributes };
        let new = row(named(&team(), &other()).apply(None).unwrap());
        assert_eq!(to_ask(&new, &ts(1_000)), Some(other()));
        for object in [None, Some(&json!({ "id": "T2", "name": "Acme" }))] {
            let answer = answered(&team(), &other(), object, &ts(1_000));
            let asked = row(answer.apply(Some(&new.attributes)).unwrap());
            assert_eq!(to_ask(&asked, &ts(1_000 + ASK_EVERY_S - 1)), None);
            assert_eq!(to_ask(&asked, &ts(1_000 + ASK_EVERY_S)), Some(other()));
        }
    }

    #[test]
    fn the_latest_answer_with_a_name_is_kept() {
        let answer = |object: Value, second| answered(&team(), &other(), Some(&object), &ts(second));
        let acme = json!({ "id": "T2", "name": "Acme", "domain": "acme", "icon": { "image_68": "https://a.test/68.png" } });
        let row = answer(acme, 1).apply(None).unwrap();
        assert_eq!((&row["name"], &row["domain"]), (&json!("Acme"), &json!("acme")));
        let long = "x".repeat(100_000);
        for odd in [
            json!({ "id": "T2" }),
            json!({ "id": "T2", "name": "" }),
            json!({ "id": "T2", "name": null, "domain": "x" }),
            json!({ "id": "T2", "name": long }),
            json!({ "id": "T3", "name": "another" }),
            json!([]),
            json!(null),
        ] {
            let row = answer(odd, 2).apply(Some(&row)).unwrap();
            assert_eq!((&row["name"], &row["domain"]), (&json!("Acme"), &json!("acme")));
        }
        let renamed =
            answer(json!({ "id": "T2", "name": "Acme Inc" , "icon": [1] }), 3).apply(Some(&row)).unwrap();
        assert_eq!((&renamed["name"], renamed.get("icon")), (&json!("Acme Inc"), None));
        assert_eq!(answer(json!({ "id": "T2", "name": "old" }), 2).apply(Some(&renamed)), None);
    }
}
