//! Socket Mode: the app-level token, and the number of connections.

use std::num::NonZeroU8;

use slack_api::socket::{AppToken, SocketApi};

use super::slack::{SlackArgs, api_url};
use super::{APP_TOKEN, ConfigError, lambda};

/// Two: while Slack refreshes one, or one breaks, the other receives.
const DEFAULT_CONNECTIONS: NonZeroU8 = NonZeroU8::new(2).unwrap();

/// Half of what Slack allows for an app, since each is replaced while it is open.
const MAX_CONNECTIONS: NonZeroU8 = NonZeroU8::new(5).unwrap();

/// The number of connections.
#[derive(Debug, Clone, clap::Args)]
pub struct SocketArgs {
    /// Connections to Slack in Socket Mode, from 1 to 5: Slack allows ten for an app
    #[arg(
        long,
        env = "ANNALIST_SOCKET_CONNECTIONS",
        value_name = "N",
        default_value_t = DEFAULT_CONNECTIONS,
        value_parser = parse_connections,
        hide_short_help = true
    )]
    pub socket_connections: NonZeroU8,
}

fn parse_connections(text: &str) -> Result<NonZeroU8, &'static str> {
    text.parse().ok().filter(|connections| *connections <= MAX_CONNECTIONS).ok_or("give a number from 1 to 5")
}

/// Opens connections of Socket Mode, if there is an app-level token.
///
/// # Errors
/// [`ConfigError`] if it is another token, or this process is a Lambda function.
pub fn socket_api(args: &SlackArgs) -> Result<Option<SocketApi>, ConfigError> {
    lambda::refuse_app_token()?;
    let Some(token) = super::text(APP_TOKEN) else { return Ok(None) };
    let token = AppToken::parse(&token).map_err(ConfigError::AppToken)?;
    Ok(Some(SocketApi::new(api_url(args)?, token)))
}
