//! The page of a person.

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key};
use reader::names::is_visible;
use rules::account::AccountStatus;
use rules::file::image;
use rules::view::PersonView;
use rules::{profile, project};
use serde_json::Value;
use slack::ids::{TeamId, UserId};

use crate::pages::person::PersonPage;

/// Maximum number of profiles of a person that are read for former names.
const MAX_PROFILES: usize = 500;

/// Reads the page of a person; `None` if the directory of this workspace does not have them.
pub async fn read(
    archive: &dyn Archive,
    team: &TeamId,
    user: &UserId,
) -> Result<Option<PersonPage>, ArchiveError> {
    let row = archive.get(&ItemKey::user(team, user)).await?;
    let Some(row) = row.filter(|row| !row.is_erased()) else { return Ok(None) };
    let person = PersonView::from(project::directory(&row));
    let raw = person.raw().unwrap_or_default();
    let mark = match AccountStatus::from_row(team, Some(&row)) {
        AccountStatus::Guest => Some("guest"),
        AccountStatus::Bot => Some("app"),
        AccountStatus::Left => Some("deactivated"),
        AccountStatus::Stranger => Some("of another organisation"),
        AccountStatus::Member
        | AccountStatus::MemberElsewhere
        | AccountStatus::Unreadable
        | AccountStatus::Unknown => None,
    };
    let text = |value: &Value| value.as_str().filter(|text| is_visible(text)).map(str::to_owned);
    let names: Vec<String> = names(&person).map(str::to_owned).collect();
    let query = Query { limit: MAX_PROFILES, ..Query::partition(key::profiles(team, user)) };
    let profiles = archive.query(&query).await?.items;
    let mut profiles: Vec<PersonView> =
        profiles.iter().filter(|row| !row.is_erased()).map(profile::projected).collect();
    profiles.sort_by_cached_key(|profile| profile.last_ts().unwrap_or_default().to_owned());
    let mut former_names: Vec<String> = Vec::new();
    for name in profiles.iter().rev().flat_map(self::names) {
        if !names.iter().chain(&former_names).any(|known| known == name) {
            former_names.push(name.to_owned());
        }
    }
    Ok(Some(PersonPage {
        team: team.clone(),
        user: user.clone(),
        picture: image::picture(&row),
        names,
        title: text(&raw["profile"]["title"]),
        zone: rules::directory::time_zone(&row).map(str::to_owned).or_else(|| text(&raw["tz"])),
        mark,
        former_names,
    }))
}

/// The names of a person, each once, the one that is shown first.
fn names(person: &PersonView) -> impl Iterator<Item = &str> {
    let names = [person.display_name(), person.real_name(), person.name()];
    let is_new = move |at: usize| !names[..at].contains(&names[at]);
    (0..names.len())
        .filter(move |at| is_new(*at))
        .filter_map(move |at| names[at])
        .filter(|name| is_visible(name))
}
