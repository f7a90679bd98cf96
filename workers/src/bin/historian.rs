//! The historian as its own process, for a fleet.

use std::process::ExitCode;

fn main() -> ExitCode {
    workers::standalone::main(env!("CARGO_BIN_NAME"))
}
