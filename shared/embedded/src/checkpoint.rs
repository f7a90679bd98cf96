//! Checkpoints the write-ahead log on a thread of its own.
//!
//! By default SQLite does this within a commit, and all callers of that commit wait for it. A separate thread
//! copies most of the log while commits continue. It cannot restart the log, which requires that no new frame
//! is written meanwhile, so the writer copies the small rest itself.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::connection::open_for_checkpoints;

/// Length of the log, in pages, at which a checkpoint starts.
const CHECKPOINT_PAGES: i32 = 2_000;

/// Maximum number of pages, written during a checkpoint of the thread, that the writer copies itself to
/// restart the log.
const REST_PAGES: i32 = 1_000;

/// If the thread does not keep up, the writer copies everything itself, so that the size of the log is
/// bounded.
const MAX_PAGES: i32 = 16_000;

thread_local! {
    /// The length of the log in pages, if this thread has written to it since the last check.
    static PAGES: Cell<Option<i32>> = const { Cell::new(None) };
}

fn note_pages(_log: &Wal, pages: std::ffi::c_int) -> rusqlite::Result<()> {
    PAGES.set(Some(pages));
    Ok(())
}

/// The writer's handle of the checkpoint thread.
pub(super) struct Checkpoints {
    requests: Option<SyncSender<()>>,
    copied: Receiver<i32>,
    checkpointing: bool,
}

impl Checkpoints {
    /// Starts the thread. `connection` is the writer's, which no longer checkpoints within its commits.
    pub(super) fn start(connection: &Connection, file: PathBuf) -> rusqlite::Result<Self> {
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.wal_hook(Some(note_pages));
        let (sender, requests) = sync_channel::<()>(1);
        let (report, copied) = sync_channel::<i32>(1);
        let thread = std::thread::Builder::new().name("annalist-checkpoint".into()).spawn(move || {
            let mut connection = None;
            while requests.recv().is_ok() {
                if connection.is_none() {
                    connection = open_for_checkpoints(&file).ok();
                }
                let pages = connection.as_ref().map_or(0, checkpoint);
                if report.send(pages).is_err() {
                    return;
                }
            }
        });
        // Without the thread, the writer checkpoints itself, as SQLite would.
        Ok(Self { requests: thread.is_ok().then_some(sender), copied, checkpointing: false })
    }

    /// Must be called by the writer after each commit. Returns whether the commit wrote to the log.
    pub(super) fn after_commit(&mut self, connection: &Connection) -> bool {
        let written = PAGES.take();
        if let Some(pages) = written {
            self.checkpoint_if_long(connection, pages);
        }
        written.is_some()
    }

    fn checkpoint_if_long(&mut self, connection: &Connection, pages: i32) {
        if pages > MAX_PAGES {
            checkpoint(connection);
            return;
        }
        if self.checkpointing {
            let Ok(copied) = self.copied.try_recv() else { return };
            self.checkpointing = false;
            if pages - copied <= REST_PAGES {
                checkpoint(connection);
                return;
            }
        }
        if pages >= CHECKPOINT_PAGES {
            match &self.requests {
                Some(requests) => self.checkpointing = requests.try_send(()).is_ok(),
                None => drop(checkpoint(connection)),
            }
        }
    }
}

/// Copies the pages that no reader needs any more. Returns how many pages of the log are in the database now.
fn checkpoint(connection: &Connection) -> i32 {
    let copied = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2));
    copied.unwrap_or_else(|error| {
        // The log grows on, and the next commit tries again.
        tracing::debug!(%error, "failed to checkpoint the log");
        0
    })
}
