//! channel-indexer as a process of its own, for a fleet. With a token it also brings in Slack's directory, every hour.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use shared::config::slack::{self, JoinArgs, SlackArgs};
use workers::channel_indexer::ChannelIndexer;
use workers::directory::{DirectorySync, Joiner};
use workers::process::{self, Directory, Role, WorkerArgs};

/// Keeps the channels' rows, the ChannelIndex and gaps up to date
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(flatten)]
    worker: WorkerArgs,
    #[command(flatten)]
    slack: SlackArgs,
    #[command(flatten)]
    join: JoinArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = Command::parse();
    shared::telemetry::init_log(&shared::config::log_filter());
    process::exit_code(run(command).await)
}

async fn run(command: Command) -> anyhow::Result<()> {
    let web = slack::web_api(&command.slack).await?;
    let (joiner, asked) = if command.join.no_join { None } else { Some(Joiner::new()) }.unzip();
    process::run(command.worker, |backend| {
        let archive = || backend.archive();
        let sync = DirectorySync::new(web, archive(), backend.queue());
        Role {
            worker: Arc::new(ChannelIndexer::new(archive(), joiner)),
            directory: Some(Directory { sync, asked }),
        }
    })
    .await
}
