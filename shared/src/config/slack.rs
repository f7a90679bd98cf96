//! Where Slack's Web API is, and the tokens for it.

use std::path::Path;
use std::sync::Arc;

use super::ConfigError;
use super::tokens::TokensFile;
use crate::slack::web::{ApiUrl, Token, Tokens, WebApi};

/// The variable that holds the bot token of one workspace. It has no flag: a command line is visible to everyone on the
/// machine.
pub const BOT_TOKEN: &str = "SLACK_BOT_TOKEN";

/// The variable that names a file of tokens: a JSON object of workspace ids and bot tokens.
pub const BOT_TOKENS_FILE: &str = "SLACK_BOT_TOKENS_FILE";

/// Where Slack's Web API is.
#[derive(Debug, Clone, clap::Args)]
pub struct SlackArgs {
    /// Base of Slack's Web API [default: https://slack.com/api/]
    // Read as it is and checked later, so that a mistake in it is not repeated: it may hold a password.
    #[arg(long, env = "SLACK_API_URL", value_name = "URL", hide_env_values = true)]
    pub slack_api_url: Option<String>,
}

/// Slack's Web API with the tokens from the environment. Without any, it can still fetch what needs none.
///
/// # Errors
/// [`ConfigError`] where a setting cannot be used.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn web_api(args: &SlackArgs) -> Result<Arc<WebApi>, ConfigError> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let tokens = tokens(variable(BOT_TOKEN).as_deref(), variable(BOT_TOKENS_FILE).as_deref().map(Path::new))?;
    Ok(Arc::new(WebApi::new(api_url(args)?, tokens)))
}

fn api_url(args: &SlackArgs) -> Result<ApiUrl, ConfigError> {
    match args.slack_api_url.as_deref().filter(|url| !url.trim().is_empty()) {
        Some(url) => url.parse().map_err(|error| ConfigError::ApiUrl(format!("{error}"))),
        None => Ok(ApiUrl::default()),
    }
}

fn tokens(token: Option<&str>, file: Option<&Path>) -> Result<Tokens, ConfigError> {
    match (token, file) {
        (None, None) => Ok(Tokens::none()),
        (Some(token), None) => match Token::parse(token) {
            Ok(token) => Ok(Tokens::one(token)),
            Err(error) => Err(ConfigError::BotToken(error.to_string())),
        },
        (None, Some(path)) => {
            let file = TokensFile::open(path)
                .map_err(|why| ConfigError::BotTokensFile { path: path.to_owned(), why })?;
            Ok(Tokens::per_team(move || file.table()))
        }
        (Some(_), Some(_)) => Err(ConfigError::TwoTokens),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<ApiUrl, ConfigError> {
        api_url(&SlackArgs { slack_api_url: Some(text.into()) })
    }

    #[test]
    fn every_mistake_is_one_line_without_the_secret() {
        let missing = Path::new("/nowhere/tokens.json");
        for (error, expected) in [
            (url("http://slack.com/").unwrap_err(), "https://"),
            (url("https://user:hidden@slack.com/").unwrap_err(), "password"),
            (url("slack.com/hidden").unwrap_err(), "SLACK_API_URL"),
            (tokens(Some("xoxb hidden"), None).unwrap_err(), "SLACK_BOT_TOKEN"),
            (tokens(Some("xoxb-hidden"), Some(missing)).unwrap_err(), "SLACK_BOT_TOKENS_FILE"),
            (tokens(None, Some(missing)).unwrap_err(), "/nowhere/tokens.json"),
        ] {
            let line = error.to_string();
            assert!(line.contains(expected) && !line.contains("hidden") && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn what_is_empty_is_not_set() {
        assert_eq!(url(" ").unwrap(), ApiUrl::default());
        assert_eq!(api_url(&SlackArgs { slack_api_url: None }).unwrap(), ApiUrl::default());
        assert!(!WebApi::new(ApiUrl::default(), tokens(None, None).unwrap()).has_tokens());
        assert!(WebApi::new(ApiUrl::default(), tokens(Some("xoxb-1"), None).unwrap()).has_tokens());
    }
}
