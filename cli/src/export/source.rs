//! The contents of an export: channels, their messages as readers see them, and people.

use std::collections::HashMap;

use ports::archive::{Archive, ArchiveError, ItemKey, Query};
use ports::files::Files;
use reader::channels::{ChannelList, ChannelOrder};
use reader::joined::{ChannelOfTeam, JoinedChannel};
use reader::range::TimeRange;
use reader::rows::VisibleRows;
use reader::{find, history};
use rules::channel::index::bare_name;
use rules::history::without_tokens;
use rules::message::stored_version;
use rules::project;
use rules::view::{ChannelView, MessageView, PersonView};
use slack::ids::{TeamId, Ts};

use super::folders::FolderNames;
use super::threads::ThreadTable;
use super::{ExportArgs, ExportProgress};
use crate::read::{ReadError, people_of};

/// The prefix of tokens. A text without it contains no token.
const TOKEN: &str = "xox";

/// The host of the public addresses of files, which contain a key.
const PUBLIC_ADDRESS: &str = "slack-files.com";

/// The fields of a deleted message with replies that are exported: they identify the message.
const TOMBSTONE: [&str; 9] =
    ["itemId", "timestamp", "type", "team_id", "channel_id", "ts", "thread_ts", "parent", "deleted"];

/// The archive and the parts of it that an export reads.
pub(crate) struct ExportSource<'a> {
    pub(crate) archive: &'a dyn Archive,
    /// The file store; `None` if the bytes of files are left out.
    pub(crate) files: Option<&'a dyn Files>,
    /// The channels, grouped by workspace.
    pub(crate) channels: Vec<ExportedChannel<'a>>,
    /// The workspaces of the channels.
    pub(crate) teams: Vec<TeamId>,
    /// The range of the exported messages.
    pub(crate) range: TimeRange,
    /// Whether deleted messages are exported with their texts.
    pub(crate) with_deleted: bool,
}

pub(crate) struct ExportedChannel<'a> {
    /// The channel's rows, under all of its ids.
    pub(crate) joined: JoinedChannel<'a>,
    /// The unique name of its folder or file: the channel's name, if possible.
    pub(crate) folder: String,
    /// Its name, topic and state.
    pub(crate) facts: ExportedFacts,
}

/// The facts about a channel that an export contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExportedFacts {
    /// The name, without the prefix that marks a deleted channel.
    pub(crate) name: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) purpose: Option<String>,
    pub(crate) created: Option<Ts>,
    pub(crate) is_archived: bool,
    pub(crate) is_deleted: bool,
    /// The channel was public once, but no longer is.
    pub(crate) is_private: bool,
    /// The channel is shared with another organisation.
    pub(crate) is_shared: bool,
}

impl ExportedFacts {
    async fn read(
        archive: &dyn Archive,
        location: &ChannelOfTeam,
        snapshot: &ChannelView,
        listed_name: Option<&str>,
    ) -> Result<Self, ArchiveError> {
        let listed_name = listed_name.map(|name| bare_name(name, snapshot.is_deleted()));
        Ok(Self {
            name: snapshot.name().or(listed_name).map(str::to_owned),
            topic: snapshot.topic().map(str::to_owned),
            purpose: snapshot.purpose().map(str::to_owned),
            created: history::created(archive, &location.team, &location.channel).await?,
            is_archived: snapshot.is_archived(),
            is_deleted: snapshot.is_deleted(),
            is_private: snapshot.is_private(),
            is_shared: snapshot.is_shared(),
        })
    }
}

impl<'a> ExportSource<'a> {
    /// Finds the requested channels.
    pub(crate) async fn find(
        archive: &'a dyn Archive,
        files: Option<&'a dyn Files>,
        args: &ExportArgs,
        range: TimeRange,
    ) -> Result<Self, ReadError> {
        let teams = find::requested_teams(archive, args.team.as_ref()).await?;
        let mut found = Vec::new();
        if args.channels.is_empty() {
            let list = ChannelList::read(archive, &teams, ChannelOrder::Name).await?;
            for listed in list.channels() {
                let snapshot = listed.location.newest(archive).await?.unwrap_or_default();
                if list.successor(&listed.location, &snapshot).is_none() {
                    let joined = find::joined_channel(archive, &listed.location, &teams).await?;
                    let name = listed.name.as_deref();
                    let facts = ExportedFacts::read(archive, &listed.location, &snapshot, name).await?;
                    found.push((joined, facts));
                }
            }
        }
        for name in &args.channels {
            let joined = find::find_channel(archive, name, args.team.as_ref()).await?;
            let location = joined.current_location();
            if found.iter().any(|(other, _): &(JoinedChannel<'_>, _)| other.locations().contains(location)) {
                continue;
            }
            let snapshot = location.newest(archive).await?.unwrap_or_default();
            let facts = ExportedFacts::read(archive, location, &snapshot, None).await?;
            found.push((joined, facts));
        }
        // The sort is stable, so the order within a workspace stays.
        found.sort_by(|(one, _), (other, _)| one.current_location().team.cmp(&other.current_location().team));
        let mut teams: Vec<TeamId> =
            found.iter().map(|(joined, _)| joined.current_location().team.clone()).collect();
        teams.dedup();
        let mut folders = FolderNames::default();
        let channels = found.into_iter().map(|(joined, facts)| {
            let location = joined.current_location();
            let folder = folders.assign(location.team.as_str(), facts.name.as_deref(), &location.channel);
            ExportedChannel { joined, folder, facts }
        });
        Ok(Self {
            archive,
            files,
            channels: channels.collect(),
            teams,
            range,
            with_deleted: args.include_deleted,
        })
    }

    /// Returns the messages of a channel, oldest first. The caller passes each to [`ExportSource::shown`].
    pub(crate) fn messages<'s>(&self, channel: &'s ExportedChannel<'a>) -> VisibleRows<'s> {
        let query = Query::partition(channel.joined.current_location().messages());
        VisibleRows::all(&channel.joined, query, project::message).within(&self.range)
    }

    /// Reads the exported replies in a channel.
    pub(crate) async fn threads(
        &self,
        channel: &ExportedChannel<'_>,
        progress: &mut ExportProgress,
    ) -> Result<ThreadTable, ArchiveError> {
        let (mut table, mut users) = (ThreadTable::default(), HashMap::new());
        let partition = channel.joined.current_location().messages();
        let mut query = Query::partition(partition.clone());
        query.after = self.range.key_before().map(|after| ItemKey::new(partition, after));
        query.until = self.range.until.as_ref().map(Ts::to_string);
        loop {
            let page = channel.joined.query(&query).await?;
            progress.read(page.items.len());
            let exported = page.items.iter().filter(|item| {
                if item.has_flag("deleted") { self.with_deleted } else { stored_version(item).is_some() }
            });
            for item in exported {
                table.add(item, &mut users);
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(table),
            }
        }
    }

    /// Returns a message as it is exported, without the credentials in its addresses. A deleted message is
    /// exported only on request, or as a tombstone if it has replies.
    pub(crate) fn shown(&self, mut message: MessageView, threads: &ThreadTable) -> Option<MessageView> {
        if message.is_deleted() && !self.with_deleted {
            threads.replies_to(&message.written_at()?)?;
            if let Some(message) = message.json_mut().as_object_mut() {
                message.retain(|name, _| TOMBSTONE.contains(&name.as_str()));
            }
            return Some(message);
        }
        remove_tokens(&mut message);
        Some(message)
    }

    pub(crate) async fn people(&self, team: &TeamId) -> Result<VisibleRows<'a, PersonView>, ArchiveError> {
        people_of(self.archive, team).await
    }

    /// Returns the folder of a workspace within the export; `None` if the export has only one workspace.
    pub(crate) fn folder_of_team(&self, team: &TeamId) -> Option<&TeamId> {
        self.teams.iter().find(|other| self.teams.len() > 1 && *other == team)
    }
}

/// Removes credentials from the addresses in a message and in its raw event.
pub(super) fn remove_tokens(message: &mut MessageView) {
    let has_token = |text: &str| [TOKEN, PUBLIC_ADDRESS].iter().any(|part| text.contains(part));
    // The path of almost every message.
    if ![message.raw_event(), message.text()].into_iter().flatten().any(has_token) {
        return;
    }
    if let Some(mut raw) = message.raw() {
        without_tokens(&mut raw);
        message.set_raw(&raw);
    }
    without_tokens(message.json_mut());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_removed_from_a_raw_event_with_a_lone_surrogate() {
        let raw = r#"{"text":"see\nhttps://x.test/?t=xoxe-1-secret\nbelow \ud83d",
            "files":[{"url_private":"https://files.slack.com/a.txt?pub_secret=1&t=xoxe-1-secret"}]}"#;
        let mut message = MessageView::from(json!({ "text": "plain", "raw_event": raw }));
        remove_tokens(&mut message);
        let raw = message.raw().unwrap();
        let expected = json!({ "text": "see\nhttps://x.test/\nbelow \u{fffd}",
            "files": [{ "url_private": "https://files.slack.com/a.txt" }] });
        assert_eq!(raw, expected);
    }

    #[test]
    fn the_key_of_a_public_address_is_removed_from_a_raw_event_without_a_token() {
        let raw = r#"{"text":"hi","files":[{"id":"F1","permalink_public":"https://slack-files.com/T1-F1-0a1b2c3d4e"}]}"#;
        let mut message = MessageView::from(json!({ "text": "hi", "raw_event": raw }));
        remove_tokens(&mut message);
        let raw = message.raw().unwrap();
        assert_eq!(raw["files"][0]["permalink_public"], "https://slack-files.com/T1-F1");
    }
}
