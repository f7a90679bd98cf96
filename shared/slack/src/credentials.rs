//! The secrets that Slack gives an app, by the names of their settings.

/// A secret's variable, and the one that names where else it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretVariable {
    /// Holds the secret.
    pub value: &'static str,
    /// Holds the ARN of a secret in Secrets Manager.
    pub arn: &'static str,
}

/// The app's signing secret, or two of them separated by a comma while rotating. It has no flag: a command line is visible
/// to everyone on the machine.
pub const SIGNING_SECRET: SecretVariable =
    SecretVariable { value: "SLACK_SIGNING_SECRET", arn: "SLACK_SIGNING_SECRET_ARN" };

/// The bot token of one workspace; in Secrets Manager also a JSON object of workspace ids and tokens.
pub const BOT_TOKEN: SecretVariable = SecretVariable { value: "SLACK_BOT_TOKEN", arn: "SLACK_BOT_TOKEN_ARN" };
