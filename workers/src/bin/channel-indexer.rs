//! channel-indexer as a process of its own, for a fleet. With a token it also brings in Slack's directory, every hour.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use process::config::existence::ExistenceArgs;
use process::config::slack::{self, JoinArgs, SlackArgs};
use workers::channel_indexer::ChannelIndexer;
use workers::directory::{DirectorySync, Joiner};
use workers::standalone::{self, Directory, Role, WorkerArgs};

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
    let web = slack::web_api(&command.slack).await?;
    command.existence.needs(web.has_tokens())?;
    let (joiner, asked) = if command.join.no_join { None } else { Some(Joiner::new()) }.unzip();
    standalone::run(command.worker, |backend| {
        let archive = || backend.archive();
        let check = standalone::check(backend, Arc::clone(&web), command.existence);
        let sync = DirectorySync::new(web, archive(), backend.queue()).telling(check.known());
        Role {
            worker: Arc::new(ChannelIndexer::new(archive(), joiner).checked_by(check)),
            directory: Some(Directory { sync, asked }),
            claims: None,
        }
    })
    .await
}
