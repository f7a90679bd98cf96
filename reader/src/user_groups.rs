//! User groups, with their members and the names that they had.

use ports::archive::{Archive, ArchiveError, Item, Query, key, query_all};
use rules::user_group::{MAX_MEMBERS, UserGroup};
use serde_json::{Value, json};
use slack::ids::{TeamId, UserGroupId};

/// Maximum number of rows of people of a group that are read. Each list of members stores at most 500 people,
/// so the rows of 20 completely different lists are read.
const MAX_PEOPLE_READ: usize = 10_000;

/// Rows per query.
const PAGE: usize = 1_000;

/// The groups of a workspace, sorted by id, as `annalist usergroups --json` prints them.
pub async fn user_groups(archive: &dyn Archive, team: &TeamId) -> Result<Vec<Value>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::user_groups(team))).await?;
    let mut groups = Vec::with_capacity(rows.len());
    for group in rows.iter().filter_map(UserGroup::read) {
        let Ok(id) = UserGroupId::parse(&group.id) else { continue };
        let people = people(archive, team, &id).await?;
        let names_of = Query { limit: PAGE, ..Query::partition(key::user_group_names(team, &id)) };
        let names_history = group.names_history(&archive.query(&names_of).await?.items);
        let mut object = json!({
            "team_id": team.as_str(), "id": group.id, "handle": group.handle, "name": group.name,
            "description": group.description, "members": group.members(&people), "names_history": names_history,
        });
        if group.is_deleted {
            object["deleted"] = true.into();
        }
        if let Some(count) = group.member_count {
            object["member_count"] = count.into();
        }
        groups.push(object);
    }
    Ok(groups)
}

/// The rows of the people who are or were members, at least of the first [`MAX_MEMBERS`] members.
async fn people(
    archive: &dyn Archive,
    team: &TeamId,
    group: &UserGroupId,
) -> Result<Vec<Item>, ArchiveError> {
    const { assert!(MAX_PEOPLE_READ > MAX_MEMBERS) };
    let mut query = Query { limit: PAGE, ..Query::partition(key::user_group_members(team, group)) };
    let mut people = Vec::new();
    loop {
        let page = archive.query(&query).await?;
        people.extend(page.items);
        match page.next {
            Some(next) if people.len() < MAX_PEOPLE_READ => query.after = Some(next),
            Some(_) | None => return Ok(people),
        }
    }
}
