//! The beginnings of the messages that a report names. They are read when a report is shown, and are never stored with
//! it: what is erased, deleted or hidden later is then in no report.

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError};

use super::report::FiguresReport;
use crate::joined::ChannelOfTeam;
use crate::names::DisplayNames;
use crate::text::{self, flat};
use crate::{find, plain, rows};

/// Maximum length of a beginning: a line of a page.
const MAX_CHARS: usize = 120;

/// Adds the first line of each message that the report names.
pub async fn add(archive: &dyn Archive, report: &mut FiguresReport) -> Result<(), ArchiveError> {
    let team = &report.team;
    let mut names = DisplayNames::new(archive, team.clone());
    for message in report.most_reacted.iter_mut().chain(&mut report.most_replied) {
        let location = ChannelOfTeam { team: team.clone(), channel: message.channel.clone() };
        let channel = find::joined_channel(archive, &location, std::slice::from_ref(team)).await?;
        let row = rows::read_message(&channel, &message.ts).await?;
        let Some(row) = row.filter(|row| !row.is_deleted()) else { continue };
        let content = text::read(&row, &TimeZone::UTC);
        names.learn([&content]).await?;
        let mut lines = content.lines.iter().map(|line| flat::line(line, &names));
        let first = lines.find(|line| !line.trim().is_empty());
        message.excerpt = first.map(|first| plain::excerpt(&first, MAX_CHARS));
    }
    Ok(())
}
