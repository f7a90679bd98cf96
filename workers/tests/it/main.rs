//! Tests of the runtime and of each worker with in-memory ports and a fake Slack. One binary, so that they
//! link once.
#![expect(clippy::unwrap_used, reason = "test code: an unwrap that fails is a test that fails")]

mod authors;
mod channel_indexer;
mod directory;
mod erased_directory;
mod erased_files;
mod erased_pins;
mod eraser;
mod eraser_ahead;
mod eraser_kinds;
mod existence;
mod file_downloader;
mod historian;
mod import;
mod keeper;
mod message_writer;
mod quarantine;
mod responder;
mod retention;
mod runtime;
mod statistician;
mod store;
mod watched_worker;
mod workspaces;
