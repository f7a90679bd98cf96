//! Makes a base: cuts rows into blocks, writes those that are not there yet, and last the list.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use ports::files::{FilesError, Published};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

use crate::block::{BlockCutter, compress};
use crate::{Base, BaseCounts, BaseHead, BaseTable, BaseTime, BlockId, CopyError, CopyStore, put};

/// Blocks that are written together: a target on a disk syncs twice for all of them, and not twice for each, because
/// each sync also delays the events that are written meanwhile.
const BATCH_BLOCKS: usize = 1_024;

/// Two batches are in memory: one is written while the next one is read.
const BATCH_BYTES: usize = 1024 * 1024;

/// Blocks between the thread that reads rows and the one that collects batches.
const WAITING_BLOCKS: usize = 4;

/// A base whose second is taken gets the next one, as often as this.
const MAX_TAKEN: i64 = 60;

/// The blocks cannot be written; [`BlockWriter`]'s other end knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the blocks cannot be written")]
pub struct WritingStopped;

/// A block that is not there yet.
struct NewBlock {
    id: BlockId,
    compressed: Vec<u8>,
}

/// Takes the rows of a base, on the thread that reads them.
pub struct RowsWriter {
    base: Base,
    cutter: BlockCutter,
    known: HashSet<BlockId>,
    new: Sender<NewBlock>,
}

/// Writes the blocks of a [`RowsWriter`].
pub struct BlockWriter(Receiver<NewBlock>);

/// What was written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes, and those of the list.
    pub bytes: u64,
}

/// Begins a base in a target that has these blocks.
pub fn begin(head: BaseHead, known: HashSet<BlockId>) -> (RowsWriter, BlockWriter) {
    let (new, blocks) = channel(WAITING_BLOCKS);
    let base = Base { head, tables: Vec::new(), counts: BaseCounts::default() };
    (RowsWriter { base, cutter: BlockCutter::default(), known, new }, BlockWriter(blocks))
}

impl RowsWriter {
    /// The next rows are of this table.
    pub fn table(&mut self, name: &str, columns: &[&str]) -> Result<(), WritingStopped> {
        self.end_block()?;
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        self.base.tables.push(BaseTable { name: name.to_owned(), columns, blocks: Vec::new() });
        Ok(())
    }

    /// Takes the next row of the table, by its key and its line.
    pub fn row(&mut self, key: &[u8], line: &[u8], is_message: bool) -> Result<(), WritingStopped> {
        self.base.counts.rows += 1;
        self.base.counts.messages += u64::from(is_message);
        match self.cutter.add(key, line) {
            Some(lines) => self.block(&lines),
            None => Ok(()),
        }
    }

    /// The base, once all rows are there.
    pub fn end(mut self) -> Result<Base, WritingStopped> {
        self.end_block()?;
        Ok(self.base)
    }

    fn end_block(&mut self) -> Result<(), WritingStopped> {
        match self.cutter.end() {
            Some(lines) => self.block(&lines),
            None => Ok(()),
        }
    }

    fn block(&mut self, lines: &[u8]) -> Result<(), WritingStopped> {
        let id = BlockId::of(lines);
        let Some(table) = self.base.tables.last_mut() else { return Err(WritingStopped) };
        table.blocks.push(id);
        self.base.counts.blocks += 1;
        if !self.known.insert(id) {
            return Ok(());
        }
        let compressed = compress(lines).map_err(|_| WritingStopped)?;
        self.new.blocking_send(NewBlock { id, compressed }).map_err(|_| WritingStopped)
    }
}

impl BlockWriter {
    /// Writes the blocks until the rows end.
    ///
    /// # Errors
    /// [`CopyError::Store`]; then the [`RowsWriter`] stops.
    pub async fn run(mut self, store: Arc<dyn CopyStore>) -> Result<Written, CopyError> {
        let mut writing: JoinSet<Result<(), FilesError>> = JoinSet::new();
        let mut written = Written::default();
        let (mut batch, mut batch_bytes) = (Vec::new(), 0);
        loop {
            if let Some(block) = self.0.recv().await {
                written.blocks += 1;
                written.bytes += block.compressed.len() as u64;
                batch_bytes += block.compressed.len();
                batch.push((block.id.object(), Bytes::from(block.compressed)));
                if batch.len() < BATCH_BLOCKS && batch_bytes < BATCH_BYTES {
                    continue;
                }
            }
            if let Some(done) = writing.join_next().await {
                done.map_err(|stopped| CopyError::Store(stopped.to_string()))??;
            }
            if batch.is_empty() {
                return Ok(written);
            }
            let (store, objects) = (Arc::clone(&store), std::mem::take(&mut batch));
            batch_bytes = 0;
            writing.spawn(async move { store.put_all(objects).await });
        }
    }
}

/// Writes the list of a base whose blocks are there: only now does the base exist. Returns its time and its size.
///
/// # Errors
/// [`CopyError::Store`]
pub async fn finish(
    store: &dyn CopyStore,
    base: &Base,
    now: Timestamp,
) -> Result<(BaseTime, u64), CopyError> {
    let bytes = base.to_bytes().map_err(|error| CopyError::Store(error.to_string()))?;
    let size_bytes = bytes.len() as u64;
    let bytes = Bytes::from(bytes);
    for seconds in 0..MAX_TAKEN {
        let time = BaseTime::at(now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now));
        if put(store, &time.object(), bytes.clone()).await? == Published::New {
            return Ok((time, size_bytes));
        }
    }
    Err(CopyError::Store("it has bases of the next minute: set the clock of this machine".to_owned()))
}
