//! Selects the channels to read.

use anyhow::bail;
use ports::archive::{Archive, ErasureFacts, ItemKey};
use ports::clock::{Clock, SystemClock};
use reader::range::ts_from_micros;
use reader::{directory, find, history};
use rules::public_mark::MarkState;
use slack::ids::{ChannelId, TeamId};
use slack_api::WebApi;

use crate::plain;

/// Maximum length of a name in a line.
const NAME: usize = 40;

/// A channel to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedChannel {
    pub(crate) channel: ChannelId,
    pub(crate) name: Option<String>,
}

impl PlannedChannel {
    /// `#general`, or its id if its name is unknown.
    pub(crate) fn display_name(&self) -> String {
        plain::channel_label(self.name.as_deref(), &self.channel, NAME)
    }
}

/// Returns all channels that are kept, by workspace.
pub(crate) async fn kept_channels(
    archive: &dyn Archive,
    api: &WebApi,
) -> anyhow::Result<Vec<(TeamId, Vec<PlannedChannel>)>> {
    let mut found: Vec<(TeamId, Vec<PlannedChannel>)> = Vec::new();
    for team in api.teams().await? {
        let names = directory::read(archive, &team).await?;
        let erasures = ErasureFacts::load(archive, &team).await?;
        let now = ts_from_micros(SystemClock.now().0.saturating_mul(1_000));
        let kept: Vec<PlannedChannel> = history::channels_with_public_mark(archive, &team)
            .await?
            .into_iter()
            .filter(|channel| !erasures.channel_is_out(&team, channel, &now))
            .map(|channel| PlannedChannel { name: names.name(&channel).map(str::to_owned), channel })
            .collect();
        if !kept.is_empty() {
            found.push((team, kept));
        }
    }
    if found.is_empty() {
        bail!("no channel is kept yet: run `annalist sync` first to add the public ones");
    }
    Ok(found)
}

/// Returns the channels with these names or ids, by workspace.
pub(crate) async fn named_channels(
    archive: &dyn Archive,
    channel_names: &[String],
) -> anyhow::Result<Vec<(TeamId, Vec<PlannedChannel>)>> {
    let mut found: Vec<(TeamId, Vec<PlannedChannel>)> = Vec::new();
    for channel_name in channel_names {
        let location = find::find_single_location(archive, channel_name, None).await?;
        let mark = archive.get(&ItemKey::public_mark(&location.team, &location.channel)).await?;
        if MarkState::from_row(mark.as_ref()) != MarkState::Public {
            bail!("channel {channel_name} is not known to be public, and only public channels are kept");
        }
        let names = directory::read(archive, &location.team).await?;
        let name = names.name(&location.channel).map(str::to_owned);
        let planned = PlannedChannel { channel: location.channel, name };
        match found.iter_mut().find(|(team, _)| *team == location.team) {
            Some((_, channels)) if channels.contains(&planned) => {}
            Some((_, channels)) => channels.push(planned),
            None => found.push((location.team, vec![planned])),
        }
    }
    Ok(found)
}
