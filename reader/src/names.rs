//! Display names of people and channels, looked up on demand.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError, ItemKey};
use slack::ids::{ChannelId, SLACKBOT, TeamId, UserId};

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

/// The people and channels of a workspace, or of several that share a channel.
pub struct DisplayNames<'a> {
    archive: &'a dyn Archive,
    teams: Vec<TeamId>,
    known: HashMap<String, String>,
    /// Read once, when a message first mentions a channel.
    channels: Option<Vec<WorkspaceChannels>>,
}

impl<'a> DisplayNames<'a> {
    /// Returns an empty set of names for one workspace.
    pub fn new(archive: &'a dyn Archive, team: TeamId) -> Self {
        Self::for_teams(archive, vec![team])
    }

    /// Returns an empty set of names for several workspaces. A person's name comes from the first workspace
    /// that has it.
    pub fn for_teams(archive: &'a dyn Archive, teams: Vec<TeamId>) -> Self {
        Self { archive, teams, known: HashMap::new(), channels: None }
    }

    /// Looks up the authors of these messages, and everything they mention.
    pub async fn learn<'m>(
        &mut self,
        messages: impl IntoIterator<Item = &'m MessageText, IntoIter: Clone>,
    ) -> Result<(), ArchiveError> {
        let messages = messages.into_iter();
        let mentions_channel = messages.clone().any(MessageText::mentions_channel);
        self.learn_people_and_channels(messages.flat_map(MessageText::people), mentions_channel).await
    }

    /// Looks up people by their ids.
    pub async fn learn_people(&mut self, ids: impl Iterator<Item = &str>) -> Result<(), ArchiveError> {
        self.learn_people_and_channels(ids, false).await
    }

    /// Returns a topic or a purpose as one line of plain text.
    pub async fn description_text(&mut self, text: &str) -> Result<String, ArchiveError> {
        let spans = mrkdwn::parse(text, &TimeZone::UTC);
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
        }
        if self.channels.is_none() && mentions_channel {
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
        let keys: Vec<ItemKey> =
            users.iter().flat_map(|user| self.teams.iter().map(|team| ItemKey::user(team, user))).collect();
        let rows = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        let mut names: HashMap<&str, &str> = HashMap::new();
        // The first workspace with a name for a person wins.
        for (key, row) in keys.iter().zip(&rows) {
            let attributes = ["display_name", "real_name", "name"];
            let name = row.as_ref().and_then(|row| {
                attributes.into_iter().filter_map(|name| row.text(name)).find(|name| is_visible(name))
            });
            if let Some(name) = name {
                names.entry(&key.timestamp).or_insert(name);
            }
        }
        for id in unknown {
            let nameless = if id == SLACKBOT { "Slackbot" } else { id };
            let name = plain::line(names.get(id).copied().unwrap_or(nameless));
            self.known.insert(id.to_owned(), name);
        }
        Ok(())
    }

    /// Returns a person's name, or their id if the name is unknown.
    pub fn person_name<'n>(&'n self, id: &'n str) -> &'n str {
        self.known.get(id).map_or(id, String::as_str)
    }

    /// Returns the name of a message's author, safe to print.
    pub fn author(&self, MessageAuthor { user, name, is_named_by_app, bot }: &MessageAuthor) -> String {
        let known = user
            .as_deref()
            .filter(|user| !is_named_by_app && self.has_name(user))
            .map(|user| self.person_name(user));
        let name = name.as_deref().filter(|name| is_visible(name));
        let shown = known.or(name).or(user.as_deref()).or(bot.as_deref());
        plain::line(shown.unwrap_or("unknown"))
    }

    /// Returns a channel's name from the ChannelIndex, safe to print.
    pub fn channel_name(&self, id: &str) -> Option<String> {
        let id = ChannelId::parse(id).ok()?;
        let mut names = self.channels.iter().flatten().filter_map(|channels| channels.name(&id));
        names.find(|name| is_visible(name)).map(plain::line)
    }

    /// Whether a person's name is known.
    pub fn has_name(&self, id: &str) -> bool {
        self.known.get(id).is_some_and(|name| name != id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::memory::archive::MemoryArchive;

    use super::*;
    use crate::fixture::{channel_names, person, team};
    use crate::text::{MessageText, read};

    #[tokio::test]
    async fn invisible_names_are_skipped() {
        let archive = MemoryArchive::new();
        let first = json!({ "display_name": "\u{200b}", "real_name": "\u{a0} ", "name": "ana" });
        person(&archive, "U1", first).await;
        person(&archive, "U2", json!({ "display_name": "", "name": "\u{feff}" })).await;
        channel_names(&archive, json!({ "C1": "\u{200b}" })).await;
        let mut names = DisplayNames::new(&archive, team());
        let message: MessageText = read(&json!({ "user": "U1", "text": "<@U2> <#C1>" }), &TimeZone::UTC);
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
