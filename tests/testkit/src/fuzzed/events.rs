//! The inner event: the rows that workers write for it.

use ports::archive::{Attributes, ItemKey, Update, key};
use ports::queue::job::{Job, Payload};
use rules::channel::ChannelEvent;
use rules::file::{self, FileJob};
use rules::message::MessageUpdate;
use rules::{Change, SlackEvent, gap};
use serde_json::value::RawValue;
use slack::catalogue::EventRule;
use slack::envelope::Envelope;
use slack::ids::UserId;

/// Slack's verification token, which every envelope contains and no row may contain.
const TOKEN: &str = "Zq8VerificationTokenOfSlackZq8";

/// An event is refused, or becomes rows under well-formed keys, the same ones each time, without the
/// envelope's token.
///
/// # Panics
/// If that does not hold.
pub fn check(event: &[u8]) {
    let Ok(event) = str::from_utf8(event) else { return };
    if event.contains(TOKEN) {
        return;
    }
    let body = format!(
        r#"{{"token":"{TOKEN}","team_id":"T024BE7LD","type":"event_callback","event_id":"Ev1","event_time":1700000000,"event":{event}}}"#
    );
    let Ok(envelope) = Envelope::peek(body.as_bytes()) else { return };
    let whole: &RawValue = serde_json::from_str(&body).expect("a peeked envelope is JSON");
    if let Ok(gap) = gap::rate_limited(&event_team(), whole) {
        well_formed(&gap);
    }
    let Ok(event) = SlackEvent::read(&envelope) else { return };
    if let Ok(gaps) = gap::facts(&event) {
        gaps.iter().for_each(well_formed);
    }
    if let Ok(Some(joined)) = gap::joined(&event) {
        well_formed(&joined);
    }
    if let Ok(Some(channel_event)) = ChannelEvent::read(&event) {
        channel_event.inserts().iter().for_each(well_formed);
    }
    let Ok(changes) = event.changes() else { return };
    let content = event.message_updates().expect("an event that changes rows was read");
    let named: Vec<String> =
        content.into_iter().flat_map(|content| &content.messages).flat_map(people_in_message).collect();
    for change in &changes {
        match change {
            Change::Register(update) => {
                well_formed(update);
                check_key(update, &event);
                file::image::job(update).iter().for_each(|job| is_a_job(&job.body));
            }
            Change::Content(content) => {
                well_formed(content.if_absent());
                check_key(content.if_absent(), &event);
                // The existence check covers exactly the people in the messages.
                for person in people_in_row(content.if_absent()) {
                    assert!(named.contains(&person), "{person:?} is in a row, but in no message");
                }
                for job in file::jobs(content).sends {
                    is_a_job(&job.body);
                    let Payload::File(file) = Job::decode(&job.body).expect("a job").payload else {
                        panic!("a message sends jobs of files only")
                    };
                    drop(FileJob::decode(file).expect("a downloader can read it"));
                }
            }
        }
    }
    let again = SlackEvent::read(&envelope).and_then(|event| event.changes()).expect("as the first time");
    assert_eq!(changes, again);
}

fn people_in_message(message: &MessageUpdate<'_>) -> Vec<String> {
    let authors =
        [&message.object.user, &message.object.bot_id].into_iter().flatten().map(|id| id.to_string());
    authors.chain(message.reactions.iter().map(|(_, user)| user.to_string())).collect()
}

fn people_in_row(update: &Update) -> Vec<String> {
    let authors = ["user", "bot_id"].iter().filter_map(|name| update.set.get(*name)?.as_str());
    let registers =
        update.set_if_absent.keys().filter_map(|name| name.strip_prefix("reaction#")?.rsplit_once('#'));
    authors.chain(registers.map(|(_, user)| user)).map(str::to_owned).collect()
}

fn event_team() -> slack::ids::TeamId {
    slack::ids::TeamId::parse("T024BE7LD").expect("a team's id")
}

/// Asserts that an update writes only to the channel or the person of its event, which the existence check
/// covers.
fn check_key(update: &Update, event: &SlackEvent<'_>) {
    let team = event_team();
    let about = match event.rule() {
        Some(EventRule::Message | EventRule::Reaction(_) | EventRule::Pin(_)) => {
            let channel = event.channel().expect("an event that writes to a channel names it");
            if update.key.item_id == key::pins(&team, &channel) {
                return;
            }
            key::messages(&team, &channel)
        }
        Some(EventRule::User) => {
            let user = event.header.user().expect("an event that writes a person names them");
            let user = UserId::parse(&user).expect("a person's id");
            if update.key.item_id == key::users(&team) {
                assert_eq!(update.key.timestamp, user.as_str());
                return;
            }
            key::profiles(&team, &user)
        }
        Some(EventRule::Emoji) => key::emoji(&team),
        Some(EventRule::FileDeleted) => key::files(&team),
        Some(EventRule::Team(_)) => key::workspace(&team),
        Some(EventRule::UserGroup(_)) => {
            let kind = update.key.item_id.split('#').next().unwrap_or_default();
            assert!(["usergroup", "usergroupmember", "usergroupname"].contains(&kind), "{:?}", update.key);
            return;
        }
        Some(
            EventRule::FileChanged
            | EventRule::Channel(_)
            | EventRule::Gap(_)
            | EventRule::Joined
            | EventRule::Ignored(_),
        )
        | None => {
            panic!("{:?} is written", update.key)
        }
    };
    assert_eq!(update.key.item_id, about);
}

fn is_a_job(body: &str) {
    Job::decode(body).expect("a worker can read it");
    assert!(!body.contains(TOKEN));
}

fn well_formed(update: &Update) {
    let ItemKey { item_id, timestamp } = &update.key;
    assert!(item_id.split('#').all(|part| !part.is_empty()), "{item_id:?}");
    assert!(!item_id.contains(['/', '\\', '\0']) && !item_id.contains(".."), "{item_id:?}");
    assert!(!timestamp.is_empty() && !timestamp.contains(char::is_control), "{timestamp:?}");
    // DynamoDB's limits for the two halves of a key.
    assert!(item_id.len() <= 2048 && timestamp.len() <= 1024, "{item_id:?} {timestamp:?}");
    for attributes in [&update.set, &update.set_if_absent] {
        attributes.iter().for_each(|(name, value)| {
            assert!(!name.is_empty() && !name.contains(char::is_control), "{name:?}");
            assert!(!value.to_string().contains(TOKEN), "{name}");
            assert!(*value != serde_json::Value::Bool(false), "{name}: absent means false");
        });
    }
    // Updates are idempotent: applying one twice has the result of applying it once.
    let once: Option<Attributes> = update.apply(None);
    if let Some(once) = once {
        let twice = update.apply(Some(&once)).unwrap_or_else(|| once.clone());
        assert_eq!(once, twice);
    }
}
