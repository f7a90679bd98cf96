//! Messages on their way out: as JSON, or as text for people.

use std::io::Write;

use serde_json::Value;
use shared::archive::Archive;
use shared::slack::ids::TeamId;

use super::names::Names;
use super::render::{self, Layout};
use super::{ReadArgs, ReadError};
use crate::plain;

/// Prints messages of one workspace.
pub(super) struct Printer<'a> {
    out: &'a mut dyn Write,
    /// `None` where JSON is asked for, which has ids.
    names: Option<Names<'a>>,
    printed: usize,
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        archive: &'a dyn Archive,
        team: TeamId,
        args: &ReadArgs,
        out: &'a mut dyn Write,
    ) -> Self {
        Self { out, names: (!args.json).then(|| Names::new(archive, team)), printed: 0 }
    }

    /// Prints messages; each layout is asked for only where it matters.
    pub(super) async fn print(
        &mut self,
        messages: &[Value],
        layout: impl Fn(&Value) -> Layout,
    ) -> Result<(), ReadError> {
        self.printed += messages.len();
        match &mut self.names {
            None => messages.iter().try_for_each(|message| plain::json_line(self.out, message))?,
            Some(names) => {
                names.learn(messages).await?;
                for message in messages {
                    render::message(self.out, message, names, &layout(message))?;
                }
            }
        }
        Ok(())
    }

    /// Prints a line that only people need.
    pub(super) fn remark(&mut self, line: &str) -> Result<(), ReadError> {
        if self.names.is_some() {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    /// How many messages were printed.
    pub(super) fn printed(&self) -> usize {
        self.printed
    }
}
