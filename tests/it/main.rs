//! One binary of integration tests, so that they link once.
#![expect(clippy::unwrap_used, reason = "all of it is test code: what it unwraps is what it claims")]

mod architecture;
mod aws;
mod channel_indexer;
mod commands;
mod conformance;
mod convergence;
mod crash;
mod deliveries;
mod demo;
mod directory;
mod docs;
mod file_downloader;
mod message_writer;
mod processes;
mod queue_model;
mod runtime;
mod web_api;
