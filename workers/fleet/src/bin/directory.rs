//! The directory worker as its own process, for a fleet.

use std::process::ExitCode;

fn main() -> ExitCode {
    fleet::standalone::main(env!("CARGO_BIN_NAME"))
}
