//! message-writer as a process of its own, for a fleet. With a token it stores only what Slack confirms to exist.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use process::config::existence::ExistenceArgs;
use process::config::slack::{self, SlackArgs};
use workers::message_writer::MessageWriter;
use workers::standalone::{self, Role, WorkerArgs};

/// Turns Slack's events on the queue into rows of the archive
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(flatten)]
    worker: WorkerArgs,
    #[command(flatten)]
    slack: SlackArgs,
    #[command(flatten)]
    existence: ExistenceArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = Command::parse();
    process::telemetry::init_log(&process::config::log_filter());
    standalone::exit_code(run(command).await)
}

async fn run(command: Command) -> anyhow::Result<()> {
    let api = slack::web_api(&command.slack).await?;
    command.existence.needs(api.has_tokens())?;
    standalone::run(command.worker, |ports| {
        let check = standalone::check(ports, api, command.existence);
        let writer = MessageWriter::new(ports.archive(), ports.queue()).checked_by(check);
        Role { worker: Arc::new(writer), directory: None, claims: None }
    })
    .await
}
