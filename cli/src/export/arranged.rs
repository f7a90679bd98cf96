//! A channel as people read it: in the order of time, with the replies to a message under it, and with what each says.

use std::collections::{HashSet, VecDeque};

use ports::archive::ArchiveError;
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use reader::rows::{self, VisibleRows};
use reader::text::MessageText;
use reader::thread;
use serde_json::Value;
use slack::ids::Ts;

use super::ExportProgress;
use super::source::{ExportSource, ExportedChannel};
use super::threads::ThreadTable;

/// What comes next in a channel.
#[derive(Debug)]
pub(super) enum Arranged {
    /// A message of the channel, and how many replies follow it.
    Message(Value, usize),
    /// A reply to the message before it.
    Reply(Value),
    /// What the replies behind it reply to: it is not of the time that is exported.
    Elsewhere(Value),
    /// The same, if it is not in the archive.
    Unknown(Ts),
}

impl Arranged {
    /// The message, if there is one.
    pub(super) fn row(&self) -> Option<&Value> {
        match self {
            Self::Message(row, _) | Self::Reply(row) | Self::Elsewhere(row) => Some(row),
            Self::Unknown(_) => None,
        }
    }

    /// Whether it is only there so that what follows can be read.
    pub(super) fn is_context(&self) -> bool {
        match self {
            Self::Elsewhere(_) | Self::Unknown(_) => true,
            Self::Message(..) | Self::Reply(_) => false,
        }
    }
}

/// A channel that is being read, with what its messages say and what is called how in them.
pub(super) struct ChannelTexts<'s, 'a> {
    arranged: ArrangedChannel<'s, 'a>,
    read: fn(&Value) -> MessageText,
    /// Of everyone and every channel in what was read.
    pub(super) names: DisplayNames<'a>,
}

impl<'s, 'a> ChannelTexts<'s, 'a> {
    /// Begins to read; `read` makes of a row what it says, `names` are those that are known.
    pub(super) async fn read(
        source: &'s ExportSource<'a>,
        channel: &'s ExportedChannel<'a>,
        read: fn(&Value) -> MessageText,
        names: DisplayNames<'a>,
        progress: &mut ExportProgress,
    ) -> Result<Self, ArchiveError> {
        Ok(Self { arranged: ArrangedChannel::read(source, channel, progress).await?, read, names })
    }

    /// What comes next, as [`ArrangedChannel::next`] has it. Each message has a text.
    pub(super) async fn next(
        &mut self,
        progress: &mut ExportProgress,
    ) -> Result<Option<Vec<(Arranged, MessageText)>>, ArchiveError> {
        let Some(next) = self.arranged.next(progress).await? else { return Ok(None) };
        let texts: Vec<MessageText> =
            next.iter().map(|next| (self.read)(next.row().unwrap_or(&Value::Null))).collect();
        self.names.learn(&texts).await?;
        Ok(Some(next.into_iter().zip(texts).collect()))
    }
}

/// A channel that is being read. A page of it and a page of a thread are in memory.
struct ArrangedChannel<'s, 'a> {
    source: &'s ExportSource<'a>,
    joined: &'s JoinedChannel<'a>,
    threads: ThreadTable,
    rows: VisibleRows<'s>,
    waiting: VecDeque<Value>,
    thread: Option<VisibleRows<'s>>,
    /// Roots whose replies were read.
    told: HashSet<Ts>,
}

impl<'s, 'a> ArrangedChannel<'s, 'a> {
    /// Begins to read.
    async fn read(
        source: &'s ExportSource<'a>,
        channel: &'s ExportedChannel<'a>,
        progress: &mut ExportProgress,
    ) -> Result<Self, ArchiveError> {
        let threads = ThreadTable::read(source, channel, progress).await?;
        let (rows, joined) = (source.messages(channel), &channel.joined);
        let (waiting, told) = (VecDeque::new(), HashSet::new());
        Ok(Self { source, joined, threads, rows, waiting, thread: None, told })
    }

    /// What comes next, as much as was read at once; `None` at the end.
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

    async fn arrange(&mut self, message: Value, arranged: &mut Vec<Arranged>) -> Result<(), ArchiveError> {
        let ts = |name: &str| Ts::parse(message[name].as_str()?).ok();
        let (own_ts, thread_ts) = (ts("ts"), ts("thread_ts"));
        let Some(own_ts) = own_ts else { return Ok(()) };
        let Some(message) = self.source.shown(message, &self.threads) else { return Ok(()) };
        let root_ts = match thread_ts.filter(|thread_ts| *thread_ts != own_ts) {
            None => {
                let replies = self.threads.of(&own_ts).map_or(0, |replies| replies.count());
                arranged.push(Arranged::Message(message, replies));
                own_ts
            }
            Some(root_ts) if self.told.contains(&root_ts) => return Ok(()),
            Some(root_ts) => {
                let root = rows::message(self.joined, &root_ts).await?;
                let root = root.and_then(|root| self.source.shown(root, &self.threads));
                arranged.push(root.map_or_else(|| Arranged::Unknown(root_ts.clone()), Arranged::Elsewhere));
                root_ts
            }
        };
        if self.threads.of(&root_ts).is_some() && self.told.insert(root_ts.clone()) {
            self.thread = Some(thread::replies(self.joined, &root_ts));
        }
        Ok(())
    }

    fn replies(&self, page: Vec<Value>) -> Vec<Arranged> {
        let is_of_the_time = |reply: &Value| {
            let ts = reply["ts"].as_str().and_then(|ts| Ts::parse(ts).ok());
            ts.is_some_and(|ts| self.source.range.contains(&ts))
        };
        let replies = page.into_iter().filter(is_of_the_time);
        replies.filter_map(|reply| self.source.shown(reply, &self.threads)).map(Arranged::Reply).collect()
    }
}
