//! Resolves channels and people by id or name.

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use rules::channel::index::DELETED_PREFIX;
use rules::directory::names;
use rules::view::ChannelView;
use slack::ids::{ChannelId, TeamId, UserId};

use crate::channels::is_deleted;
use crate::concurrent::read_all;
use crate::directory;
use crate::joined::{ChannelOfTeam, JoinedChannel, locations};
use crate::plain;
use crate::rows::VisibleRows;

/// Slack limits names to 80 characters, so a much longer text resembles no name.
const MAX_NAME_BYTES: usize = 4 * 80;

/// Maximum number of suggestions for an unknown name.
const SUGGESTIONS: usize = 3;

/// Minimum Jaro-Winkler similarity of a suggestion, from 0 to 1.
const CLOSE: f64 = 0.8;

/// Why no single channel was found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No channel has this id or name.
    #[error("no channel {called} in this archive")]
    UnknownChannel {
        /// The requested id or name.
        called: String,
        /// The workspace, if only one was searched.
        team: Option<TeamId>,
        /// Similar names, closest first.
        close: Vec<String>,
    },
    /// Channels of several workspaces have this id or name.
    #[error("channel {called} is in several workspaces")]
    SeveralTeams {
        /// The requested id or name.
        called: String,
        locations: Vec<ChannelOfTeam>,
    },
    /// Several channels of one workspace have this name.
    #[error("several channels are called {called}")]
    SeveralChannels {
        /// The requested id or name.
        called: String,
        locations: Vec<ChannelOfTeam>,
    },
    /// The archive has no rows of this workspace.
    #[error("no workspace {0} in this archive")]
    UnknownTeam(TeamId),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Finds the channel with this id or name in one workspace or in all workspaces of the archive, and joins its
/// locations there.
pub async fn find_channel<'a>(
    archive: &'a dyn Archive,
    called: &str,
    team: Option<&TeamId>,
) -> Result<JoinedChannel<'a>, FindError> {
    let teams = match team {
        Some(team) => vec![team.clone()],
        None => teams(archive).await?,
    };
    let (found, close) = find_locations(archive, called, &teams).await?;
    let mut channels: Vec<JoinedChannel<'a>> = Vec::new();
    for location in &found {
        if !channels.iter().any(|channel| channel.locations().contains(location)) {
            channels.push(joined_channel(archive, location, &teams).await?);
        }
    }
    if channels.len() < 2 {
        return channels.pop().ok_or_else(|| FindError::UnknownChannel {
            called: called.to_owned(),
            team: team.cloned(),
            close,
        });
    }
    let locations: Vec<ChannelOfTeam> =
        channels.iter().map(|channel| channel.current_location().clone()).collect();
    let called = called.to_owned();
    Err(if locations.iter().all(|location| location.team == locations[0].team) {
        FindError::SeveralChannels { called, locations }
    } else {
        FindError::SeveralTeams { called, locations }
    })
}

/// Returns the locations of the channels with this id, or otherwise with this name, in these workspaces, and
/// similar names.
pub(crate) async fn find_locations(
    archive: &dyn Archive,
    called: &str,
    teams: &[TeamId],
) -> Result<(Vec<ChannelOfTeam>, Vec<String>), ArchiveError> {
    let name = called.strip_prefix('#').unwrap_or(called);
    let found = by_id(archive, name, teams).await?;
    if found.is_empty() { by_name(archive, name, teams).await } else { Ok((found, Vec::new())) }
}

/// Returns the only location of a channel, for commands that change it.
///
/// # Errors
/// [`FindError`], even if the channel is only shared by several workspaces.
pub async fn find_single_location(
    archive: &dyn Archive,
    called: &str,
    team: Option<&TeamId>,
) -> Result<ChannelOfTeam, FindError> {
    let channel = find_channel(archive, called, team).await?;
    let location = location_for_id(&channel, called);
    let of_id = channel.locations().iter().filter(|other| other.channel == location.channel);
    let locations: Vec<ChannelOfTeam> = of_id.cloned().collect();
    if locations.len() > 1 {
        return Err(FindError::SeveralTeams { called: called.to_owned(), locations });
    }
    Ok(location.clone())
}

/// Returns the channel at this location, joined with its other locations in these workspaces.
pub async fn joined_channel<'a>(
    archive: &'a dyn Archive,
    location: &ChannelOfTeam,
    teams: &[TeamId],
) -> Result<JoinedChannel<'a>, ArchiveError> {
    Ok(joined_with_snapshot(archive, location.clone(), teams).await?.0)
}

/// Returns the channels at these locations, each as [`joined_channel`] does, and whether it is private now.
pub async fn joined_channels<'a>(
    archive: &'a dyn Archive,
    locations: Vec<ChannelOfTeam>,
    teams: &[TeamId],
) -> Result<Vec<(JoinedChannel<'a>, bool)>, ArchiveError> {
    let reads = locations.into_iter().map(|location| joined_with_snapshot(archive, location, teams));
    let channels = read_all(reads).await?;
    let newest: Vec<_> =
        channels.iter().map(|(joined, snapshot)| (joined.current_location(), snapshot.as_ref())).collect();
    let are_private = locations::are_private(archive, &newest).await?;
    Ok(channels.into_iter().map(|(joined, _)| joined).zip(are_private).collect())
}

async fn joined_with_snapshot<'a>(
    archive: &'a dyn Archive,
    location: ChannelOfTeam,
    teams: &[TeamId],
) -> Result<(JoinedChannel<'a>, Option<ChannelView>), ArchiveError> {
    let mut found = locations::find_locations(archive, location, teams).await?;
    let (main, snapshot) = found.remove(0);
    let others = found.into_iter().map(|(location, _)| location).collect();
    Ok((JoinedChannel::new(archive, main, others), snapshot))
}

/// Returns the location of a channel whose id the user named, or otherwise its main location.
pub fn location_for_id<'c>(channel: &'c JoinedChannel<'_>, called: &str) -> &'c ChannelOfTeam {
    let id = called.strip_prefix('#').unwrap_or(called);
    channel
        .locations()
        .iter()
        .find(|location| location.channel.as_str() == id)
        .unwrap_or(channel.current_location())
}

pub async fn teams(archive: &dyn Archive) -> Result<Vec<TeamId>, ArchiveError> {
    let items = query_all(archive, Query::partition(key::teams())).await?;
    Ok(items.iter().filter_map(|item| TeamId::parse(&item.key.timestamp).ok()).collect())
}

/// Returns the requested workspace, or all workspaces in the archive.
pub async fn requested_teams(archive: &dyn Archive, team: Option<&TeamId>) -> Result<Vec<TeamId>, FindError> {
    let known = teams(archive).await?;
    match team {
        Some(team) if known.contains(team) => Ok(vec![team.clone()]),
        Some(team) => Err(FindError::UnknownTeam(team.clone())),
        None => Ok(known),
    }
}

/// Returns the locations of the channel with this id. The channel needs no name.
async fn by_id(
    archive: &dyn Archive,
    id: &str,
    teams: &[TeamId],
) -> Result<Vec<ChannelOfTeam>, ArchiveError> {
    let Ok(channel) = ChannelId::parse(id) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for team in teams {
        let location = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
        if location.exists(archive).await? {
            found.push(location);
        }
    }
    Ok(found)
}

/// Returns the locations of the channels with this name, ignoring case, and similar names. A deleted channel
/// is found by its former name, unless another channel has that name.
async fn by_name(
    archive: &dyn Archive,
    name: &str,
    teams: &[TeamId],
) -> Result<(Vec<ChannelOfTeam>, Vec<String>), ArchiveError> {
    let requested = name.to_lowercase();
    let (mut found, mut deleted, mut close) = (Vec::new(), Vec::new(), Closest::new(&requested));
    for team in teams {
        for (channel, known) in directory::read(archive, team).await?.iter() {
            let location = ChannelOfTeam { team: team.clone(), channel };
            let lowercase = known.to_lowercase();
            if lowercase == requested {
                found.push(location);
            } else if lowercase.strip_prefix(DELETED_PREFIX) == Some(&requested) {
                deleted.push(location);
            } else {
                close.add_candidate(&lowercase);
            }
        }
    }
    if found.is_empty() {
        for location in deleted {
            let listed_name = format!("{DELETED_PREFIX}{requested}");
            if is_deleted(archive, &location, Some(&listed_name)).await? {
                found.push(location);
            } else {
                close.add_candidate(&listed_name);
            }
        }
    }
    Ok((found, close.names()))
}

/// Returns the people with this id or with this name, ignoring case. The name may start with `@`.
pub async fn find_people(
    archive: &dyn Archive,
    called: &str,
    teams: Vec<TeamId>,
) -> Result<Vec<(TeamId, UserId)>, ArchiveError> {
    let name = called.strip_prefix('@').unwrap_or(called).to_lowercase();
    let mut found = Vec::new();
    for team in teams {
        if let Ok(user) = UserId::parse(called)
            && archive.get(&ItemKey::user(&team, &user)).await?.is_some()
        {
            found.push((team, user));
            continue;
        }
        let mut rows = VisibleRows::all(archive, Query::partition(key::users(&team)), |user| {
            let is_called = names(user).any(|known| known.to_lowercase() == name);
            is_called.then(|| UserId::parse(&user.key.timestamp).ok()).flatten()
        });
        while let Some(page) = rows.next().await? {
            found.extend(page.into_iter().map(|user| (team.clone(), user)));
        }
    }
    Ok(found)
}

/// Why no single person was found.
#[derive(Debug, thiserror::Error)]
pub enum FindPersonError {
    /// No person has this name.
    #[error("no person is called {called} in this archive{}", suggestion_text(close))]
    Unknown {
        /// The requested id or name.
        called: String,
        /// Similar names, closest first.
        close: Vec<String>,
    },
    /// Several people have this name.
    #[error("several people are called {called}, {}: name one by their id", listed(people))]
    Several {
        /// The requested id or name.
        called: String,
        /// Their ids.
        people: Vec<UserId>,
    },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Returns the only person with this id or name, for commands that change something. An id needs no row in
/// the directory: the archive may have messages of a person whom the directory does not contain.
pub async fn find_person(
    archive: &dyn Archive,
    called: &str,
    teams: &[TeamId],
) -> Result<UserId, FindPersonError> {
    let found = find_people(archive, called, teams.to_vec()).await?;
    let mut people: Vec<UserId> = found.into_iter().map(|(_, user)| user).collect();
    people.sort_unstable();
    people.dedup();
    let shown = || plain::excerpt(called, MAX_NAME_BYTES);
    match (people.len(), UserId::parse(called)) {
        // A person's name may be the id of another person.
        (_, Ok(user)) if people.contains(&user) => Ok(user),
        (0, Ok(user)) if looks_like_an_id(called) => Ok(user),
        (0, _) => {
            let close = similar_names(archive, called, teams).await?;
            Err(FindPersonError::Unknown { called: shown(), close })
        }
        (1, _) => Ok(people.remove(0)),
        _ => Err(FindPersonError::Several { called: shown(), people }),
    }
}

/// Whether a text looks like the id of a person or a bot in Slack and not like a name.
pub(crate) fn looks_like_an_id(called: &str) -> bool {
    called.starts_with(['U', 'W', 'B'])
        && called.bytes().any(|byte| byte.is_ascii_digit())
        && UserId::parse(called).is_ok()
}

/// Returns names of people that are similar to a name.
pub async fn similar_names(
    archive: &dyn Archive,
    called: &str,
    teams: &[TeamId],
) -> Result<Vec<String>, ArchiveError> {
    let requested = called.strip_prefix('@').unwrap_or(called).to_lowercase();
    let mut close = Closest::new(&requested);
    for team in teams {
        let mut rows = VisibleRows::all(archive, Query::partition(key::users(team)), |user| {
            (!user.is_erased()).then(|| names(user).map(str::to_lowercase).collect::<Vec<_>>())
        });
        while let Some(page) = rows.next().await? {
            // The user name comes first: of equally similar names it is suggested.
            page.iter().flat_map(|names| names.iter().rev()).for_each(|known| close.add_candidate(known));
        }
    }
    Ok(close.names())
}

fn listed(people: &[UserId]) -> String {
    people.iter().take(SUGGESTIONS).map(UserId::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns the end of an error message: the suggested names. Without suggestions it is empty.
pub fn suggestion_text(close: &[String]) -> String {
    let names: Vec<String> = close.iter().map(|name| plain::excerpt(name, MAX_NAME_BYTES)).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("; did you mean {}?", names.join(" or "))
}

/// Collects the names that are most similar to a requested one.
pub(crate) struct Closest<'a> {
    requested: &'a str,
    best: Vec<(f64, String)>,
}

impl<'a> Closest<'a> {
    pub(crate) fn new(requested: &'a str) -> Self {
        Self { requested, best: Vec::new() }
    }

    pub(crate) fn add_candidate(&mut self, name: &str) {
        if self.requested.len() > MAX_NAME_BYTES || name.len() > MAX_NAME_BYTES {
            return;
        }
        let likeness = strsim::jaro_winkler(self.requested, name);
        if likeness >= CLOSE && self.best.iter().all(|(_, known)| known != name) {
            self.best.push((likeness, name.to_owned()));
            self.best.sort_by(|a, b| b.0.total_cmp(&a.0));
            self.best.truncate(SUGGESTIONS);
        }
    }

    pub(crate) fn names(self) -> Vec<String> {
        self.best.into_iter().map(|(_, name)| name).collect()
    }
}
