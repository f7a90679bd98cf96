//! Secrets: each from its variable or, where another names it, from Secrets Manager.

use secrecy::SecretString;

use super::ConfigError;

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

/// A secret, and the variable it is set by.
pub(super) struct Found {
    pub(super) variable: &'static str,
    pub(super) secret: SecretString,
}

impl SecretVariable {
    /// The secret, if it is set in either way.
    pub(super) async fn find(self) -> Result<Option<Found>, ConfigError> {
        match (super::text(self.value), super::text(self.arn)) {
            (Some(_), Some(_)) => Err(ConfigError::SecretTwice(self)),
            (Some(value), None) => Ok(Some(Found { variable: self.value, secret: value.into() })),
            (None, Some(arn)) => {
                Ok(Some(Found { variable: self.arn, secret: from_secrets_manager(self, &arn).await? }))
            }
            (None, None) => Ok(None),
        }
    }
}

#[cfg(feature = "aws")]
async fn from_secrets_manager(variable: SecretVariable, arn: &str) -> Result<SecretString, ConfigError> {
    crate::aws::secrets::read(arn)
        .await
        .map_err(|error| ConfigError::SecretsManager { variable: variable.arn, why: error.to_string() })
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with AWS it awaits")]
async fn from_secrets_manager(_: SecretVariable, _: &str) -> Result<SecretString, ConfigError> {
    Err(ConfigError::NotBuilt(super::backend::BackendKind::Aws))
}
