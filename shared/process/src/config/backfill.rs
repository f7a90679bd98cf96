//! The settings of automatic backfill.

use super::backend::Backend;

/// The settings of automatic backfill.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct HistorianArgs {
    /// History that is read from Slack automatically [default: all with --backend embedded, gaps with aws]
    #[arg(long = "backfill", env = "ANNALIST_BACKFILL", value_name = "WHAT", value_enum)]
    pub backfill: Option<BackfillMode>,
}

impl HistorianArgs {
    /// The history that is read with this backend. On AWS each message costs money, and a stack may hold hundreds
    /// of workspaces: only a person decides that all of it is read.
    pub fn mode(&self, backend: &Backend) -> BackfillMode {
        let default = if backend.is_paid() { BackfillMode::Gaps } else { BackfillMode::All };
        self.backfill.unwrap_or(default)
    }
}

/// The history that is read from Slack automatically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum BackfillMode {
    /// Everything that Slack still shows, and events missed in gaps.
    All,
    /// Events missed in gaps, once the gaps have ended.
    Gaps,
    /// Nothing.
    #[default]
    Off,
}

impl BackfillMode {
    /// The mode as the setting names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Gaps => "gaps",
            Self::Off => "off",
        }
    }
}
