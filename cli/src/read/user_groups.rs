//! `annalist usergroups`: lists user groups with their members.

use std::io::Write;

use ports::archive::Archive;
use reader::names::DisplayNames;
use reader::{find, user_groups};
use serde_json::Value;

use super::{ReadArgs, ReadError};
use crate::plain;

/// Maximum length of a name or a description in the list.
const SHOWN: usize = 400;

/// Maximum number of members whose names are printed; `--json` lists all that are stored.
const SHOWN_MEMBERS: usize = 20;

/// Prints the user groups of every workspace, or of one.
pub(crate) async fn user_groups(
    archive: &dyn Archive,
    args: &ReadArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let mut is_empty = true;
    for team in find::requested_teams(archive, args.team.as_ref()).await? {
        let groups = user_groups::user_groups(archive, &team).await?;
        is_empty &= groups.is_empty();
        let limit = args.limit.map_or(usize::MAX, std::num::NonZeroUsize::get);
        let mut names = DisplayNames::new(archive, team);
        for group in &groups[groups.len().saturating_sub(limit)..] {
            if args.json {
                plain::json_line(out, group)?;
            } else {
                print_group(group, &mut names, out).await?;
            }
        }
    }
    if is_empty && !args.json {
        writeln!(
            out,
            "No user groups yet: Slack sends them when they change, and `annalist sync` asks for all of them; both need \
             the scope usergroups:read."
        )?;
    }
    Ok(())
}

async fn print_group(
    group: &Value,
    names: &mut DisplayNames<'_>,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let text = |name: &str| plain::excerpt(group[name].as_str().unwrap_or_default(), SHOWN);
    let members: Vec<&str> =
        group["members"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let count = group["member_count"].as_u64().and_then(|count| usize::try_from(count).ok());
    let count = count.unwrap_or(members.len());
    let disabled = if group["deleted"] == true { "  (disabled)" } else { "" };
    writeln!(
        out,
        "{:<12}  {:<20}  {}, {}{disabled}",
        text("id"),
        format!("@{}", text("handle")),
        text("name"),
        plain::counted(count, "member", "members"),
    )?;
    if group["description"].is_string() {
        writeln!(out, "    {}", text("description"))?;
    }
    let shown = &members[..members.len().min(SHOWN_MEMBERS)];
    if !shown.is_empty() {
        names.learn_people(shown.iter().copied()).await?;
        let mut shown: Vec<String> =
            shown.iter().map(|id| format!("@{}", plain::line(names.person_name(id)))).collect();
        if count > shown.len() {
            shown.push(format!("and {} more", count - shown.len()));
        }
        writeln!(out, "    {}", shown.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{CliFixture, message_args, output};

    async fn printed(fixture: &CliFixture, json: bool) -> String {
        let args = ReadArgs { json, ..message_args("C1", "1.000000").read };
        output(async |out| user_groups(fixture.archive(), &args, out).await).await.unwrap()
    }

    #[tokio::test]
    async fn groups_are_listed_with_their_members_and_states() {
        let fixture = CliFixture::open().await;
        assert!(printed(&fixture, false).await.contains("annalist sync"));
        fixture.person("T1", "U1", "ana").await;
        let group = json!({ "id": "S1", "handle": "oncall", "name": "On\u{1b}[2J call", "date_update": 10,
            "description": "who to wake", "users": ["U2", "U1"], "user_count": 2 });
        fixture.user_group("T1", "10.000100", &group).await;
        let old = json!({ "id": "S2", "handle": "ops", "name": "Ops", "date_update": 20, "date_delete": 20 });
        fixture.user_group("T1", "20.000100", &old).await;
        assert_eq!(
            printed(&fixture, false).await,
            "S1            @oncall               On␛[2J call, 2 members\n    who to wake\n    @ana, @U2\n\
             S2            @ops                  Ops, 0 members  (disabled)\n"
        );
        let json = printed(&fixture, true).await;
        let groups: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            groups,
            [
                json!({ "team_id": "T1", "id": "S1", "handle": "oncall", "name": "On\u{1b}[2J call",
                    "description": "who to wake", "members": ["U1", "U2"], "names_history": ["On\u{1b}[2J call"] }),
                json!({ "team_id": "T1", "id": "S2", "handle": "ops", "name": "Ops", "description": null, "members": [],
                    "names_history": ["Ops"], "deleted": true }),
            ]
        );
    }
}
