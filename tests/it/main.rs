//! One binary of integration tests, so that they link once.
#![expect(clippy::unwrap_used, reason = "all of it is test code: what it unwraps is what it claims")]

mod architecture;
mod aws;
mod backup;
mod channel_indexer;
mod commands;
mod conformance;
mod convergence;
mod crash;
mod demo;
mod deploy;
mod directory;
mod docs;
mod doctor;
mod existence;
mod file_downloader;
mod fuzzed;
mod gaps;
mod lambda;
mod machine;
mod message_writer;
mod packaging;
mod processes;
mod queue_model;
mod runtime;
mod secrets;
mod versions;
mod web_api;
mod words;
mod workspaces;
