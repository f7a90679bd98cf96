//! Reads secrets from Secrets Manager that the configuration refers to.

use aws_sdk_secretsmanager::error::ProvideErrorMetadata;
use secrecy::SecretString;

use super::{loader, policy};

/// Why a secret could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Secrets Manager did not return the secret.
    #[error(
        "Secrets Manager did not return {arn} ({why}): check the ARN and its region, and that the role may use \
         secretsmanager:GetSecretValue on it"
    )]
    NotGiven {
        arn: String,
        /// The error code, if there was a response.
        why: String,
    },
    /// The secret is binary or empty.
    #[error("{0} contains no text: store the secret as plain text")]
    NoText(String),
}

/// Reads the current text of a secret.
///
/// # Errors
/// [`SecretError`], which never contains the secret.
pub async fn read(arn: &str) -> Result<SecretString, SecretError> {
    let client = policy::secretsmanager(&loader().load().await, policy::SECRETS);
    let answer = client.get_secret_value().secret_id(arn).send().await.map_err(|error| {
        let why = error.code().map_or_else(|| "no answer".to_owned(), str::to_owned);
        SecretError::NotGiven { arn: arn.to_owned(), why }
    })?;
    answer.secret_string.map(SecretString::from).ok_or_else(|| SecretError::NoText(arn.to_owned()))
}
