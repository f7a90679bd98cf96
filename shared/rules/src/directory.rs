//! Users and custom emoji.
//!
//! <https://docs.slack.dev/reference/events/user_change>,
//! <https://docs.slack.dev/reference/events/emoji_changed>

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::version::{VERSION, clock_version};
use super::{Change, MAX_NAME_BYTES, Malformed, SlackEvent, bot, checked_name, organisation, profile};
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use slack::envelope::{self, text_or_none};
use slack::ids::{TeamId, Ts, UserId};

/// The register of the earliest clock at which a user was seen.
pub(super) const EARLIEST: &str = "insert_timestamp";

/// The attributes of a user's register.
const USER: [&str; 9] =
    ["name", "real_name", "display_name", "tz", "tz_offset", "is_bot", "deleted", ORGANISATION, "raw_event"];

/// The attribute with the workspace of a person of another organisation.
pub const ORGANISATION: &str = "organisation";

/// The person of a row of the directory.
pub fn user(row: &Item) -> Option<UserId> {
    UserId::parse(row.text("user_id")?).ok()
}

/// The time zone of a person in a row of the directory.
pub fn time_zone(row: &Item) -> Option<&str> {
    row.text("tz")
}

/// The names of a person in a row of the directory, the one to show first.
pub fn names(row: &Item) -> impl Iterator<Item = &str> {
    ["display_name", "real_name", "name"].into_iter().filter_map(|name| row.text(name))
}

/// The real name of a person in a row of the directory.
pub fn real_name(row: &Item) -> Option<&str> {
    row.text("real_name")
}

/// What a row says of a custom emoji: the address of its picture, or `alias:` and another emoji's name.
/// `None` if the emoji was removed.
pub fn emoji_value(row: &Item) -> Option<&str> {
    row.text("value")
}

/// The key of the e-mail address, in a person and in their profile. Slack has it only for apps with a scope for it.
const EMAIL: &str = "email";

/// Returns a person's object without the e-mail address, which is never stored; `None` if it has none.
fn without_email(raw: &RawValue) -> Option<Box<RawValue>> {
    // The path of nearly every app.
    if !raw.get().contains("\"email\"") {
        return None;
    }
    let mut object = envelope::parse_value(raw.get()).ok()?;
    for pointer in ["", "/profile"] {
        if let Some(object) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
            object.remove(EMAIL);
        }
    }
    RawValue::from_string(object.to_string()).ok()
}

/// The beginning of the versions of people whom only messages describe. It is less than that of every clock,
/// so a person in Slack's directory outranks them at any time.
const DESCRIBED: char = '-';

/// The changes that a user event makes.
pub(super) fn user_changes(event: &SlackEvent<'_>) -> Result<Vec<Change>, Malformed> {
    let user = event.user("user")?;
    let raw = event.header.user_object().ok_or(Malformed::Missing { event: "user", field: "user object" })?;
    let updates = user_updates(&event.team, &user, raw, &event.clock())?;
    Ok(updates.into_iter().map(Change::Register).collect())
}

/// The updates of a user's row, without the e-mail address: the newest object wins, and the row keeps the earliest
/// clock at which the user was seen. Each distinct profile is also stored in its own row. If the object names an app's bot or
/// another organisation, the updates also write its row.
///
/// # Errors
/// [`Malformed`] if the object cannot be read: it must not replace a readable one.
pub fn user_updates(
    team: &TeamId,
    user: &UserId,
    raw: &RawValue,
    clock: &Ts,
) -> Result<Vec<Update>, Malformed> {
    let without_email = without_email(raw);
    let raw = without_email.as_deref().unwrap_or(raw);
    let object = envelope::parse_value(raw.get())?;
    let set = user_attributes(team, &object, raw.get());
    let profiles = profile::updates(team, user, raw, &set, clock);
    let of_bot = bot::update_from_user(team, user, &object, clock);
    let home = home_elsewhere(team, &object).map(|home| organisation::named(team, &home));
    let newest = register(team, user, set, clock_version(clock, raw.get()));
    let earliest = Update {
        guard: Guard::Less { register: EARLIEST.into(), version: clock.padded() },
        ..Update::new(ItemKey::user(team, user))
    };
    Ok([newest, earliest].into_iter().chain(profiles).chain(of_bot).chain(home).collect())
}

/// The update of the row of a person whom only a message describes, with an object as in the directory. Every
/// object of the directory outranks it, and an object with a name one without.
pub(super) fn described_update(team: &TeamId, user: &UserId, object: &Value, clock: &Ts) -> Update {
    let raw = object.to_string();
    let set = user_attributes(team, object, &raw);
    let rank = u8::from(["name", "real_name", "display_name"].iter().any(|name| set.contains_key(*name)));
    let version = format!("{DESCRIBED}{rank}{}", clock_version(clock, &raw));
    register(team, user, set, version)
}

/// The workspace of a person, if it is another one.
fn home_elsewhere(team: &TeamId, object: &Value) -> Option<TeamId> {
    let home = TeamId::parse(object["team_id"].as_str()?).ok()?;
    (home != *team && home.as_str().starts_with('T')).then_some(home)
}

fn user_attributes(team: &TeamId, object: &Value, raw: &str) -> Attributes {
    let mut set = Attributes::new();
    for (attribute, pointer) in [
        ("name", "/name"),
        ("real_name", "/real_name"),
        ("display_name", "/profile/display_name"),
        ("tz", "/tz"),
        ("tz_offset", "/tz_offset"),
        ("is_bot", "/is_bot"),
        ("deleted", "/deleted"),
    ] {
        // False and empty values are stored as absent attributes.
        match object.pointer(pointer) {
            None | Some(Value::Null | Value::Bool(false) | Value::Array(_) | Value::Object(_)) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(value @ (Value::Bool(true) | Value::Number(_) | Value::String(_))) => {
                set.insert(attribute.into(), value.clone());
            }
        }
    }
    if !set.contains_key("real_name")
        && let Some(name) = object.pointer("/profile/real_name").and_then(Value::as_str)
    {
        set.insert("real_name".into(), name.into());
    }
    set.extend(home_elsewhere(team, object).map(|home| (ORGANISATION.to_owned(), home.as_str().into())));
    set.insert("raw_event".into(), raw.into());
    set
}

fn register(team: &TeamId, user: &UserId, set: Attributes, version: String) -> Update {
    let identity =
        text_attributes([("type", "user"), ("team_id", team.as_str()), ("user_id", user.as_str())]);
    Update {
        guard: Guard::Greater { register: VERSION.into(), version },
        remove: USER.into_iter().filter(|name| !set.contains_key(*name)).collect(),
        set,
        set_if_absent: identity,
        ..Update::new(ItemKey::user(team, user))
    }
}

/// Validates a user as listed in Slack's directory, and returns the user's id.
///
/// # Errors
/// [`Malformed`] if the id is missing or malformed, or a name is longer than [`MAX_NAME_BYTES`].
pub fn listed_user(raw: &RawValue) -> Result<UserId, Malformed> {
    let user: ListedUser<'_> = envelope::read_object(raw)?;
    let id = user.id.ok_or(Malformed::Missing { event: "listed user", field: "id" })?;
    let profile: ListedProfile<'_> = user.profile.map(envelope::read_object).transpose()?.unwrap_or_default();
    let names = [user.name, user.real_name, profile.real_name, profile.display_name];
    if names.iter().flatten().any(|name| name.len() > MAX_NAME_BYTES) {
        return Err(Malformed::Name("user's name"));
    }
    Ok(UserId::parse(&id)?)
}

#[derive(Default, Deserialize)]
struct ListedUser<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    real_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    profile: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct ListedProfile<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    real_name: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    display_name: Option<Cow<'a, str>>,
}

/// Whether a listed user differs from the user's row. A listing that repeats itself every hour is not written
/// every hour.
pub fn is_user_changed(row: Option<&Item>, listed: &RawValue) -> bool {
    let Some(row) = row else { return true };
    let without_email = without_email(listed);
    let listed = without_email.as_deref().unwrap_or(listed);
    let Some(known) = row.text("raw_event") else { return !row.is_erased() };
    let value = |text: &str| envelope::parse_value(text).ok();
    known != listed.get() && (value(known) != value(listed.get()) || value(known).is_none())
}

#[derive(Default, Deserialize)]
struct EmojiChanged<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    value: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    old_name: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    new_name: Option<Cow<'a, str>>,
    #[serde(default)]
    names: Option<Value>,
}

/// Custom emoji that were added, removed or renamed. One register per name.
pub(super) fn emoji_changes(event: &SlackEvent<'_>) -> Result<Vec<Change>, Malformed> {
    let missing = |field| Malformed::Missing { event: "emoji_changed", field };
    let body: EmojiChanged<'_> = envelope::read_object(event.raw)?;
    let present = |name: Cow<'_, str>| emoji(event, &name, body.value.as_deref().or(Some("")));
    match event.header.subtype.as_deref() {
        Some("add") => Ok(vec![present(body.name.clone().ok_or(missing("name"))?)?]),
        Some("remove") => {
            let names = body.names.as_ref().and_then(Value::as_array).ok_or(missing("names"))?;
            names.iter().filter_map(Value::as_str).map(|name| emoji(event, name, None)).collect()
        }
        Some("rename") => Ok(vec![
            emoji(event, body.old_name.as_deref().ok_or(missing("old_name"))?, None)?,
            present(body.new_name.clone().ok_or(missing("new_name"))?)?,
        ]),
        // Before 2021 the event only stated that something had changed.
        Some(_) | None => Ok(Vec::new()),
    }
}

fn emoji(event: &SlackEvent<'_>, name: &str, value: Option<&str>) -> Result<Change, Malformed> {
    emoji_update(&event.team, name, value, &event.clock()).map(Change::Register)
}

/// The update of a custom emoji's row: its picture or the emoji it is an alias of; `None` if it was removed.
///
/// # Errors
/// [`Malformed`] if the name cannot be a key.
pub fn emoji_update(team: &TeamId, name: &str, value: Option<&str>, clock: &Ts) -> Result<Update, Malformed> {
    let name = checked_name(name, "emoji's name")?;
    let mut set = Attributes::new();
    if let Some(value) = value {
        set.insert("value".into(), value.into());
    }
    Ok(Update {
        guard: Guard::Greater {
            register: VERSION.into(),
            version: clock_version(clock, value.unwrap_or_default()),
        },
        remove: if value.is_none() { vec!["value"] } else { Vec::new() },
        set,
        set_if_absent: text_attributes([("type", "emoji"), ("team_id", team.as_str()), ("name", name)]),
        ..Update::new(ItemKey::emoji(team, name))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    #[test]
    fn a_listed_user_needs_an_id_and_names_of_a_sane_length() {
        for fine in [
            json!({ "id": "U1" }),
            json!({ "id": "U1", "name": 7, "profile": "none", "real_name": null }),
            json!({ "id": "U1", "name": "ada", "profile": { "display_name": "Ada", "image_72": ["?"] } }),
        ] {
            assert_eq!(listed_user(&raw(&fine)).unwrap().as_str(), "U1");
        }
        let long = "x".repeat(10_000);
        for odd in [
            json!({}),
            json!({ "id": 7 }),
            json!({ "id": "u#1" }),
            json!({ "id": "U1", "name": long }),
            json!({ "id": "U1", "profile": { "display_name": long } }),
            json!(["U1"]),
            json!("U1"),
            json!(null),
        ] {
            assert!(listed_user(&raw(&odd)).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_listed_user_with_reordered_fields_is_unchanged() {
        let (team, user) = (TeamId::parse("T1").unwrap(), UserId::parse("U1").unwrap());
        let listed: Box<RawValue> =
            serde_json::from_str(r#"{"id":"U1", "name":"ada", "updated": 1}"#).unwrap();
        let clock = Ts::parse("1.000000").unwrap();
        let update = user_updates(&team, &user, &listed, &clock).unwrap().remove(0);
        let row = Item { attributes: update.apply(None).unwrap(), key: update.key };
        assert!(is_user_changed(None, &listed));
        for same in [r#"{"id":"U1", "name":"ada", "updated": 1}"#, r#"{"updated":1,"name":"ada","id":"U1"}"#]
        {
            assert!(
                !is_user_changed(Some(&row), &serde_json::from_str::<Box<RawValue>>(same).unwrap()),
                "{same}"
            );
        }
        assert!(is_user_changed(Some(&row), &raw(&json!({ "id": "U1", "name": "ada", "updated": 2 }))));
        let only_a_picture = Item { attributes: Attributes::new(), ..row };
        assert!(is_user_changed(Some(&only_a_picture), &listed));
    }

    #[test]
    fn an_e_mail_address_is_in_no_row_and_is_no_change() {
        let (team, user) = (TeamId::parse("T1").unwrap(), UserId::parse("U1").unwrap());
        let clock = Ts::parse("1.000000").unwrap();
        let with = json!({ "id": "U1", "name": "ada", "email": "ada@x.test",
            "profile": { "display_name": "Ada", "email": "ada@x.test" } });
        let without = json!({ "id": "U1", "name": "ada", "profile": { "display_name": "Ada" } });
        let updates = user_updates(&team, &user, &raw(&with), &clock).unwrap();
        let written = format!("{updates:?}");
        assert!(written.contains("Ada") && !written.contains("x.test"), "{written}");
        let row = |object: &Value| {
            let update = user_updates(&team, &user, &raw(object), &clock).unwrap().remove(0);
            Item { attributes: update.apply(None).unwrap(), key: update.key }
        };
        assert!(!is_user_changed(Some(&row(&without)), &raw(&with)));
        assert!(!is_user_changed(Some(&row(&with)), &raw(&without)));
    }

    #[test]
    fn a_user_with_half_a_character_keeps_the_name_and_an_unreadable_object_is_rejected() {
        let (team, user) = (TeamId::parse("T1").unwrap(), UserId::parse("U1").unwrap());
        let clock = Ts::parse("1.000000").unwrap();
        let updates =
            |json: String| user_updates(&team, &user, &RawValue::from_string(json).unwrap(), &clock);
        let cut = r#"{"id":"U1","name":"ada","profile":{"display_name":"Ada","status_text":"cut \ud83d"}}"#;
        let set = updates(cut.to_owned()).unwrap().remove(0).set;
        assert_eq!((&set["name"], &set["display_name"]), (&json!("ada"), &json!("Ada")));
        let deep = format!(r#"{{"id":"U1","name":"ada","odd":{}{}}}"#, "[".repeat(300), "]".repeat(300));
        assert!(matches!(updates(deep), Err(Malformed::Unreadable(_))));
    }
}
