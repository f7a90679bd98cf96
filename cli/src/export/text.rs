//! `text`: a file per channel, as `annalist messages` prints it.

use std::io::{self, Write};
use std::path::Path;

use super::channel_files::{self, ExportFile};
use super::known_names::NameCache;
use super::reading_order::{Arranged, ChannelTexts};
use super::source::{ExportSource, ExportedChannel};
use super::{ExportError, ExportProgress};
use crate::plain;
use crate::read::{MessageLayout, REPLY_INDENT, Render};
use crate::zone::Zone;

/// Writes the files into a folder.
pub(super) async fn write(
    source: &ExportSource<'_>,
    zone: &Zone,
    folder: &Path,
    progress: &mut ExportProgress,
) -> Result<(), ExportError> {
    let mut known = NameCache::new(source.archive);
    for channel in &source.channels {
        one_channel(source, channel, zone, folder, &mut known, progress).await?;
        progress.channel_done();
    }
    Ok(())
}

/// Writes a channel's file, unless it would be empty.
async fn one_channel<'a>(
    source: &ExportSource<'a>,
    channel: &ExportedChannel<'a>,
    zone: &Zone,
    folder: &Path,
    known: &mut NameCache<'a>,
    progress: &mut ExportProgress,
) -> Result<(), ExportError> {
    let names = known.take(&channel.joined);
    let mut channel_texts = ChannelTexts::read(source, channel, zone.time_zone(), names, progress).await?;
    let mut file: Option<ExportFile> = None;
    while let Some(next) = channel_texts.next(progress).await? {
        for (arranged, mut text) in next {
            let out = match &mut file {
                Some(file) => file,
                none => none.insert(create_file(source, channel, zone, folder)?),
            };
            let Some(message) = arranged.row() else {
                if let Arranged::MissingRoot(root_ts) = arranged {
                    writeln!(out, "In the thread of {root_ts}, which is not in this export:")?;
                }
                continue;
            };
            let layout = layout(&arranged);
            if layout.is_context {
                text.lines.truncate(1);
            }
            progress.count_exported_if(!layout.is_context);
            Render { names: &channel_texts.names, zone }.message(out, message, &text, &layout)?;
        }
    }
    known.keep(&channel.joined, channel_texts.names);
    Ok(file.map_or(Ok(()), channel_files::finish)?)
}

fn create_file(
    source: &ExportSource<'_>,
    channel: &ExportedChannel<'_>,
    zone: &Zone,
    folder: &Path,
) -> io::Result<ExportFile> {
    let mut file = channel_files::create_for_channel(source, channel, folder, "txt")?;
    let id = &channel.joined.current_location().channel;
    match &channel.facts.name {
        Some(name) => writeln!(file, "#{} ({id})", plain::line(name))?,
        None => writeln!(file, "{id}")?,
    }
    writeln!(file, "Times are in {}.", zone.name())?;
    Ok(file)
}

fn layout(arranged: &Arranged) -> MessageLayout {
    match arranged {
        Arranged::Message(_, 0) | Arranged::MissingRoot(_) => MessageLayout::default(),
        Arranged::Message(_, replies) => MessageLayout {
            mark: Some(plain::counted(*replies, "reply", "replies")),
            ..MessageLayout::default()
        },
        Arranged::Reply(_) => MessageLayout { indent: REPLY_INDENT, ..MessageLayout::default() },
        Arranged::RootOutsideRange(_) => MessageLayout { is_context: true, ..MessageLayout::default() },
    }
}
