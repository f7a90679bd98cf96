//! `annalist users`: lists people, or all profiles of one person.

use std::io::Write;

use ports::archive::{Archive, ArchiveError, Item, Query, key, query_all};
use reader::figures::person::FirstPosts;
use reader::find;
use reader::rows::VisibleRows;
use rules::directory::ORGANISATION;
use rules::figures::person::{AuthorKind, PersonFacts};
use rules::view::PersonView;
use rules::{organisation, profile, project};
use slack::ids::TeamId;

use super::{ReadArgs, ReadError, UsersArgs};
use crate::plain;
use crate::zone::Zone;

/// Maximum length of a name from the command line in an error.
const SHOWN: usize = 80;

/// Prints the people of every workspace, or of one; or the profiles of one person.
pub(crate) async fn users(
    archive: &dyn Archive,
    args: &UsersArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    match &args.history {
        Some(name) => history(archive, name, &args.read, out).await,
        None => list(archive, &args.read, args.figures, out).await,
    }
}

/// Returns the error for an unknown name, with similar names.
pub(crate) async fn unknown(archive: &dyn Archive, name: &str, teams: &[TeamId]) -> ReadError {
    let advice = match find::similar_names(archive, name, teams).await {
        Ok(close) if close.is_empty() => ": `annalist users` lists those it knows".to_owned(),
        Ok(close) => find::suggestion_text(&close),
        Err(error) => return error.into(),
    };
    ReadError::UnknownUser { called: plain::excerpt(name, SHOWN), advice }
}

/// Prints every stored profile of a person, in the order in which they were first seen.
async fn history(
    archive: &dyn Archive,
    name: &str,
    args: &ReadArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let teams = find::requested_teams(archive, args.team.as_ref()).await?;
    let mut profiles: Vec<PersonView> = Vec::new();
    for (team, user) in find::find_people(archive, name, teams.clone()).await? {
        let kept = query_all(archive, Query::partition(key::profiles(&team, &user))).await?;
        profiles.extend(kept.iter().filter(|row| !row.is_erased()).map(profile::projected));
    }
    if profiles.is_empty() {
        return Err(unknown(archive, name, &teams).await);
    }
    profiles.sort_by_cached_key(|profile| {
        [profile.id(), profile.first_ts()].map(|text| text.unwrap_or_default().to_owned())
    });
    let limit = args.limit.map_or(usize::MAX, std::num::NonZeroUsize::get);
    let zone = Zone::from_args(&args.zone);
    if !args.json {
        writeln!(out, "Times are in {}.", zone.name())?;
    }
    for profile in &profiles[profiles.len().saturating_sub(limit)..] {
        if args.json {
            plain::json_line(out, profile)?;
        } else {
            let time = |ts: Option<&str>| zone.time(ts.unwrap_or_default());
            writeln!(out, "{} to {}", time(profile.first_ts()), time(profile.last_ts()))?;
            write!(out, "    ")?;
            person(out, profile)?;
        }
    }
    Ok(())
}

async fn list(
    archive: &dyn Archive,
    args: &ReadArgs,
    figures: bool,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let teams = find::requested_teams(archive, args.team.as_ref()).await?;
    let (mut empty, mut has_header) = (true, false);
    for team in teams {
        let mut rows = people_of(archive, &team).await?;
        if let Some(limit) = args.limit {
            rows.keep_newest(limit.get()).await?;
        }
        let addresses = args.file_addresses()?;
        let first_posts = if figures { Some(FirstPosts::read(archive, &team).await?) } else { None };
        while let Some(mut page) = rows.next().await? {
            empty &= page.is_empty();
            for user in &mut page {
                if let Some(first_posts) = &first_posts {
                    first_posts.add(user);
                }
                if args.json {
                    plain::json_line(out, &*addresses.of(user.as_json()))?;
                } else {
                    if !has_header {
                        writeln!(out, "{:<12}  {:<20}  full name", "id", "name")?;
                        has_header = true;
                    }
                    person(out, user)?;
                }
            }
        }
    }
    if empty && !args.json {
        writeln!(out, "No people yet: Slack sends them when they join or change their profile.")?;
    }
    Ok(())
}

/// The people of a workspace.
pub(crate) async fn people_of<'a>(
    archive: &'a dyn Archive,
    team: &TeamId,
) -> Result<VisibleRows<'a, PersonView>, ArchiveError> {
    let organisations = query_all(archive, Query::partition(key::organisations(team))).await?;
    let team = team.clone();
    let people = Query::partition(key::users(&team));
    Ok(VisibleRows::all(archive, people, move |item| shown_person(item, &team, &organisations)))
}

/// A person with their kind, as reports name it, and with the name of their organisation if it is another one.
/// `None` if they were erased.
fn shown_person(item: &Item, team: &TeamId, organisations: &[Item]) -> Option<PersonView> {
    let PersonFacts { kind, .. } = PersonFacts::read(item, team.as_str())?;
    let mut person = PersonView::from(project::directory(item));
    person.set_kind(kind.as_str());
    if let Some(home) = item.text(ORGANISATION)
        && let Some(organisation) = organisations.iter().find(|row| row.key.timestamp == home)
        && let Some(name) = organisation::name(organisation)
    {
        person.set_organisation(name);
    }
    Some(person)
}

fn person(out: &mut dyn Write, user: &PersonView) -> Result<(), ReadError> {
    let text = |text: Option<&str>| plain::line(text.unwrap_or_default());
    let mut marks = String::new();
    if user.is_bot() {
        marks.push_str("  (bot)");
    }
    if user.is_deactivated() {
        marks.push_str("  (deactivated)");
    }
    if user.kind() == Some(AuthorKind::Stranger.as_str()) {
        let organisation = Some(text(user.organisation())).filter(|name| !name.trim().is_empty());
        marks.push_str(&organisation.map_or("  (stranger)".to_owned(), |name| format!("  ({name})")));
    }
    let id = text(user.id());
    let shown_name = [text(user.display_name()), text(user.name()), text(user.real_name())].into_iter();
    let shown_name = shown_name.chain([id.clone()]).find(|name| !name.is_empty()).unwrap_or_default();
    let real_name = Some(text(user.real_name())).filter(|name| *name != shown_name).unwrap_or_default();
    let line = format!("{id:<12}  {shown_name:<20}  {real_name:<28}{marks}");
    Ok(writeln!(out, "{}", line.trim_end())?)
}

#[cfg(test)]
mod tests {
    use ports::archive::{ArchiveExt, ItemKey, Update};
    use rules::directory::user_updates;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{CliFixture, message_args, output, squeezed};

    async fn printed(fixture: &CliFixture, history: Option<&str>, json: bool) -> Result<String, ReadError> {
        let read = ReadArgs { json, ..message_args("C1", "1.000000").read };
        let args = UsersArgs { history: history.map(str::to_owned), figures: false, read };
        output(async |out| users(fixture.archive(), &args, out).await).await
    }

    #[tokio::test]
    async fn replaced_profiles_are_kept_with_their_times() {
        let fixture = CliFixture::open().await;
        fixture.profile("T1", "U1", "ada", "1795178096.000100").await;
        fixture.profile("T1", "U1", "pwned", "1795178097.000100").await;
        fixture.profile("T1", "U2", "bob", "1795178098.000100").await;
        for name in ["U1", "pwned", "@PWNED"] {
            let text = printed(&fixture, Some(name), false).await.unwrap();
            assert_eq!(
                text,
                "Times are in UTC.\n2026-11-20 12:34:56 to 2026-11-20 12:34:56\n    U1            ada\n\
                 2026-11-20 12:34:57 to 2026-11-20 12:34:57\n    U1            pwned\n"
            );
        }
        let json = printed(&fixture, Some("U1"), true).await.unwrap();
        let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((rows.len(), &rows[0]["first_ts"]), (2, &json!("1795178096.000100")));
        assert_eq!(rows[1]["last_ts"], "1795178097.000100");
        let error = printed(&fixture, Some("stranger"), false).await.unwrap_err().to_string();
        assert!(
            error.contains("no person is called stranger") && error.contains("annalist users"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn the_insert_timestamp_has_the_format_of_a_slack_timestamp() {
        let fixture = CliFixture::open().await;
        fixture.profile("T1", "U1", "ada", "99.000100").await;
        let row: Value = serde_json::from_str(&printed(&fixture, None, true).await.unwrap()).unwrap();
        assert_eq!(row["insert_timestamp"], "99.000100");
    }

    #[tokio::test]
    async fn figures_match_channelstats() {
        let fixture = CliFixture::open().await;
        fixture.person("T1", "U12", "ana").await;
        fixture.person("T1", "U13", "bo").await;
        let (team, user) = ("T1".parse().unwrap(), "U12".parse().unwrap());
        let mut update = Update::new(ItemKey::first_post(&team, &user));
        update.set.insert("first".into(), "001700000000.000100#C1".into());
        fixture.archive().write(&update).await.unwrap();
        let read = message_args("C1", "1.000000").read;
        let args = UsersArgs { history: None, figures: true, read };
        let text = output(async |out| users(fixture.archive(), &args, out).await).await.unwrap();
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let first = json!({ "slack_cid": "C1", "message_id": "1700000000.000100", "ts": 1_700_000_000 });
        assert_eq!(
            ["slack_uid", "user_name", "user_key", "first_post"].map(|name| rows[0][name].clone()),
            ["U12".into(), rows[0]["name"].clone(), "2".into(), first]
        );
        assert_eq!(rows[1]["first_post"], Value::Null);
    }

    #[tokio::test]
    async fn each_person_has_a_kind_and_a_stranger_an_organisation() {
        let fixture = CliFixture::open().await;
        let team: TeamId = "T1".parse().unwrap();
        fixture.archive().write(&Update::mark(ItemKey::team(&team))).await.unwrap();
        let listed = [
            json!({ "id": "U1", "name": "ana", "team_id": "T1" }),
            json!({ "id": "U2", "name": "gus", "team_id": "T1", "is_restricted": true }),
            json!({ "id": "U3", "name": "jira", "team_id": "T1", "is_bot": true }),
            json!({ "id": "U4", "name": "pat", "team_id": "T2" }),
            json!({ "id": "U5", "name": "sam", "team_id": "T3" }),
            json!({ "id": "U6", "name": "kim", "team_id": "T1", "deleted": true }),
        ];
        for person in &listed {
            let (user, raw) =
                (person["id"].as_str().unwrap(), serde_json::value::to_raw_value(person).unwrap());
            let clock = "1.000000".parse().unwrap();
            for update in user_updates(&team, &user.parse().unwrap(), &raw, &clock).unwrap() {
                fixture.archive().write(&update).await.unwrap();
            }
        }
        let acme = json!({ "id": "T2", "name": "Acme" });
        let other: TeamId = "T2".parse().unwrap();
        let answered = organisation::answered(&team, &other, Some(&acme), &"1.000000".parse().unwrap());
        fixture.archive().write(&answered).await.unwrap();
        let json = printed(&fixture, None, true).await.unwrap();
        let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<(&str, Option<&str>)> =
            rows.iter().map(|row| (row["kind"].as_str().unwrap(), row["team_name"].as_str())).collect();
        assert_eq!(
            kinds,
            [
                ("member", None),
                ("guest", None),
                ("bot", None),
                ("stranger", Some("Acme")),
                ("stranger", None),
                ("deleted", None)
            ]
        );
        let text = printed(&fixture, None, false).await.unwrap();
        for expected in ["U4 pat (Acme)", "U5 sam (stranger)", "U3 jira (bot)", "U6 kim (deactivated)"] {
            assert!(squeezed(&text).iter().any(|line| line == expected), "{expected} is not in {text}");
        }
    }

    #[test]
    fn a_person_without_a_name_is_listed_by_id() {
        let printed = |user: Value| {
            let mut out = Vec::new();
            person(&mut out, &user.into()).unwrap();
            squeezed(std::str::from_utf8(&out).unwrap()).concat()
        };
        assert_eq!(printed(json!({ "timestamp": "U1" })), "U1 U1");
        assert_eq!(printed(json!({ "timestamp": "U1", "user_id": "U1", "name": "" })), "U1 U1");
        assert_eq!(printed(json!({ "user_id": "U1", "real_name": "Ana A." })), "U1 Ana A.");
        let ana = json!({ "user_id": "U1", "display_name": "ana", "real_name": "Ana A.", "deleted": true });
        assert_eq!(printed(ana), "U1 ana Ana A. (deactivated)");
    }
}
