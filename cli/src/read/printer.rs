//! Messages on their way out: as JSON, or as text for people.

use std::io::Write;

use serde_json::Value;
use shared::archive::Archive;
use shared::slack::ids::TeamId;

use super::content::{self, MessageText};
use super::names::Names;
use super::render::{self, Layout};
use super::{ReadArgs, ReadError};
use crate::plain;
use crate::zone::Zone;

/// Prints messages of one workspace.
pub(super) struct Printer<'a> {
    out: &'a mut dyn Write,
    /// `None` where JSON is asked for, which has ids and Slack's times.
    text: Option<(Names<'a>, Zone)>,
    printed: usize,
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        archive: &'a dyn Archive,
        team: TeamId,
        args: &ReadArgs,
        out: &'a mut dyn Write,
    ) -> Self {
        let text = (!args.json).then(|| (Names::new(archive, team), args.zone.zone()));
        Self { out, text, printed: 0 }
    }

    /// Prints messages; each layout is asked for only where it matters.
    pub(super) async fn print(
        &mut self,
        messages: &[Value],
        layout: impl Fn(&Value) -> Layout,
    ) -> Result<(), ReadError> {
        let is_first = self.printed == 0 && !messages.is_empty();
        self.printed += messages.len();
        match &mut self.text {
            None => messages.iter().try_for_each(|message| plain::json_line(self.out, message))?,
            Some((names, zone)) => {
                if is_first {
                    writeln!(self.out, "Times are in {}.", zone.name())?;
                }
                let texts: Vec<MessageText> = messages.iter().map(content::read).collect();
                names.learn(&texts).await?;
                for (message, text) in messages.iter().zip(&texts) {
                    let layout = layout(message);
                    render::Render { names, zone }.message(self.out, message, text, &layout)?;
                }
            }
        }
        Ok(())
    }

    /// Prints a line that only people need.
    pub(super) fn remark(&mut self, line: &str) -> Result<(), ReadError> {
        if self.text.is_some() {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// How many messages were printed.
    pub(super) fn printed(&self) -> usize {
        self.printed
    }
}
