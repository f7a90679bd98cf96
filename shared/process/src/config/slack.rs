//! The address of Slack's Web API and its tokens.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use super::setting_names::{API_URL, BOT_TOKENS_FILE};
use super::{BOT_TOKEN, ConfigError, secrets, tokens};
use ports::clock::SystemClock;
use slack_api::{ApiUrl, WebApi};

/// The address of Slack's Web API.
#[derive(Debug, Clone, clap::Args)]
pub struct SlackArgs {
    /// Base of Slack's Web API [default: https://slack.com/api/]
    // Checked later, so that clap does not print an invalid value: it may contain a password.
    #[arg(long, env = API_URL, value_name = "URL", hide_env_values = true)]
    pub slack_api_url: Option<String>,
}

/// A client of Slack's Web API with the tokens from the environment, or from a file or secret that it names.
/// Without tokens, the client can still fetch resources that need none.
///
/// # Errors
/// [`ConfigError`] if a setting cannot be used.
pub async fn web_api(args: &SlackArgs) -> Result<Arc<WebApi>, ConfigError> {
    Ok(Arc::new(client(args).await?))
}

/// The same, with a limit of messages posted per minute to a workspace, or without a limit.
///
/// # Errors
/// As [`web_api`].
pub async fn web_api_with_post_limit(
    args: &SlackArgs,
    per_minute: Option<NonZeroU32>,
) -> Result<Arc<WebApi>, ConfigError> {
    Ok(Arc::new(client(args).await?.with_post_limit(per_minute)))
}

async fn client(args: &SlackArgs) -> Result<WebApi, ConfigError> {
    let file = super::text(BOT_TOKENS_FILE);
    let file = file.as_deref().map(Path::new);
    let tokens = tokens::read(secrets::locate(BOT_TOKEN)?, file, SystemClock::shared()).await?;
    Ok(WebApi::new(api_url(args)?, tokens))
}

/// The base of Slack's Web API.
///
/// # Errors
/// [`ConfigError::ApiUrl`] if it cannot be used.
pub fn api_url(args: &SlackArgs) -> Result<ApiUrl, ConfigError> {
    match args.slack_api_url.as_deref().filter(|url| !url.trim().is_empty()) {
        Some(url) => url.parse().map_err(|error| ConfigError::ApiUrl(format!("{error}"))),
        None => Ok(ApiUrl::default()),
    }
}

#[cfg(test)]
mod tests {
    use slack_api::Tokens;

    use super::secrets::{FoundSecret, SecretPlace};
    use super::*;

    fn found(token: &str) -> SecretPlace {
        SecretPlace::Variable(FoundSecret { variable: BOT_TOKEN.value, secret: token.into() })
    }

    async fn tokens(token: Option<SecretPlace>, file: Option<&Path>) -> Result<Tokens, ConfigError> {
        tokens::read(token, file, SystemClock::shared()).await
    }

    fn url(text: &str) -> Result<ApiUrl, ConfigError> {
        api_url(&SlackArgs { slack_api_url: Some(text.into()) })
    }

    #[tokio::test]
    async fn every_error_is_one_line_without_the_secret() {
        let missing = Path::new("/nowhere/tokens.json");
        for (error, expected) in [
            (url("http://slack.com/").unwrap_err(), "https://"),
            (url("https://user:hidden@slack.com/").unwrap_err(), "password"),
            (url("slack.com/hidden").unwrap_err(), "SLACK_API_URL"),
            (tokens(Some(found("xoxb hidden")), None).await.unwrap_err(), "SLACK_BOT_TOKEN"),
            (tokens(Some(found(r#"{"T1": "xoxb hidden"}"#)), None).await.unwrap_err(), "T1"),
            (tokens(Some(found("xoxb-hidden")), Some(missing)).await.unwrap_err(), "SLACK_BOT_TOKENS_FILE"),
            (tokens(None, Some(missing)).await.unwrap_err(), "/nowhere/tokens.json"),
        ] {
            let line = error.to_string();
            assert!(line.contains(expected) && !line.contains("hidden") && !line.contains('\n'), "{line}");
        }
    }

    #[tokio::test]
    async fn an_empty_setting_counts_as_unset() {
        assert_eq!(url(" ").unwrap(), ApiUrl::default());
        assert_eq!(api_url(&SlackArgs { slack_api_url: None }).unwrap(), ApiUrl::default());
        assert!(!WebApi::new(ApiUrl::default(), tokens(None, None).await.unwrap()).has_tokens());
        for one_or_several in ["xoxb-1", r#" {"T1": "xoxb-1"}"#] {
            let tokens = tokens(Some(found(one_or_several)), None).await.unwrap();
            assert!(WebApi::new(ApiUrl::default(), tokens).has_tokens());
        }
    }
}
