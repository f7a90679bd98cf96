//! What messages say about their authors in passing: the profile of a person, who may belong to another
//! organisation and be in no list of this workspace's people, and the bot of an app.
//!
//! These facts are stored in the rows of the person, the bot and the organisation, not in each message. All
//! sources lead to the same rows: the clock of a fact is the time of its message.
//!
//! <https://docs.slack.dev/apis/slack-connect/using-slack-connect-api>

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{bot, directory, organisation, shown_text, version};
use ports::archive::{Guard, ItemKey, Update};
use slack::envelope;
use slack::event::MessageObject;
use slack::ids::{SLACKBOT, TeamId, Ts, UserId};

/// Fields that name the author's workspace, the most reliable one first.
const HOMES: [&str; 3] = ["user_team", "team", "source_team"];

/// Names in a profile that are also names of a person in the directory.
const NAMES: [&str; 2] = ["name", "real_name"];

/// Texts of a profile that the profile of a person in the directory has too.
const PROFILE: [&str; 4] = ["real_name", "display_name", "image_72", "team"];

/// Flags of a profile that a person in the directory has too.
const FLAGS: [&str; 2] = ["is_restricted", "is_ultra_restricted"];

/// What a message object says about its author.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuthorFacts {
    user_profile: Value,
    homes: [Value; HOMES.len()],
    bot_profile: Value,
}

impl AuthorFacts {
    /// Takes the facts that are not stored in the message out of its object.
    pub(super) fn take(object: &mut Map<String, Value>) -> Self {
        Self {
            user_profile: object.remove("user_profile").unwrap_or_default(),
            homes: HOMES.map(|name| object.remove(name).unwrap_or_default()),
            bot_profile: object.get("bot_profile").cloned().unwrap_or_default(),
        }
    }

    /// Reads the facts in an event.
    fn read(object: &MessageObject<'_>) -> Self {
        let read = |raw: Option<&serde_json::value::RawValue>| {
            raw.and_then(|raw| envelope::parse_value(raw.get()).ok()).unwrap_or_default()
        };
        let homes = [&object.user_team, &object.team, &object.source_team];
        Self {
            user_profile: read(object.user_profile),
            homes: homes.map(|home| home.as_deref().into()),
            bot_profile: read(object.bot_profile),
        }
    }

    /// Whether they describe a bot.
    pub fn has_bot(&self) -> bool {
        self.bot_profile.is_object()
    }

    /// The updates of the rows of a person, their organisation and a bot, from a message of this author.
    pub fn updates(&self, team: &TeamId, author: Option<&UserId>, bot: Option<&str>, ts: &Ts) -> Vec<Update> {
        let author = author.filter(|author| author.as_str() != SLACKBOT);
        let mut updates = author.map(|author| self.person(team, author, ts)).unwrap_or_default();
        // The author of the message is checked, and no other bot.
        if bot.is_some() && self.bot_profile["id"].as_str() == bot {
            updates.extend(bot::update(team, &self.bot_profile, ts));
        }
        updates
    }

    fn person(&self, team: &TeamId, author: &UserId, ts: &Ts) -> Vec<Update> {
        let home = self.home();
        let is_elsewhere = home.as_ref().is_some_and(|home| home != team);
        if !self.user_profile.is_object() && !is_elsewhere {
            return Vec::new();
        }
        let mut person = json!({ "id": author, "profile": {} });
        if home.as_ref() != Some(team) {
            person["is_stranger"] = true.into();
        }
        for (name, text) in NAMES.map(|name| (name, shown_text(&self.user_profile[name]))) {
            person.as_object_mut().into_iter().for_each(|person| extend(person, name, text));
        }
        for (name, text) in PROFILE.map(|name| (name, shown_text(&self.user_profile[name]))) {
            person["profile"].as_object_mut().into_iter().for_each(|profile| extend(profile, name, text));
        }
        for flag in FLAGS.into_iter().filter(|flag| self.user_profile[*flag] == true) {
            person[flag] = true.into();
        }
        let mut updates = Vec::with_capacity(2);
        if let Some(home) = &home {
            person["team_id"] = home.as_str().into();
            updates.extend(is_elsewhere.then(|| organisation::named(team, home)));
        }
        updates.push(directory::described_update(team, author, &person, ts));
        updates
    }

    /// The workspace of the author. An id of an organisation is used only if no workspace is named.
    fn home(&self) -> Option<TeamId> {
        let homes = std::iter::once(&self.user_profile["team"]).chain(&self.homes);
        let homes: Vec<TeamId> = homes.filter_map(|home| TeamId::parse(home.as_str()?).ok()).collect();
        homes.iter().find(|home| home.as_str().starts_with('T')).or(homes.first()).cloned()
    }
}

fn extend(object: &mut Map<String, Value>, name: &str, text: Option<&str>) {
    object.extend(text.map(|text| (name.to_owned(), text.into())));
}

/// What the version of a message in an event says about its author.
pub(super) fn updates_from_event(team: &TeamId, object: &MessageObject<'_>) -> Vec<Update> {
    let Some(ts) = object.ts.as_deref().and_then(|ts| Ts::parse(ts).ok()) else { return Vec::new() };
    let author = object.person().and_then(|author| UserId::parse(&author).ok());
    AuthorFacts::read(object).updates(team, author.as_ref(), object.bot_id.as_deref(), &ts)
}

/// The update of the row of an author of whom nothing but the id is known.
pub fn unknown_person(team: &TeamId, author: &UserId) -> Update {
    directory::described_update(team, author, &json!({ "id": author, "is_stranger": true }), &version::zero())
}

/// The greatest update of each row, from many messages.
#[derive(Debug, Default)]
pub struct NewestUpdates(BTreeMap<ItemKey, Update>);

impl NewestUpdates {
    /// Maximum number of rows: more authors than an export has that no list contains, at one kilobyte each.
    const MAX_ROWS: usize = 50_000;

    /// Adds an update, unless a greater one of its row is known.
    pub fn add(&mut self, update: Update) {
        if self.0.len() >= Self::MAX_ROWS && !self.0.contains_key(&update.key) {
            return;
        }
        let version = |update: &Update| match &update.guard {
            Guard::Greater { version, .. } => version.clone(),
            Guard::Always | Guard::Less { .. } | Guard::Unchanged { .. } => String::new(),
        };
        match self.0.get_mut(&update.key) {
            Some(known) if version(known) >= version(&update) => {}
            Some(known) => *known = update,
            None => drop(self.0.insert(update.key.clone(), update)),
        }
    }

    /// The updates, one per row.
    pub fn into_updates(self) -> Vec<Update> {
        self.0.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::person::{AuthorKind, PersonFacts};
    use crate::fixture::{team, ts};
    use ports::archive::Item;

    fn updates(mut message: Value) -> Vec<Update> {
        let author = UserId::parse(message["user"].as_str().unwrap_or("U0EVE")).unwrap();
        let bot = message["bot_id"].as_str().map(str::to_owned);
        let facts = AuthorFacts::take(message.as_object_mut().unwrap());
        facts.updates(&team(), Some(&author), bot.as_deref(), &ts(100))
    }

    fn row(message: Value) -> Option<Item> {
        let update = updates(message).into_iter().find(|update| update.key.item_id == "user#T1")?;
        Some(Item { attributes: update.apply(None)?, key: update.key })
    }

    fn eve(profile: Value) -> Value {
        json!({ "user": "U0EVE", "text": "hi", "user_profile": profile })
    }

    #[test]
    fn a_profile_makes_the_row_of_a_person_of_another_organisation() {
        let profile = json!({ "display_name": "eve.p", "real_name": "Eve Partner", "name": "eve", "team": "T2",
            "first_name": "Eve", "is_restricted": false });
        let person = row(eve(profile.clone())).unwrap();
        assert_eq!(
            ["display_name", "real_name", "name"].map(|name| person.text(name).unwrap()),
            ["eve.p", "Eve Partner", "eve"]
        );
        assert_eq!(PersonFacts::read(&person, "T1").unwrap().kind, AuthorKind::Stranger);
        let keys: Vec<ItemKey> = updates(eve(profile)).into_iter().map(|update| update.key).collect();
        let other = TeamId::parse("T2").unwrap();
        assert_eq!(
            keys,
            [
                ItemKey::organisation(&team(), &other),
                ItemKey::user(&team(), &UserId::parse("U0EVE").unwrap())
            ]
        );
    }

    #[test]
    fn the_kind_of_a_described_person_follows_from_the_workspace_that_is_named() {
        let named = |message: Value| PersonFacts::read(&row(message).unwrap(), "T1").unwrap().kind;
        for (message, kind) in [
            (eve(json!({ "name": "eve", "team": "T1" })), AuthorKind::Member),
            (eve(json!({ "name": "eve", "team": "T1", "is_restricted": true })), AuthorKind::Guest),
            (eve(json!({ "name": "eve" })), AuthorKind::Stranger),
            (eve(json!({ "name": "eve", "team": "E1" })), AuthorKind::Stranger),
            (json!({ "user_profile": { "name": "eve", "team": "E1" }, "team": "T1" }), AuthorKind::Member),
            (json!({ "user_team": "T2" }), AuthorKind::Stranger),
            (json!({ "user_team": "T1", "team": "T2" , "user_profile": {} }), AuthorKind::Member),
        ] {
            assert_eq!(named(message.clone()), kind, "{message}");
        }
        assert_eq!(row(json!({ "team": "T1" })), None, "nothing is said about the author");
        assert!(updates(json!({ "user": SLACKBOT, "user_profile": { "name": "x" } })).is_empty());
    }

    #[test]
    fn the_directory_outranks_a_message_and_a_name_outranks_an_id() {
        let user = UserId::parse("U0EVE").unwrap();
        let raw = serde_json::value::to_raw_value(&json!({ "id": "U0EVE", "name": "eve" })).unwrap();
        let listed = directory::user_updates(&team(), &user, &raw, &version::zero()).unwrap().remove(0);
        let described = |second: i64, profile: Value| {
            let facts = AuthorFacts {
                user_profile: profile,
                homes: ["T2".into(), Value::Null, Value::Null],
                ..AuthorFacts::default()
            };
            facts.updates(&team(), Some(&user), None, &ts(second)).pop().unwrap()
        };
        let mut ascending = [
            unknown_person(&team(), &user),
            described(900, Value::Null),
            described(100, json!({ "name": "eva" })),
            described(200, json!({ "name": "eve" })),
            listed,
        ];
        let last =
            ascending.iter().fold(None, |row, update| Some(update.apply(row.as_ref()).unwrap())).unwrap();
        ascending.reverse();
        let mut row = None;
        for update in &ascending {
            row = update.apply(row.as_ref()).or(row);
        }
        assert_eq!(row, Some(last));
    }

    #[test]
    fn a_profile_of_another_shape_yields_no_names_and_does_not_hide_the_author() {
        let long = "x".repeat(100_000);
        for profile in [
            json!({ "display_name": null, "real_name": ["a"], "name": 7, "team": {} }),
            json!({ "display_name": long, "real_name": "", "team": "t#" }),
            json!({}),
        ] {
            let person = row(eve(profile.clone())).unwrap();
            assert_eq!(
                ["display_name", "real_name", "name"].map(|name| person.text(name)),
                [None; 3],
                "{profile}"
            );
            assert!(person.text("raw_event").unwrap().len() < 200);
        }
        for profile in [json!(null), json!([]), json!(["eve"]), json!(7), json!("eve")] {
            assert_eq!(row(eve(profile.clone())), None, "{profile}");
        }
    }

    #[test]
    fn only_the_bot_that_wrote_the_message_gets_a_row() {
        let bots =
            |message: Value| updates(message).iter().filter(|update| update.key.item_id == "bot#T1").count();
        let profile = json!({ "id": "B1", "name": "Jira", "user_id": "U1" });
        assert_eq!(bots(json!({ "bot_id": "B1", "bot_profile": profile })), 1);
        assert_eq!(bots(json!({ "bot_id": "B2", "bot_profile": profile })), 0);
        assert_eq!(bots(json!({ "bot_profile": profile })), 0);
        assert_eq!(bots(json!({ "bot_id": "B1", "bot_profile": ["B1"] })), 0);
    }

    #[test]
    fn of_many_updates_of_a_row_the_greatest_is_written() {
        let user = UserId::parse("U0EVE").unwrap();
        let at = |second: i64, name: &str| {
            let facts =
                AuthorFacts { user_profile: json!({ "name": name, "team": "T2" }), ..AuthorFacts::default() };
            facts.updates(&team(), Some(&user), None, &ts(second))
        };
        for order in [[1, 3, 2], [3, 2, 1], [2, 1, 3]] {
            let mut newest = NewestUpdates::default();
            order
                .into_iter()
                .flat_map(|second| at(second, &format!("eve-{second}")))
                .for_each(|update| newest.add(update));
            let names: Vec<Value> =
                newest.into_updates().iter().filter_map(|update| update.set.get("name").cloned()).collect();
            assert_eq!(names, ["eve-3"]);
        }
    }
}
