//! Logs and metrics.

pub mod alerts;
pub mod dashboard;
#[cfg(feature = "aws")]
pub mod emf;
pub mod listener;
pub mod recorder;

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging to standard error: readable text on a terminal, one JSON object per line otherwise.
pub fn init_log(filter: EnvFilter) {
    // A line that cannot be written, on a full disk or to a pipe without a reader, is lost: an error about it
    // would fail the same way and crash the caller.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    let started = if std::io::stderr().is_terminal() {
        log.with_target(false).try_init()
    } else {
        log.json().flatten_event(true).with_current_span(false).try_init()
    };
    // A second call in one process keeps the first log.
    drop(started);
}
