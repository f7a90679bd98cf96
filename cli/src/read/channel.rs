//! Which channel the user means: by its id, or by its name in the ChannelIndex.

use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use reader::directory;
use reader::joined::{JoinedChannel, Place, places};
use rules::channel::fold::DELETED_PREFIX;
use slack::ids::{ChannelId, TeamId};

use super::ReadError;
use crate::plain;

/// A name from the command line is shown as far as this.
const SHOWN: usize = 80;

/// Names that are close to one that is unknown.
const SUGGESTIONS: usize = 3;

/// How much alike two names are that may be meant for each other, from 0 to 1.
const CLOSE: f64 = 0.8;

/// Candidates that an error names.
const CANDIDATES: usize = 5;

/// Finds the channel that is called this, among the workspaces in the archive or in one of them, with all the places in
/// which it lies there.
pub(super) async fn find<'a>(
    archive: &'a dyn Archive,
    called: &str,
    team: Option<&TeamId>,
) -> Result<JoinedChannel<'a>, ReadError> {
    let teams = match team {
        Some(team) => vec![team.clone()],
        None => teams(archive).await?,
    };
    let name = called.strip_prefix('#').unwrap_or(called);
    let mut found = by_id(archive, name, &teams).await?;
    let mut close = Vec::new();
    if found.is_empty() {
        (found, close) = by_name(archive, name, &teams).await?;
    }
    let mut channels: Vec<JoinedChannel<'a>> = Vec::new();
    for place in &found {
        if !channels.iter().any(|channel| channel.places().contains(place)) {
            channels.push(joined(archive, place, &teams).await?);
        }
    }
    let called = plain::excerpt(called, SHOWN);
    if channels.len() < 2 {
        return channels.pop().ok_or_else(|| ReadError::UnknownChannel {
            channel: team.map_or_else(|| called.clone(), |team| format!("{called} of workspace {team}")),
            advice: advice(name, close),
        });
    }
    let mains: Vec<&Place> = channels.iter().map(JoinedChannel::main).collect();
    if mains.iter().all(|place| place.team == mains[0].team) {
        let ids = mains.iter().map(|place| place.channel.to_string());
        return Err(ReadError::SeveralChannels { name: called, ids: listed(ids) });
    }
    let places = mains.iter().map(|Place { team, channel }| format!("{team} ({channel})"));
    Err(ReadError::SeveralTeams { channel: called, places: listed(places) })
}

/// The one place of a channel of this name, for commands that change it.
pub(crate) async fn find_place(
    archive: &dyn Archive,
    called: &str,
    team: Option<&TeamId>,
) -> Result<Place, ReadError> {
    let channel = find(archive, called, team).await?;
    let place = named(&channel, called);
    let of_id = channel.places().iter().filter(|other| other.channel == place.channel);
    let places: Vec<String> = of_id.map(|Place { team, channel }| format!("{team} ({channel})")).collect();
    if places.len() > 1 {
        let called = plain::excerpt(called, SHOWN);
        return Err(ReadError::SeveralTeams { channel: called, places: listed(places.into_iter()) });
    }
    Ok(place.clone())
}

/// The channel that lies in this place, in all its places among these workspaces.
pub(super) async fn joined<'a>(
    archive: &'a dyn Archive,
    place: &Place,
    teams: &[TeamId],
) -> Result<JoinedChannel<'a>, ArchiveError> {
    let mut places = places::of_channel(archive, place, teams).await?;
    let main = places.remove(0);
    Ok(JoinedChannel::new(archive, main, places))
}

/// The place of a channel that the user named by its id, or else where it goes on.
pub(super) fn named<'c>(channel: &'c JoinedChannel<'_>, called: &str) -> &'c Place {
    let id = called.strip_prefix('#').unwrap_or(called);
    channel.places().iter().find(|place| place.channel.as_str() == id).unwrap_or(channel.main())
}

/// The workspaces in the archive.
pub(super) async fn teams(archive: &dyn Archive) -> Result<Vec<TeamId>, ArchiveError> {
    let items = query_all(archive, Query::partition(key::TEAMS)).await?;
    Ok(items.iter().filter_map(|item| TeamId::parse(&item.key.timestamp).ok()).collect())
}

/// The workspaces in the archive, or the one that is asked for.
pub(super) async fn teams_asked_for(
    archive: &dyn Archive,
    team: Option<&TeamId>,
) -> Result<Vec<TeamId>, ReadError> {
    let known = teams(archive).await?;
    match team {
        Some(team) if known.contains(team) => Ok(vec![team.clone()]),
        Some(team) => Err(ReadError::UnknownTeam(team.clone())),
        None => Ok(known),
    }
}

/// The workspaces that have a channel of this id. It needs no name.
async fn by_id(archive: &dyn Archive, id: &str, teams: &[TeamId]) -> Result<Vec<Place>, ArchiveError> {
    let Ok(channel) = ChannelId::parse(id) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for team in teams {
        let place = Place { team: team.clone(), channel: channel.clone() };
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
) -> Result<(Vec<Place>, Vec<String>), ArchiveError> {
    let wanted = name.to_lowercase();
    let (mut found, mut deleted, mut close) = (Vec::new(), Vec::new(), Closest::to(&wanted));
    for team in teams {
        for (channel, known) in directory::read(archive, team).await?.iter() {
            let place = Place { team: team.clone(), channel };
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

/// The names that are most like another one.
struct Closest<'a> {
    wanted: &'a str,
    best: Vec<(f64, String)>,
}

impl<'a> Closest<'a> {
    fn to(wanted: &'a str) -> Self {
        Self { wanted, best: Vec::new() }
    }

    fn offer(&mut self, name: &str) {
        // Slack's names end at 80 characters: nothing is like what is far longer.
        if self.wanted.len() > 4 * SHOWN || name.len() > 4 * SHOWN {
            return;
        }
        let likeness = strsim::jaro_winkler(self.wanted, name);
        if likeness >= CLOSE && self.best.iter().all(|(_, known)| known != name) {
            self.best.push((likeness, name.to_owned()));
            self.best.sort_by(|a, b| b.0.total_cmp(&a.0));
            self.best.truncate(SUGGESTIONS);
        }
    }

    fn names(self) -> Vec<String> {
        self.best.into_iter().map(|(_, name)| name).collect()
    }
}

/// What to do about a channel that is not known.
fn advice(name: &str, close: Vec<String>) -> String {
    if !close.is_empty() {
        let close = close.iter().map(|name| format!("#{}", plain::excerpt(name, SHOWN)));
        return format!("did you mean {}?", listed(close));
    }
    if ChannelId::parse(name).is_ok() {
        return "`annalist channels` lists those it knows; the app may not be a member of this one, or this may be the \
                wrong --data folder"
            .to_owned();
    }
    "`annalist channels` lists those it knows; an id, such as C0123ABCD, stands at the end of the link that Slack's \
     \"Copy link\" gives"
        .to_owned()
}

/// Some of many, in one line.
fn listed(mut all: impl ExactSizeIterator<Item = String>) -> String {
    let more = all.len().saturating_sub(CANDIDATES);
    let mut shown = all.by_ref().take(CANDIDATES).collect::<Vec<_>>().join(", ");
    if more > 0 {
        shown += &format!(" and {more} more");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn place(team: &str, channel: &str) -> Place {
        Place { team: TeamId::parse(team).unwrap(), channel: ChannelId::parse(channel).unwrap() }
    }

    /// All places of a channel.
    async fn all(archive: &dyn Archive, called: &str, team: Option<&str>) -> Vec<Place> {
        let team = team.map(|team| TeamId::parse(team).unwrap());
        find(archive, called, team.as_ref()).await.map(|channel| channel.places().to_vec()).unwrap()
    }

    async fn found(archive: &dyn Archive, called: &str, team: Option<&str>) -> Place {
        all(archive, called, team).await.remove(0)
    }

    async fn error(archive: &dyn Archive, called: &str, team: Option<&str>) -> String {
        let team = team.map(|team| TeamId::parse(team).unwrap());
        find(archive, called, team.as_ref()).await.map(drop).unwrap_err().to_string()
    }

    #[tokio::test]
    async fn an_id_needs_no_name_and_is_one_channel_in_all_workspaces_that_share_it() {
        let fixture = Fixture::open().await;
        fixture.post("T1", "C1", "1.000000", "a").await;
        fixture.post("T2", "C1", "1.000000", "b").await;
        fixture.post("T2", "C2", "1.000000", "c").await;
        let archive = fixture.archive();
        assert_eq!(found(archive, "C2", None).await, place("T2", "C2"));
        assert_eq!(found(archive, "#C2", None).await, place("T2", "C2"));
        assert_eq!(found(archive, "C1", Some("T1")).await, place("T1", "C1"));
        assert_eq!(all(archive, "C1", None).await, [place("T1", "C1"), place("T2", "C1")]);
        assert_eq!(all(archive, "C1", Some("T2")).await, [place("T2", "C1")]);
        let ambiguous = find_place(archive, "C1", None).await.unwrap_err().to_string();
        assert!(ambiguous.contains("T1 (C1), T2 (C1)") && ambiguous.contains("--team"), "{ambiguous}");
        let team = TeamId::parse("T2").unwrap();
        assert_eq!(find_place(archive, "C1", Some(&team)).await.unwrap(), place("T2", "C1"));
        assert!(error(archive, "C2", Some("T1")).await.contains("no channel C2 of workspace T1"));
        assert!(error(archive, "C3", None).await.contains("no channel C3"));
    }

    #[tokio::test]
    async fn a_name_is_found_with_or_without_its_sign_in_any_case() {
        let fixture = Fixture::open().await;
        fixture.channel("T1", "C1", "1.000000", "general").await;
        fixture.channel("T1", "C2", "1.000000", "日本語").await;
        let archive = fixture.archive();
        for called in ["#general", "general", "#General", "GENERAL"] {
            assert_eq!(found(archive, called, None).await, place("T1", "C1"), "{called}");
        }
        assert_eq!(found(archive, "#日本語", Some("T1")).await, place("T1", "C2"));
        // Known by its row alone, without a message.
        assert_eq!(found(archive, "C1", None).await, place("T1", "C1"));
    }

    #[tokio::test]
    async fn a_deleted_channel_is_found_by_both_its_names_unless_another_one_took_the_name() {
        let fixture = Fixture::open().await;
        fixture.channel("T1", "C1", "1.000000", "trial").await;
        fixture.channel_event("T1", "channel_deleted", "C1", "2.000000").await;
        let archive = fixture.archive();
        assert_eq!(found(archive, "#deleted_trial", None).await, place("T1", "C1"));
        assert_eq!(found(archive, "#trial", None).await, place("T1", "C1"));
        fixture.channel("T1", "C2", "3.000000", "trial").await;
        assert_eq!(found(archive, "#trial", None).await, place("T1", "C2"));
        assert_eq!(found(archive, "deleted_trial", None).await, place("T1", "C1"));
    }

    #[tokio::test]
    async fn a_name_that_several_channels_have_is_an_error_that_says_what_to_do() {
        let fixture = Fixture::open().await;
        fixture.channel("T1", "C1", "1.000000", "general").await;
        fixture.channel("T2", "C2", "1.000000", "general").await;
        let archive = fixture.archive();
        let teams = error(archive, "#general", None).await;
        assert!(teams.contains("T1 (C1), T2 (C2)") && teams.contains("--team"), "{teams}");
        assert_eq!(found(archive, "#general", Some("T2")).await, place("T2", "C2"));
        fixture.channel("T1", "C3", "1.000000", "General").await;
        let ids = error(archive, "general", Some("T1")).await;
        assert!(ids.contains("C1, C3") && ids.contains("by its id"), "{ids}");
    }

    #[tokio::test]
    async fn a_channel_that_goes_on_under_another_id_is_found_there() {
        let fixture = Fixture::open().await;
        fixture.channel("T1", "C1", "1.000000", "partners").await;
        fixture.channel_id_changed("T1", "C1", "C2", "2.000000").await;
        for called in ["#partners", "C1", "C2"] {
            let places = all(fixture.archive(), called, None).await;
            assert_eq!(places, [place("T1", "C2"), place("T1", "C1")], "{called}");
        }
        fixture.channel_id_changed("T1", "C2", "C3", "3.000000").await;
        fixture.post("T2", "C3", "1.000000", "of a workspace that shares it").await;
        let mut places = all(fixture.archive(), "C1", None).await;
        assert_eq!(places[0], place("T1", "C3"));
        places.sort();
        assert_eq!(places, [place("T1", "C1"), place("T1", "C2"), place("T1", "C3"), place("T2", "C3")]);
        assert_eq!(all(fixture.archive(), "C1", Some("T1")).await.len(), 3);
        // Ids that lead back to each other are read like any others.
        fixture.channel_id_changed("T1", "C3", "C1", "4.000000").await;
        assert_eq!(all(fixture.archive(), "C2", Some("T1")).await.len(), 3);
    }

    #[tokio::test]
    async fn what_is_unknown_is_told_on_one_short_line_with_what_is_close() {
        let fixture = Fixture::open().await;
        fixture.channel("T1", "C1", "1.000000", "general").await;
        for name in ["#nothing", "nothing", "C1#x", "c2", "", "#", "a\nb\u{1b}[2J", &"x".repeat(10_000)] {
            let error = error(fixture.archive(), name, None).await;
            assert!(error.starts_with("no channel "), "{error}");
            assert!(error.len() < 400 && !error.contains(char::is_control), "{error}");
            assert!(error.contains("annalist channels"), "{error}");
        }
        let close = error(fixture.archive(), "#genral", None).await;
        assert!(close.contains("did you mean #general?"), "{close}");
    }
}
