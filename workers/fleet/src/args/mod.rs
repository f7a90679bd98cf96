//! The flags of the workers, each also an environment variable, and the workers' settings made from them.

mod backfill;
mod directory;
mod existence;
mod files;
mod responder;

use std::time::Duration;

pub use backfill::HistorianArgs;
pub use directory::DirectoryArgs;
pub use existence::ExistenceArgs;
pub use files::{ClaimArgs, FileArgs};
pub use responder::{ResponderArgs, ResponderMode, ResponderSettings};

/// How long jobs may wait.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct WaitArgs {
    /// Days that a job waits for something outside itself, such as a token, before it is quarantined
    #[arg(
        long,
        env = "ANNALIST_WAIT_DAYS",
        value_name = "N",
        default_value_t = DEFAULT_WAIT_DAYS,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_WAIT_DAYS)),
        hide_short_help = true
    )]
    pub wait_days: u32,
}

impl WaitArgs {
    /// The days as a time.
    pub fn longest_wait(self) -> Duration {
        Duration::from_secs(u64::from(self.wait_days) * 86_400)
    }
}

impl Default for WaitArgs {
    fn default() -> Self {
        Self { wait_days: DEFAULT_WAIT_DAYS }
    }
}

/// Longer than a holiday of the person who can replace a token.
const DEFAULT_WAIT_DAYS: u32 = 30;

/// After ten years no person waits any more.
const MAX_WAIT_DAYS: u32 = 3_650;
