//! Secrets: each from its variable or, if another variable contains its ARN, from Secrets Manager.

use secrecy::SecretString;
use slack::credentials::SecretVariable;

use super::ConfigError;

/// A secret and the variable that sets it.
pub(super) struct FoundSecret {
    pub(super) variable: &'static str,
    pub(super) secret: SecretString,
}

/// The secret, if either variable sets it.
pub(super) async fn find(variable: SecretVariable) -> Result<Option<FoundSecret>, ConfigError> {
    match (super::text(variable.value), super::text(variable.arn)) {
        (Some(_), Some(_)) => Err(ConfigError::SecretTwice(variable)),
        (Some(value), None) => Ok(Some(FoundSecret { variable: variable.value, secret: value.into() })),
        (None, Some(arn)) => Ok(Some(FoundSecret {
            variable: variable.arn,
            secret: from_secrets_manager(variable, &arn).await?,
        })),
        (None, None) => Ok(None),
    }
}

#[cfg(feature = "aws")]
async fn from_secrets_manager(variable: SecretVariable, arn: &str) -> Result<SecretString, ConfigError> {
    aws::secrets::read(arn)
        .await
        .map_err(|error| ConfigError::SecretsManager { variable: variable.arn, why: error.to_string() })
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with AWS it awaits")]
async fn from_secrets_manager(_: SecretVariable, _: &str) -> Result<SecretString, ConfigError> {
    Err(ConfigError::NotBuilt(super::backend::BackendKind::Aws))
}
