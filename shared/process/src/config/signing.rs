//! The signing secrets: of one app, or of several, whose request paths name them. A file and a secret in Secrets
//! Manager are read again while the process runs, so that a rotation or a further app needs no restart.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ports::clock::SystemClock;
use ports::reread::{Reread, RereadLimits};
use secrecy::SecretString;
use slack::signature::SigningSecrets;
use slack::signing_table::SigningTable;

use super::named_file::{MAX_SETTING_BYTES, read_text};
use super::secrets::{self, FoundSecret, SecretPlace};
use super::setting_names::SIGNING_SECRETS_FILE;
use super::{ConfigError, SIGNING_SECRET, text};

/// Slack waits 3 s for its response, of which the queue may take 2 s.
const READ_TIME_LIMIT: Duration = Duration::from_millis(800);

/// A secret that Slack no longer uses is accepted at most this long. A signature that fits no secret causes a
/// read at once, but at most one a minute, however many such requests arrive: each is billed.
const SECRETS_MANAGER_LIMITS: RereadLimits = RereadLimits {
    max_age: Duration::from_secs(300),
    min_interval: Duration::from_secs(60),
    time_limit: READ_TIME_LIMIT,
};

/// A file costs nothing to read.
const FILE_LIMITS: RereadLimits = RereadLimits {
    max_age: Duration::from_secs(15),
    min_interval: Duration::from_secs(1),
    time_limit: READ_TIME_LIMIT,
};

/// The signing secrets from the environment, from the secret whose ARN it contains, and from the file that it
/// names.
///
/// # Errors
/// [`ConfigError`] if they are missing or cannot be used.
pub async fn signing_table() -> Result<SigningTable, ConfigError> {
    let (found, file) = (secrets::find(SIGNING_SECRET).await?, file());
    if found.is_none() && file.is_none() {
        return Err(ConfigError::NoSigningSecret);
    }
    let mut table = found.as_ref().map_or_else(|| Ok(SigningTable::new(None)), parse)?;
    if let Some(path) = file {
        let place = format!("{SIGNING_SECRETS_FILE} {}", path.display());
        let unusable = |why: String| ConfigError::SigningTable { place: place.clone(), why };
        // On a thread that may wait for a disk or a network.
        let read = tokio::task::spawn_blocking(move || read_text(&path, MAX_SETTING_BYTES)).await;
        let text = read.unwrap_or_else(|error| Err(error.to_string())).map_err(unusable)?;
        table.add_apps(&SecretString::from(text)).map_err(|why| unusable(why.to_string()))?;
    }
    Ok(table)
}

/// The same, if there are any, for a process that runs on while they change.
///
/// # Errors
/// [`ConfigError`] if they cannot be used.
pub async fn optional_signing_table() -> Result<Option<Arc<Reread<SigningTable>>>, ConfigError> {
    let first = match signing_table().await {
        Err(ConfigError::NoSigningSecret) => return Ok(None),
        first => first?,
    };
    let source = match (secrets::locate(SIGNING_SECRET)?, file()) {
        (Some(SecretPlace::SecretsManager(_)), _) => Some((SIGNING_SECRET.arn, SECRETS_MANAGER_LIMITS)),
        (Some(SecretPlace::Variable(_)) | None, Some(_)) => Some((SIGNING_SECRETS_FILE, FILE_LIMITS)),
        (Some(SecretPlace::Variable(_)) | None, None) => None,
    };
    let Some((name, limits)) = source else { return Ok(Some(Arc::new(Reread::fixed(first)))) };
    let read = Box::new(|_| {
        let read = async { signing_table().await.map(Arc::new).map_err(|error| error.to_string()) };
        Box::pin(read) as Pin<Box<dyn Future<Output = _> + Send>>
    });
    Ok(Some(Arc::new(Reread::new(name, Arc::new(first), limits, SystemClock::shared(), read))))
}

fn file() -> Option<PathBuf> {
    text(SIGNING_SECRETS_FILE).map(PathBuf::from)
}

/// One secret, two of them, or a JSON object of apps.
fn parse(found: &FoundSecret) -> Result<SigningTable, ConfigError> {
    let variable = found.variable;
    if SigningTable::is_object(&found.secret) {
        let mut table = SigningTable::new(None);
        let unusable = |why: String| ConfigError::SigningTable { place: variable.to_owned(), why };
        return table.add_apps(&found.secret).map(|()| table).map_err(|why| unusable(why.to_string()));
    }
    let secrets =
        SigningSecrets::parse(&found.secret).map_err(|why| ConfigError::SigningSecret { variable, why })?;
    Ok(secrets.into())
}
