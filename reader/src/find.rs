//! Which channel or person is meant: by id, or by name.

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use rules::channel::fold::DELETED_PREFIX;
use rules::project;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, UserId};

use crate::directory;
use crate::joined::{ChannelOfTeam, JoinedChannel, places};
use crate::plain;
use crate::rows::VisibleRows;

/// Slack's names end at 80 characters: nothing is like what is far longer.
const MAX_NAME_BYTES: usize = 4 * 80;

/// Names that are close to one that is unknown.
const SUGGESTIONS: usize = 3;

/// How much alike two names are that may be meant for each other, from 0 to 1.
const CLOSE: f64 = 0.8;

/// Why nothing was found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No channel has this id or name.
    #[error("no channel {called} in this archive")]
    UnknownChannel {
        /// What was asked for.
        called: String,
        /// In which workspace, if only one was searched.
        team: Option<TeamId>,
        /// Names that are like it, the closest first.
        close: Vec<String>,
    },
    /// Channels of several workspaces have it.
    #[error("channel {called} is in several workspaces")]
    SeveralTeams {
        /// What was asked for.
        called: String,
        /// Where they are.
        places: Vec<ChannelOfTeam>,
    },
    /// Several channels of one workspace have this name.
    #[error("several channels are called {called}")]
    SeveralChannels {
        /// What was asked for.
        called: String,
        /// Where they are.
        places: Vec<ChannelOfTeam>,
    },
    /// Nothing of this workspace is stored.
    #[error("no workspace {0} in this archive")]
    UnknownTeam(TeamId),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Finds the channel that is called this, among the workspaces in the archive or in one of them, with all the places in
/// which it lies there.
pub async fn channel<'a>(
    archive: &'a dyn Archive,
    called: &str,
    team: Option<&TeamId>,
) -> Result<JoinedChannel<'a>, FindError> {
    let teams = match team {
        Some(team) => vec![team.clone()],
        None => teams(archive).await?,
    };
    let (found, close) = places_called(archive, called, &teams).await?;
    let mut channels: Vec<JoinedChannel<'a>> = Vec::new();
    for place in &found {
        if !channels.iter().any(|channel| channel.places().contains(place)) {
            channels.push(joined(archive, place, &teams).await?);
        }
    }
    if channels.len() < 2 {
        return channels.pop().ok_or_else(|| FindError::UnknownChannel {
            called: called.to_owned(),
            team: team.cloned(),
            close,
        });
    }
    let places: Vec<ChannelOfTeam> = channels.iter().map(|channel| channel.main().clone()).collect();
    let called = called.to_owned();
    Err(if places.iter().all(|place| place.team == places[0].team) {
        FindError::SeveralChannels { called, places }
    } else {
        FindError::SeveralTeams { called, places }
    })
}

/// The places of channels that have this id or else this name in one of these workspaces, and names that are close to it.
pub(crate) async fn places_called(
    archive: &dyn Archive,
    called: &str,
    teams: &[TeamId],
) -> Result<(Vec<ChannelOfTeam>, Vec<String>), ArchiveError> {
    let name = called.strip_prefix('#').unwrap_or(called);
    let found = by_id(archive, name, teams).await?;
    if found.is_empty() { by_name(archive, name, teams).await } else { Ok((found, Vec::new())) }
}

/// The one place of a channel of this name, for commands that change it.
///
/// # Errors
/// [`FindError`], even if the channel only lies in several workspaces.
pub async fn place(
    archive: &dyn Archive,
    called: &str,
    team: Option<&TeamId>,
) -> Result<ChannelOfTeam, FindError> {
    let channel = channel(archive, called, team).await?;
    let place = named(&channel, called);
    let of_id = channel.places().iter().filter(|other| other.channel == place.channel);
    let places: Vec<ChannelOfTeam> = of_id.cloned().collect();
    if places.len() > 1 {
        return Err(FindError::SeveralTeams { called: called.to_owned(), places });
    }
    Ok(place.clone())
}

/// The channel that lies in this place, in all its places among these workspaces.
pub async fn joined<'a>(
    archive: &'a dyn Archive,
    place: &ChannelOfTeam,
    teams: &[TeamId],
) -> Result<JoinedChannel<'a>, ArchiveError> {
    let mut places = places::of_channel(archive, place, teams).await?;
    let main = places.remove(0);
    Ok(JoinedChannel::new(archive, main, places))
}

/// The place of a channel that the user named by its id, or else where it goes on.
pub fn named<'c>(channel: &'c JoinedChannel<'_>, called: &str) -> &'c ChannelOfTeam {
    let id = called.strip_prefix('#').unwrap_or(called);
    channel.places().iter().find(|place| place.channel.as_str() == id).unwrap_or(channel.main())
}

/// The workspaces in the archive.
pub async fn teams(archive: &dyn Archive) -> Result<Vec<TeamId>, ArchiveError> {
    let items = query_all(archive, Query::partition(key::TEAMS)).await?;
    Ok(items.iter().filter_map(|item| TeamId::parse(&item.key.timestamp).ok()).collect())
}

/// The workspaces in the archive, or the one that is asked for.
pub async fn teams_asked_for(archive: &dyn Archive, team: Option<&TeamId>) -> Result<Vec<TeamId>, FindError> {
    let known = teams(archive).await?;
    match team {
        Some(team) if known.contains(team) => Ok(vec![team.clone()]),
        Some(team) => Err(FindError::UnknownTeam(team.clone())),
        None => Ok(known),
    }
}

/// The workspaces that have a channel of this id. It needs no name.
async fn by_id(
    archive: &dyn Archive,
    id: &str,
    teams: &[TeamId],
) -> Result<Vec<ChannelOfTeam>, ArchiveError> {
    let Ok(channel) = ChannelId::parse(id) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for team in teams {
        let place = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
        if place.exists(archive).await? {
            found.push(place);
        }
    }
    Ok(found)
}

/// The channels of this name, whatever its case, and names that are close to it. A deleted channel is found by the name
/// it had, unless there is another one of that name.
async fn by_name(
    archive: &dyn Archive,
    name: &str,
    teams: &[TeamId],
) -> Result<(Vec<ChannelOfTeam>, Vec<String>), ArchiveError> {
    let wanted = name.to_lowercase();
    let (mut found, mut deleted, mut close) = (Vec::new(), Vec::new(), Closest::to(&wanted));
    for team in teams {
        for (channel, known) in directory::read(archive, team).await?.iter() {
            let place = ChannelOfTeam { team: team.clone(), channel };
            let lowercase = known.to_lowercase();
            if lowercase == wanted {
                found.push(place);
            } else if lowercase.strip_prefix(DELETED_PREFIX) == Some(&wanted) {
                deleted.push(place);
            } else {
                close.offer(&lowercase);
            }
        }
    }
    Ok((if found.is_empty() { deleted } else { found }, close.names()))
}

/// Who has this id, or is or was called this; `@` in front is how people write a name.
pub async fn people(
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
        let is_called = |user: &Value| {
            let names = ["name", "display_name", "real_name"].into_iter();
            let is_meant =
                names.filter_map(|name| user[name].as_str()).any(|known| known.to_lowercase() == name);
            is_meant.then(|| user.clone())
        };
        let mut rows = VisibleRows::all(archive, Query::partition(key::users(&team)), |item| {
            is_called(&project::directory(item))
        });
        while let Some(page) = rows.next().await? {
            let ids = page.iter().filter_map(|user| UserId::parse(user["user_id"].as_str()?).ok());
            found.extend(ids.map(|user| (team.clone(), user)));
        }
    }
    Ok(found)
}

/// Why it is not clear which person is meant.
#[derive(Debug, thiserror::Error)]
pub enum FindPersonError {
    /// No person has this name.
    #[error("no person is called {called} in this archive{}", suggested(close, "people"))]
    Unknown {
        /// What was asked for.
        called: String,
        /// Names that are like it, the closest first.
        close: Vec<String>,
    },
    /// Several people have it.
    #[error("several people are called {called}, {}: name one by their id", listed(people))]
    Several {
        /// What was asked for.
        called: String,
        /// Their ids.
        people: Vec<UserId>,
    },
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// The one person who is called this, for commands that change something. An id needs no row: the archive may have messages of
/// a person whom it does not know.
pub async fn person(
    archive: &dyn Archive,
    called: &str,
    teams: &[TeamId],
) -> Result<UserId, FindPersonError> {
    let found = people(archive, called, teams.to_vec()).await?;
    let mut people: Vec<UserId> = found.into_iter().map(|(_, user)| user).collect();
    people.sort_unstable();
    people.dedup();
    let shown = || plain::excerpt(called, MAX_NAME_BYTES);
    match (people.len(), UserId::parse(called)) {
        // A person may be called as another one's id is.
        (_, Ok(user)) if people.contains(&user) => Ok(user),
        (0, Ok(user)) if looks_like_an_id(called) => Ok(user),
        (0, _) => {
            let close = names_like(archive, called, teams).await?;
            Err(FindPersonError::Unknown { called: shown(), close })
        }
        (1, _) => Ok(people.remove(0)),
        _ => Err(FindPersonError::Several { called: shown(), people }),
    }
}

/// Whether it is written as Slack's ids of people are: names are not.
pub(crate) fn looks_like_an_id(called: &str) -> bool {
    called.starts_with(['U', 'W'])
        && called.bytes().any(|byte| byte.is_ascii_digit())
        && UserId::parse(called).is_ok()
}

/// Names of people that are close to one.
///
/// # Errors
/// As [`Archive::query`].
pub async fn names_like(
    archive: &dyn Archive,
    called: &str,
    teams: &[TeamId],
) -> Result<Vec<String>, ArchiveError> {
    let wanted = called.strip_prefix('@').unwrap_or(called).to_lowercase();
    let mut close = Closest::to(&wanted);
    for team in teams {
        let mut rows = VisibleRows::all(archive, Query::partition(key::users(team)), |item| {
            (!item.is_erased()).then(|| project::directory(item))
        });
        while let Some(page) = rows.next().await? {
            for user in &page {
                let names = ["name", "display_name", "real_name"].into_iter();
                names
                    .filter_map(|name| user[name].as_str())
                    .for_each(|known| close.offer(&known.to_lowercase()));
            }
        }
    }
    Ok(close.names())
}

fn listed(people: &[UserId]) -> String {
    people.iter().take(SUGGESTIONS).map(UserId::as_str).collect::<Vec<_>>().join(", ")
}

/// Names that may be meant, for the end of an error, or of what there is a list to look into.
pub fn suggested(close: &[String], listed: &str) -> String {
    let names: Vec<String> = close.iter().map(|name| plain::excerpt(name, MAX_NAME_BYTES)).collect();
    if names.is_empty() {
        return format!("; the list of {listed} has those it knows");
    }
    format!("; did you mean {}?", names.join(" or "))
}

/// The names that are most like another one.
pub(crate) struct Closest<'a> {
    wanted: &'a str,
    best: Vec<(f64, String)>,
}

impl<'a> Closest<'a> {
    pub(crate) fn to(wanted: &'a str) -> Self {
        Self { wanted, best: Vec::new() }
    }

    pub(crate) fn offer(&mut self, name: &str) {
        if self.wanted.len() > MAX_NAME_BYTES || name.len() > MAX_NAME_BYTES {
            return;
        }
        let likeness = strsim::jaro_winkler(self.wanted, name);
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
