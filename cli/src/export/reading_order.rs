//! A channel in reading order: its messages by time, each followed by its replies, with their texts.

use std::collections::{HashSet, VecDeque};

use jiff::tz::TimeZone;
use ports::archive::ArchiveError;
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use reader::rows::{self, VisibleRows};
use reader::text::{self, MessageText};
use reader::thread;
use rules::view::MessageView;
use slack::ids::Ts;

use super::ExportProgress;
use super::source::{ExportSource, ExportedChannel};
use super::threads::ThreadTable;

/// The next element of a channel in reading order.
#[derive(Debug)]
pub(super) enum Arranged {
    /// A message of the channel, and the number of replies that follow it.
    Message(MessageView, usize),
    /// A reply to the preceding message.
    Reply(MessageView),
    /// The root of the following replies, which is outside the exported range.
    RootOutsideRange(MessageView),
    /// The timestamp of such a root that is not in the archive.
    MissingRoot(Ts),
}

impl Arranged {
    pub(super) fn row(&self) -> Option<&MessageView> {
        match self {
            Self::Message(row, _) | Self::Reply(row) | Self::RootOutsideRange(row) => Some(row),
            Self::MissingRoot(_) => None,
        }
    }

    /// Whether the element is only there as context for the replies that follow.
    pub(super) fn is_context(&self) -> bool {
        match self {
            Self::RootOutsideRange(_) | Self::MissingRoot(_) => true,
            Self::Message(..) | Self::Reply(_) => false,
        }
    }
}

/// A channel that is being read, with the texts of its messages and the names that they mention.
pub(super) struct ChannelTexts<'s, 'a> {
    arranged: ArrangedChannel<'s, 'a>,
    zone: &'s TimeZone,
    /// The names of all people and channels in the messages read so far.
    pub(super) names: DisplayNames<'a>,
}

impl<'s, 'a> ChannelTexts<'s, 'a> {
    /// Starts reading, with dates in texts in this zone. `names` contains the names known so far.
    pub(super) async fn read(
        source: &'s ExportSource<'a>,
        channel: &'s ExportedChannel<'a>,
        zone: &'s TimeZone,
        names: DisplayNames<'a>,
        progress: &mut ExportProgress,
    ) -> Result<Self, ArchiveError> {
        Ok(Self { arranged: ArrangedChannel::read(source, channel, progress).await?, zone, names })
    }

    /// Returns the elements of [`ArrangedChannel::next`], each with its text.
    pub(super) async fn next(
        &mut self,
        progress: &mut ExportProgress,
    ) -> Result<Option<Vec<(Arranged, MessageText)>>, ArchiveError> {
        let Some(next) = self.arranged.next(progress).await? else { return Ok(None) };
        let nothing = MessageView::default();
        let texts: Vec<MessageText> =
            next.iter().map(|next| text::read(next.row().unwrap_or(&nothing), self.zone)).collect();
        self.names.learn(&texts).await?;
        Ok(Some(next.into_iter().zip(texts).collect()))
    }
}

/// A channel that is being read. Keeps a page of the channel and a page of a thread in memory.
struct ArrangedChannel<'s, 'a> {
    source: &'s ExportSource<'a>,
    joined: &'s JoinedChannel<'a>,
    threads: ThreadTable,
    rows: VisibleRows<'s>,
    waiting: VecDeque<MessageView>,
    thread: Option<VisibleRows<'s>>,
    /// The roots of threads that were read.
    read_threads: HashSet<Ts>,
}

impl<'s, 'a> ArrangedChannel<'s, 'a> {
    async fn read(
        source: &'s ExportSource<'a>,
        channel: &'s ExportedChannel<'a>,
        progress: &mut ExportProgress,
    ) -> Result<Self, ArchiveError> {
        let threads = source.threads(channel, progress).await?;
        let (rows, joined) = (source.messages(channel), &channel.joined);
        let (waiting, read_threads) = (VecDeque::new(), HashSet::new());
        Ok(Self { source, joined, threads, rows, waiting, thread: None, read_threads })
    }

    /// Returns the next elements, as many as one read returns; `None` at the end.
    async fn next(&mut self, progress: &mut ExportProgress) -> Result<Option<Vec<Arranged>>, ArchiveError> {
        loop {
            if let Some(thread) = &mut self.thread {
                match thread.next().await? {
                    Some(page) => return Ok(Some(self.replies(page))),
                    None => self.thread = None,
                }
            } else if self.waiting.is_empty() {
                let Some(page) = self.rows.next().await? else { return Ok(None) };
                progress.read(page.len());
                self.waiting = page.into();
            } else {
                let mut arranged = Vec::new();
                while self.thread.is_none()
                    && let Some(message) = self.waiting.pop_front()
                {
                    self.arrange(message, &mut arranged).await?;
                }
                return Ok(Some(arranged));
            }
        }
    }

    async fn arrange(
        &mut self,
        message: MessageView,
        arranged: &mut Vec<Arranged>,
    ) -> Result<(), ArchiveError> {
        let (own_ts, thread_ts) = (message.written_at(), message.root_ts());
        let Some(own_ts) = own_ts else { return Ok(()) };
        let Some(message) = self.source.shown(message, &self.threads) else { return Ok(()) };
        let root_ts = match thread_ts.filter(|thread_ts| *thread_ts != own_ts) {
            None => {
                let replies = self.threads.replies_to(&own_ts).map_or(0, |replies| replies.count());
                arranged.push(Arranged::Message(message, replies));
                own_ts
            }
            Some(root_ts) if self.read_threads.contains(&root_ts) => return Ok(()),
            Some(root_ts) => {
                let root = rows::read_message(self.joined, &root_ts).await?;
                let root = root.and_then(|root| self.source.shown(root, &self.threads));
                arranged.push(
                    root.map_or_else(|| Arranged::MissingRoot(root_ts.clone()), Arranged::RootOutsideRange),
                );
                root_ts
            }
        };
        if self.threads.replies_to(&root_ts).is_some() && self.read_threads.insert(root_ts.clone()) {
            self.thread = Some(thread::replies(self.joined, &root_ts));
        }
        Ok(())
    }

    fn replies(&self, page: Vec<MessageView>) -> Vec<Arranged> {
        let is_in_range =
            |reply: &MessageView| reply.written_at().is_some_and(|ts| self.source.range.contains(&ts));
        let replies = page.into_iter().filter(is_in_range);
        replies.filter_map(|reply| self.source.shown(reply, &self.threads)).map(Arranged::Reply).collect()
    }
}
