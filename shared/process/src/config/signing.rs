//! The signing secrets. A secret in Secrets Manager is read again while the process runs, so that its rotation
//! needs no restart.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ports::clock::SystemClock;
use ports::reread::{Reread, RereadLimits};
use slack::signature::SigningSecrets;

use super::secrets::{self, FoundSecret, SecretPlace};
use super::{ConfigError, SIGNING_SECRET};

/// A secret that Slack no longer uses is accepted at most this long. A signature that fits no secret causes a
/// read at once, but at most one a minute, however many such requests arrive. Slack waits 3 s for its response,
/// of which the queue may take 2 s.
const REREAD_LIMITS: RereadLimits = RereadLimits {
    max_age: Duration::from_secs(300),
    min_interval: Duration::from_secs(60),
    time_limit: Duration::from_millis(800),
};

/// The signing secrets from the environment, or from the secret whose ARN it contains.
///
/// # Errors
/// [`ConfigError`] if they are missing or cannot be used.
pub async fn signing_secrets() -> Result<SigningSecrets, ConfigError> {
    parse(&secrets::find(SIGNING_SECRET).await?.ok_or(ConfigError::NoSigningSecret)?)
}

/// The same, for a process that runs on while they change.
///
/// # Errors
/// As [`signing_secrets`].
pub async fn signing_secrets_with_rereads() -> Result<Arc<Reread<SigningSecrets>>, ConfigError> {
    let first = signing_secrets().await?;
    let reread = match secrets::locate(SIGNING_SECRET)? {
        None | Some(SecretPlace::Variable(_)) => Reread::fixed(first),
        Some(SecretPlace::SecretsManager(_)) => {
            let read = Box::new(|_| {
                let read = async { signing_secrets().await.map(Arc::new).map_err(|error| error.to_string()) };
                Box::pin(read) as Pin<Box<dyn Future<Output = _> + Send>>
            });
            Reread::new(SIGNING_SECRET.arn, Arc::new(first), REREAD_LIMITS, SystemClock::shared(), read)
        }
    };
    Ok(Arc::new(reread))
}

fn parse(found: &FoundSecret) -> Result<SigningSecrets, ConfigError> {
    SigningSecrets::parse(&found.secret)
        .map_err(|why| ConfigError::SigningSecret { variable: found.variable, why })
}
