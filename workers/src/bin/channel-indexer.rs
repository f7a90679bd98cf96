//! channel-indexer as a process of its own, for a fleet. With a token it also brings in Slack's directory, every hour.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use shared::config::slack::{self, SlackArgs};
use workers::channel_indexer::ChannelIndexer;
use workers::directory::{DirectorySync, Joiner};
use workers::process::{self, WorkerArgs};

/// Keeps the channels' rows, the ChannelIndex and gaps up to date
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(flatten)]
    worker: WorkerArgs,
    #[command(flatten)]
    slack: SlackArgs,
    /// Join no public channels: keep those the app is invited to
    #[arg(long)]
    no_join: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = Command::parse();
    shared::telemetry::init_log(&shared::config::log_filter());
    process::exit_code(run(command).await)
}

async fn run(command: Command) -> anyhow::Result<()> {
    let web = slack::web_api(&command.slack)?;
    let (joiner, asked) = if command.no_join { None } else { Some(Joiner::new()) }.unzip();
    process::run_beside(command.worker, |backend, shutdown| {
        let archive = || backend.archive();
        let directory = DirectorySync::new(web, archive(), backend.queue());
        (Arc::new(ChannelIndexer::new(archive(), joiner)), directory.run(asked, shutdown))
    })
    .await
}
