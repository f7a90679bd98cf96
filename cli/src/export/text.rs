//! `text`: a file per channel, as `annalist messages` prints it.

use std::io::{self, Write};
use std::path::Path;

use reader::names::DisplayNames;
use reader::text::{self, MessageText};

use super::arranged::{Arranged, ArrangedChannel};
use super::channel_files::{self, ExportFile};
use super::source::{ExportSource, ExportedChannel};
use super::{ExportError, ExportProgress};
use crate::plain;
use crate::read::{Layout, REPLY_INDENT, Render};
use crate::zone::Zone;

/// Writes the files below a folder.
pub(super) async fn write(
    source: &ExportSource<'_>,
    zone: &Zone,
    folder: &Path,
    progress: &mut ExportProgress,
) -> Result<(), ExportError> {
    for channel in &source.channels {
        one_channel(source, channel, zone, folder, progress).await?;
        progress.channel_done();
    }
    Ok(())
}

/// Writes a channel's file, if there is anything to write.
async fn one_channel(
    source: &ExportSource<'_>,
    channel: &ExportedChannel<'_>,
    zone: &Zone,
    folder: &Path,
    progress: &mut ExportProgress,
) -> Result<(), ExportError> {
    let mut names = DisplayNames::in_teams(source.archive, channel.joined.teams());
    let mut arranged = ArrangedChannel::read(source, channel, progress).await?;
    let mut file: Option<ExportFile> = None;
    while let Some(next) = arranged.next(progress).await? {
        let texts: Vec<MessageText> = next.iter().filter_map(Arranged::row).map(text::read).collect();
        names.learn(&texts).await?;
        let mut texts = texts.into_iter();
        for arranged in &next {
            let out = match &mut file {
                Some(file) => file,
                none => none.insert(begun(source, channel, zone, folder)?),
            };
            let Some(message) = arranged.row() else {
                if let Arranged::Unknown(root_ts) = arranged {
                    writeln!(out, "In the thread of {root_ts}, which is not in this export:")?;
                }
                continue;
            };
            let (layout, Some(mut text)) = (layout(arranged), texts.next()) else { continue };
            if layout.is_context {
                text.lines.truncate(1);
            }
            progress.exported_if(!layout.is_context);
            Render { names: &names, zone }.message(out, message, &text, &layout)?;
        }
    }
    Ok(file.map_or(Ok(()), ExportFile::finish)?)
}

fn begun(
    source: &ExportSource<'_>,
    channel: &ExportedChannel<'_>,
    zone: &Zone,
    folder: &Path,
) -> io::Result<ExportFile> {
    let mut file = ExportFile::create(&channel_files::path(source, channel, folder, "txt"))?;
    let id = &channel.joined.main().channel;
    match &channel.facts.name {
        Some(name) => writeln!(file, "#{} ({id})", plain::line(name))?,
        None => writeln!(file, "{id}")?,
    }
    writeln!(file, "Times are in {}.", zone.name())?;
    Ok(file)
}

fn layout(arranged: &Arranged) -> Layout {
    match arranged {
        Arranged::Message(_, 0) | Arranged::Unknown(_) => Layout::default(),
        Arranged::Message(_, 1) => Layout { mark: Some("1 reply".to_owned()), ..Layout::default() },
        Arranged::Message(_, replies) => {
            Layout { mark: Some(format!("{replies} replies")), ..Layout::default() }
        }
        Arranged::Reply(_) => Layout { indent: REPLY_INDENT, ..Layout::default() },
        Arranged::Elsewhere(_) => Layout { is_context: true, ..Layout::default() },
    }
}
