//! Which workspace a channel belongs to.

use shared::archive::{Archive, ArchiveError, Query, key, query_all};
use shared::slack::ids::{ChannelId, TeamId};

use super::ReadError;
use crate::plain;

/// A name from the command line is shown as far as this.
const SHOWN: usize = 80;

/// A channel of one workspace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) team: TeamId,
    pub(super) channel: ChannelId,
}

impl Place {
    /// The partition of its messages.
    pub(super) fn messages(&self) -> String {
        key::messages(&self.team, &self.channel)
    }
}

/// Finds the workspace, among those whose messages are stored, that has this channel.
pub(super) async fn find(
    archive: &dyn Archive,
    channel: &str,
    team: Option<&TeamId>,
) -> Result<Place, ReadError> {
    let channel =
        ChannelId::parse(channel).map_err(|_| ReadError::NotAnId(plain::excerpt(channel, SHOWN)))?;
    let candidates = match team {
        Some(team) => vec![team.clone()],
        None => teams(archive).await?,
    };
    let mut found = Vec::new();
    for team in candidates {
        let any = Query { limit: 1, ..Query::partition(key::messages(&team, &channel)) };
        if !archive.query(&any).await?.items.is_empty() {
            found.push(team);
        }
    }
    match (found.pop(), team) {
        (None, None) => Err(ReadError::UnknownChannel(channel.to_string())),
        (None, Some(team)) => Err(ReadError::UnknownChannel(format!("{channel} of workspace {team}"))),
        (Some(team), _) if found.is_empty() => Ok(Place { team, channel }),
        (Some(last), _) => {
            let teams: Vec<&str> = found.iter().chain([&last]).map(TeamId::as_str).collect();
            Err(ReadError::AmbiguousChannel { channel: channel.to_string(), teams: teams.join(" and ") })
        }
    }
}

/// The workspaces in the archive.
pub(super) async fn teams(archive: &dyn Archive) -> Result<Vec<TeamId>, ArchiveError> {
    let items = query_all(archive, Query::partition(key::TEAMS)).await?;
    Ok(items.iter().filter_map(|item| TeamId::parse(&item.key.timestamp).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    async fn error(archive: &dyn Archive, channel: &str, team: Option<&str>) -> String {
        let team = team.map(|team| TeamId::parse(team).unwrap());
        find(archive, channel, team.as_ref()).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_channel_of_one_workspace_is_found_and_one_of_two_needs_the_team() {
        let fixture = Fixture::open();
        fixture.post("T1", "C1", "1.000000", "a").await;
        fixture.post("T2", "C1", "1.000000", "b").await;
        fixture.post("T2", "C2", "1.000000", "c").await;
        let archive = fixture.archive();
        let place = |team: &str, channel: &str| Place {
            team: TeamId::parse(team).unwrap(),
            channel: ChannelId::parse(channel).unwrap(),
        };
        assert_eq!(find(archive, "C2", None).await.unwrap(), place("T2", "C2"));
        let t1 = TeamId::parse("T1").unwrap();
        assert_eq!(find(archive, "C1", Some(&t1)).await.unwrap(), place("T1", "C1"));
        let ambiguous = error(archive, "C1", None).await;
        assert!(ambiguous.contains("T1 and T2") && ambiguous.contains("--team"), "{ambiguous}");
        assert!(error(archive, "C2", Some("T1")).await.contains("no channel C2 of workspace T1"));
        assert!(error(archive, "C3", None).await.contains("no channel C3"));
    }

    #[tokio::test]
    async fn what_is_no_id_is_unknown_on_one_short_line() {
        let fixture = Fixture::open();
        for name in ["#general", "general", "C1#x", "c1", "", "a\nb\u{1b}[2J", &"x".repeat(10_000)] {
            let error = error(fixture.archive(), name, None).await;
            assert!(error.starts_with("no channel "), "{error}");
            assert!(error.len() < 400 && !error.contains(char::is_control), "{error}");
        }
    }
}
