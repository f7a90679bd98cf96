//! Ingest as its own process, for a fleet.

use std::process::ExitCode;

fn main() -> ExitCode {
    ingest_service::main()
}
