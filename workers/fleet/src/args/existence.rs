//! The setting of the existence check, which verifies events through Slack before they are stored.

use process::config::ConfigError;
use workers::admission::ExistenceMode;

/// The setting of the existence check.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct ExistenceArgs {
    /// Events whose workspace, people or channel Slack does not know: quarantined, or not checked
    /// [default: enforce if there is a bot token, otherwise off]
    #[arg(long, env = "ANNALIST_EXISTENCE_CHECK", value_parser = parse_mode, value_name = "enforce|off")]
    pub existence_check: Option<ExistenceMode>,
}

impl ExistenceArgs {
    /// Rejects a mode that needs a token if there is no token.
    ///
    /// # Errors
    /// [`ConfigError::ExistenceCheckWithoutToken`] if the mode calls Slack and there is no token.
    pub fn require_tokens(&self, has_tokens: bool) -> Result<(), ConfigError> {
        match self.existence_check {
            Some(ExistenceMode::Enforce) if !has_tokens => Err(ConfigError::ExistenceCheckWithoutToken),
            Some(ExistenceMode::Enforce | ExistenceMode::Off) | None => Ok(()),
        }
    }
}

fn parse_mode(text: &str) -> Result<ExistenceMode, &'static str> {
    match text {
        "enforce" => Ok(ExistenceMode::Enforce),
        "off" => Ok(ExistenceMode::Off),
        "observe" => Err("`observe` was removed: use `enforce`, or `off` to store events unchecked"),
        _ => Err("use `enforce` or `off`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_removed_mode_is_refused_by_name() {
        assert_eq!(parse_mode("enforce"), Ok(ExistenceMode::Enforce));
        assert_eq!(parse_mode("off"), Ok(ExistenceMode::Off));
        assert!(parse_mode("observe").is_err_and(|line| line.contains("removed") && !line.contains('\n')));
        assert!(parse_mode("").is_err_and(|line| !line.contains("removed")));
    }

    #[test]
    fn only_modes_that_call_slack_need_a_token() {
        let needs =
            |existence_check, has_tokens| ExistenceArgs { existence_check }.require_tokens(has_tokens);
        for mode in [None, Some(ExistenceMode::Off)] {
            assert!(needs(mode, false).is_ok());
        }
        assert!(needs(Some(ExistenceMode::Enforce), true).is_ok());
        let line = needs(Some(ExistenceMode::Enforce), false).unwrap_err().to_string();
        assert!(line.contains("enforce") && line.contains("SLACK_BOT_TOKEN"), "{line}");
    }
}
