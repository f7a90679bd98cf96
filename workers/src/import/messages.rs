//! Stores the messages of an export while the next ones are read, and requests their files.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use ports::archive::{Archive, ArchiveError, Item, ItemKey};
use ports::queue::job::{Job, Payload, in_bulk};
use ports::queue::{Outgoing, Queue, QueueError};
use rules::file::row::{self, Share};
use rules::file::{FileJob, FileState};
use rules::history::HistoryMessage;
use slack::ids::{FileId, TeamId};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::days::{self, DayDelivery, DaysRead, MessageBatch};
use super::layout::EntryIndex;
use super::problem::{Problem, ProblemKind};
use super::source::ExportEntries;
use super::splitting::ChannelDays;
use super::{FileTarget, Import, ImportError, ImportFiles, ImportNotice, ImportTarget};
use crate::store::{StoredAs, store_history};

/// Batches stored concurrently: some are compared with the archive while others share one commit. A commit of
/// the embedded archive takes 20 ms of work, which is several batches, and waits for the disk. With fewer
/// batches a commit would not be full, and no batch would be left to compare meanwhile.
const STORED_AT_ONCE: usize = 10;

/// Batches that are read ahead, so that the next batches are ready as soon as a commit ends. Together with
/// the batches in progress and the longest messages, they amount to 40 MiB of text.
const READ_AHEAD: usize = 8;

/// The shares of files that the export contains.
pub(crate) type ExportedUploads = BTreeMap<(TeamId, FileId), Vec<Share>>;

/// The result of an item from the reading thread.
enum ImportStep {
    Stored(StoredBatch),
    Problem(Problem),
    Read(u64),
}

#[derive(Default)]
struct StoredBatch {
    new: u64,
    updated: u64,
    unchanged: u64,
    expired: u64,
    reactions_cut: u64,
    files: u64,
    wanted: Vec<(TeamId, FileId, Share)>,
    /// Messages that are too large for the archive, with the indexes of their channels.
    too_large: Vec<(usize, Problem)>,
}

impl Import<'_> {
    /// Reads and stores all messages. Returns the totals, and the shares of the files that the export
    /// contains.
    pub(super) async fn messages(
        &mut self,
        mut source: Box<dyn ExportEntries>,
        channels: Vec<ChannelDays>,
        latest_micros: i64,
        uploads: &BTreeMap<FileId, EntryIndex>,
    ) -> Result<(Box<dyn ExportEntries>, DaysRead, ExportedUploads), ImportError> {
        let (sender, receiver) = mpsc::channel(READ_AHEAD);
        let reading = spawn_blocking(move || {
            let read = days::read(&mut *source, &channels, latest_micros, &sender);
            (source, read)
        });
        let target = self.target;
        let delivered =
            stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
        let handled = delivered.map(|delivered| handle(target, uploads, delivered)).buffered(STORED_AT_ONCE);
        let mut handled = std::pin::pin!(handled);
        let (mut wanted, mut incomplete) = (ExportedUploads::new(), Vec::new());
        while let Some(handled) = handled.next().await {
            match handled? {
                ImportStep::Problem(problem) => self.problem(&problem),
                ImportStep::Read(bytes) => self.progress.read_bytes += bytes,
                ImportStep::Stored(batch) => {
                    for (team, file, share) in batch.wanted.iter().cloned() {
                        wanted.entry((team, file)).or_default().push(share);
                    }
                    self.add(&batch);
                    for (channel_index, problem) in batch.too_large {
                        incomplete.push(channel_index);
                        self.problem(&problem);
                    }
                    (self.notices)(ImportNotice::Progress(self.progress));
                }
            }
        }
        let (source, mut read) = reading.await?;
        read.incomplete.extend(incomplete);
        (self.notices)(ImportNotice::Progress(self.progress));
        Ok((source, read, wanted))
    }

    fn add(&mut self, batch: &StoredBatch) {
        let stored = batch.new + batch.updated + batch.unchanged + batch.expired;
        self.progress.messages += stored;
        self.sum.messages += stored;
        self.sum.new += batch.new;
        self.sum.updated += batch.updated;
        self.sum.unchanged += batch.unchanged;
        self.sum.expired += batch.expired;
        self.sum.reactions_cut += batch.reactions_cut;
        self.sum.files += batch.files;
    }
}

async fn handle(
    target: &ImportTarget,
    uploads: &BTreeMap<FileId, EntryIndex>,
    delivered: DayDelivery,
) -> Result<ImportStep, ImportError> {
    match delivered {
        DayDelivery::Problem(problem) => Ok(ImportStep::Problem(problem)),
        DayDelivery::Read(bytes) => Ok(ImportStep::Read(bytes)),
        DayDelivery::Batch(batch) => store(target, uploads, &batch).await.map(ImportStep::Stored),
    }
}

async fn store(
    target: &ImportTarget,
    uploads: &BTreeMap<FileId, EntryIndex>,
    batch: &MessageBatch,
) -> Result<StoredBatch, ImportError> {
    let outcomes = store_history(&*target.archive, &batch.messages).await;
    let mut stored = StoredBatch::default();
    let mut with_files: Vec<(&HistoryMessage, StoredAs)> = Vec::new();
    for ((message, (channel_index, path)), outcome) in batch.messages.iter().zip(&batch.origins).zip(outcomes)
    {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error @ ArchiveError::TooLarge { .. }) => {
                let detail = format!("{}: {error}", message.ts);
                stored.too_large.push((*channel_index, Problem::new(ProblemKind::TooLarge, &**path, detail)));
                continue;
            }
            Err(error @ ArchiveError::Unavailable(_)) => return Err(error.into()),
        };
        match outcome {
            StoredAs::New => stored.new += 1,
            StoredAs::Updated => stored.updated += 1,
            StoredAs::Unchanged => stored.unchanged += 1,
            StoredAs::Expired => stored.expired += 1,
        }
        stored.reactions_cut += u64::from(message.reactions_cut);
        if outcome != StoredAs::Expired {
            with_files.push((message, outcome));
        }
    }
    if matches!(target.files, ImportFiles::Skipped) {
        return Ok(stored);
    }
    let (jobs, wanted) = files(&*target.archive, uploads, &with_files).await?;
    stored.files = jobs.len() as u64;
    stored.wanted = wanted;
    if let ImportFiles::Imported(FileTarget { queue, .. }) = &target.files {
        send(&**queue, jobs).await?;
    }
    Ok(stored)
}

/// The jobs for files of stored messages, and the shares of the files that the export contains. A message
/// that was already stored has the state of its files, once the file-downloader has run their jobs.
async fn files(
    archive: &dyn Archive,
    uploads: &BTreeMap<FileId, EntryIndex>,
    messages: &[(&HistoryMessage, StoredAs)],
) -> Result<(Vec<Outgoing>, Vec<(TeamId, FileId, Share)>), ArchiveError> {
    let sends = messages.iter().map(|(message, outcome)| (*message, *outcome, message.files().sends));
    let sends: Vec<(&HistoryMessage, StoredAs, Vec<Outgoing>)> =
        sends.filter(|(_, _, sends)| !sends.is_empty()).collect();
    let known = sends.iter().filter(|(_, outcome, _)| *outcome != StoredAs::New);
    let keys: Vec<&ItemKey> = known.map(|(message, _, _)| message.change.key()).collect();
    let mut rows = if keys.is_empty() { Vec::new() } else { archive.get_all(&keys).await? }.into_iter();
    let (mut jobs, mut wanted) = (Vec::new(), Vec::new());
    for (_, outcome, sends) in sends {
        let row: Option<Item> = if outcome == StoredAs::New { None } else { rows.next().flatten() };
        if row.as_ref().is_some_and(Item::is_erased) {
            continue;
        }
        for send in sends {
            let Some(job) = decode_file_job(&send) else { continue };
            let state = row.as_ref().and_then(|row| row::state(row, &job.object.id));
            match (uploads.contains_key(&job.object.id), state) {
                (true, Some(FileState::Stored(_))) | (false, Some(_)) => {}
                (true, _) => wanted.push((job.team, job.object.id, job.share)),
                (false, None) => jobs.push(send),
            }
        }
    }
    Ok((jobs, wanted))
}

fn decode_file_job(send: &Outgoing) -> Option<FileJob> {
    let job = Job::decode(&send.body).ok()?;
    if let Payload::File(raw) = job.payload { FileJob::decode(raw).ok() } else { None }
}

/// Sends jobs, as a bulk. Once it returns, all of them are durable.
pub(super) async fn send(queue: &dyn Queue, jobs: Vec<Outgoing>) -> Result<(), QueueError> {
    if jobs.is_empty() {
        return Ok(());
    }
    queue.send(jobs.into_iter().map(in_bulk).collect()).await.into_iter().collect()
}
