//! The tokens from their settings: one token in a variable, a file, or secrets in Secrets Manager. Files and
//! secrets are read again while the process runs, so that a workspace can be added, or a token replaced, without a
//! restart.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ports::clock::SharedClock;
use slack_api::Tokens;
use slack_api::tokens::{ReadTokens, TokenSecret, parse_token_table};

use super::named_file::{MAX_SETTING_BYTES, read_text};
use super::secrets::{FoundSecret, SecretPlace, from_secrets_manager};
use super::setting_names::BOT_TOKENS_FILE;
use super::{BOT_TOKEN, ConfigError};

/// A file costs nothing to read.
const FILE_MAX_AGE: Duration = Duration::from_secs(15);

/// Each read of a secret is billed, and every function has its own copy.
const SECRETS_MAX_AGE: Duration = Duration::from_secs(300);

/// Maximum number of secrets with tokens. One holds about 890 tokens; each is one more read at startup.
const MAX_SECRETS: usize = 10;

/// The tokens that the settings name.
pub(super) async fn read(
    token: Option<SecretPlace>,
    file: Option<&Path>,
    clock: SharedClock,
) -> Result<Tokens, ConfigError> {
    match (token, file) {
        (None, None) => Ok(Tokens::empty()),
        (Some(SecretPlace::Variable(found)), None) => Ok(Tokens::fixed(vec![parse(&found)?])),
        (Some(SecretPlace::SecretsManager(arns)), None) => {
            let first = read_secrets(&arns).await?;
            let again: ReadTokens = Box::new(move || {
                let arns = arns.clone();
                Box::pin(async move { read_secrets(&arns).await.map_err(|error| error.to_string()) })
            });
            Ok(Tokens::reread(BOT_TOKEN.arn, first, SECRETS_MAX_AGE, clock, again))
        }
        (None, Some(path)) => {
            let first =
                read_file(path).map_err(|why| ConfigError::BotTokensFile { path: path.to_owned(), why })?;
            let path = path.to_owned();
            let again: ReadTokens = Box::new(move || Box::pin(read_file_elsewhere(path.clone())));
            Ok(Tokens::reread(BOT_TOKENS_FILE, first, FILE_MAX_AGE, clock, again))
        }
        (Some(_), Some(_)) => Err(ConfigError::TwoTokens),
    }
}

fn parse(found: &FoundSecret) -> Result<TokenSecret, ConfigError> {
    TokenSecret::parse(&found.secret).map_err(|why| ConfigError::BotToken { variable: found.variable, why })
}

fn read_file(path: &Path) -> Result<Vec<TokenSecret>, String> {
    Ok(vec![TokenSecret::PerTeam(parse_token_table(&read_text(path, MAX_SETTING_BYTES)?)?)])
}

/// Reads the file on a thread that may wait for a disk or a network.
async fn read_file_elsewhere(path: PathBuf) -> Result<Vec<TokenSecret>, String> {
    tokio::task::spawn_blocking(move || read_file(&path)).await.map_err(|error| error.to_string())?
}

/// Reads the secrets with these ARNs, which commas separate.
async fn read_secrets(arns: &str) -> Result<Vec<TokenSecret>, ConfigError> {
    let variable = BOT_TOKEN.arn;
    let mut secrets = Vec::new();
    for arn in split(arns).map_err(|why| ConfigError::SecretsManager { variable, why })? {
        let secret = from_secrets_manager(BOT_TOKEN, arn).await?;
        secrets.push(parse(&FoundSecret { variable, secret })?);
    }
    Ok(secrets)
}

fn split(arns: &str) -> Result<Vec<&str>, String> {
    let arns: Vec<&str> = arns.split(',').map(str::trim).filter(|arn| !arn.is_empty()).collect();
    match arns.len() {
        0 => Err("it names no secret".to_owned()),
        1..=MAX_SECRETS => Ok(arns),
        more => Err(format!("it names {more} secrets: put the tokens into at most {MAX_SECRETS}")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ports::clock::{ManualClock, TimestampMs};
    use slack::ids::TeamId;
    use slack_api::{ApiUrl, WebApi};

    use super::*;

    /// A client with the tokens of a file, the file, and the clock of its reads.
    async fn from_file(folder: &tempfile::TempDir) -> (WebApi, PathBuf, std::sync::Arc<ManualClock>) {
        let path = folder.path().join("tokens.json");
        fs::write(&path, r#"{"T1": "xoxb-1"}"#).unwrap();
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let tokens = read(None, Some(&path), clock.clone()).await.unwrap();
        (WebApi::new(ApiUrl::default(), tokens), path, clock)
    }

    async fn teams(api: &WebApi) -> Vec<String> {
        api.teams().await.unwrap().iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn a_file_that_changes_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (api, path, clock) = from_file(&folder).await;
        fs::write(&path, r#"{"T1": "xoxb-1", "T2": "xoxb-2"}"#).unwrap();
        assert_eq!(teams(&api).await, ["T1"], "it was just read");
        clock.advance(FILE_MAX_AGE);
        assert_eq!(teams(&api).await, ["T1", "T2"]);
        assert!(api.has_token_for(&TeamId::parse("T2").unwrap()).await.unwrap());
    }

    #[tokio::test]
    async fn a_file_that_breaks_leaves_the_last_tokens_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let (api, path, clock) = from_file(&folder).await;
        let teams_after = async |text: Option<&str>| {
            match text {
                Some(text) => fs::write(&path, text).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            clock.advance(FILE_MAX_AGE);
            teams(&api).await
        };
        for broken in [Some(r#"{"T1": "xoxb"#), Some("[]"), Some(r#"{"T1": 5}"#), Some("null"), None] {
            assert_eq!(teams_after(broken).await, ["T1"], "{broken:?}");
        }
        assert!(teams_after(Some("{}")).await.is_empty());
        assert_eq!(teams_after(Some(r#"{"T3": "xoxb-3"}"#)).await, ["T3"]);
    }

    #[test]
    fn secrets_are_a_short_list() {
        assert_eq!(split(" a, b,,").unwrap(), ["a", "b"]);
        assert!(split(" , ").unwrap_err().contains("no secret"));
        assert!(split(&"a,".repeat(11)).unwrap_err().contains("11 secrets"));
    }
}
