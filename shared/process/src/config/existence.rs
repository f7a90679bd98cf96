//! The setting of the existence check, which verifies events through Slack before they are stored.

use std::fmt;

use super::ConfigError;

/// The setting of the existence check.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct ExistenceArgs {
    /// Events whose workspace, people or channel Slack does not know: quarantined, only counted, or not
    /// checked [default: enforce if there is a bot token, otherwise off]
    #[arg(
        long,
        env = "ANNALIST_EXISTENCE_CHECK",
        value_enum,
        hide_possible_values = true,
        value_name = "enforce|observe|off"
    )]
    pub existence_check: Option<ExistenceMode>,
}

/// The mode of the existence check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ExistenceMode {
    /// Events with entities that Slack does not know are quarantined; events wait while Slack cannot be
    /// asked.
    Enforce,
    /// All events are stored immediately. The result that `enforce` would have had is counted and logged.
    Observe,
    /// Slack is not asked.
    Off,
}

impl ExistenceArgs {
    /// Rejects a mode that needs a token if there is no token.
    ///
    /// # Errors
    /// [`ConfigError::ExistenceCheckWithoutToken`] if the mode calls Slack and there is no token.
    pub fn require_tokens(&self, has_tokens: bool) -> Result<(), ConfigError> {
        match self.existence_check {
            Some(mode @ (ExistenceMode::Enforce | ExistenceMode::Observe)) if !has_tokens => {
                Err(ConfigError::ExistenceCheckWithoutToken(mode))
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
    fn only_modes_that_call_slack_need_a_token() {
        let needs =
            |existence_check, has_tokens| ExistenceArgs { existence_check }.require_tokens(has_tokens);
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
