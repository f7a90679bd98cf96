//! The entities an event claims to exist: its workspace, its channel, and the people whose actions its rows
//! record.
//!
//! Only entities that an event names are checked. For a message, these are the author of each version and
//! everyone who reacted to it, as the rule that writes them reads them; for a reaction, the person who
//! reacted; for a channel, the person who created it, changed it or joined it; for a person, that person. A
//! person who is only mentioned or invited becomes part of no key and gets no row, so Slack is not asked
//! about them. A message without an author is judged by its workspace and channel.

use std::borrow::Cow;
use std::fmt;

use ports::clock::TimestampMs;
use ports::existence::CacheKey;
use rules::message::MessageUpdate;
use rules::{Malformed, SlackEvent};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use slack::catalogue::{ChannelChange, EventRule, GapKind};
use slack::envelope::{self, Envelope, text_or_none};
use slack::ids::{ChannelId, SLACKBOT, TeamId, UserId};
use slack_api::Method;

/// Which cached answers are valid for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Demand {
    /// When the event was received. An absence found later applies to it.
    pub(super) sent_at: TimestampMs,
    /// The event was replayed: no earlier absence applies to it.
    pub(super) replayed: bool,
    /// The event may announce the entity a moment before Slack shows it.
    pub(super) newborn: bool,
    /// The ID is one that a channel should have left: an earlier confirmation proves nothing.
    pub(super) former: bool,
}

impl Demand {
    /// The demand of an event whose entities are neither new nor left.
    pub(super) fn plain(sent_at: TimestampMs, replayed: bool) -> Self {
        Self { sent_at, replayed, newborn: false, former: false }
    }

    /// Combines the demands of two events: an answer must be valid for both.
    pub(super) fn add(&mut self, other: Self) {
        self.sent_at = self.sent_at.max(other.sent_at);
        self.replayed |= other.replayed;
        self.newborn |= other.newborn;
        self.former |= other.former;
    }
}

/// An entity that an event refers to. Slack is asked about each one separately; a row of the cache covers
/// three of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Entity {
    Team(TeamId),
    User(TeamId, UserId),
    /// A bot that wrote a message without its own user: `B…`.
    Bot(TeamId, UserId),
    Channel(TeamId, ChannelId),
}

impl Entity {
    pub(super) fn team(&self) -> &TeamId {
        match self {
            Self::Team(team) | Self::User(team, _) | Self::Bot(team, _) | Self::Channel(team, _) => team,
        }
    }

    /// The key of the entity in Slack's answer, and its ID.
    pub(super) fn field(&self) -> (&'static str, &str) {
        match self {
            Self::Team(team) => ("team", team.as_str()),
            Self::User(_, user) => ("user", user.as_str()),
            Self::Bot(_, bot) => ("bot", bot.as_str()),
            Self::Channel(_, channel) => ("channel", channel.as_str()),
        }
    }

    /// The method that looks the entity up.
    pub(super) fn method(&self) -> Method {
        match self {
            Self::Team(_) => Method::TeamInfo,
            Self::User(..) => Method::UsersInfo,
            Self::Bot(..) => Method::BotsInfo,
            Self::Channel(..) => Method::ConversationsInfo,
        }
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Team(team) = self {
            return write!(f, "workspace {team}");
        }
        let (kind, id) = self.field();
        write!(f, "{kind} {id} of workspace {}", self.team())
    }
}

/// The visibility of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChannelReach {
    /// People of other workspaces can write in it.
    pub(crate) shared: bool,
    /// Not every member of the workspace can read it.
    pub(crate) private: bool,
}

impl ChannelReach {
    /// Reads the visibility from a channel object of Slack's methods:
    /// <https://docs.slack.dev/reference/objects/conversation-object>.
    pub(crate) fn from_channel(channel: &RawValue) -> Self {
        let channel = envelope::parse_value(channel.get()).unwrap_or_default();
        let any = |flags: [&str; 3]| flags.iter().any(|flag| channel.get(flag) == Some(&Value::Bool(true)));
        Self {
            shared: any(["is_ext_shared", "is_org_shared", "is_shared"]),
            private: any(["is_private", "is_im", "is_mpim"]),
        }
    }
}

/// A person that an event refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventPerson {
    pub(super) entity: Entity,
    /// The event indicates that they may belong to another workspace, whose people this workspace's token may
    /// not see.
    pub(super) foreign: bool,
}

/// The reason why Slack may legitimately not know, or no longer know, an entity of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpecialCase {
    Plain,
    /// A channel was just created.
    ChannelCreated,
    /// A person's current profile, or their last one before they left.
    Person,
    /// The app or its token was removed: Slack no longer answers its requests.
    Departure,
}

/// The entities that one event claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventEntities {
    pub(super) team: Entity,
    pub(super) channels: Vec<Entity>,
    pub(super) people: Vec<EventPerson>,
    /// The ID that a channel should have given up for another.
    pub(super) former: Option<Entity>,
    pub(super) special_case: SpecialCase,
    /// The event implies that its channels are public, or were until now.
    pub(super) public: bool,
    /// When the event was received. Timestamps in the event itself may be forged like the rest of it.
    pub(super) sent_at: TimestampMs,
    /// An operator replayed the event: Slack is asked again.
    pub(super) replayed: bool,
}

impl EventEntities {
    /// The entities of a request that refers only to a workspace.
    pub(crate) fn team(team: &TeamId, sent_at: TimestampMs) -> Self {
        Self {
            team: Entity::Team(team.clone()),
            channels: Vec::new(),
            people: Vec::new(),
            former: None,
            special_case: SpecialCase::Plain,
            public: false,
            sent_at,
            replayed: false,
        }
    }

    /// Sets whether the event implies that its channels are public; a channel that it makes public stays so.
    pub(crate) fn with_public(self, public: bool) -> Self {
        Self { public: self.public || public, ..self }
    }

    /// Sets whether the job was replayed from quarantine.
    pub(crate) fn replayed(self, replayed: bool) -> Self {
        Self { replayed, ..self }
    }

    /// Which cached answers are valid for it.
    pub(super) fn demand(&self) -> Demand {
        let newborn = self.special_case == SpecialCase::ChannelCreated;
        Demand { newborn, ..Demand::plain(self.sent_at, self.replayed) }
    }

    /// The entities of an event.
    ///
    /// # Errors
    /// [`Malformed`] if an ID does not have Slack's format, and so cannot exist.
    pub(crate) fn from_event(
        event: &SlackEvent<'_>,
        envelope: &Envelope<'_>,
        sent_at: TimestampMs,
    ) -> Result<Self, Malformed> {
        let header = &event.header;
        let teams = [&header.user_team, &header.source_team, &header.team];
        let mut entities = Self::team(&event.team, sent_at);
        let mut reader = EntityReader { team: &event.team, shared: envelope.is_shared(), people: Vec::new() };
        match event.rule() {
            Some(EventRule::Message) => {
                entities.channels.push(channel(event, event.channel()?));
                reader.author(header.user(), header.bot_id.as_deref(), teams)?;
                for MessageUpdate { object, reactions, .. } in
                    event.message_updates()?.into_iter().flat_map(|updates| &updates.messages)
                {
                    let teams = [&object.user_team, &object.source_team, &object.team];
                    reader.author(object.person(), object.bot_id.as_deref(), teams)?;
                    for (_, user) in reactions {
                        reader.person(Some(user.as_str().into()), [&None; 3])?;
                    }
                }
            }
            Some(EventRule::Reaction(_) | EventRule::Pin(_)) => {
                entities.channels.push(channel(event, event.channel()?));
                reader.person(header.user(), teams)?;
            }
            Some(EventRule::User) => {
                entities.special_case = SpecialCase::Person;
                // Slackbot too, which `users.info` knows: the row of the workspace's own person is written.
                reader.add(Entity::User, header.user(), false)?;
            }
            Some(EventRule::Channel(ChannelChange::IdChanged)) => {
                let (old, new) = event.changed_ids()?;
                // Everything stored under the old ID is stored under the new one from now on, so the event
                // implies that the new one is public.
                entities.public = true;
                entities.former = Some(channel(event, old));
                entities.channels.push(channel(event, new));
            }
            Some(EventRule::Channel(change)) => {
                entities.channels.push(channel(event, event.channel()?));
                reader.person(header.user(), teams)?;
                if change == ChannelChange::Created {
                    entities.special_case = SpecialCase::ChannelCreated;
                    let created: Created<'_> =
                        header.channel_object().map(envelope::read_object).transpose()?.unwrap_or_default();
                    reader.person(created.creator, [&None; 3])?;
                }
            }
            Some(EventRule::Joined) => {
                entities.channels.push(channel(event, event.channel()?));
                reader.person(header.user(), teams)?;
            }
            Some(EventRule::FileChanged | EventRule::FileDeleted) => {
                reader.person(header.user(), teams)?;
            }
            Some(EventRule::Gap(GapKind::TokensRevoked | GapKind::Uninstalled | GapKind::AccessRevoked)) => {
                entities.special_case = SpecialCase::Departure
            }
            Some(
                EventRule::Team(_)
                | EventRule::Emoji
                | EventRule::UserGroup(_)
                | EventRule::Gap(
                    GapKind::HistoryChanged
                    | GapKind::RateLimited
                    | GapKind::AccessGranted
                    | GapKind::MigrationStarted
                    | GapKind::MigrationFinished,
                )
                | EventRule::Ignored(_),
            )
            | None => {}
        }
        entities.people = reader.people;
        Ok(entities)
    }

    /// The cache rows that would confirm it: one per person and channel.
    pub(super) fn keys(&self) -> impl Iterator<Item = (CacheKey, [&Entity; 3])> {
        self.channels.iter().flat_map(move |channel| {
            self.people.iter().filter_map(move |person| {
                let (Entity::User(team, user), Entity::Channel(_, id)) = (&person.entity, channel) else {
                    return None;
                };
                Some((CacheKey::new(team, user, id), [&self.team, &person.entity, channel]))
            })
        })
    }
}

fn channel(event: &SlackEvent<'_>, id: ChannelId) -> Entity {
    Entity::Channel(event.team.clone(), id)
}

#[derive(Default, Deserialize)]
struct Created<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    creator: Option<Cow<'a, str>>,
}

/// The workspaces of a person that an event names: `user_team`, `source_team` and `team`.
type Teams<'t, 'a> = [&'t Option<Cow<'a, str>>; 3];

struct EntityReader<'t> {
    team: &'t TeamId,
    shared: bool,
    people: Vec<EventPerson>,
}

impl EntityReader<'_> {
    /// A message of a bot contains the bot's user, or otherwise only the bot.
    fn author(
        &mut self,
        user: Option<Cow<'_, str>>,
        bot: Option<&str>,
        teams: Teams<'_, '_>,
    ) -> Result<(), Malformed> {
        if user.as_deref().is_some_and(|user| !user.is_empty()) {
            return self.person(user, teams);
        }
        self.add(Entity::Bot, bot.map(Cow::Borrowed), self.is_foreign(teams))
    }

    fn person(&mut self, user: Option<Cow<'_, str>>, teams: Teams<'_, '_>) -> Result<(), Malformed> {
        self.add(Entity::User, user.filter(|user| user != SLACKBOT), self.is_foreign(teams))
    }

    fn add(
        &mut self,
        entity: fn(TeamId, UserId) -> Entity,
        id: Option<Cow<'_, str>>,
        foreign: bool,
    ) -> Result<(), Malformed> {
        let Some(id) = id.filter(|id| !id.is_empty()) else { return Ok(()) };
        let who = entity(self.team.clone(), UserId::parse(&id)?);
        if !self.people.iter().any(|known| known.entity == who) {
            self.people.push(EventPerson { entity: who, foreign });
        }
        Ok(())
    }

    /// Whether a person may belong to another workspace: one is named, or the channel is shared and neither
    /// `user_team` nor `source_team` is named. `team` alone does not make a person one of ours.
    fn is_foreign(&self, teams: Teams<'_, '_>) -> bool {
        let names_another = teams.into_iter().flatten().any(|named| named != self.team.as_str());
        let [user_team, source_team, _] = teams;
        names_another || (self.shared && user_team.is_none() && source_team.is_none())
    }
}

#[cfg(test)]
#[path = "entities_properties.rs"]
mod properties;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The people an event makes the check ask about.
    fn asked_about(body: &str) -> Result<Vec<String>, Malformed> {
        let envelope = Envelope::peek(body.as_bytes()).unwrap();
        let entities = EventEntities::from_event(&SlackEvent::read(&envelope)?, &envelope, TimestampMs(0))?;
        let id = |person: &EventPerson| match &person.entity {
            Entity::User(_, id) | Entity::Bot(_, id) => id.to_string(),
            Entity::Team(_) | Entity::Channel(..) => String::new(),
        };
        Ok(entities.people.iter().map(id).collect())
    }

    #[test]
    fn every_written_person_is_asked_about() {
        let message = |user: &str| {
            json!({ "ts": "1700000001.000000", "user": user, "text": "x",
            "reactions": [{ "name": "tada", "users": [format!("{user}R")] }],
            "root": { "ts": "1700000000.000001", "user": format!("{user}ROOT"), "text": "root" } })
        };
        let events: [(Value, &[&str]); 5] = [
            (
                json!({ "subtype": "message_changed", "message": message("U1"), "previous_message": message("U2") }),
                &["U1", "U1R", "U1ROOT", "U2", "U2R", "U2ROOT"],
            ),
            (
                json!({ "subtype": "message_deleted", "deleted_ts": "1700000001.000000", "previous_message": message("U3") }),
                &["U3", "U3R", "U3ROOT"],
            ),
            (json!({ "message": message("U4") }), &["U4", "U4R", "U4ROOT"]),
            (message("U5"), &["U5", "U5R", "U5ROOT"]),
            (
                json!({ "subtype": "file_comment", "ts": "1700000001.000000", "comment": { "user": "U6" } }),
                &["U6"],
            ),
        ];
        for (mut event, expected) in events {
            event["type"] = "message".into();
            event["channel"] = "C1".into();
            let asked = asked_about(&json!({ "team_id": "T1", "event": event }).to_string()).unwrap();
            assert_eq!(asked, expected, "{event}");
        }
    }

    #[test]
    fn an_unreadable_event_has_no_entities_and_is_refused() {
        for event in [
            r#"{"type":"message","subtype":"message_changed","channel":"C1","message":
                {"ts":"1700000001.000000","user":"U1","text":"x","user_team":"T1","user_team":"T1"}}"#,
            r#"{"type":"message","channel":"C1","ts":"1700000001.000000","user":"U1","user":"U2"}"#,
            r#"{"type":"channel_created","channel":{"id":"C1","creator":"U1","creator":"U1"}}"#,
        ] {
            let refused = asked_about(&format!(r#"{{"team_id":"T1","event":{event}}}"#));
            assert!(matches!(refused, Err(Malformed::Unreadable(_))), "{event}: {refused:?}");
        }
    }

    #[test]
    fn a_channel_is_shared_or_private_if_any_flag_is_set() {
        for (json, shared, private) in [
            (r#"{"is_ext_shared":true}"#, true, false),
            (r#"{"is_org_shared":true,"is_ext_shared":false}"#, true, false),
            (r#"{"is_shared":true,"is_ext_shared":7}"#, true, false),
            (r#"{"is_ext_shared":false,"is_shared":false,"is_private":false}"#, false, false),
            (r#"{"is_ext_shared":"true","is_private":"true"}"#, false, false),
            (r#"{"is_private":true,"is_ext_shared":true}"#, true, true),
            (r#"{"is_private":null,"is_mpim":true}"#, false, true),
            (r#"{"is_im":true}"#, false, true),
            ("{}", false, false),
            ("[]", false, false),
        ] {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            assert_eq!(ChannelReach::from_channel(&raw), ChannelReach { shared, private }, "{json}");
        }
    }
}
