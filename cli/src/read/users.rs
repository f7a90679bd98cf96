//! `annalist users`: people.

use std::io::Write;

use serde_json::Value;
use shared::archive::{Archive, Query, key};
use shared::rules::project;

use super::rows::Rows;
use super::{ReadArgs, ReadError, channel};
use crate::plain;

/// Prints the people of every workspace, or of one.
pub(crate) async fn users(
    archive: &dyn Archive,
    args: &ReadArgs,
    out: &mut dyn Write,
) -> Result<(), ReadError> {
    let teams = channel::teams_asked_for(archive, args.team.as_ref()).await?;
    let mut empty = true;
    for team in teams {
        let mut rows =
            Rows::all(archive, Query::partition(key::users(&team)), |item| Some(project::directory(item)));
        if let Some(limit) = args.limit {
            rows.keep_newest(limit.get()).await?;
        }
        while let Some(page) = rows.next().await? {
            empty &= page.is_empty();
            for user in &page {
                if args.json {
                    plain::json_line(out, user)?;
                } else {
                    person(out, user)?;
                }
            }
        }
    }
    if empty && !args.json {
        writeln!(out, "Nobody yet: Slack tells about people when they join or change their profile.")?;
    }
    Ok(())
}

fn person(out: &mut dyn Write, user: &Value) -> Result<(), ReadError> {
    let text = |name: &str| plain::line(user[name].as_str().unwrap_or_default());
    let mut marks = String::new();
    if user["is_bot"] == true {
        marks.push_str("  (bot)");
    }
    if user["deleted"] == true {
        marks.push_str("  (deactivated)");
    }
    let called =
        [text("display_name"), text("name")].into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let real_name = Some(text("real_name")).filter(|name| *name != called).unwrap_or_default();
    let line = format!("{:<12}  {called:<20}  {real_name:<28}{marks}", text("user_id"));
    Ok(writeln!(out, "{}", line.trim_end())?)
}
