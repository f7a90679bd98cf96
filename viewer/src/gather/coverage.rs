//! The coverage of every channel.

use ports::archive::{Archive, ArchiveError};
use reader::coverage::TeamCoverage;
use reader::joined::ChannelOfTeam;
use reader::{directory, find};

use super::channel::bare_name;
use crate::pages::coverage::CoveredRow;

/// Reads the coverage of every channel.
pub async fn read(archive: &dyn Archive) -> Result<Vec<CoveredRow>, ArchiveError> {
    let mut rows = Vec::new();
    for team in find::teams(archive).await? {
        let team_coverage = TeamCoverage::read(archive, &team).await?;
        let names = directory::read(archive, &team).await?;
        for channel in team_coverage.channels() {
            let coverage = team_coverage.channel_coverage(channel).await?;
            let name = names.name(channel).map(|name| bare_name(name).to_owned());
            rows.push(CoveredRow {
                location: ChannelOfTeam { team: team.clone(), channel: channel.clone() },
                name,
                coverage,
            });
        }
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}
