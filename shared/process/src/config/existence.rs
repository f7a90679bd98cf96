//! Whether events are verified through Slack before anything of them is stored.

use std::fmt;

use super::ConfigError;

/// The setting of the existence check.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct ExistenceArgs {
    /// Events whose workspace, people or channel Slack does not know: quarantined, only counted, or not checked
    /// [default: enforce where there is a bot token, else off]
    #[arg(
        long,
        env = "ANNALIST_EXISTENCE_CHECK",
        value_enum,
        hide_possible_values = true,
        value_name = "enforce|observe|off"
    )]
    pub existence_check: Option<ExistenceMode>,
}

/// What the existence check does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ExistenceMode {
    /// What Slack does not know goes to quarantine; what Slack cannot be asked about waits.
    Enforce,
    /// Everything is stored at once. What `enforce` would have done is counted and logged.
    Observe,
    /// Slack is not asked.
    Off,
}

impl ExistenceArgs {
    /// Refuses to be asked for what cannot be done.
    ///
    /// # Errors
    /// [`ConfigError::NothingToCheckWith`] if Slack is to be asked and there is no token.
    pub fn needs(&self, has_tokens: bool) -> Result<(), ConfigError> {
        match self.existence_check {
            Some(mode @ (ExistenceMode::Enforce | ExistenceMode::Observe)) if !has_tokens => {
                Err(ConfigError::NothingToCheckWith(mode))
            }
            Some(ExistenceMode::Enforce | ExistenceMode::Observe | ExistenceMode::Off) | None => Ok(()),
        }
    }
}

impl fmt::Display for ExistenceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
            Self::Off => "off",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_slack_needs_a_token() {
        let needs = |existence_check, has_tokens| ExistenceArgs { existence_check }.needs(has_tokens);
        for mode in [None, Some(ExistenceMode::Off)] {
            assert!(needs(mode, false).is_ok());
        }
        for mode in [ExistenceMode::Enforce, ExistenceMode::Observe] {
            assert!(needs(Some(mode), true).is_ok());
            let line = needs(Some(mode), false).unwrap_err().to_string();
            assert!(line.contains(&mode.to_string()) && line.contains("SLACK_BOT_TOKEN"), "{line}");
        }
    }
}
