//! Gathers facts from Slack: the identity of each token, and one page of channels.

use ports::clock::Clock;
use process::config::slack::{SlackArgs, web_api};
use serde::Deserialize;
use slack_api::check::CheckedToken;
use slack_api::{ApiError, Method, WebApi};

use super::facts::{ChannelCounts, SECRETS_TIMEOUT, SlackFacts, TokenFacts, within};

/// Maximum number of workspaces to check. An installation with more of them has metrics.
const MAX_TOKENS: usize = 20;

/// Slack's largest page. One call is enough to find out whether the app is in any channel.
const PARAMETERS: [(&str, &str); 3] =
    [("types", "public_channel"), ("exclude_archived", "true"), ("limit", "999")];

pub(super) async fn gather(args: &SlackArgs, clock: &dyn Clock) -> SlackFacts {
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
        let CheckedToken { configured_team: given_for, kind, check: look, .. } = checked;
        asked.push(TokenFacts {
            given_for,
            kind,
            answer: look.answer,
            scopes: look.scopes,
            times: look.clocks,
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

async fn channels(api: &WebApi, checked: &CheckedToken) -> Result<ChannelCounts, ApiError> {
    let reply = api.call_once(checked, Method::ConversationsList, &PARAMETERS).await?;
    let page: ChannelPage = reply.read()?;
    Ok(ChannelCounts {
        listed: page.channels.len(),
        joined: page.channels.iter().filter(|channel| channel.is_member).count(),
        more: !page.response_metadata.next_cursor.is_empty(),
    })
}
