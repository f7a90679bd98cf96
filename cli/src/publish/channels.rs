//! The channels of a site: which of them are published, and in which folders.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::Archive;
use ports::archive::erasure::OptOutScope;
use reader::channels::{ChannelList, ChannelOrder};
use reader::find::{self, FindError};
use reader::history;
use reader::joined::{ChannelOfTeam, JoinedChannel};
use rules::channel::index::bare_name;
use rules::publishing::{self, PublishRefusal};
use rules::view::ChannelView;
use slack::ids::{ChannelId, TeamId, Ts};

use super::PublishError;
use super::settings::{self, SiteSettings};
use crate::export::folders::FolderNames;
use crate::read::ReadError;

/// A published channel.
pub(super) struct SiteChannel<'a> {
    /// Its rows, under all of its ids.
    pub(super) joined: JoinedChannel<'a>,
    /// The name of its folder, which stays when the channel is renamed.
    pub(super) folder: String,
    pub(super) name: String,
    /// The folders that lead to it: those of its later names.
    pub(super) redirects: BTreeSet<String>,
    /// Its topic, in Slack's markup.
    pub(super) topic: Option<String>,
    pub(super) is_archived: bool,
}

/// A requested channel that is not published.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RefusedChannel {
    /// How it was requested, or its name.
    pub(super) channel: String,
    pub(super) reason: PublishRefusal,
}

pub(super) struct SiteChannels<'a> {
    pub(super) teams: Vec<TeamId>,
    pub(super) published: Vec<SiteChannel<'a>>,
    pub(super) refused: Vec<RefusedChannel>,
    /// The people and channels of which nothing is stored any more.
    pub(super) out: BTreeSet<(TeamId, OptOutScope)>,
}

/// A channel of the archive.
struct PublishableChannel {
    location: ChannelOfTeam,
    name: Option<String>,
    newest: Option<ChannelView>,
    created: Option<Ts>,
    folder: String,
}

impl PublishableChannel {
    /// The oldest name.
    fn first_name(&self) -> Option<&str> {
        let former = self.newest.as_ref().and_then(|newest| newest.former_names().last());
        former.or(self.name.as_deref())
    }

    /// Every name but the oldest one.
    fn later_names(&self) -> Vec<&str> {
        let former = self.newest.iter().flat_map(ChannelView::former_names);
        let mut names: Vec<&str> = self.name.as_deref().into_iter().chain(former).collect();
        names.pop();
        names
    }
}

/// Finds the channels that the settings name.
pub(super) async fn find<'a>(
    archive: &'a dyn Archive,
    settings: &SiteSettings,
    team: Option<&TeamId>,
) -> Result<SiteChannels<'a>, PublishError> {
    let teams = find::requested_teams(archive, team).await.map_err(ReadError::from)?;
    let mut known = read_all(archive, &teams).await?;
    assign_folders(&mut known);
    let out = settings::out_of_archive(archive, &teams).await?;
    let refusal = |location: &ChannelOfTeam, newest: Option<&ChannelView>| {
        let scope = (location.team.clone(), OptOutScope::Channel(location.channel.clone()));
        let is_out = out.contains(&scope).then_some(PublishRefusal::OptedOut);
        publishing::refusal(newest, settings.include_shared).or(is_out)
    };
    let mut chosen: BTreeSet<ChannelOfTeam> = BTreeSet::new();
    let mut refused = Vec::new();
    match &settings.requested {
        None => chosen.extend(
            known
                .iter()
                .filter(|channel| refusal(&channel.location, channel.newest.as_ref()).is_none())
                .map(|channel| channel.location.clone()),
        ),
        Some(requested) => {
            for name in requested {
                match find::find_channel(archive, name, team).await {
                    Ok(joined) => {
                        let location = joined.current_location();
                        let newest = location.newest(archive).await?;
                        match refusal(location, newest.as_ref()) {
                            None => chosen.extend(joined.locations().iter().cloned()),
                            Some(reason) => refused.push(RefusedChannel { channel: name.clone(), reason }),
                        }
                    }
                    Err(error) => match erased(archive, name, &teams, &error).await? {
                        true => refused
                            .push(RefusedChannel { channel: name.clone(), reason: PublishRefusal::Erased }),
                        false => return Err(ReadError::from(error).into()),
                    },
                }
            }
        }
    }
    refused.sort();
    refused.dedup();
    let taken: BTreeSet<String> = known.iter().map(|channel| channel.folder.to_lowercase()).collect();
    let mut redirects_taken = taken;
    let mut published = Vec::new();
    for channel in &known {
        let mut redirects = BTreeSet::new();
        let mut folders = FolderNames::default();
        for name in channel.later_names() {
            let folder = folders.assign("", Some(name), &channel.location.channel);
            if redirects_taken.insert(folder.to_lowercase()) {
                redirects.insert(folder);
            }
        }
        if !chosen.contains(&channel.location) {
            continue;
        }
        let joined = find::joined_channel(archive, &channel.location, &teams).await?;
        let newest = channel.newest.clone().unwrap_or_default();
        published.push(SiteChannel {
            joined,
            folder: channel.folder.clone(),
            name: channel.name.clone().unwrap_or_else(|| channel.location.channel.to_string()),
            redirects,
            topic: newest.topic().map(str::to_owned),
            is_archived: newest.is_archived(),
        });
    }
    published.sort_by(|one, other| (&one.name, &one.folder).cmp(&(&other.name, &other.folder)));
    Ok(SiteChannels { teams, published, refused, out })
}

/// Reads the channels of the archive, the oldest first.
async fn read_all(archive: &dyn Archive, teams: &[TeamId]) -> Result<Vec<PublishableChannel>, PublishError> {
    let list = ChannelList::read(archive, teams, ChannelOrder::Id).await?;
    let mut known = Vec::new();
    for listed in list.channels() {
        let newest = listed.location.newest(archive).await?;
        let snapshot = newest.clone().unwrap_or_default();
        if list.successor(&listed.location, &snapshot).is_some() {
            continue;
        }
        let ChannelOfTeam { team, channel } = &listed.location;
        let created = history::created(archive, team, channel).await?;
        let listed_name = listed.name.as_deref().map(|name| bare_name(name, snapshot.is_deleted()));
        let name = snapshot.name().or(listed_name).map(str::to_owned);
        let location = listed.location.clone();
        known.push(PublishableChannel { location, name, newest, created, folder: String::new() });
    }
    known.sort_by(|one, other| {
        let age = |channel: &PublishableChannel| channel.created.as_ref().map_or(i64::MAX, Ts::micros);
        (age(one), &one.location.channel, &one.location.team).cmp(&(
            age(other),
            &other.location.channel,
            &other.location.team,
        ))
    });
    Ok(known)
}

fn assign_folders(known: &mut [PublishableChannel]) {
    let mut folders = FolderNames::default();
    for channel in known {
        channel.folder = folders.assign("", channel.first_name(), &channel.location.channel);
    }
}

/// Whether a request that finds no channel names one whose content was erased.
async fn erased(
    archive: &dyn Archive,
    name: &str,
    teams: &[TeamId],
    error: &FindError,
) -> Result<bool, PublishError> {
    let (FindError::UnknownChannel { .. }, Ok(channel)) = (error, ChannelId::parse(name)) else {
        return Ok(false);
    };
    for team in teams {
        let location = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
        if location.exists(archive).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the names of the channels of a site by each of their ids.
pub(super) fn names_by_id(published: &[SiteChannel<'_>]) -> BTreeMap<String, String> {
    let ids = published.iter().flat_map(|channel| {
        channel.joined.locations().iter().map(|location| (location.channel.to_string(), channel.name.clone()))
    });
    ids.collect()
}
