//! Tests of the ports on SQLite and a folder.
#![expect(clippy::unwrap_used, reason = "this is test code: an unwrap is an assertion")]

mod conformance;
mod erased_rows;
mod opened_at_once;
mod queue_model;
mod replaced;
