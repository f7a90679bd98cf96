//! Display names of people and channels, looked up on demand.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError, Item, ItemKey};
use rules::directory::ORGANISATION;
use rules::publishing::{MEMBER, OTHER_CHANNEL, PublicNames};
use rules::user_group::UserGroup;
use slack::ids::{ChannelId, SLACKBOT, TeamId, UserGroupId, UserId};

use crate::directory::{self, WorkspaceChannels};
use crate::plain;
use crate::text::{MessageAuthor, MessageText, flat, mrkdwn, spans};

/// Maximum number of names in memory. If it is reached, the names are dropped and read again; within one
/// page, ids are shown for further people.
const MAX_KNOWN: usize = 10_000;

/// Whether a name is visible. A name of spaces and invisible characters would hide whose it is.
pub fn is_visible(name: &str) -> bool {
    !plain::line(name).trim().is_empty()
}

/// The people, user groups and channels of a workspace, or of several that share a channel.
pub struct DisplayNames<'a> {
    archive: &'a dyn Archive,
    teams: Vec<TeamId>,
    known: HashMap<String, String>,
    /// The names of the organisations of known people who belong to another one, by the ids of the people.
    organisations: HashMap<String, String>,
    /// The real names of known people who are shown under another name, by the ids of the people.
    real_names: HashMap<String, String>,
    /// The handles of user groups by id; `None` for a group that the archive does not know.
    handles: HashMap<String, Option<String>>,
    /// Read once, when a message first mentions a channel.
    channels: Option<Vec<WorkspaceChannels>>,
    /// For a public site: the names that it has, whatever the archive and the messages say.
    public: Option<Arc<PublicNames>>,
}

impl<'a> DisplayNames<'a> {
    /// Returns an empty set of names for one workspace.
    pub fn new(archive: &'a dyn Archive, team: TeamId) -> Self {
        Self::for_teams(archive, vec![team])
    }

    /// Returns an empty set of names for several workspaces. A person's name comes from the first workspace
    /// that has it.
    pub fn for_teams(archive: &'a dyn Archive, teams: Vec<TeamId>) -> Self {
        Self {
            archive,
            teams,
            known: HashMap::new(),
            organisations: HashMap::new(),
            real_names: HashMap::new(),
            handles: HashMap::new(),
            channels: None,
            public: None,
        }
    }

    /// The names that a public site has: no id is ever a name, and no label in a message replaces a name.
    #[must_use]
    pub fn for_the_public(self, public: Arc<PublicNames>) -> Self {
        Self { public: Some(public), ..self }
    }

    /// Whether these are the names of a public site.
    pub fn are_public(&self) -> bool {
        self.public.is_some()
    }

    /// Looks up the authors of these messages, and everything they mention.
    pub async fn learn<'m>(
        &mut self,
        messages: impl IntoIterator<Item = &'m MessageText, IntoIter: Clone>,
    ) -> Result<(), ArchiveError> {
        let messages = messages.into_iter();
        let mentions_channel = messages.clone().any(MessageText::mentions_channel);
        self.learn_user_groups(messages.clone().flat_map(MessageText::user_groups)).await?;
        self.learn_people_and_channels(messages.flat_map(MessageText::people), mentions_channel).await
    }

    /// Looks up people by their ids.
    pub async fn learn_people(&mut self, ids: impl Iterator<Item = &str>) -> Result<(), ArchiveError> {
        self.learn_people_and_channels(ids, false).await
    }

    /// Returns a topic or a purpose as one line of plain text.
    pub async fn description_text(&mut self, text: &str) -> Result<String, ArchiveError> {
        let spans = mrkdwn::parse(text, &TimeZone::UTC);
        self.learn_user_groups(spans::user_groups(&spans)).await?;
        self.learn_people_and_channels(spans::people(&spans), spans::mentions_channel(&spans)).await?;
        Ok(flat::words(&spans, self))
    }

    /// Looks up people by their ids, and the channels if one is mentioned.
    async fn learn_people_and_channels(
        &mut self,
        people: impl Iterator<Item = &str>,
        mentions_channel: bool,
    ) -> Result<(), ArchiveError> {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
            self.organisations.clear();
            self.real_names.clear();
        }
        if self.channels.is_none() && mentions_channel && self.public.is_none() {
            let mut channels = Vec::with_capacity(self.teams.len());
            for team in &self.teams {
                channels.push(directory::read(self.archive, team).await?);
            }
            self.channels = Some(channels);
        }
        let mut unknown: Vec<&str> = people.filter(|id| !self.known.contains_key(*id)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.truncate(MAX_KNOWN - self.known.len());
        let users: Vec<UserId> = unknown.iter().filter_map(|id| UserId::parse(id).ok()).collect();
        let keys: Vec<ItemKey> = users
            .iter()
            .flat_map(|user| self.teams.iter().map(move |team| key_of_author(team, user)))
            .collect();
        let rows = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        let mut names: HashMap<&str, &str> = HashMap::new();
        // The first workspace with a name for a person wins.
        for (key, row) in keys.iter().zip(&rows) {
            let names_of = row.iter().flat_map(rules::directory::names);
            if let Some(name) = names_of.into_iter().find(|name| is_visible(name)) {
                names.entry(&key.timestamp).or_insert(name);
            }
            let real = row.as_ref().and_then(rules::directory::real_name).filter(|name| is_visible(name));
            if let Some(real) = real.filter(|_| self.public.is_none()).map(plain::line) {
                self.real_names.entry(key.timestamp.clone()).or_insert(real);
            }
        }
        let homes: Vec<(&ItemKey, ItemKey)> = keys
            .iter()
            .zip(&rows)
            .filter(|_| self.public.is_none())
            .filter_map(|(key, row)| Some((key, organisation_key(row.as_ref()?)?)))
            .collect();
        let organisations = self
            .archive
            .get_all(&homes.iter().map(|(_, organisation)| organisation).collect::<Vec<_>>())
            .await?;
        for ((person, _), organisation) in homes.iter().zip(organisations) {
            let name =
                organisation.as_ref().and_then(rules::organisation::name).filter(|name| is_visible(name));
            let new = name.filter(|_| !self.organisations.contains_key(&person.timestamp));
            self.organisations.extend(new.map(|name| (person.timestamp.clone(), plain::line(name))));
        }
        for id in unknown {
            let nameless = if id == SLACKBOT { "Slackbot" } else { id };
            let name = names.get(id).copied();
            let name = match &self.public {
                Some(public) => plain::line(&public.person(id, name)),
                None => plain::line(name.unwrap_or(nameless)),
            };
            self.known.insert(id.to_owned(), name);
        }
        Ok(())
    }

    /// Looks up user groups by their ids.
    pub async fn learn_user_groups(&mut self, ids: impl Iterator<Item = &str>) -> Result<(), ArchiveError> {
        if self.handles.len() >= MAX_KNOWN {
            self.handles.clear();
        }
        let mut unknown: Vec<UserGroupId> = ids
            .filter(|id| !self.handles.contains_key(*id))
            .filter_map(|id| UserGroupId::parse(id).ok())
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.truncate(MAX_KNOWN - self.handles.len());
        let of_teams = |group| self.teams.iter().map(move |team| ItemKey::user_group(team, group));
        let keys: Vec<ItemKey> = unknown.iter().flat_map(of_teams).collect();
        let rows = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        for (key, row) in keys.into_iter().zip(&rows) {
            let handle = row.as_ref().and_then(UserGroup::read).and_then(|group| group.handle);
            let handle = handle.filter(|handle| is_visible(handle)).map(|handle| plain::line(&handle));
            // The first workspace with a handle wins.
            let known = self.handles.entry(key.timestamp).or_default();
            *known = known.take().or(handle);
        }
        Ok(())
    }

    /// Returns a user group's handle, safe to print.
    pub fn user_group_handle(&self, id: &str) -> Option<&str> {
        self.handles.get(id)?.as_deref()
    }

    /// Returns a person's name, or their id if the name is unknown.
    pub fn person_name<'n>(&'n self, id: &'n str) -> &'n str {
        self.known.get(id).map_or(if self.are_public() { MEMBER } else { id }, String::as_str)
    }

    /// Returns the name of a mentioned person. The label in the message is used if the archive has no name.
    pub fn mentioned_person<'n>(&'n self, id: &'n str, label: Option<&'n str>) -> &'n str {
        match label {
            Some(label) if !self.has_name(id) && !self.are_public() => label,
            Some(_) | None => self.person_name(id),
        }
    }

    /// Returns the name of a mentioned channel. The label in the message is used if the archive has no name.
    pub fn mentioned_channel(&self, id: &str, label: Option<&str>) -> String {
        let otherwise = if self.are_public() { OTHER_CHANNEL } else { label.unwrap_or(id) };
        self.channel_name(id).unwrap_or_else(|| otherwise.to_owned())
    }

    /// Returns the name of a message's author, safe to print.
    pub fn author(&self, MessageAuthor { user, name, is_named_by_app, bot }: &MessageAuthor) -> String {
        let known = |id: Option<&str>| self.known_name(id).filter(|_| !is_named_by_app);
        let (user, bot) = (user.as_deref(), bot.as_deref());
        let name = name.as_deref().filter(|name| is_visible(name));
        if let Some(public) = &self.public {
            return match user.or(bot) {
                Some(id) if !is_named_by_app => {
                    let stored = self.known.get(id).map(String::as_str).filter(|stored| *stored != MEMBER);
                    plain::line(&public.person(id, stored.or(name)))
                }
                Some(_) | None => plain::line(name.unwrap_or(MEMBER)),
            };
        }
        let shown = match user {
            Some(_) => known(user).or(name).or_else(|| known(bot)),
            None => known(bot).or(name),
        };
        plain::line(shown.or(user).or(bot).unwrap_or("unknown"))
    }

    /// Returns a person's real name, safe to print, if they are shown under another one.
    pub fn real_name(&self, id: &str) -> Option<&str> {
        let shown = self.known.get(id)?;
        self.real_names.get(id).filter(|real| *real != shown).map(String::as_str)
    }

    /// Returns the name of the organisation of a message's author, safe to print, if it is another one and its
    /// name is known.
    pub fn organisation(&self, author: &MessageAuthor) -> Option<&str> {
        self.organisations.get(author.user.as_deref()?).map(String::as_str)
    }

    /// Returns a channel's name from the ChannelIndex, safe to print.
    pub fn channel_name(&self, id: &str) -> Option<String> {
        let id = ChannelId::parse(id).ok()?;
        if let Some(public) = &self.public {
            return public.channel(id.as_str()).map(plain::line);
        }
        let mut names = self.channels.iter().flatten().filter_map(|channels| channels.name(&id));
        names.find(|name| is_visible(name)).map(plain::line)
    }

    /// Whether a person's name is known.
    pub fn has_name(&self, id: &str) -> bool {
        self.known_name(Some(id)).is_some()
    }

    fn known_name(&self, id: Option<&str>) -> Option<&str> {
        self.known.get(id?).map(String::as_str).filter(|name| Some(*name) != id)
    }
}

/// The row of the organisation of a person who belongs to another one.
fn organisation_key(person: &Item) -> Option<ItemKey> {
    let id = |name| TeamId::parse(person.text(name)?).ok();
    Some(ItemKey::organisation(&id("team_id")?, &id(ORGANISATION)?))
}

/// The row with the name of an author. The ids of bots begin with another letter than those of people.
fn key_of_author(team: &TeamId, author: &UserId) -> ItemKey {
    if author.as_str().starts_with('B') { ItemKey::bot(team, author) } else { ItemKey::user(team, author) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::memory::archive::MemoryArchive;

    use super::*;
    use crate::fixture::{channel_names, person, set, team, user_group};
    use crate::text::{MessageText, flat, read};

    #[tokio::test]
    async fn a_user_group_has_its_handle_then_the_label_then_its_id() {
        let archive = MemoryArchive::new();
        user_group(&archive, json!({ "id": "S1", "handle": "on\u{1b}call" })).await;
        user_group(&archive, json!({ "id": "S2", "handle": "\u{200b}" })).await;
        let mut names = DisplayNames::new(&archive, team());
        let text = "<!subteam^S1|@old> <!subteam^S2|@two> <!subteam^S3|@three> <!subteam^S4> <!subteam^s>";
        let message: MessageText = read(&json!({ "user": "U1", "text": text }).into(), &TimeZone::UTC);
        names.learn([&message]).await.unwrap();
        assert_eq!(flat::line(&message.lines[0], &names), "@on␛call @two @three @S4 @s");
        let topic = names.description_text("ask <!subteam^S1>").await.unwrap();
        assert_eq!(topic, "ask @on␛call");
    }

    #[tokio::test]
    async fn a_message_of_a_bot_is_shown_under_the_name_of_its_row() {
        let archive = MemoryArchive::new();
        let bot = |id: &str| ItemKey::bot(&team(), &UserId::parse(id).unwrap());
        set(&archive, bot("B1"), json!({ "name": "Jira Cloud" })).await;
        set(&archive, bot("B3"), json!({ "name": "\u{200b}" })).await;
        let mut names = DisplayNames::new(&archive, team());
        let profile = json!({ "bot_profile": { "name": "Old Jira" } }).to_string();
        for (message, shown) in [
            (json!({ "bot_id": "B1", "subtype": "bot_message" }), "Jira Cloud"),
            (json!({ "bot_id": "B1", "raw_event": profile }), "Jira Cloud"),
            (json!({ "bot_id": "B2", "raw_event": profile }), "Old Jira"),
            (json!({ "bot_id": "B1", "subtype": "bot_message", "username": "Incidents" }), "Incidents"),
            (json!({ "user": "U1", "bot_id": "B1" }), "Jira Cloud"),
            (json!({ "user": "U1", "bot_id": "B2" }), "U1"),
            (json!({ "bot_id": "B2" }), "B2"),
            (json!({ "bot_id": "B3" }), "B3"),
            (json!({}), "unknown"),
        ] {
            let text: MessageText = read(&message.clone().into(), &TimeZone::UTC);
            names.learn([&text]).await.unwrap();
            assert_eq!(names.author(&text.author), shown, "{message}");
        }
    }

    #[tokio::test]
    async fn a_person_of_another_organisation_has_its_name_if_it_is_visible() {
        let archive = MemoryArchive::new();
        let stranger =
            |organisation: &str| json!({ "name": "pat", "team_id": "T1", "organisation": organisation });
        for (id, organisation) in [("U1", "T2"), ("U2", "T3"), ("U3", "T4"), ("U4", "t#")] {
            person(&archive, id, stranger(organisation)).await;
        }
        let organisation = |id: &str| ItemKey::organisation(&team(), &TeamId::parse(id).unwrap());
        set(&archive, organisation("T2"), json!({ "name": "Acme\nInc" })).await;
        set(&archive, organisation("T3"), json!({ "name": "\u{200b}" })).await;
        let mut names = DisplayNames::new(&archive, team());
        for (user, expected) in
            [("U1", Some("Acme Inc")), ("U2", None), ("U3", None), ("U4", None), ("U5", None)]
        {
            let text = read(&json!({ "user": user }).into(), &TimeZone::UTC);
            names.learn([&text]).await.unwrap();
            assert_eq!(names.organisation(&text.author), expected, "{user}");
        }
    }

    #[tokio::test]
    async fn a_real_name_is_told_if_another_one_is_shown() {
        let archive = MemoryArchive::new();
        person(&archive, "U1", json!({ "display_name": "ana", "real_name": "Ana\nGomez" })).await;
        person(&archive, "U2", json!({ "display_name": "", "real_name": "Bo" })).await;
        person(&archive, "U3", json!({ "display_name": "cy", "real_name": "\u{200b}" })).await;
        let message = read(&json!({ "text": "<@U1> <@U2> <@U3> <@U4>" }).into(), &TimeZone::UTC);
        let mut names = DisplayNames::new(&archive, team());
        names.learn([&message]).await.unwrap();
        let told = ["U1", "U2", "U3", "U4"].map(|id| names.real_name(id));
        assert_eq!(told, [Some("Ana Gomez"), None, None, None]);
        let mut names = DisplayNames::new(&archive, team()).for_the_public(Arc::new(PublicNames::default()));
        names.learn([&message]).await.unwrap();
        assert_eq!(names.real_name("U1"), None);
    }

    #[tokio::test]
    async fn invisible_names_are_skipped() {
        let archive = MemoryArchive::new();
        let first = json!({ "display_name": "\u{200b}", "real_name": "\u{a0} ", "name": "ana" });
        person(&archive, "U1", first).await;
        person(&archive, "U2", json!({ "display_name": "", "name": "\u{feff}" })).await;
        channel_names(&archive, json!({ "C1": "\u{200b}" })).await;
        let mut names = DisplayNames::new(&archive, team());
        let message: MessageText =
            read(&json!({ "user": "U1", "text": "<@U2> <#C1>" }).into(), &TimeZone::UTC);
        names.learn([&message]).await.unwrap();
        assert_eq!((names.person_name("U1"), names.person_name("U2")), ("ana", "U2"));
        assert_eq!(names.channel_name("C1"), None);
        let app = MessageAuthor {
            name: Some("\u{2060}".to_owned()),
            is_named_by_app: true,
            bot: Some("B1".to_owned()),
            ..MessageAuthor::default()
        };
        assert_eq!(names.author(&app), "B1");
    }
}
