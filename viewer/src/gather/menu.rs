//! All channels, for the menu of each page.

use std::collections::BTreeMap;
use std::iter::successors;

use ports::archive::{Archive, ArchiveError};
use ports::clock::TimestampMs;
use reader::channels::{ChannelList, ChannelOrder};
use reader::joined::ChannelOfTeam;
use reader::{directory, find, history};
use rules::channel::index::bare_name;
use rules::history::progress::HistoryState;
use slack::ids::ChannelId;

use crate::pages::sidebar::{ChannelMenu, MenuChannel};

/// Reads the menu, without the numbers of messages.
pub async fn read(archive: &dyn Archive, now: TimestampMs) -> Result<ChannelMenu, ArchiveError> {
    let teams = find::teams(archive).await?;
    let workspaces = directory::read_shown_names(archive, &teams).await?;
    let list = ChannelList::read(archive, &teams, ChannelOrder::Name).await?;
    let mut channels = Vec::with_capacity(list.channels().len());
    // A channel that continues under another id is counted there.
    let mut previous_ids: BTreeMap<ChannelId, ChannelId> = BTreeMap::new();
    for listed in list.channels() {
        let snapshot = listed.location.newest(archive).await?.unwrap_or_default();
        if let Some(next) = list.successor(&listed.location, &snapshot) {
            previous_ids.insert(next, listed.location.channel.clone());
            continue;
        }
        let mut marks: Vec<_> = snapshot.marks().collect();
        if list.teams_of(&listed.location.channel).len() > 1 && !marks.contains(&"shared") {
            marks.push("shared");
        }
        let name = listed.name.as_deref().map(|name| bare_name(name, snapshot.is_deleted()).to_owned());
        let location = listed.location.clone();
        channels.push(MenuChannel { location, name, marks, messages: None, parts: Vec::new() });
    }
    for channel in &mut channels {
        let locations = |id: &ChannelId| {
            let teams = list.teams_of(id).iter();
            teams.map(|team| ChannelOfTeam { team: team.clone(), channel: id.clone() }).collect()
        };
        let ids = successors(Some(&channel.location.channel), |id| previous_ids.get(*id));
        channel.parts = ids.map(locations).collect();
    }
    let mut reading = history::progress(archive).await?;
    reading.retain(|progress| progress.state(now.seconds()) == HistoryState::Reading);
    Ok(ChannelMenu { channels, reading, ..ChannelMenu::new(workspaces) })
}
