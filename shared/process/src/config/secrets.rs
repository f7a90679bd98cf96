//! Secrets: each from its variable or, if another variable contains its ARN, from Secrets Manager.

use std::path::PathBuf;

use secrecy::SecretString;
use slack::credentials::{APP_TOKEN, BOT_TOKEN, MODEL_KEY, PROCESSOR_TOKEN, SIGNING_SECRET, SecretVariable};

use super::ConfigError;
use super::setting_names::{BOT_TOKENS_FILE, SIGNING_SECRETS_FILE};
use super::settings_file;
use super::viewer::CLIENT_SECRET;

/// A secret and the variable that sets it.
pub struct FoundSecret {
    /// The variable that contains it, or its ARN.
    pub variable: &'static str,
    pub secret: SecretString,
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
///
/// # Errors
/// [`ConfigError`] if both set it, or Secrets Manager does not return it.
pub async fn find(variable: SecretVariable) -> Result<Option<FoundSecret>, ConfigError> {
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
    Err(ConfigError::NotBuilt(super::backend_kind::BackendKind::Aws))
}

/// The files that may contain secrets: those of tokens, of signing secrets and of settings.
pub fn files() -> Vec<PathBuf> {
    let named = [BOT_TOKENS_FILE, SIGNING_SECRETS_FILE].into_iter().filter_map(super::text);
    named.map(PathBuf::from).chain(settings_file::path().map(PathBuf::from)).collect()
}

/// The secrets that variables contain.
pub fn values() -> Vec<SecretString> {
    let secrets = [SIGNING_SECRET, BOT_TOKEN, MODEL_KEY, PROCESSOR_TOKEN].map(|secret| secret.value);
    let values = secrets.into_iter().chain([APP_TOKEN, CLIENT_SECRET]).filter_map(super::text);
    // Two signing secrets are valid while one replaces the other.
    let words = |value: String| value.split(',').map(str::trim).map(SecretString::from).collect::<Vec<_>>();
    values.flat_map(words).collect()
}
