//! Reads one channel after another, and decides after each whether the remaining ones are read.

use std::io::{self, Write};

use anyhow::bail;
use tokio::sync::watch;
use workers::historian::{Consequence, HistoryCalls, HistoryError, RESTRICTED_ADVICE, ReadSnapshot, SpanEnd};

use crate::composition::wait_until_true;
use crate::failure::ASK_DOCTOR;
use crate::plain;
use crate::progress::ProgressLine;

/// The result of reading a channel.
pub(crate) enum ReadingState {
    /// Everything requested was read.
    Done,
    /// Slack's plan hides older messages.
    Limited,
    /// Slack does not show the channel.
    Unreadable(HistoryError),
    /// The reading was stopped, by an error or by the user.
    Stopped(Option<HistoryError>),
}

impl ReadingState {
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Limited => "limited",
            Self::Unreadable(_) => "unreadable",
            Self::Stopped(_) => "stopped",
        }
    }

    pub(crate) fn error(&self) -> Option<String> {
        match self {
            Self::Done | Self::Limited | Self::Stopped(None) => None,
            Self::Unreadable(error) | Self::Stopped(Some(error)) => Some(plain::line(&error.to_string())),
        }
    }

    /// Prints the end of a channel's line for people: what was not stored, and whether the channel was read
    /// completely.
    pub(crate) fn print_end(&self, tally: &ReadSnapshot, out: &mut dyn Write) -> io::Result<()> {
        if tally.skipped > 0 {
            write!(out, "; {} passed over", tally.skipped)?;
        }
        if tally.reactions_cut > 0 {
            write!(out, "; {} with more reactions than Slack lists", tally.reactions_cut)?;
        }
        match (self, self.error()) {
            (Self::Limited, _) => writeln!(
                out,
                "; Slack's plan hides what is older: an export may still have it, `annalist import`"
            ),
            (_, Some(error)) => writeln!(out, "; {}: {error}", self.as_str()),
            (Self::Stopped(_), None) => writeln!(out, "; stopped"),
            (Self::Done | Self::Unreadable(_), None) => writeln!(out),
        }
    }

    /// Returns the state of a channel and the consequence for the remaining ones. `None` means that the user
    /// stopped the reading.
    fn from_end(end: Option<Result<SpanEnd, HistoryError>>) -> (Self, Option<ReadingStop>) {
        match end {
            Some(Ok(SpanEnd::Whole)) => (Self::Done, None),
            Some(Ok(SpanEnd::Limited)) => (Self::Limited, None),
            Some(Ok(SpanEnd::Paused)) => (Self::Stopped(None), None),
            None => (Self::Stopped(None), Some(ReadingStop::Interrupted)),
            Some(Err(error)) => match error.consequence() {
                Consequence::Channel(_) => (Self::Unreadable(error), None),
                Consequence::Workspace => {
                    (Self::Stopped(Some(error.clone())), Some(ReadingStop::Workspace(error)))
                }
                Consequence::Later(_) => {
                    (Self::Stopped(Some(error.clone())), Some(ReadingStop::Failed(error)))
                }
            },
        }
    }
}

/// Why the remaining channels are not read.
pub(crate) enum ReadingStop {
    /// The user stopped the command.
    Interrupted,
    /// No channel of this workspace can be read.
    Workspace(HistoryError),
    /// A part that all channels need failed.
    Failed(HistoryError),
}

/// Why the reading of workspaces ended early, if it did.
#[derive(Default)]
pub(crate) struct EarlyEnd {
    why: Option<HistoryError>,
    is_interrupted: bool,
}

impl EarlyEnd {
    /// Records how the reading of a workspace ended. Returns whether other workspaces may be read.
    pub(crate) fn note(&mut self, stop: Option<ReadingStop>) -> bool {
        let may_continue = matches!(stop, None | Some(ReadingStop::Workspace(_)));
        match stop {
            Some(ReadingStop::Workspace(error) | ReadingStop::Failed(error)) => self.why = Some(error),
            Some(ReadingStop::Interrupted) => self.is_interrupted = true,
            None => {}
        }
        may_continue
    }

    /// Returns an error with the next step if the reading ended early.
    pub(crate) fn check(&self, next: &str) -> anyhow::Result<()> {
        match &self.why {
            Some(error) if error.consequence() == Consequence::Workspace => {
                bail!("{}; {ASK_DOCTOR}, and then {next}", plain::line(&error.to_string()))
            }
            Some(error) => bail!("{}; {next}", plain::line(&error.to_string())),
            None if self.is_interrupted => bail!("stopped: {next}"),
            None => Ok(()),
        }
    }
}

/// Watches the reading of the channels of a workspace.
pub(crate) struct ChannelWatch<'a> {
    calls: &'a HistoryCalls,
    shutdown: watch::Receiver<bool>,
    progress: ProgressLine,
    channels: u64,
    read: u64,
    is_advised: bool,
}

impl<'a> ChannelWatch<'a> {
    /// Starts to watch the reading of this number of channels.
    pub(crate) fn new(calls: &'a HistoryCalls, channels: usize, shutdown: &watch::Receiver<bool>) -> Self {
        let (progress, channels) = (ProgressLine::begin(), channels as u64);
        Self { calls, shutdown: shutdown.clone(), progress, channels, read: 0, is_advised: false }
    }

    /// Reads a channel until it is complete or the user stops the command, and prints the text of `doing`
    /// meanwhile.
    pub(crate) async fn read(
        &mut self,
        reading: impl Future<Output = Result<SpanEnd, HistoryError>>,
        doing: impl Fn() -> String,
    ) -> (ReadingState, Option<ReadingStop>) {
        let (read, channels) = (self.read, self.channels);
        let text = || format!("{} of {channels}: {}", read + 1, doing());
        let mut reading = std::pin::pin!(reading);
        let end = loop {
            tokio::select! {
                biased;
                () = wait_until_true(self.shutdown.clone()) => break None,
                end = self.progress.watch(reading.as_mut(), (read, channels), text) => break Some(end),
                // Print the advice now: the rest of this channel alone may take hours.
                () = self.calls.became_restricted(), if !self.is_advised => self.advise(),
            }
        };
        self.read += 1;
        ReadingState::from_end(end)
    }

    /// Prints advice about the app's rate limits.
    fn advise(&mut self) {
        self.is_advised = true;
        self.progress.suspend(|| drop(writeln!(io::stderr(), "annalist: {RESTRICTED_ADVICE}.")));
    }

    /// Prints something after clearing the progress line.
    pub(crate) fn print(
        &self,
        out: &mut dyn Write,
        print: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.progress.suspend(|| print(out).and_then(|()| out.flush()))
    }
}
