//! Folds the write-ahead log into the database beside the writer.
//!
//! Left to itself SQLite does this within a commit, and everyone who waits for that commit waits for it. A thread of its
//! own copies most of the log while commits go on. What it cannot do is to start the log anew: that takes a moment
//! without a new frame, so the writer does the small rest itself.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::connection::open_for_checkpoints;

/// Pages in the log from which on it is folded.
const FOLD_FROM_PAGES: i32 = 2_000;

/// Pages that came while the thread was folding and that the writer folds itself, to start the log anew.
const REST_PAGES: i32 = 1_000;

/// Where the thread does not keep up, the writer folds everything itself: the log's size is bounded.
const MAX_PAGES: i32 = 16_000;

thread_local! {
    /// The log's length in pages, if this thread has written to it since it was last looked at.
    static PAGES: Cell<Option<i32>> = const { Cell::new(None) };
}

fn note_pages(_log: &Wal, pages: std::ffi::c_int) -> rusqlite::Result<()> {
    PAGES.set(Some(pages));
    Ok(())
}

/// The writer's side.
pub(super) struct Checkpoints {
    asked: Option<SyncSender<()>>,
    folded: Receiver<i32>,
    folding: bool,
}

impl Checkpoints {
    /// Starts the thread. `connection` is the writer's: it no longer folds within its commits.
    pub(super) fn start(connection: &Connection, file: PathBuf) -> rusqlite::Result<Self> {
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.wal_hook(Some(note_pages));
        let (asked, requests) = sync_channel::<()>(1);
        let (report, folded) = sync_channel::<i32>(1);
        let thread = std::thread::Builder::new().name("annalist-checkpoint".into()).spawn(move || {
            let mut connection = None;
            while requests.recv().is_ok() {
                if connection.is_none() {
                    connection = open_for_checkpoints(&file).ok();
                }
                let pages = connection.as_ref().map_or(0, fold);
                if report.send(pages).is_err() {
                    return;
                }
            }
        });
        // Without the thread the writer folds by itself, as SQLite would.
        Ok(Self { asked: thread.is_ok().then_some(asked), folded, folding: false })
    }

    /// Called by the writer after each commit. Returns whether that wrote to the log.
    pub(super) fn after_commit(&mut self, connection: &Connection) -> bool {
        let written = PAGES.take();
        if let Some(pages) = written {
            self.fold_if_long(connection, pages);
        }
        written.is_some()
    }

    fn fold_if_long(&mut self, connection: &Connection, pages: i32) {
        if pages > MAX_PAGES {
            fold(connection);
            return;
        }
        if self.folding {
            let Ok(folded) = self.folded.try_recv() else { return };
            self.folding = false;
            if pages - folded <= REST_PAGES {
                fold(connection);
                return;
            }
        }
        if pages >= FOLD_FROM_PAGES {
            match &self.asked {
                Some(asked) => self.folding = asked.try_send(()).is_ok(),
                None => drop(fold(connection)),
            }
        }
    }
}

/// Copies what no reader needs any more; answers how many pages of the log are in the database now.
fn fold(connection: &Connection) -> i32 {
    let folded = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2));
    folded.unwrap_or_else(|error| {
        // The log keeps growing and is tried again after the next commit.
        tracing::debug!(%error, "failed to checkpoint the log");
        0
    })
}
