//! Secrets in Secrets Manager: what a configuration only names.

use aws_sdk_secretsmanager::error::ProvideErrorMetadata;
use secrecy::SecretString;

use super::{loader, policy};

/// Why a secret could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Secrets Manager did not give it.
    #[error(
        "Secrets Manager did not give {arn} ({why}): check the ARN and its region, and that the role may use \
         secretsmanager:GetSecretValue on it"
    )]
    NotGiven {
        /// What was asked for.
        arn: String,
        /// What it answered, if anything.
        why: String,
    },
    /// It holds bytes, or nothing.
    #[error("{0} holds no text: store the secret as plain text")]
    NoText(String),
}

/// The text of a secret as it is now.
///
/// # Errors
/// [`SecretError`], without a word of what is in it.
pub async fn read(arn: &str) -> Result<SecretString, SecretError> {
    let client = policy::SECRETS.secretsmanager(&loader().load().await);
    let answer = client.get_secret_value().secret_id(arn).send().await.map_err(|error| {
        let why = error.code().map_or_else(|| "no answer".to_owned(), str::to_owned);
        SecretError::NotGiven { arn: arn.to_owned(), why }
    })?;
    answer.secret_string.map(SecretString::from).ok_or_else(|| SecretError::NoText(arn.to_owned()))
}
