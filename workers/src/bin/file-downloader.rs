//! file-downloader as a process of its own, for a fleet.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use ports::clock::SystemClock;
use process::config::slack::{self, SlackArgs};
use process::config::{FileArgs, instance};
use workers::claims::Claimant;
use workers::file_downloader::{FileDownloader, Settings};
use workers::standalone::{self, Role, WorkerArgs};

/// Downloads the files that are shared in Slack, and keeps them
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(flatten)]
    worker: WorkerArgs,
    #[command(flatten)]
    slack: SlackArgs,
    #[command(flatten)]
    files: FileArgs,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = Command::parse();
    process::telemetry::init_log(&process::config::log_filter());
    standalone::exit_code(run(command).await)
}

async fn run(command: Command) -> anyhow::Result<()> {
    let web = slack::web_api(&command.slack).await?;
    let settings = Settings::from(&command.files);
    standalone::run(command.worker, |ports| {
        let (claims, clock) = (ports.claims(), SystemClock::shared());
        let claimant = Claimant::new(Arc::clone(&claims), clock, instance(), settings.claims.clone());
        let downloader = FileDownloader::new(ports.archive(), ports.files(), web, claimant, settings);
        Role { worker: Arc::new(downloader), directory: None, claims: Some(claims) }
    })
    .await
}
