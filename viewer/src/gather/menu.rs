//! All channels, for the menu beside each page.

use std::collections::BTreeMap;
use std::iter::successors;

use ports::archive::{Archive, ArchiveError};
use reader::channels::{ChannelList, ChannelOrder};
use reader::joined::ChannelOfTeam;
use reader::{directory, find};
use serde_json::Value;
use slack::ids::ChannelId;

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
    // What goes on under another id is counted there.
    let mut before: BTreeMap<ChannelId, ChannelId> = BTreeMap::new();
    for listed in list.channels() {
        let snapshot = listed.place.newest(archive).await?.unwrap_or(Value::Null);
        if let Some(next) = list.goes_on_as(&listed.place, &snapshot) {
            before.insert(next, listed.place.channel.clone());
            continue;
        }
        let mut marks = marks(&snapshot);
        if list.teams_of(&listed.place.channel).len() > 1 && !marks.contains(&"shared") {
            marks.push("shared");
        }
        let (place, name) =
            (listed.place.clone(), listed.name.as_deref().map(|name| bare_name(name).to_owned()));
        channels.push(MenuChannel { place, name, marks, messages: None, parts: Vec::new() });
    }
    for channel in &mut channels {
        let places = |id: &ChannelId| {
            let teams = list.teams_of(id).iter();
            teams.map(|team| ChannelOfTeam { team: team.clone(), channel: id.clone() }).collect()
        };
        let ids = successors(Some(&channel.place.channel), |id| before.get(*id));
        channel.parts = ids.map(places).collect();
    }
    Ok(ChannelMenu { channels, ..ChannelMenu::of(workspaces) })
}
