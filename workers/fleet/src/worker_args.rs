//! The flags of a worker's binary.

use clap::Parser;
use process::config::MetricsArgs;
use process::config::backend::BackendArgs;
use process::config::zone::ZoneArgs;

use crate::environment::WorkArgs;

/// The flags of a worker's binary. Each binary accepts the flags of all, so that one set of flags starts a
/// fleet, but shows only its own.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct WorkerArgs {
    /// The queue and the archive
    #[command(flatten)]
    pub backend: BackendArgs,
    /// The address of the metrics, if they are served
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// The zone of the night's beginning
    #[command(flatten)]
    pub zone: ZoneArgs,
    /// The settings of the worker
    #[command(flatten)]
    pub work: WorkArgs,
}
