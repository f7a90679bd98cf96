//! What people and channels are called, looked up as they turn up.

use std::collections::HashMap;

use serde_json::Value;
use shared::archive::{Archive, ArchiveError, ItemKey};
use shared::directory::{self, Channels};
use shared::slack::ids::{ChannelId, TeamId, UserId};

use super::mrkdwn;
use crate::plain;

/// Names kept in memory. Beyond it they are forgotten and asked for again; beyond it within one page, ids are shown.
const MAX_KNOWN: usize = 10_000;

/// The people and channels of one workspace.
pub(super) struct Names<'a> {
    archive: &'a dyn Archive,
    team: TeamId,
    known: HashMap<String, String>,
    /// Read once, when a message first mentions a channel.
    channels: Option<Channels>,
}

impl<'a> Names<'a> {
    pub(super) fn new(archive: &'a dyn Archive, team: TeamId) -> Self {
        Self { archive, team, known: HashMap::new(), channels: None }
    }

    /// Looks up whoever wrote, and whatever is mentioned in these messages.
    pub(super) async fn learn(&mut self, messages: &[Value]) -> Result<(), ArchiveError> {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let mentions_channel =
            |message: &Value| message["text"].as_str().is_some_and(|text| text.contains("<#"));
        if self.channels.is_none() && messages.iter().any(mentions_channel) {
            self.channels = Some(directory::read(self.archive, &self.team).await?);
        }
        for message in messages {
            let mentioned = message["text"].as_str().into_iter().flat_map(mrkdwn::mentioned);
            for id in message["user"].as_str().into_iter().chain(mentioned) {
                if self.known.len() < MAX_KNOWN && !self.known.contains_key(id) {
                    let name = self.look_up(id).await?;
                    self.known.insert(id.to_owned(), name);
                }
            }
        }
        Ok(())
    }

    async fn look_up(&self, id: &str) -> Result<String, ArchiveError> {
        let Ok(user) = UserId::parse(id) else { return Ok(plain::line(id)) };
        let row = self.archive.get(&ItemKey::user(&self.team, &user)).await?;
        let name = row.as_ref().and_then(|row| {
            ["display_name", "real_name", "name"].into_iter().find_map(|attribute| row.text(attribute))
        });
        Ok(plain::line(name.unwrap_or(id)))
    }

    /// What this person is called: their id where nothing else is known.
    pub(super) fn of<'n>(&'n self, id: &'n str) -> &'n str {
        self.known.get(id).map_or(id, String::as_str)
    }

    /// What the ChannelIndex calls this channel, safe to print.
    pub(super) fn of_channel(&self, id: &str) -> Option<String> {
        let name = self.channels.as_ref()?.name(&ChannelId::parse(id).ok()?)?;
        Some(plain::line(name))
    }

    /// Whether a name is known.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.known.get(id).is_some_and(|name| name != id)
    }
}
