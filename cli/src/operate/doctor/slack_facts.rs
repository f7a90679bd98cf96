//! What Slack is asked: who each token is, and one page of channels.

use std::time::Duration;

use ports::clock::Clock;
use process::config::slack::{SlackArgs, web_api};
use serde::Deserialize;
use slack_api::check::Checked;
use slack_api::{ApiError, Method, WebApi};

use super::facts::{ChannelCounts, SlackFacts, TokenFacts, within};

/// Workspaces that Slack is asked about. A fleet with more of them has its metrics.
const MAX_TOKENS: usize = 20;

/// Slack's largest page; one call is enough to tell none from some.
const PARAMETERS: [(&str, &str); 3] =
    [("types", "public_channel"), ("exclude_archived", "true"), ("limit", "999")];

/// Secrets Manager answers within a second.
const SECRETS_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) async fn ask(args: &SlackArgs, clock: &dyn Clock) -> SlackFacts {
    let api = match within(SECRETS_TIMEOUT, web_api(args)).await {
        Ok(api) => api,
        Err(why) => return SlackFacts::Unusable(why),
    };
    if !api.has_tokens() {
        return SlackFacts::NoToken(api.look_without_token(clock).await.times);
    }
    let mut asked = Vec::new();
    for checked in api.check_tokens(MAX_TOKENS, clock).await {
        let channels = match &checked.look.answer {
            Ok(_) => Some(channels(&api, &checked).await),
            Err(_) => None,
        };
        let Checked { given_for, kind, look, .. } = checked;
        asked.push(TokenFacts {
            given_for,
            kind,
            answer: look.answer,
            scopes: look.scopes,
            times: look.times,
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

async fn channels(api: &WebApi, checked: &Checked) -> Result<ChannelCounts, ApiError> {
    let reply = api.call_once(checked, Method::ConversationsList, &PARAMETERS).await?;
    let page: ChannelPage = reply.read()?;
    Ok(ChannelCounts {
        listed: page.channels.len(),
        joined: page.channels.iter().filter(|channel| channel.is_member).count(),
        more: !page.response_metadata.next_cursor.is_empty(),
    })
}
