//! The contracts of the ports, on SQLite and a folder.
#![expect(clippy::unwrap_used, reason = "all of it is test code: what it unwraps is what it claims")]

mod conformance;
mod erased_rows;
mod opened_at_once;
mod queue_model;
