//! Checks that every entity an event writes is among its claimed entities, for events that Slack sends and
//! for events it never would.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ports::archive::{Guard, Update};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use rules::channel::ChannelEvent;
use rules::{Change, gap};

use super::*;

const TEAM: &str = "T024BE7LD";

/// The workspaces, channels, people and bots that a row names in its key and its attributes.
fn named_by(update: &Update) -> BTreeSet<Entity> {
    let key: Vec<&str> = update.key.item_id.split('#').collect();
    let team = |id: &str| TeamId::parse(id).expect("a team's id in a key");
    let user =
        |team_id: &str, id: &str| Entity::User(team(team_id), UserId::parse(id).expect("a person's id"));
    let mut named = BTreeSet::new();
    match key[..] {
        ["message", team_id, channel] | ["revision", team_id, channel, _] | ["channel", team_id, channel] => {
            let channel = ChannelId::parse(channel).expect("a channel's id in a key");
            named.extend([Entity::Team(team(team_id)), Entity::Channel(team(team_id), channel)]);
        }
        ["user", team_id] => {
            named.extend([Entity::Team(team(team_id)), user(team_id, &update.key.timestamp)])
        }
        ["userhistory", team_id, id] => named.extend([Entity::Team(team(team_id)), user(team_id, id)]),
        ["meta", team_id, "joined", channel] => {
            let channel = ChannelId::parse(channel).expect("a channel's id in a key");
            named.extend([Entity::Team(team(team_id)), Entity::Channel(team(team_id), channel)]);
        }
        ["gap", team_id] => {
            named.insert(Entity::Team(team(team_id)));
            let channel_part = update
                .key
                .timestamp
                .split('#')
                .next()
                .filter(|channel_part| *channel_part != gap::ALL_CHANNELS);
            let channel = channel_part
                .map(|channel_part| ChannelId::parse(channel_part).expect("a channel's id in a key"));
            named.extend(channel.map(|channel| Entity::Channel(team(team_id), channel)));
        }
        ["file", team_id] | ["meta", team_id, "emoji" | "workspace"] => {
            named.extend([Entity::Team(team(team_id))])
        }
        _ => panic!("a row of a kind that this test does not know: {:?}", update.key),
    }
    let attribute =
        |name: &str| update.set.get(name).or(update.set_if_absent.get(name)).and_then(|value| value.as_str());
    if key[0] == "message" || key[0] == "revision" {
        let author = attribute("user").filter(|author| !author.is_empty() && *author != SLACKBOT);
        named.extend(author.map(|author| user(key[1], author)));
        let bot =
            attribute("bot_id").filter(|bot| !bot.is_empty() && attribute("user").is_none_or(str::is_empty));
        named.extend(bot.map(|bot| Entity::Bot(team(key[1]), UserId::parse(bot).expect("a bot's id"))));
        let guarded = match &update.guard {
            Guard::Greater { register, .. }
            | Guard::Less { register, .. }
            | Guard::Unchanged { register, .. } => Some(register),
            Guard::Always => None,
        };
        let registers = update.set.keys().chain(update.set_if_absent.keys()).chain(guarded);
        let people = registers.filter_map(|name| Some(name.strip_prefix("reaction#")?.rsplit_once('#')?.1));
        let pinned = match &update.guard {
            Guard::Greater { register, version } if register == "pin" => version.rsplit('/').next(),
            Guard::Greater { .. } | Guard::Less { .. } | Guard::Unchanged { .. } | Guard::Always => None,
        };
        named.extend(
            people.chain(pinned).filter(|person| *person != SLACKBOT).map(|person| user(key[1], person)),
        );
    }
    named
}

/// Checks an event against its claimed entities; returns whether it writes anything.
fn check(event: &str) -> Result<bool, String> {
    let body = format!(r#"{{"team_id":"{TEAM}","type":"event_callback","event":{event}}}"#);
    let Ok(envelope) = Envelope::peek(body.as_bytes()) else { return Ok(false) };
    let Ok(event) = SlackEvent::read(&envelope) else { return Ok(false) };
    // An event with unreadable claims is quarantined.
    let Ok(entities) = EventEntities::from_event(&event, &envelope, TimestampMs(0)) else { return Ok(false) };
    let people = entities.people.iter().map(|person| &person.entity);
    let asked: BTreeSet<&Entity> =
        people.chain(&entities.channels).chain(&entities.former).chain([&entities.team]).collect();
    let changes = event.changes().unwrap_or_default();
    let written = changes.iter().map(|change| match change {
        Change::Content(content) => content.if_absent().clone(),
        Change::Register(update) => update.clone(),
    });
    let inserts = ChannelEvent::read(&event)
        .ok()
        .flatten()
        .map(|channel_event| channel_event.inserts())
        .unwrap_or_default();
    // A changed history is stored only for a channel that has the public mark.
    let needs_mark = event.rule() == Some(EventRule::Gap(GapKind::HistoryChanged));
    let joined = gap::joined(&event).ok().flatten();
    let gaps = joined.into_iter().chain(gap::facts(&event).unwrap_or_default()).filter(|_| !needs_mark);
    let mut writes = false;
    for update in written.chain(inserts).chain(gaps) {
        writes = true;
        for named in named_by(&update) {
            if !asked.contains(&named) {
                return Err(format!("{named} is written to {:?} and was not asked about", update.key));
            }
        }
    }
    Ok(writes)
}

/// A field of an event or of a nested message, as JSON. The same field may occur twice, with any type.
fn field(depth: u32) -> BoxedStrategy<String> {
    let one_of = |values: &'static [&'static str]| select(values);
    let named = |names: &'static [&'static str], values: &'static [&'static str]| {
        (select(names), one_of(values)).prop_map(|(name, value)| format!("\"{name}\":{value}")).boxed()
    };
    let clocks = &["\"1700000000.000100\"", "\"1700000001.000000\"", "\"x\"", "7", "null"];
    let subtypes = &[
        "\"message_changed\"",
        "\"message_deleted\"",
        "\"message_replied\"",
        "\"tombstone\"",
        "\"bot_message\"",
        "\"thread_broadcast\"",
        "\"channel_topic\"",
        "\"channel_convert_to_private\"",
        "\"add\"",
        "\"rename\"",
        "7",
    ];
    let users = &[
        "\"U01\"",
        "\"U02\"",
        "\"USLACKBOT\"",
        "\"\"",
        "\"u#1\"",
        "7",
        "null",
        "{\"id\":\"U03\",\"name\":\"ada\"}",
        "{\"id\":\"U03\",\"id\":\"U04\"}",
        "\"\\u0055\\u0030\\u0035\"",
    ];
    let channels = &[
        "\"C01\"",
        "\"C02\"",
        "\"G03\"",
        "\"D04\"",
        "\"c#1\"",
        "7",
        "null",
        "{\"id\":\"C05\",\"name\":\"a\",\"creator\":\"U06\"}",
        "{\"id\":\"C05\",\"name\":\"a\",\"creator\":\"U06\",\"creator\":\"U07\"}",
    ];
    let leaf = prop_oneof![
        3 => named(&["ts", "event_ts", "thread_ts", "deleted_ts"], clocks),
        1 => named(&["edited"], &["{\"user\":\"U08\",\"ts\":\"1700000002.000000\"}", "7"]),
        2 => named(&["subtype"], subtypes),
        4 => named(&["user", "user_id", "inviter", "item_user"], users),
        3 => named(&["channel", "channel_id"], channels),
        1 => named(&["old_channel_id", "new_channel_id"], &["\"C01\"", "\"C09\"", "7"]),
        1 => named(&["channel_type"], &["\"channel\"", "\"group\"", "\"im\"", "7"]),
        2 => named(&["bot_id"], &["\"B01\"", "\"b\"", "\"\"", "7"]),
        2 => named(&["user_team", "source_team", "team"], &["\"T024BE7LD\"", "\"T9\"", "7"]),
        2 => named(&["text", "username", "name", "old_name", "new_name", "value"], &["\"text\"", "\"\\ud83d\"", "[]"]),
        1 => named(&["reaction"], &["\"eyes\"", "\"\"", "7"]),
        1 => named(&["reactions"], &["[{\"name\":\"eyes\",\"users\":[\"U10\",\"U11\"],\"count\":2}]", "[7]", "7"]),
        1 => named(&["files"], &["[{\"id\":\"F01\",\"user\":\"U12\",\"url_private\":\"https://files.slack.com/f\"}]", "7"]),
        1 => named(&["file_id"], &["\"F01\"", "7"]),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let nested = (select(&["message", "previous_message", "root", "item"][..]), object(depth - 1))
        .prop_map(|(name, object)| format!("\"{name}\":{object}"));
    let item = (one_of(channels), one_of(clocks)).prop_map(|(channel, ts)| {
        format!("\"item\":{{\"type\":\"message\",\"channel\":{channel},\"ts\":{ts}}}")
    });
    prop_oneof![10 => leaf, 3 => nested, 1 => item].boxed()
}

fn object(depth: u32) -> BoxedStrategy<String> {
    let ts = "\"ts\":\"1700000000.000100\"".to_owned();
    prop::collection::vec(field(depth), 0..9)
        .prop_map(move |fields| format!("{{{}}}", [vec![ts.clone()], fields].concat().join(",")))
        .boxed()
}

fn event() -> impl Strategy<Value = String> {
    let kinds = &[
        "message",
        "message",
        "message",
        "reaction_added",
        "reaction_removed",
        "user_change",
        "team_join",
        "emoji_changed",
        "file_change",
        "file_deleted",
        "channel_created",
        "channel_rename",
        "channel_left",
        "channel_id_changed",
        "channel_shared",
        "member_joined_channel",
        "tokens_revoked",
        "app_uninstalled",
        "team_rename",
        "something_new",
    ];
    (select(&kinds[..]), prop::collection::vec(field(2), 1..12))
        .prop_map(|(kind, fields)| format!("{{\"type\":\"{kind}\",{}}}", fields.join(",")))
}

#[test]
fn every_entity_an_event_writes_is_asked_about() {
    let config = Config { cases: 20_000, failure_persistence: None, ..Config::default() };
    let writing = std::cell::Cell::new(0_u32);
    TestRunner::new(config)
        .run(&event(), |event| {
            let writes = check(&event).map_err(TestCaseError::fail)?;
            writing.set(writing.get() + u32::from(writes));
            Ok(())
        })
        .unwrap();
    assert!(writing.get() > 300, "only {} of the events write anything", writing.get());
}

#[test]
fn every_entity_a_real_event_writes_is_asked_about() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/events");
    let mut writing = 0;
    for seed in fs::read_dir(folder).unwrap() {
        let seed = seed.unwrap().path();
        let event = fs::read_to_string(&seed).unwrap();
        writing += u32::from(check(&event).unwrap_or_else(|why| panic!("{}: {why}", seed.display())));
    }
    assert!(writing > 15, "{writing}");
}
