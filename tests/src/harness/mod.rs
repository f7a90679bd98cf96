//! Drives real processes: builds the binaries, starts and kills them, simulates Slack, runs the command line,
//! and compares the archive with the sent events.

pub mod binaries;
pub mod client;
pub mod command;
pub mod environment;
pub mod lambda;
pub mod load;
pub mod metered;
pub mod process;
pub mod procfs;
pub mod proxy;
pub mod python;
pub mod scrape;
pub mod secrets;
pub mod stack;
pub mod tls_proxy;
pub mod verify;

use std::io::Write;

/// Prints a line to standard error that the test runner does not capture.
fn print_uncaptured(line: &str) {
    // `eprintln!` is captured per test; standard error itself is not. It may be closed.
    drop(writeln!(std::io::stderr(), "{line}"));
}
