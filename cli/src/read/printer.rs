//! Prints messages as JSON, or as text for people.

use std::io::{self, Write};

use ports::archive::Archive;
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use reader::text::{self, MessageText};
use rules::view::MessageView;

use super::render::{self, MessageLayout};
use super::with_names::MessageNames;
use super::{ReadArgs, ReadError};
use crate::plain;
use crate::zone::Zone;

/// Prints messages of one channel.
pub(super) struct MessagePrinter<'a> {
    out: &'a mut dyn Write,
    /// `None` for JSON, which has ids and Slack's timestamps.
    text: Option<(DisplayNames<'a>, Zone)>,
    args: &'a ReadArgs,
    printed: usize,
    is_zone_named: bool,
    /// What JSON has of names, if it has some.
    names: Option<MessageNames<'a>>,
}

impl<'a> MessagePrinter<'a> {
    pub(super) fn new(
        archive: &'a dyn Archive,
        channel: &JoinedChannel<'_>,
        args: &'a ReadArgs,
        out: &'a mut dyn Write,
    ) -> Self {
        let text = (!args.json)
            .then(|| (DisplayNames::for_teams(archive, channel.teams()), Zone::from_args(&args.zone)));
        Self { out, text, args, printed: 0, is_zone_named: false, names: None }
    }

    /// Adds names to JSON.
    pub(super) fn with_names(self, archive: &'a dyn Archive, channel: &JoinedChannel<'_>) -> Self {
        Self { names: Some(MessageNames::new(archive, channel)), ..self }
    }

    /// Prints messages. `layout` is only called for text.
    pub(super) async fn print(
        &mut self,
        messages: &[MessageView],
        layout: impl Fn(&MessageView) -> MessageLayout,
    ) -> Result<(), ReadError> {
        self.printed += messages.len();
        match &mut self.text {
            None => {
                let addresses = self.args.file_addresses()?;
                match &mut self.names {
                    None => {
                        for message in messages {
                            plain::json_line(self.out, &*addresses.of(message.as_json()))?;
                        }
                    }
                    Some(names) => {
                        for message in &names.add(messages).await? {
                            plain::json_line(self.out, &*addresses.of(message))?;
                        }
                    }
                }
            }
            Some((names, zone)) => {
                if !messages.is_empty() {
                    name_once(&mut self.is_zone_named, zone, self.out)?;
                }
                let texts: Vec<MessageText> =
                    messages.iter().map(|message| text::read(message, zone.time_zone())).collect();
                names.learn(&texts).await?;
                for (message, text) in messages.iter().zip(&texts) {
                    let layout = layout(message);
                    render::Render { names, zone }.message(self.out, message, text, &layout)?;
                }
            }
        }
        Ok(())
    }

    /// Prints a message from elsewhere as context for the next ones: only its beginning, and only as text.
    pub(super) async fn context(
        &mut self,
        message: &MessageView,
        mark: Option<String>,
    ) -> Result<(), ReadError> {
        let Some((names, zone)) = &mut self.text else { return Ok(()) };
        name_once(&mut self.is_zone_named, zone, self.out)?;
        let mut text = text::read(message, zone.time_zone());
        text.lines.truncate(1);
        names.learn(std::slice::from_ref(&text)).await?;
        let layout = MessageLayout { mark, is_context: true, ..MessageLayout::default() };
        Ok(render::Render { names, zone }.message(self.out, message, &text, &layout)?)
    }

    /// Prints a line above messages, only in text output.
    pub(super) fn heading(&mut self, line: &str) -> Result<(), ReadError> {
        if let Some((_, zone)) = &self.text {
            name_once(&mut self.is_zone_named, zone, self.out)?;
        }
        self.remark(line)
    }

    /// Prints a line, only in text output.
    pub(super) fn remark(&mut self, line: &str) -> Result<(), ReadError> {
        if self.text.is_some() {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    pub(super) fn printed(&self) -> usize {
        self.printed
    }
}

/// Prints the zone of all following times, once.
fn name_once(is_named: &mut bool, zone: &Zone, out: &mut dyn Write) -> io::Result<()> {
    if !std::mem::replace(is_named, true) {
        writeln!(out, "Times are in {}.", zone.name())?;
    }
    Ok(())
}
