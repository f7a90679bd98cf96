//! The reading of one channel after the other, and what the end of one means for the rest.

use std::io::{self, Write};

use anyhow::bail;
use tokio::sync::watch;
use workers::historian::{Consequence, HistoryCalls, HistoryError, RESTRICTED_ADVICE, SpanEnd};

use crate::composition::turned;
use crate::failure::ASK_DOCTOR;
use crate::plain;
use crate::progress::ProgressLine;

/// How a channel stands.
pub(crate) enum ReadingState {
    /// All that was asked for was read.
    Done,
    /// Slack's plan hides the rest.
    Limited,
    /// Slack does not show it.
    Unreadable(HistoryError),
    /// Something else ended it.
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

    /// The end of a channel's line for people; empty if the channel was read to its end.
    pub(crate) fn remark(&self) -> String {
        match (self, self.error()) {
            (Self::Limited, _) => {
                "; Slack's plan hides what is older: an export may still have it, `annalist import`"
                    .to_owned()
            }
            (_, Some(error)) => format!("; {}: {error}", self.as_str()),
            (Self::Stopped(_), None) => "; stopped".to_owned(),
            (Self::Done | Self::Unreadable(_), None) => String::new(),
        }
    }

    /// What it means for the channel and for the rest that its reading ended like this; `None` if the user ended it.
    fn of(end: Option<Result<SpanEnd, HistoryError>>) -> (Self, Option<ReadingStop>) {
        match end {
            Some(Ok(SpanEnd::Whole)) => (Self::Done, None),
            Some(Ok(SpanEnd::Limited)) => (Self::Limited, None),
            Some(Ok(SpanEnd::Paused)) => (Self::Stopped(None), None),
            None => (Self::Stopped(None), Some(ReadingStop::Asked)),
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

/// Why the rest of the channels is not read.
pub(crate) enum ReadingStop {
    /// The user asked for it.
    Asked,
    /// Nothing can be read of this workspace.
    Workspace(HistoryError),
    /// Something that all channels need failed.
    Failed(HistoryError),
}

/// What ended the reading of workspaces before their ends, if anything did.
#[derive(Default)]
pub(crate) struct EarlyEnd {
    why: Option<HistoryError>,
    is_asked_for: bool,
}

impl EarlyEnd {
    /// Notes how the reading of a workspace ended; says whether others may be read.
    pub(crate) fn note(&mut self, stop: Option<ReadingStop>) -> bool {
        match stop {
            None => true,
            Some(ReadingStop::Workspace(error)) => {
                self.why = Some(error);
                true
            }
            Some(ReadingStop::Failed(error)) => {
                self.why = Some(error);
                false
            }
            Some(ReadingStop::Asked) => {
                self.is_asked_for = true;
                false
            }
        }
    }

    /// Fails if there was one, with what to do next.
    pub(crate) fn check(&self, next: &str) -> anyhow::Result<()> {
        match &self.why {
            Some(error) if error.consequence() == Consequence::Workspace => {
                bail!("{}; {ASK_DOCTOR}, and then {next}", plain::line(&error.to_string()))
            }
            Some(error) => bail!("{}; {next}", plain::line(&error.to_string())),
            None if self.is_asked_for => bail!("stopped: {next}"),
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
    /// None of this many channels is read yet.
    pub(crate) fn of(calls: &'a HistoryCalls, channels: usize, shutdown: &watch::Receiver<bool>) -> Self {
        let (progress, channels) = (ProgressLine::begin(), channels as u64);
        Self { calls, shutdown: shutdown.clone(), progress, channels, read: 0, is_advised: false }
    }

    /// Reads a channel to its end or to the user's, and says meanwhile what `doing` says.
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
                () = turned(self.shutdown.clone()) => break None,
                end = self.progress.watch(reading.as_mut(), (read, channels), text) => break Some(end),
                // What is left of this channel alone may take hours.
                () = self.calls.became_restricted(), if !self.is_advised => self.advise(),
            }
        };
        self.read += 1;
        ReadingState::of(end)
    }

    /// Tells the user what to do about the app's limits.
    fn advise(&mut self) {
        self.is_advised = true;
        self.progress.aside(|| drop(writeln!(io::stderr(), "annalist: {RESTRICTED_ADVICE}.")));
    }

    /// Prints something without the progress in its way.
    pub(crate) fn print(
        &self,
        out: &mut dyn Write,
        print: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.progress.aside(|| print(out).and_then(|()| out.flush()))
    }
}
