//! The settings of automatic backfill.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use process::config::backend::Backend;
use workers::historian::BackfillMode;

/// The settings of automatic backfill.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct HistorianArgs {
    /// History that is read from Slack automatically [default: all with --backend embedded, gaps with aws]
    #[arg(long = "backfill", env = "ANNALIST_BACKFILL", value_name = "WHAT", value_parser = mode_parser())]
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

/// One of the modes, with its line of help.
fn mode_parser() -> impl TypedValueParser<Value = BackfillMode> {
    let values = BackfillMode::ALL.map(|mode| {
        PossibleValue::new(mode.as_str()).help(match mode {
            BackfillMode::All => "Everything that Slack still shows, and events missed in gaps",
            BackfillMode::Gaps => "Events missed in gaps, once the gaps have ended",
            BackfillMode::Off => "Nothing",
        })
    });
    PossibleValuesParser::new(values)
        .map(|name| BackfillMode::ALL.into_iter().find(|mode| mode.as_str() == name).unwrap_or_default())
}
