//! `markdown`: a file per channel, and one that lists them, for wikis and language models.
//!
//! Each message is a list item with its text indented below, so that no text can pose as another message.
//! Replies are nested items. [`inline`] converts texts to Markdown.

mod inline;

use std::io::{self, Write};
use std::path::Path;

use reader::names::DisplayNames;
use reader::text::spans::{TextLine, TextSpan};
use reader::text::{Manner, MessageText};
use rules::view::MessageView;
use viewer::emoji::split_skin_tones;
use viewer::public_links::encoded;

use super::channel_files::{self, ExportFile};
use super::known_names::NameCache;
use super::reading_order::{Arranged, ChannelTexts};
use super::source::{ExportSource, ExportedChannel};
use super::{ExportError, ExportProgress};
use crate::plain;
use crate::read::shared_files;
use crate::zone::Zone;

/// The file that lists the channels.
const INDEX: &str = "index.md";

/// Maximum number of characters of a message that is only exported as context for its replies.
const CONTEXT: usize = 100;

/// Writes the files into a folder.
pub(super) async fn write(
    source: &ExportSource<'_>,
    zone: &Zone,
    folder: &Path,
    progress: &mut ExportProgress,
) -> Result<(), ExportError> {
    let mut known = NameCache::new(source.archive);
    let mut listed = String::new();
    for channel in &source.channels {
        if let Some(written) = one_channel(source, channel, zone, folder, &mut known, progress).await? {
            listed += &list_item(source, channel, &written);
        }
        progress.channel_done();
    }
    let head = format!("# Channels\n\nTimes are in {}.\n\n", inline::escaped(zone.name()));
    Ok(channel_files::save(&folder.join(INDEX), &(head + &listed))?)
}

/// What the file of a channel contains.
#[derive(Debug, Default)]
struct WrittenChannel {
    /// The number of messages.
    messages: usize,
    /// The first and the last day.
    days: Option<[String; 2]>,
}

/// The line for a channel in the list of channels.
fn list_item(source: &ExportSource<'_>, channel: &ExportedChannel<'_>, written: &WrittenChannel) -> String {
    let team = source.folder_of_team(&channel.joined.current_location().team);
    let path = format!("{}{}.md", team.map(|team| format!("{team}/")).unwrap_or_default(), channel.folder);
    let mut line = format!("- [{}]({})", title(channel), encoded(&path));
    line += &format!(": {}", plain::counted(written.messages, "message", "messages"));
    if let Some([first, last]) = &written.days {
        line += &format!(", {} to {}", inline::escaped(first), inline::escaped(last));
    }
    line + "\n"
}

/// The name of a channel, escaped.
fn title(channel: &ExportedChannel<'_>) -> String {
    let id = &channel.joined.current_location().channel;
    let name = channel.facts.name.as_ref().map(|name| format!("#{name}"));
    inline::escaped(&plain::line(name.as_deref().unwrap_or(id.as_str())))
}

/// Writes a channel's file, unless it would be empty.
async fn one_channel<'a>(
    source: &ExportSource<'a>,
    channel: &ExportedChannel<'a>,
    zone: &Zone,
    folder: &Path,
    known: &mut NameCache<'a>,
    progress: &mut ExportProgress,
) -> Result<Option<WrittenChannel>, ExportError> {
    let names = known.take(&channel.joined);
    let mut written = WrittenChannel::default();
    let mut channel_texts = ChannelTexts::read(source, channel, zone.time_zone(), names, progress).await?;
    let (mut file, mut day): (Option<ExportFile>, _) = (None, String::new());
    while let Some(next) = channel_texts.next(progress).await? {
        for (arranged, text) in next {
            let out = match &mut file {
                Some(file) => file,
                none => {
                    let begun =
                        none.insert(channel_files::create_for_channel(source, channel, folder, "md")?);
                    head(begun, channel, zone, &mut channel_texts.names).await?;
                    begun
                }
            };
            let Some(row) = arranged.row() else {
                writeln!(out, "\n- _A thread whose first message is not in this export:_")?;
                continue;
            };
            let message_day = zone.day(row.ts().unwrap_or_default());
            if !arranged.is_context() {
                written.messages += 1;
                let [_, last] =
                    written.days.get_or_insert_with(|| [message_day.clone(), message_day.clone()]);
                if *last < message_day {
                    last.clone_from(&message_day);
                }
            }
            if message_day != day && !matches!(arranged, Arranged::Reply(_)) {
                writeln!(out, "\n## {}", inline::escaped(&message_day))?;
                day = message_day;
            }
            progress.count_exported_if(!arranged.is_context());
            item(out, &arranged, row, text, &channel_texts.names, zone)?;
        }
    }
    known.keep(&channel.joined, channel_texts.names);
    Ok(match file {
        Some(file) => {
            channel_files::finish(file)?;
            Some(written)
        }
        None => None,
    })
}

async fn head(
    out: &mut dyn Write,
    channel: &ExportedChannel<'_>,
    zone: &Zone,
    names: &mut DisplayNames<'_>,
) -> Result<(), ExportError> {
    let id = &channel.joined.current_location().channel;
    writeln!(out, "# {}\n", title(channel))?;
    for (label, text) in [("Topic", &channel.facts.topic), ("Purpose", &channel.facts.purpose)] {
        if let Some(text) = text {
            writeln!(out, "{label}: {}\n", inline::escaped(&names.description_text(text).await?))?;
        }
    }
    Ok(writeln!(out, "Channel {id}. Times are in {}.", inline::escaped(zone.name()))?)
}

/// Writes an item for a message, with the message's text below.
fn item(
    out: &mut dyn Write,
    arranged: &Arranged,
    row: &MessageView,
    mut text: MessageText,
    names: &DisplayNames<'_>,
    zone: &Zone,
) -> io::Result<()> {
    let indent = if matches!(arranged, Arranged::Reply(_)) { "  " } else { "" };
    let ts = row.ts().unwrap_or_default();
    let time = zone.time(ts);
    let day = zone.day(ts);
    // A reply may be from another day than its root.
    let time =
        if indent.is_empty() { time.strip_prefix(&day).unwrap_or(&time).trim() } else { time.as_str() };
    let author = inline::escaped(&names.author(&text.author));
    let mut notice = String::new();
    if text.manner == Manner::Notice && !text.lines.is_empty() {
        notice = format!(" _{}_", inline::words(&text.lines.remove(0).spans, names));
    }
    if arranged.is_context() {
        text.lines.truncate(1);
    } else {
        text.lines.extend(shared_files(row).map(|line| TextLine::plain(vec![TextSpan::text(line)])));
        text.lines.extend(reactions(row));
    }
    let marks: String = marks(arranged, row).iter().map(|mark| format!(" _({mark})_")).collect();
    writeln!(out, "\n{indent}- **{author}** {time}{notice}{marks}")?;
    for (index, line) in inline::lines(&text.lines, names).iter().enumerate() {
        if index == 0 {
            writeln!(out)?;
        }
        let line = if arranged.is_context() { &plain::excerpt(line, CONTEXT) } else { line };
        if line.is_empty() { writeln!(out)? } else { writeln!(out, "{indent}  {line}")? }
    }
    Ok(())
}

/// A line with every reaction and its count.
fn reactions(row: &MessageView) -> Option<TextLine> {
    let spans = row.reactions().iter().flat_map(|reaction| {
        let (name, skin_tones) = split_skin_tones(reaction["name"].as_str().unwrap_or_default());
        let count = TextSpan::text(format!(" {}  ", reaction["count"]));
        [TextSpan::Emoji { name: name.to_owned(), skin_tones }, count]
    });
    Some(TextLine::plain(spans.collect())).filter(|line| !line.spans.is_empty())
}

fn marks(arranged: &Arranged, row: &MessageView) -> Vec<String> {
    let mut marks = Vec::new();
    let is_set = [
        (row.is_edited(), "edited"),
        (row.is_deleted(), "deleted"),
        (row.is_broadcast(), "also in the channel"),
        (arranged.is_context(), "earlier"),
    ];
    marks.extend(is_set.iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| (*mark).to_owned()));
    if let Arranged::Message(_, replies @ 1..) = arranged {
        marks.push(plain::counted(*replies, "reply", "replies"));
    }
    marks
}
