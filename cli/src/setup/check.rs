//! Checks a secret: its format, then with Slack.

use std::borrow::Cow;

use ports::clock::Clock;
use serde::Deserialize;
use slack::envelope::text_or_none;
use slack::signature::SigningSecrets;
use slack_api::check::CheckedToken;
use slack_api::socket::{AppToken, SocketApi, SocketSource};
use slack_api::{ApiError, ApiUrl, BotToken, Method, TokenKind, Tokens, WebApi};

use crate::manifest::{BOT_SCOPES, RESPONDER_SCOPE};

/// Why a secret cannot be used.
#[derive(Debug)]
pub(super) enum SecretRefusal {
    /// It is the wrong one: another may be right.
    Wrong(String),
    /// Slack did not answer.
    Unchecked(ApiError),
}

/// The workspace and the app of a bot token.
pub(super) struct InstalledApp {
    pub(super) workspace: String,
    /// `None` if Slack does not say it.
    pub(super) app: Option<String>,
}

#[derive(Deserialize)]
struct AppOfBot<'a> {
    #[serde(borrow)]
    bot: BotObject<'a>,
}

#[derive(Deserialize)]
struct BotObject<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    app_id: Option<Cow<'a, str>>,
}

/// Parses a token, which must be of this kind.
fn token(text: &str, wanted: TokenKind) -> Result<BotToken, SecretRefusal> {
    let wanted_name = described(wanted);
    match BotToken::parse(text) {
        Ok(token) if token.kind() == wanted => Ok(token),
        Ok(token) => {
            let found = described(token.kind());
            Err(SecretRefusal::Wrong(format!("that is {found}, but setup needs {wanted_name}")))
        }
        Err(error) => Err(SecretRefusal::Wrong(format!("{error}: setup needs {wanted_name}"))),
    }
}

fn described(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Bot => "a bot token (xoxb-…)",
        TokenKind::User => "a user token (xoxp-…)",
        TokenKind::App => "an app-level token (xapp-…)",
        TokenKind::Refresh => "a refresh token (xoxe-…)",
        TokenKind::Other => "no token of Slack",
    }
}

/// Slack's answer about a token: a refusal is an answer.
fn refusal(error: ApiError) -> SecretRefusal {
    if error.refusal_code().is_some() {
        SecretRefusal::Wrong(error.to_string())
    } else {
        SecretRefusal::Unchecked(error)
    }
}

/// Checks the bot token and its scopes.
pub(super) async fn bot_token(
    url: &ApiUrl,
    text: &str,
    responder: bool,
    clock: &dyn Clock,
) -> Result<InstalledApp, SecretRefusal> {
    let api = WebApi::new(url.clone(), Tokens::one(token(text, TokenKind::Bot)?));
    let checked = api.check_tokens(1, clock).await.into_iter().next();
    // There is one token, so there is one answer.
    let checked = checked.ok_or_else(|| SecretRefusal::Wrong("Slack said nothing about it".to_owned()))?;
    let bot = checked.check.answer.as_ref().map_err(|error| refusal(error.clone()))?;
    if let Some(scopes) = &checked.check.scopes {
        let wanted = BOT_SCOPES.iter().map(|(scope, _)| *scope).chain(responder.then_some(RESPONDER_SCOPE));
        let missing: Vec<&str> = wanted.filter(|scope| !scopes.contains(*scope)).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(SecretRefusal::Wrong(format!(
                "the app lacks the scopes {missing}: add them under OAuth & Permissions, and reinstall the app"
            )));
        }
    }
    let app = match &bot.bot_id {
        Some(bot) => app_of(&api, &checked, bot).await,
        None => None,
    };
    Ok(InstalledApp { workspace: bot.team_name.clone().unwrap_or_else(|| bot.team.to_string()), app })
}

/// The app of a bot; `None` if Slack does not say it.
async fn app_of(api: &WebApi, checked: &CheckedToken, bot: &str) -> Option<String> {
    let reply = api.call_once(checked, Method::BotsInfo, &[("bot", bot)]).await.ok()?;
    reply.read::<AppOfBot<'_>>().ok()?.bot.app_id.map(Cow::into_owned)
}

/// Checks the app-level token: it is of the app of the bot, and Slack gives an address for a connection.
pub(super) async fn app_token(url: &ApiUrl, text: &str, app: Option<&str>) -> Result<(), SecretRefusal> {
    token(text, TokenKind::App)?;
    if let (Some(app), Some(own)) = (app, app_of_token(text))
        && app != own
    {
        return Err(SecretRefusal::Wrong(format!(
            "it is of the app {own}, and the bot token of the app {app}: take both from one app"
        )));
    }
    let token = AppToken::parse(text).map_err(|why| SecretRefusal::Wrong(why.to_owned()))?;
    SocketApi::new(url.clone(), token).open().await.map(drop).map_err(refusal)
}

/// The app in `xapp-1-APP-…`. Slack does not guarantee the format.
fn app_of_token(text: &str) -> Option<&str> {
    let app = text.trim().split('-').nth(2)?;
    // Anything else may be a part of the secret.
    let is_id = (2..=20).contains(&app.len())
        && app.starts_with('A')
        && app.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    is_id.then_some(app)
}

/// Checks the format of the signing secret, about which Slack cannot be asked.
pub(super) fn signing_secret(text: &str) -> Result<(), SecretRefusal> {
    let needs = "setup needs the signing secret, such as 8f74…";
    let kind = BotToken::parse(text).map_or(TokenKind::Other, |token| token.kind());
    if kind != TokenKind::Other {
        return Err(SecretRefusal::Wrong(format!("that is {}, but {needs}", described(kind))));
    }
    // Two are separated by a comma while one replaces the other. Slack does not guarantee 32 hex digits.
    let has_format = text.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b',')
        && text.split(',').all(|secret| (16..=128).contains(&secret.trim().len()));
    match SigningSecrets::parse(&text.into()) {
        Ok(_) if has_format => Ok(()),
        Ok(_) => Err(SecretRefusal::Wrong(format!("it is too short, or has other letters: {needs}"))),
        Err(error) => Err(SecretRefusal::Wrong(format!("{error}: {needs}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong<T>(result: Result<T, SecretRefusal>) -> Option<String> {
        match result {
            Ok(_) => None,
            Err(SecretRefusal::Wrong(why)) => Some(why),
            Err(SecretRefusal::Unchecked(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn a_wrong_paste_is_named_and_not_repeated() {
        for (text, wanted, expected) in [
            ("xoxb-1-hidden", TokenKind::Bot, None),
            (" xapp-1-A1-hidden \n", TokenKind::App, None),
            (
                "xoxb-1-hidden",
                TokenKind::App,
                Some("that is a bot token (xoxb-…), but setup needs an app-level"),
            ),
            (
                "xapp-1-hidden",
                TokenKind::Bot,
                Some("that is an app-level token (xapp-…), but setup needs a bot"),
            ),
            ("xoxp-1-hidden", TokenKind::Bot, Some("that is a user token")),
            ("xoxe-1-hidden", TokenKind::Bot, Some("that is a refresh token")),
            ("hidden", TokenKind::Bot, Some("that is no token of Slack")),
            ("", TokenKind::Bot, Some("it is empty")),
            ("xoxb-1 hidden", TokenKind::Bot, Some("blanks")),
        ] {
            let why = wrong(token(text, wanted).map(drop));
            assert_eq!(why.is_some(), expected.is_some(), "{text:?}: {why:?}");
            let why = why.unwrap_or_default();
            assert!(why.contains(expected.unwrap_or_default()) && !why.contains("hidden"), "{text:?}: {why}");
        }
        for (text, expected) in [
            ("8f742231b10e8888abcd99aaabbb85a5", None),
            (" 8f742231b10e8888abcd99aaabbb85a5,0f742231b10e8888abcd99aaabbb85a5\n", None),
            ("xapp-1-hidden", Some("app-level token")),
            ("hidden", Some("signing secret")),
            ("hidden hidden hidden hidden hidden", Some("signing secret")),
            (" , ", Some("empty")),
            ("", Some("empty")),
        ] {
            let why = wrong(signing_secret(text));
            assert_eq!(why.is_some(), expected.is_some(), "{text:?}: {why:?}");
            let why = why.unwrap_or_default();
            assert!(why.contains(expected.unwrap_or_default()) && !why.contains("hidden"), "{text:?}: {why}");
        }
    }

    #[test]
    fn the_app_of_an_app_level_token_is_shown_only_if_it_is_an_id() {
        for (text, expected) in [
            ("xapp-1-A0ANNALIST-1-secret", Some("A0ANNALIST")),
            ("xapp-1-A0annalist-1-secret", None),
            ("xapp-1-B0ANNALIST", None),
            ("xapp-1", None),
            ("xapp-1-A", None),
            ("xapp-1-A0123456789012345678901", None),
        ] {
            assert_eq!(app_of_token(text), expected, "{text}");
        }
    }
}
