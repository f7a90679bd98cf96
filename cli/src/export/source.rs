//! What is exported: channels, their messages as readers see them, people.

use ports::archive::{Archive, ArchiveError, Query, key};
use ports::files::Files;
use reader::channels::{ChannelList, ChannelOrder};
use reader::joined::{ChannelOfTeam, JoinedChannel};
use reader::range::TimeRange;
use reader::rows::VisibleRows;
use reader::{find, history};
use rules::channel::fold::DELETED_PREFIX;
use rules::history::without_tokens;
use rules::project;
use serde_json::Value;
use slack::envelope;
use slack::ids::{TeamId, Ts};

use super::ExportArgs;
use super::folders::FolderNames;
use super::threads::ThreadTable;
use crate::read::ReadError;

/// What tokens begin with. A text without it holds no token.
const TOKEN: &str = "xox";

/// What of a deleted message is left if there are replies to it: which message it was.
const TOMBSTONE: [&str; 9] =
    ["itemId", "timestamp", "type", "team_id", "channel_id", "ts", "thread_ts", "parent", "deleted"];

/// What an export reads.
pub(crate) struct ExportSource<'a> {
    pub(crate) archive: &'a dyn Archive,
    /// Where bytes of files are read; `None` if they are left out.
    pub(crate) files: Option<&'a dyn Files>,
    /// The channels, those of each workspace together.
    pub(crate) channels: Vec<ExportedChannel<'a>>,
    /// The workspaces that they are of.
    pub(crate) teams: Vec<TeamId>,
    /// From when to when.
    pub(crate) range: TimeRange,
    /// Whether deleted messages are exported, with what they said.
    pub(crate) with_deleted: bool,
}

/// A channel that is exported.
pub(crate) struct ExportedChannel<'a> {
    /// Where it lies.
    pub(crate) joined: JoinedChannel<'a>,
    /// The name of its folder or file, which no other one has: that of the channel, if it can be.
    pub(crate) folder: String,
    /// What is known of it.
    pub(crate) facts: ExportedFacts,
}

/// What an export says of a channel.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExportedFacts {
    /// What it is called, without what marks it as deleted.
    pub(crate) name: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) purpose: Option<String>,
    pub(crate) created: Option<Ts>,
    pub(crate) is_archived: bool,
    pub(crate) is_deleted: bool,
    /// It was public once, and is no longer.
    pub(crate) is_private: bool,
    /// Another organisation reads and writes in it too.
    pub(crate) is_shared: bool,
}

impl ExportedFacts {
    fn of(snapshot: &Value, listed_name: Option<&str>, created: Option<Ts>) -> Self {
        let text = |name: &str| snapshot[name].as_str().map(str::to_owned);
        let is_set = |name: &str| snapshot[name] == true;
        let listed_name = listed_name.map(|name| name.strip_prefix(DELETED_PREFIX).unwrap_or(name));
        Self {
            name: text("name").or_else(|| listed_name.map(str::to_owned)),
            topic: text("topic"),
            purpose: text("purpose"),
            created,
            is_archived: is_set("archived"),
            is_deleted: is_set("deleted"),
            is_private: snapshot["visibility"] == "private",
            is_shared: is_set("ext_shared"),
        }
    }
}

impl<'a> ExportSource<'a> {
    /// Finds what is asked for.
    pub(crate) async fn find(
        archive: &'a dyn Archive,
        files: Option<&'a dyn Files>,
        args: &ExportArgs,
        range: TimeRange,
    ) -> Result<Self, ReadError> {
        let teams = find::teams_asked_for(archive, args.team.as_ref()).await?;
        let mut found = Vec::new();
        if args.channels.is_empty() {
            let list = ChannelList::read(archive, &teams, ChannelOrder::Name).await?;
            for listed in list.channels() {
                let snapshot = listed.place.newest(archive).await?.unwrap_or(Value::Null);
                if list.goes_on_as(&listed.place, &snapshot).is_none() {
                    let joined = find::joined(archive, &listed.place, &teams).await?;
                    found.push((
                        joined,
                        facts(archive, &listed.place, &snapshot, listed.name.as_deref()).await?,
                    ));
                }
            }
        }
        for called in &args.channels {
            let joined = find::channel(archive, called, args.team.as_ref()).await?;
            let place = joined.main();
            if found.iter().any(|(other, _): &(JoinedChannel<'_>, _)| other.places().contains(place)) {
                continue;
            }
            let snapshot = place.newest(archive).await?.unwrap_or(Value::Null);
            let facts = facts(archive, place, &snapshot, None).await?;
            found.push((joined, facts));
        }
        let mut teams: Vec<TeamId> = found.iter().map(|(joined, _)| joined.main().team.clone()).collect();
        teams.sort();
        teams.dedup();
        // Stable: within a workspace the order stays.
        found.sort_by(|(one, _), (other, _)| one.main().team.cmp(&other.main().team));
        let mut folders = FolderNames::default();
        let channels = found.into_iter().map(|(joined, facts)| {
            let place = joined.main();
            let folder = folders.give(&place.team, facts.name.as_deref(), &place.channel);
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

    /// The messages of a channel, oldest first: each is still to be [`ExportSource::shown`].
    pub(crate) fn messages<'s>(&self, channel: &'s ExportedChannel<'a>) -> VisibleRows<'s> {
        let query = Query::partition(channel.joined.main().messages());
        VisibleRows::all(&channel.joined, query, project::message).within(&self.range)
    }

    /// A message as it is exported, without the credentials in its addresses. A deleted one is exported only if that is asked
    /// for, or as a tombstone if there are replies to it.
    pub(crate) fn shown(&self, mut message: Value, threads: &ThreadTable) -> Option<Value> {
        if message["deleted"] == true && !self.with_deleted {
            let ts = message["ts"].as_str().and_then(|ts| Ts::parse(ts).ok())?;
            threads.of(&ts)?;
            if let Some(message) = message.as_object_mut() {
                message.retain(|name, _| TOMBSTONE.contains(&name.as_str()));
            }
            return Some(message);
        }
        clean(&mut message);
        Some(message)
    }

    /// The people of a workspace.
    pub(crate) fn people(&self, team: &TeamId) -> VisibleRows<'a> {
        VisibleRows::all(self.archive, Query::partition(key::users(team)), |item| {
            (!item.is_erased()).then(|| project::directory(item))
        })
    }

    /// Where a channel's file or folder is below the export: the workspace stands before it if there are several.
    pub(crate) fn folder_of_team(&self, team: &TeamId) -> Option<&TeamId> {
        self.teams.iter().find(|other| self.teams.len() > 1 && *other == team)
    }
}

/// Takes credentials out of the addresses in a message, and in what Slack said of it.
pub(super) fn clean(message: &mut Value) {
    let has_token = |name: &str| message[name].as_str().is_some_and(|text| text.contains(TOKEN));
    // Almost every message ends here.
    if !has_token("raw_event") && !has_token("text") {
        return;
    }
    let raw = message["raw_event"].as_str().and_then(|raw| envelope::value(raw).ok());
    if let Some(mut raw) = raw {
        without_tokens(&mut raw);
        message["raw_event"] = raw.to_string().into();
    }
    without_tokens(message);
}

async fn facts(
    archive: &dyn Archive,
    place: &ChannelOfTeam,
    snapshot: &Value,
    listed_name: Option<&str>,
) -> Result<ExportedFacts, ArchiveError> {
    let created = history::created(archive, &place.team, &place.channel).await?;
    Ok(ExportedFacts::of(snapshot, listed_name, created))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn beside_half_a_character_addresses_lose_their_tokens_and_nothing_else_is_lost() {
        let raw = r#"{"text":"see\nhttps://x.test/?t=xoxe-1-secret\nbelow \ud83d",
            "files":[{"url_private":"https://files.slack.com/a.txt?pub_secret=1&t=xoxe-1-secret"}]}"#;
        let mut message = json!({ "text": "plain", "raw_event": raw });
        clean(&mut message);
        let raw: Value = serde_json::from_str(message["raw_event"].as_str().unwrap()).unwrap();
        let expected = json!({ "text": "see\nhttps://x.test/\nbelow \u{fffd}",
            "files": [{ "url_private": "https://files.slack.com/a.txt" }] });
        assert_eq!(raw, expected);
    }
}
