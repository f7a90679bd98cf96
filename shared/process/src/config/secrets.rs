//! Secrets: each from its variable or, if another variable contains its ARN, from Secrets Manager.

use secrecy::SecretString;
use slack::credentials::SecretVariable;

use super::ConfigError;

/// A secret and the variable that sets it.
pub(super) struct FoundSecret {
    pub(super) variable: &'static str,
    pub(super) secret: SecretString,
}

/// Where a secret is.
pub(super) enum SecretPlace {
    /// The variable contains it.
    Variable(FoundSecret),
    /// Secrets Manager has it, under this ARN.
    SecretsManager(String),
}

/// The place of the secret, if either variable sets it.
pub(super) fn locate(variable: SecretVariable) -> Result<Option<SecretPlace>, ConfigError> {
    match (super::text(variable.value), super::text(variable.arn)) {
        (Some(_), Some(_)) => Err(ConfigError::SecretTwice(variable)),
        (Some(value), None) => {
            let found = FoundSecret { variable: variable.value, secret: value.into() };
            Ok(Some(SecretPlace::Variable(found)))
        }
        (None, Some(arn)) => Ok(Some(SecretPlace::SecretsManager(arn))),
        (None, None) => Ok(None),
    }
}

/// The secret, if either variable sets it.
pub(super) async fn find(variable: SecretVariable) -> Result<Option<FoundSecret>, ConfigError> {
    match locate(variable)? {
        None => Ok(None),
        Some(SecretPlace::Variable(found)) => Ok(Some(found)),
        Some(SecretPlace::SecretsManager(arn)) => Ok(Some(FoundSecret {
            variable: variable.arn,
            secret: from_secrets_manager(variable, &arn).await?,
        })),
    }
}

#[cfg(feature = "aws")]
pub(super) async fn from_secrets_manager(
    variable: SecretVariable,
    arn: &str,
) -> Result<SecretString, ConfigError> {
    aws::secrets::read(arn)
        .await
        .map_err(|error| ConfigError::SecretsManager { variable: variable.arn, why: error.to_string() })
}

#[cfg(not(feature = "aws"))]
pub(super) async fn from_secrets_manager(_: SecretVariable, _: &str) -> Result<SecretString, ConfigError> {
    Err(ConfigError::NotBuilt(super::backend::BackendKind::Aws))
}
