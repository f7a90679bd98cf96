//! message-writer as a process of its own, for a fleet.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use workers::message_writer::MessageWriter;
use workers::process::{self, Role, WorkerArgs};

/// Turns Slack's events on the queue into rows of the archive
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(flatten)]
    worker: WorkerArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = Command::parse();
    shared::telemetry::init_log(&shared::config::log_filter());
    let ended = process::run(command.worker, |ports| {
        let writer = MessageWriter::new(ports.archive(), ports.queue());
        Role { worker: Arc::new(writer), directory: None }
    })
    .await;
    process::exit_code(ended)
}
