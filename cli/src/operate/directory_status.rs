//! What `annalist status` says of Slack's directory: what the last sync of each workspace found.

use std::io::{self, Write};

use jiff::Timestamp;
use ports::archive::{Archive, ItemKey};
use reader::find;
use serde_json::Value;
use slack::ids::Ts;

use crate::plain;

/// Returns the counts of the last directory sync of each workspace. A workspace that was never synced only
/// has its id.
pub(super) async fn read(archive: &dyn Archive) -> anyhow::Result<Vec<Value>> {
    let mut directory = Vec::new();
    for team in find::teams(archive).await? {
        let synced = archive.get(&ItemKey::directory_sync(&team)).await?;
        let mut synced = synced.map(|row| row.attributes).unwrap_or_default();
        synced.retain(|name, _| name != "type" && name != "version");
        synced.insert("team_id".into(), team.as_str().into());
        directory.push(synced.into());
    }
    Ok(directory)
}

pub(super) fn print(directory: &[Value], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    for synced in directory {
        writeln!(out, "directory    {}", plain::line(&line(synced)))?;
    }
    if directory.is_empty() || directory.iter().any(|synced| synced["synced_ts"].is_null()) {
        writeln!(
            out,
            "\nNames, people and files need a token: set SLACK_BOT_TOKEN where `annalist up` runs."
        )?;
    }
    Ok(())
}

fn line(synced: &Value) -> String {
    let team = synced["team_id"].as_str().unwrap_or_default();
    let Some(at) = synced["synced_ts"].as_str() else { return format!("{team}: never synced") };
    let name = synced["team_name"].as_str().map(|name| format!(" ({name})")).unwrap_or_default();
    let count = |name: &str| synced[name].as_u64().unwrap_or_default();
    let at = Ts::parse(at).ok().and_then(|ts| Timestamp::from_microsecond(ts.micros()).ok());
    let at = at.map_or_else(|| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string());
    let scopes = synced["missing_scopes"].as_array();
    let scopes: Vec<&str> = scopes.into_iter().flatten().filter_map(Value::as_str).collect();
    let lacks = if scopes.is_empty() {
        String::new()
    } else {
        format!("; the app lacks the scope {}", scopes.join(", "))
    };
    format!(
        "{team}{name}: {}, {}, {} emoji as of {at}{lacks}",
        plain::counted(count("channels"), "channel", "channels"),
        plain::counted(count("users"), "person", "people"),
        plain::grouped(count("emoji"))
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::CliFixture;

    #[tokio::test]
    async fn never_synced_workspaces_are_listed_and_the_advice_is_printed_once() {
        let fixture = CliFixture::open().await;
        let directory_text = async || {
            let mut out = Vec::new();
            print(&read(fixture.archive()).await.unwrap(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(directory_text().await.matches("SLACK_BOT_TOKEN").count(), 1);
        for team in ["T1", "T2"] {
            fixture.channel(team, "C1", "1700000000.000000", "general").await;
        }
        let text = directory_text().await;
        assert!(text.contains("T1: never synced") && text.contains("T2: never synced"), "{text}");
        assert_eq!(text.matches("SLACK_BOT_TOKEN").count(), 1);
    }

    #[test]
    fn a_synced_workspace_is_a_line_with_its_counts_and_missing_scopes() {
        let synced = json!({ "team_id": "T1", "synced_ts": "1700000000.000000", "team_name": "Acme", "channels": 12, "users": 30,
            "emoji": 0, "missing_scopes": ["emoji:read"] });
        assert_eq!(
            line(&synced),
            "T1 (Acme): 12 channels, 30 people, 0 emoji as of 2023-11-14 22:13 UTC; the app lacks the scope emoji:read"
        );
    }
}
