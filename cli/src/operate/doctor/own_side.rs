//! What is looked at on this machine, and at the address that Slack was given.

use std::net::SocketAddr;
use std::time::Duration;

use shared::clock::Clock;
use shared::config::backend::{BackendArgs, BackendKind};
use shared::config::{self, ConfigError};
use shared::embedded::condition::{self, Folder};
use shared::probe;
use shared::slack::signature::SigningSecrets;

use super::facts::{Ingest, RequestUrl, within};

/// Secrets Manager answers within a second.
const SECRETS_PATIENCE: Duration = Duration::from_secs(15);

pub(super) async fn signing_secrets() -> Result<Option<SigningSecrets>, String> {
    let found = async {
        match config::signing_secrets().await {
            Ok(secrets) => Ok(Some(secrets)),
            Err(ConfigError::NoSigningSecret) => Ok(None),
            Err(error) => Err(error),
        }
    };
    within(SECRETS_PATIENCE, found).await
}

pub(super) async fn ingest(address: SocketAddr) -> Ingest {
    Ingest { address, ready: probe::ready(address).await }
}

pub(super) async fn request_url(
    url: Option<&str>,
    secrets: Option<&SigningSecrets>,
    clock: &dyn Clock,
) -> RequestUrl {
    let Some(url) = url else { return RequestUrl::NotGiven };
    let Some(secrets) = secrets else { return RequestUrl::NoSecret };
    let answer = probe::request_url(url, secrets, clock.now().seconds()).await;
    RequestUrl::Asked { url: url.to_owned(), answer }
}

/// The data folder, where that is the backend and it exists.
pub(super) fn folder(args: &BackendArgs) -> Option<Result<Folder, String>> {
    let data = &args.data.data;
    let is_kept_here = match args.backend {
        BackendKind::Embedded => data.exists(),
        BackendKind::Aws => false,
    };
    is_kept_here.then(|| condition::folder(data).map_err(|error| error.to_string()))
}
