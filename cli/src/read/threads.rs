//! Prints a channel's messages with replies under their roots.

use std::collections::HashMap;

use ports::archive::ArchiveError;
use reader::joined::JoinedChannel;
use reader::range::TimeRange;
use reader::rows::{VisibleRows, read_root};
use reader::thread;
use rules::view::MessageView;
use slack::ids::Ts;

use super::ReadError;
use super::printer::MessagePrinter;
use super::render::MessageLayout;
use crate::plain;

/// Indentation of replies, in columns.
pub(crate) const REPLY_INDENT: usize = 4;

/// Prints a channel's messages in the order of time, with each thread at its first message.
///
/// Each message that is not a reply costs one query of the thread index, because a root does not list its
/// replies.
pub(super) struct InlineThreads<'a> {
    channel: &'a JoinedChannel<'a>,
    /// The range of the printed replies, which is that of the channel's messages.
    shown: TimeRange,
    /// The last printed reply of each printed thread.
    printed: HashMap<Ts, Ts>,
}

/// The numbers of all replies in a thread, and of the printed ones.
#[derive(Debug, Default)]
struct ReplyCount {
    all: usize,
    shown: usize,
}

impl ReplyCount {
    /// Returns the mark of the root.
    fn mark(&self) -> Option<String> {
        let Self { all, shown } = self;
        let counted = match all {
            0 => return None,
            all => plain::counted(*all, "reply", "replies"),
        };
        Some(if shown == all { counted } else { format!("{counted}, {shown} in this range") })
    }
}

impl<'a> InlineThreads<'a> {
    pub(super) fn new(channel: &'a JoinedChannel<'a>, shown: TimeRange) -> Self {
        Self { channel, shown, printed: HashMap::new() }
    }

    /// Prints the next messages of the channel.
    pub(super) async fn print(
        &mut self,
        page: &[MessageView],
        printer: &mut MessagePrinter<'_>,
    ) -> Result<(), ReadError> {
        for message in page {
            let Some(own_ts) = message.written_at() else { continue };
            match message.root_ts().filter(|thread_ts| *thread_ts != own_ts) {
                None => self.root(message, own_ts, printer).await?,
                Some(root_ts) => {
                    // The thread index may contain a reply later than the channel does.
                    if self.printed.get(&root_ts).is_none_or(|last| *last < own_ts) {
                        self.rest_of(root_ts, message, own_ts, printer).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Prints a message and its replies.
    async fn root(
        &mut self,
        root: &MessageView,
        ts: Ts,
        printer: &mut MessagePrinter<'_>,
    ) -> Result<(), ReadError> {
        let count = self.count(&ts, None).await?;
        printer
            .print(std::slice::from_ref(root), |_| MessageLayout {
                mark: count.mark(),
                ..MessageLayout::default()
            })
            .await?;
        if count.shown > 0 {
            self.replies(ts, None, printer).await?;
        }
        Ok(())
    }

    /// Prints a reply whose root was not printed, with the root as context, and the replies after it.
    async fn rest_of(
        &mut self,
        root_ts: Ts,
        reply: &MessageView,
        reply_ts: Ts,
        printer: &mut MessagePrinter<'_>,
    ) -> Result<(), ReadError> {
        match read_root(self.channel, &root_ts).await? {
            Some(root) => {
                let mark = self.count(&root_ts, Some(&reply_ts)).await?.mark();
                printer.context(&root, mark).await?;
            }
            None => printer.heading(&format!("In the thread of {root_ts}, which is not in this archive:"))?,
        }
        let layout = |_: &MessageView| MessageLayout { indent: REPLY_INDENT, ..MessageLayout::default() };
        printer.print(std::slice::from_ref(reply), layout).await?;
        self.replies(root_ts, Some(reply_ts), printer).await
    }

    async fn count(&self, root_ts: &Ts, from: Option<&Ts>) -> Result<ReplyCount, ArchiveError> {
        let mut rows = self.rows(root_ts);
        let mut count = ReplyCount::default();
        while let Some(page) = rows.next().await? {
            count.all += page.len();
            let is_shown = |ts: &Ts| self.is_shown(ts) && from.is_none_or(|from| from <= ts);
            count.shown += page.iter().filter_map(MessageView::written_at).filter(is_shown).count();
        }
        Ok(count)
    }

    /// Prints the replies after the given one, or all of them.
    async fn replies(
        &mut self,
        root_ts: Ts,
        after: Option<Ts>,
        printer: &mut MessagePrinter<'_>,
    ) -> Result<(), ReadError> {
        let mut last = after;
        let mut rows = self.rows(&root_ts);
        while let Some(mut page) = rows.next().await? {
            page.retain(|reply| {
                reply
                    .written_at()
                    .is_some_and(|ts| self.is_shown(&ts) && last.as_ref().is_none_or(|last| *last < ts))
            });
            last = page.last().and_then(MessageView::written_at).or(last);
            printer
                .print(&page, |_| MessageLayout { indent: REPLY_INDENT, ..MessageLayout::default() })
                .await?;
        }
        if let Some(last) = last {
            self.printed.insert(root_ts, last);
        }
        Ok(())
    }

    fn rows(&self, root_ts: &Ts) -> VisibleRows<'a> {
        thread::replies(self.channel, root_ts)
    }

    fn is_shown(&self, ts: &Ts) -> bool {
        let TimeRange { since, until } = &self.shown;
        since.as_ref().is_none_or(|since| since <= ts) && until.as_ref().is_none_or(|until| ts < until)
    }
}
