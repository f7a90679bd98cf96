//! What the historian does by itself.

/// What the historian does by itself.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct HistorianArgs {
    /// What is read of Slack's history without being asked for: what gaps left out, or nothing
    #[arg(long = "backfill", env = "ANNALIST_BACKFILL", value_name = "WHAT", value_enum, default_value_t)]
    pub backfill: BackfillMode,
}

/// What is read of Slack's history without being asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum BackfillMode {
    /// What was missed in gaps, once they have ended.
    #[default]
    Gaps,
    /// Nothing.
    Off,
}
