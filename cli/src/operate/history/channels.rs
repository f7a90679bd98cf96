//! Which channels are read.

use anyhow::bail;
use ports::archive::{Archive, ItemKey};
use reader::{directory, find, history};
use rules::public_mark::MarkState;
use slack::ids::{ChannelId, TeamId};
use slack_api::WebApi;

use crate::plain;

/// A name's length in a line.
const NAME: usize = 40;

/// A channel that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedChannel {
    pub(crate) channel: ChannelId,
    pub(crate) name: Option<String>,
}

impl PlannedChannel {
    /// `#general`, or its id if its name is unknown.
    pub(crate) fn called(&self) -> String {
        match &self.name {
            Some(name) => format!("#{}", plain::excerpt(name, NAME)),
            None => self.channel.to_string(),
        }
    }
}

/// Every channel that is kept, by workspace.
pub(crate) async fn kept(
    archive: &dyn Archive,
    api: &WebApi,
) -> anyhow::Result<Vec<(TeamId, Vec<PlannedChannel>)>> {
    let mut found: Vec<(TeamId, Vec<PlannedChannel>)> = Vec::new();
    for team in api.teams().await? {
        let names = directory::read(archive, &team).await?;
        let kept: Vec<PlannedChannel> = history::marked(archive, &team)
            .await?
            .into_iter()
            .map(|channel| PlannedChannel { name: names.name(&channel).map(str::to_owned), channel })
            .collect();
        if !kept.is_empty() {
            found.push((team, kept));
        }
    }
    if found.is_empty() {
        bail!("no channel is kept yet: `annalist sync` brings in the public ones first");
    }
    Ok(found)
}

/// The channels that are called this, by workspace.
pub(crate) async fn named(
    archive: &dyn Archive,
    called: &[String],
) -> anyhow::Result<Vec<(TeamId, Vec<PlannedChannel>)>> {
    let mut found: Vec<(TeamId, Vec<PlannedChannel>)> = Vec::new();
    for called in called {
        let place = find::place(archive, called, None).await?;
        let mark = archive.get(&ItemKey::public_mark(&place.team, &place.channel)).await?;
        if MarkState::of(mark.as_ref()) != MarkState::Public {
            bail!("channel {called} is not known to be public, and only public channels are kept");
        }
        let names = directory::read(archive, &place.team).await?;
        let name = names.name(&place.channel).map(str::to_owned);
        let planned = PlannedChannel { channel: place.channel, name };
        match found.iter_mut().find(|(team, _)| *team == place.team) {
            Some((_, channels)) if channels.contains(&planned) => {}
            Some((_, channels)) => channels.push(planned),
            None => found.push((place.team, vec![planned])),
        }
    }
    Ok(found)
}
