//! All channels, for the menu beside each page.

use ports::archive::{Archive, ArchiveError};
use reader::channels::{ChannelList, ChannelOrder};
use reader::{directory, find};
use serde_json::Value;

use super::channel::{bare_name, marks};
use crate::pages::sidebar::{ChannelMenu, MenuChannel};

/// Reads it. Messages are not counted.
///
/// # Errors
/// As [`Archive::query`].
pub async fn read(archive: &dyn Archive) -> Result<ChannelMenu, ArchiveError> {
    let teams = find::teams(archive).await?;
    let mut workspaces = Vec::new();
    for team in &teams {
        let name = directory::workspace(archive, team).await?.name;
        workspaces.push((team.clone(), name.unwrap_or_else(|| team.to_string())));
    }
    let list = ChannelList::read(archive, &teams, ChannelOrder::Name).await?;
    let mut channels = Vec::with_capacity(list.channels().len());
    for listed in list.channels() {
        let snapshot = listed.place.newest(archive).await?.unwrap_or(Value::Null);
        if list.goes_on_elsewhere(&listed.place, &snapshot) {
            continue;
        }
        let mut marks = marks(&snapshot);
        if list.teams_of(&listed.place.channel).len() > 1 && !marks.contains(&"shared") {
            marks.push("shared");
        }
        let (place, name) =
            (listed.place.clone(), listed.name.as_deref().map(|name| bare_name(name).to_owned()));
        channels.push(MenuChannel { place, name, marks, messages: None });
    }
    Ok(ChannelMenu { channels, ..ChannelMenu::of(workspaces) })
}
