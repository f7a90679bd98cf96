//! Drives real processes: builds the binaries, starts and kills them, plays Slack, runs the command line, and holds
//! the archive against what was sent.

pub mod binaries;
pub mod client;
pub mod command;
pub mod lambda;
pub mod load;
pub mod metered;
pub mod place;
pub mod process;
pub mod procfs;
pub mod proxy;
pub mod python;
pub mod scrape;
pub mod secrets;
pub mod stack;
pub mod verify;

use std::io::Write;

/// A line that the test runner does not swallow.
fn say(line: &str) {
    // `eprintln!` is captured per test; standard error itself is not. It may be closed.
    drop(writeln!(std::io::stderr(), "{line}"));
}
