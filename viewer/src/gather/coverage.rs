//! The coverage of every channel.

use ports::archive::{Archive, ArchiveError};
use reader::channels::is_deleted;
use reader::coverage::TeamCoverage;
use reader::joined::ChannelOfTeam;
use reader::range::ts_from_micros;
use reader::{directory, find};
use rules::channel::index::bare_name;
use slack::ids::{TeamId, Ts};

use crate::pages::coverage::CoveredRow;

/// Since when events of workspaces have waited.
pub async fn read_waiting(archive: &dyn Archive) -> Result<Vec<(TeamId, Ts)>, ArchiveError> {
    let mut waiting = Vec::new();
    for team in find::teams(archive).await? {
        if let Some(since) = reader::waiting::since(archive, &team).await? {
            waiting.push((team, ts_from_micros(since.0.saturating_mul(1_000))));
        }
    }
    Ok(waiting)
}

/// Reads the coverage of every channel.
pub async fn read(archive: &dyn Archive) -> Result<Vec<CoveredRow>, ArchiveError> {
    let mut rows = Vec::new();
    for team in find::teams(archive).await? {
        let team_coverage = TeamCoverage::read(archive, &team).await?;
        let names = directory::read(archive, &team).await?;
        for channel in team_coverage.channels() {
            let coverage = team_coverage.channel_coverage(channel).await?;
            let location = ChannelOfTeam { team: team.clone(), channel: channel.clone() };
            let listed_name = names.name(channel);
            let is_deleted = is_deleted(archive, &location, listed_name).await?;
            let name = listed_name.map(|name| bare_name(name, is_deleted).to_owned());
            rows.push(CoveredRow { location, name, coverage });
        }
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}
