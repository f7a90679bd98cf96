//! One binary of integration tests, so that they link once.
#![expect(clippy::unwrap_used, reason = "all of it is test code: what it unwraps is what it claims")]

mod architecture;
mod aws;
mod backfill;
mod backup;
mod browser;
mod commands;
mod convergence;
mod crash;
mod demo;
mod deploy;
mod docs;
mod doctor;
mod erase;
mod erased_bytes;
mod existence_check;
mod export;
mod gaps;
mod import;
mod killed_downloads;
mod lambda;
mod machine;
mod mcp;
mod packaging;
mod processes;
mod quarantine;
mod real_shapes;
mod reconcile;
mod responder;
mod search;
mod secrets;
mod sync;
mod versions;
mod view;
mod words;
mod workers_table;
