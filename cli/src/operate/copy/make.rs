//! Makes a copy: first the rows of one moment, then the files that they name, last the list that makes them a copy.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, anyhow, bail};
use copies::make::{BlockWriter, RowsWriter, Written, begin, finish};
use copies::{Base, BaseHead, BaseTime, CopyError, CopyStore, FORMAT, claim, list_blocks};
use embedded::backup::manifest::SCHEMA;
use embedded::backup::{ReadLimits, ReadRow, ReadStopped, read_rows};
use embedded::{Database, VERSION};
use jiff::Timestamp;
use ports::archive::Archive;
use ports::clock::SharedClock;
use process::config::copy::{CopyAge, CopyTarget};
use serde::Serialize;
use tokio::sync::oneshot;

use super::{files, state};

/// A first copy over a slow line reaches a limit of a read, finds in the next attempt what it has written, and gets
/// farther each time; an archive that needs more attempts needs a faster target.
const MAX_ATTEMPTS: usize = 10;

/// About a tenth of the time of a core that others want, and all of one that nobody wants.
#[cfg(target_os = "linux")]
const LOWER_PRIORITY: i32 = 10;

/// Makes copies of a data folder.
#[derive(Clone)]
pub(crate) struct Copier {
    pub(crate) data: PathBuf,
    pub(crate) database: Database,
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) clock: SharedClock,
    pub(crate) keep: CopyAge,
    pub(crate) target: CopyTarget,
}

/// A copy, as `--json` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct MadeCopy {
    pub(crate) target: String,
    pub(crate) at: String,
    pub(crate) rows: u64,
    pub(crate) blocks: u64,
    pub(crate) new_blocks: u64,
    pub(crate) bytes_written: u64,
    pub(crate) files_copied: u64,
}

/// Why an attempt failed.
enum AttemptError {
    /// It reached this limit.
    Limit(&'static str),
    Other(anyhow::Error),
}

impl Copier {
    /// Makes a copy, removes old ones, and stores how it went.
    pub(crate) async fn copy(&self) -> anyhow::Result<MadeCopy> {
        let Some(_lock) = self.database.lock_copying()? else {
            bail!("another copy is running: wait for it")
        };
        let made = self.copy_alone().await.with_context(|| format!("cannot copy to {}", self.target));
        let tried = self.clock.now();
        state::store(&*self.archive, &self.target, tried, made.as_ref().map(|made| made.at.as_str())).await?;
        made
    }

    async fn copy_alone(&self) -> anyhow::Result<MadeCopy> {
        let store = self.target.store().await;
        let archive = self.database.archive_id().await?;
        claim(&*store, &archive).await?;
        let head = BaseHead { format: FORMAT, archive, annalist: VERSION.to_owned(), schema: SCHEMA };
        let (base, written) = self.rows(&store, &head).await?;
        let (copied, folder) = files::copy(&self.data, &*store).await?;
        let now = Timestamp::from_millisecond(self.clock.now().0)?;
        let (at, list_bytes) = finish(&*store, &base, now).await?;
        let cleaned = async {
            copies::clean::clean(&*store, self.keep.duration(), now).await?;
            files::clean(&self.data, &*store, &folder).await
        };
        cleaned.await.with_context(|| format!("the copy {at} is made, but older ones cannot be removed"))?;
        Ok(MadeCopy {
            target: self.target.to_string(),
            at: at.to_string(),
            rows: base.counts.rows,
            blocks: base.counts.blocks,
            new_blocks: written.blocks,
            bytes_written: written.bytes + list_bytes,
            files_copied: copied,
        })
    }

    /// Writes the blocks of all rows.
    async fn rows(&self, store: &Arc<dyn CopyStore>, head: &BaseHead) -> anyhow::Result<(Base, Written)> {
        let mut total = Written::default();
        let mut last = "";
        for _ in 0..MAX_ATTEMPTS {
            let (rows, blocks) = begin(head.clone(), list_blocks(&**store).await?);
            let (base, written) = self.attempt(store, rows, blocks).await;
            total.blocks += written.blocks;
            total.bytes += written.bytes;
            match base {
                Ok(base) => return Ok((base, total)),
                Err(AttemptError::Limit(limit)) => last = limit,
                Err(AttemptError::Other(error)) => return Err(error),
            }
        }
        bail!("{last}, {MAX_ATTEMPTS} times; what was written stays: try again, or use a faster target")
    }

    async fn attempt(
        &self,
        store: &Arc<dyn CopyStore>,
        mut rows: RowsWriter,
        blocks: BlockWriter,
    ) -> (Result<Base, AttemptError>, Written) {
        let data = self.data.clone();
        let (done, reading) = oneshot::channel();
        // A thread that ends with its work, because its priority cannot be raised again.
        let read = move || {
            give_way();
            let read = read_rows(&data, ReadLimits::default(), |row| match row {
                ReadRow::Table { name, columns } => rows.table(name, columns),
                ReadRow::Row { key, line, is_message } => rows.row(key, line, is_message),
            });
            let read = read.and_then(|log_bytes| Ok((rows.end().map_err(ReadStopped::Caller)?, log_bytes)));
            // The receiver is gone if the copy was given up.
            drop(done.send(read));
        };
        if let Err(error) = thread::Builder::new().name("copy".to_owned()).spawn(read) {
            return (Err(AttemptError::Other(error.into())), Written::default());
        }
        let written = blocks.run(Arc::clone(store)).await;
        let read = match reading.await {
            Ok(read) => read,
            Err(stopped) => return (Err(AttemptError::Other(stopped.into())), Written::default()),
        };
        let written = match written {
            Ok(written) => written,
            // Why the reading stopped, too.
            Err(error) => return (Err(AttemptError::Other(error.into())), Written::default()),
        };
        let base = match read {
            Ok((base, log_bytes)) => {
                tracing::info!(
                    rows = base.counts.rows,
                    new_blocks = written.blocks,
                    log_bytes,
                    "the database is copied"
                );
                Ok(base)
            }
            Err(ReadStopped::Limit(limit)) => Err(AttemptError::Limit(limit)),
            Err(error) => Err(AttemptError::Other(anyhow!(error))),
        };
        (base, written)
    }
}

/// Lowers the priority of this thread, which reads, hashes and compresses all rows: events go first. Where a priority is
/// one of the whole process, it stays.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(LOWER_PRIORITY) {
        tracing::debug!(%error, "the copy has the priority of everything else");
    }
}

/// When the newest base of a target was made; `None` if it has none.
pub(super) async fn newest(target: &CopyTarget) -> Result<Option<BaseTime>, CopyError> {
    let store = target.store().await;
    store.ready().await?;
    Ok(copies::list_bases(&*store).await?.pop())
}
