//! Gathers facts from Slack: the identity of each token, one page of channels, and the hello of a connection.

use ingest::check_socket;
use ports::clock::Clock;
use process::config::ConfigError;
use process::config::slack::{SlackArgs, web_api};
use serde::Deserialize;
use slack_api::check::CheckedToken;
use slack_api::socket::SocketApi;
use slack_api::{ApiError, Method, WebApi};

use super::facts::{ChannelCounts, SECRETS_TIMEOUT, SlackFacts, SocketFacts, TokenFacts, within};

/// Maximum number of workspaces to check. An installation with more of them has metrics.
const MAX_TOKENS: usize = 20;

/// Slack's largest page. One call is enough to find out whether the app is in any channel.
const PARAMETERS: [(&str, &str); 3] =
    [("types", "public_channel"), ("exclude_archived", "true"), ("limit", "999")];

/// Opens one connection, if there is an app-level token. Each step has a timeout of its own.
pub(super) async fn socket(api: Result<Option<SocketApi>, ConfigError>) -> SocketFacts {
    match api {
        Ok(None) => SocketFacts::NoToken,
        Ok(Some(api)) => SocketFacts::Asked(check_socket(&api).await),
        Err(error) => SocketFacts::Unusable(error.to_string()),
    }
}

/// Asks Slack about each token; `names_app`: about its app, too.
pub(super) async fn gather(args: &SlackArgs, names_app: bool, clock: &dyn Clock) -> SlackFacts {
    let api = match within(SECRETS_TIMEOUT, web_api(args)).await {
        Ok(api) => api,
        Err(why) => return SlackFacts::Unusable(why),
    };
    if !api.has_tokens() {
        return SlackFacts::NoToken(api.check_without_token(clock).await.clocks);
    }
    let mut asked = Vec::new();
    for checked in api.check_tokens(MAX_TOKENS, clock).await {
        let channels = match &checked.check.answer {
            Ok(_) => Some(channels(&api, &checked).await),
            Err(_) => None,
        };
        let app_id = if names_app { app_id(&api, &checked).await } else { None };
        let CheckedToken { configured_team: given_for, kind, check: look, .. } = checked;
        asked.push(TokenFacts {
            given_for,
            kind,
            answer: look.answer,
            scopes: look.scopes,
            times: look.clocks,
            app_id,
            channels,
        });
    }
    SlackFacts::Tokens { total: api.token_count(), asked }
}

#[derive(Deserialize)]
struct ChannelPage {
    channels: Vec<MembershipEntry>,
    #[serde(default)]
    response_metadata: PageCursor,
}

#[derive(Deserialize)]
struct MembershipEntry {
    #[serde(default)]
    is_member: bool,
}

#[derive(Default, Deserialize)]
struct PageCursor {
    #[serde(default)]
    next_cursor: String,
}

#[derive(Deserialize)]
struct BotReply {
    bot: BotApp,
}

#[derive(Deserialize)]
struct BotApp {
    app_id: String,
}

/// The app of a bot token; `None` if Slack does not name it.
async fn app_id(api: &WebApi, checked: &CheckedToken) -> Option<String> {
    let bot_id = checked.check.answer.as_ref().ok()?.bot_id.as_deref()?;
    let reply = api.call_once(checked, Method::BotsInfo, &[("bot", bot_id)]).await.ok()?;
    let reply: BotReply = reply.read().ok()?;
    Some(reply.bot.app_id)
}

async fn channels(api: &WebApi, checked: &CheckedToken) -> Result<ChannelCounts, ApiError> {
    let reply = api.call_once(checked, Method::ConversationsList, &PARAMETERS).await?;
    let page: ChannelPage = reply.read()?;
    Ok(ChannelCounts {
        listed: page.channels.len(),
        joined: page.channels.iter().filter(|channel| channel.is_member).count(),
        more: !page.response_metadata.next_cursor.is_empty(),
    })
}
