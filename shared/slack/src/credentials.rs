//! The variables of secrets: those of the Slack app, and those of the processors that answer questions.

/// The variable of a secret, and the variable of its ARN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretVariable {
    /// The variable that contains the secret.
    pub value: &'static str,
    /// The variable that contains the ARN of the secret in Secrets Manager.
    pub arn: &'static str,
}

/// The app's signing secret, or two of them separated by a comma while rotating. It has no flag: a command
/// line is visible to everyone on the machine.
pub const SIGNING_SECRET: SecretVariable =
    SecretVariable { value: "SLACK_SIGNING_SECRET", arn: "SLACK_SIGNING_SECRET_ARN" };

/// The bot token of one workspace, or a JSON object of workspace ids and tokens. The ARN may be several, separated by
/// commas.
pub const BOT_TOKEN: SecretVariable = SecretVariable { value: "SLACK_BOT_TOKEN", arn: "SLACK_BOT_TOKEN_ARN" };

/// The key of Anthropic's Messages API.
pub const MODEL_KEY: SecretVariable =
    SecretVariable { value: "ANTHROPIC_API_KEY", arn: "ANTHROPIC_API_KEY_ARN" };

/// The bearer token of a processor behind HTTP.
pub const PROCESSOR_TOKEN: SecretVariable =
    SecretVariable { value: "ANNALIST_PROCESSOR_TOKEN", arn: "ANNALIST_PROCESSOR_TOKEN_ARN" };
