//! The settings of automatic backfill.

/// The settings of automatic backfill.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct HistorianArgs {
    /// History that is read from Slack automatically: events missed in gaps, or nothing
    #[arg(long = "backfill", env = "ANNALIST_BACKFILL", value_name = "WHAT", value_enum, default_value_t)]
    pub backfill: BackfillMode,
}

/// The history that is read from Slack automatically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum BackfillMode {
    /// Events missed in gaps, once the gaps have ended.
    #[default]
    Gaps,
    /// Nothing.
    Off,
}
