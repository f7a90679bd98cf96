//! Errors about a channel or a person that is not found.

use reader::find::{FindError, FindPersonError};
use reader::joined::ChannelOfTeam;
use slack::ids::ChannelId;

use super::ReadError;
use crate::plain;

/// Maximum length of a name from the command line in an error.
const SHOWN: usize = 80;

/// Maximum number of candidates in an error.
const CANDIDATES: usize = 5;

impl From<FindPersonError> for ReadError {
    fn from(error: FindPersonError) -> Self {
        match error {
            FindPersonError::Archive(error) => Self::Archive(error),
            FindPersonError::Unknown { .. } | FindPersonError::Several { .. } => {
                Self::Person(error.to_string())
            }
        }
    }
}

impl From<FindError> for ReadError {
    fn from(error: FindError) -> Self {
        let shown = |called: &str| plain::excerpt(called, SHOWN);
        match error {
            FindError::UnknownChannel { called, team, close } => {
                let workspace = team.map(|team| format!(" of workspace {team}")).unwrap_or_default();
                let advice = advice(called.strip_prefix('#').unwrap_or(&called), close);
                Self::Channel(format!("no channel {}{workspace} in this archive: {advice}", shown(&called)))
            }
            FindError::SeveralTeams { called, locations: places } => {
                let places =
                    places.iter().map(|ChannelOfTeam { team, channel }| format!("{team} ({channel})"));
                let (called, places) = (shown(&called), listed(places));
                Self::Channel(format!(
                    "channel {called} is in several workspaces, {places}: choose one with --team"
                ))
            }
            FindError::SeveralChannels { called, locations: places } => {
                let (called, ids) =
                    (shown(&called), listed(places.iter().map(|location| location.channel.to_string())));
                Self::Channel(format!("several channels are called {called}, {ids}: name one by its id"))
            }
            FindError::UnknownTeam(team) => Self::UnknownTeam(team),
            FindError::Archive(error) => Self::Archive(error),
        }
    }
}

/// Returns advice about an unknown channel.
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
    "`annalist channels` lists those it knows; an id, such as C0123ABCD, is at the end of the link that Slack's \
     \"Copy link\" gives"
        .to_owned()
}

/// Lists the first candidates in one line, with the number of further ones.
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
    use ports::archive::Archive;
    use reader::find;
    use slack::ids::TeamId;

    use super::*;
    use crate::fixture::CliFixture;

    fn location(team: &str, channel: &str) -> ChannelOfTeam {
        ChannelOfTeam { team: TeamId::parse(team).unwrap(), channel: ChannelId::parse(channel).unwrap() }
    }

    /// Returns all locations of a channel.
    async fn all(archive: &dyn Archive, name: &str, team: Option<&str>) -> Vec<ChannelOfTeam> {
        let team = team.map(|team| TeamId::parse(team).unwrap());
        find::find_channel(archive, name, team.as_ref())
            .await
            .map(|channel| channel.locations().to_vec())
            .unwrap()
    }

    async fn found(archive: &dyn Archive, name: &str, team: Option<&str>) -> ChannelOfTeam {
        all(archive, name, team).await.remove(0)
    }

    async fn error(archive: &dyn Archive, name: &str, team: Option<&str>) -> String {
        let team = team.map(|team| TeamId::parse(team).unwrap());
        find::find_channel(archive, name, team.as_ref())
            .await
            .map(drop)
            .map_err(ReadError::from)
            .unwrap_err()
            .to_string()
    }

    #[tokio::test]
    async fn an_id_is_found_without_a_name_and_in_all_workspaces_that_share_it() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000001.000000", "a").await;
        fixture.post("T2", "C1", "1700000001.000000", "b").await;
        fixture.post("T2", "C2", "1700000001.000000", "c").await;
        let archive = fixture.archive();
        assert_eq!(found(archive, "C2", None).await, location("T2", "C2"));
        assert_eq!(found(archive, "#C2", None).await, location("T2", "C2"));
        assert_eq!(found(archive, "C1", Some("T1")).await, location("T1", "C1"));
        assert_eq!(all(archive, "C1", None).await, [location("T1", "C1"), location("T2", "C1")]);
        assert_eq!(all(archive, "C1", Some("T2")).await, [location("T2", "C1")]);
        let ambiguous = find::find_single_location(archive, "C1", None)
            .await
            .map_err(ReadError::from)
            .unwrap_err()
            .to_string();
        assert!(ambiguous.contains("T1 (C1), T2 (C1)") && ambiguous.contains("--team"), "{ambiguous}");
        let team = TeamId::parse("T2").unwrap();
        assert_eq!(
            find::find_single_location(archive, "C1", Some(&team)).await.unwrap(),
            location("T2", "C1")
        );
        assert!(error(archive, "C2", Some("T1")).await.contains("no channel C2 of workspace T1"));
        assert!(error(archive, "C3", None).await.contains("no channel C3"));
    }

    #[tokio::test]
    async fn a_name_is_found_with_or_without_a_hash_sign_in_any_case() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "general").await;
        fixture.channel("T1", "C2", "1700000001.000000", "日本語").await;
        let archive = fixture.archive();
        for name in ["#general", "general", "#General", "GENERAL"] {
            assert_eq!(found(archive, name, None).await, location("T1", "C1"), "{name}");
        }
        assert_eq!(found(archive, "#日本語", Some("T1")).await, location("T1", "C2"));
        // The channel has a row but no message.
        assert_eq!(found(archive, "C1", None).await, location("T1", "C1"));
    }

    #[tokio::test]
    async fn a_deleted_channel_is_found_by_both_its_names_unless_another_one_took_the_name() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "trial").await;
        fixture.channel_event("T1", "channel_deleted", "C1", "1700000002.000000").await;
        let archive = fixture.archive();
        assert_eq!(found(archive, "#deleted_trial", None).await, location("T1", "C1"));
        assert_eq!(found(archive, "#trial", None).await, location("T1", "C1"));
        fixture.channel("T1", "C2", "1700000003.000000", "trial").await;
        assert_eq!(found(archive, "#trial", None).await, location("T1", "C2"));
        assert_eq!(found(archive, "deleted_trial", None).await, location("T1", "C1"));
    }

    #[tokio::test]
    async fn a_channel_that_is_not_deleted_keeps_a_name_that_looks_like_it() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "deleted_items").await;
        let archive = fixture.archive();
        assert_eq!(found(archive, "#deleted_items", None).await, location("T1", "C1"));
        let unknown = error(archive, "#items", None).await;
        assert!(unknown.contains("items") && !unknown.contains("C1"), "{unknown}");
    }

    #[tokio::test]
    async fn an_ambiguous_name_is_an_error_with_advice() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "general").await;
        fixture.channel("T2", "C2", "1700000001.000000", "general").await;
        let archive = fixture.archive();
        let teams = error(archive, "#general", None).await;
        assert!(teams.contains("T1 (C1), T2 (C2)") && teams.contains("--team"), "{teams}");
        assert_eq!(found(archive, "#general", Some("T2")).await, location("T2", "C2"));
        fixture.channel("T1", "C3", "1700000001.000000", "General").await;
        let ids = error(archive, "general", Some("T1")).await;
        assert!(ids.contains("C1, C3") && ids.contains("by its id"), "{ids}");
    }

    #[tokio::test]
    async fn a_channel_that_continues_under_another_id_is_found_there() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "partners").await;
        fixture.channel_id_changed("T1", "C1", "C2", "1700000002.000000").await;
        for name in ["#partners", "C1", "C2"] {
            let locations = all(fixture.archive(), name, None).await;
            assert_eq!(locations, [location("T1", "C2"), location("T1", "C1")], "{name}");
        }
        fixture.channel_id_changed("T1", "C2", "C3", "1700000003.000000").await;
        fixture.post("T2", "C3", "1700000001.000000", "of a workspace that shares it").await;
        let mut locations = all(fixture.archive(), "C1", None).await;
        assert_eq!(locations[0], location("T1", "C3"));
        locations.sort();
        assert_eq!(
            locations,
            [location("T1", "C1"), location("T1", "C2"), location("T1", "C3"), location("T2", "C3")]
        );
        assert_eq!(all(fixture.archive(), "C1", Some("T1")).await.len(), 3);
        // A cycle of ids is read like any other chain.
        fixture.channel_id_changed("T1", "C3", "C1", "1700000004.000000").await;
        assert_eq!(all(fixture.archive(), "C2", Some("T1")).await.len(), 3);
    }

    #[tokio::test]
    async fn an_unknown_channel_is_a_short_one_line_error_with_similar_names() {
        let fixture = CliFixture::open().await;
        fixture.channel("T1", "C1", "1700000001.000000", "general").await;
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
