//! The runtime and each worker beside a fake Slack, on ports in memory. One binary, so that they link once.
#![expect(clippy::unwrap_used, reason = "all of it is test code: what it unwraps is what it claims")]

mod channel_indexer;
mod directory;
mod eraser;
mod existence;
mod file_downloader;
mod historian;
mod import;
mod message_writer;
mod quarantine;
mod responder;
mod runtime;
mod statistician;
mod store;
mod workspaces;
