//! poster as a process of its own, for a fleet.

use std::process::ExitCode;

fn main() -> ExitCode {
    workers::standalone::main(env!("CARGO_BIN_NAME"))
}
