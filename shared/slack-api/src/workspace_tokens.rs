//! The token of a workspace. The tokens are read again when one is missing, belongs to another workspace, or is
//! refused by Slack.

use std::sync::Arc;

use tokio::time::timeout;

use super::tokens::{TokenOwner, TokenSecret, TokenTable};
use super::{ApiError, BotToken, Method, WebApi, check};
use slack::ids::TeamId;

impl WebApi {
    pub fn token_count(&self) -> usize {
        self.tokens.source().last().iter().map(|secret| secret.tokens().len()).sum()
    }

    /// Whether there is at least one token.
    pub fn has_tokens(&self) -> bool {
        self.token_count() > 0
    }

    /// Reads the tokens again, unless they were read within the last seconds.
    pub async fn reread_tokens(&self) {
        self.tokens.source().reread().await;
    }

    /// The workspaces that have a token.
    ///
    /// # Errors
    /// [`ApiError`] if no workspace is known, because Slack does not return the owner of a token.
    pub async fn teams(&self) -> Result<Vec<TeamId>, ApiError> {
        Ok(self.team_tokens().await?.into_keys().collect())
    }

    /// The workspaces that have a token, each with its token.
    ///
    /// # Errors
    /// [`ApiError`] if no workspace is known, because Slack does not return the owner of a token.
    pub async fn team_tokens(&self) -> Result<TokenTable, ApiError> {
        let secrets = self.tokens.source().fresh().await;
        let found = self.teams_in(&secrets).await;
        let is_refused = found.as_ref().is_err_and(ApiError::is_token_error);
        match if is_refused { self.newer_than(&secrets).await } else { None } {
            Some(newer) => self.teams_in(&newer).await,
            None => found,
        }
    }

    /// Whether there is a token for this workspace.
    ///
    /// # Errors
    /// [`ApiError`] if the owner of a token is not known yet and Slack does not return it.
    pub async fn has_token_for(&self, team: &TeamId) -> Result<bool, ApiError> {
        Ok(self.find_token(team).await?.is_some())
    }

    /// The token of a workspace. Slack has confirmed its owner, so that a mistake in the token file cannot
    /// mix up two workspaces.
    pub(super) async fn token(&self, team: &TeamId) -> Result<BotToken, ApiError> {
        let token = self.find_token(team).await?.ok_or_else(|| ApiError::NoToken(team.clone()))?;
        match self.confirm(team, &token).await {
            Ok(()) => Ok(token),
            Err(error) if error.is_token_error() || matches!(error, ApiError::WrongToken { .. }) => {
                let newer = self.newer_token(team, &token).await.ok_or(error)?;
                self.confirm(team, &newer).await.map(|()| newer)
            }
            Err(error) => Err(error),
        }
    }

    /// The token to use instead of one that Slack refused, if the tokens changed.
    pub(super) async fn replacement(
        &self,
        team: &TeamId,
        used: &BotToken,
        is_refused: bool,
    ) -> Option<BotToken> {
        if !is_refused {
            return None;
        }
        let confirmed = async {
            let newer = self.newer_token(team, used).await?;
            self.confirm(team, &newer).await.is_ok().then_some(newer)
        };
        timeout(Method::AuthTest.time_limit(), confirmed).await.ok().flatten()
    }

    async fn confirm(&self, team: &TeamId, token: &BotToken) -> Result<(), ApiError> {
        match &self.owner(token).await?.team {
            owner if owner == team => Ok(()),
            owner => Err(ApiError::WrongToken { team: team.clone(), owner: owner.clone() }),
        }
    }

    async fn newer_token(&self, team: &TeamId, used: &BotToken) -> Option<BotToken> {
        let secrets = self.tokens.source().reread().await;
        self.find_in(&secrets, team).await.ok().flatten().filter(|token| token != used)
    }

    async fn newer_than(&self, secrets: &Arc<Vec<TokenSecret>>) -> Option<Arc<Vec<TokenSecret>>> {
        let newer = self.tokens.source().reread().await;
        (!Arc::ptr_eq(&newer, secrets)).then_some(newer)
    }

    async fn find_token(&self, team: &TeamId) -> Result<Option<BotToken>, ApiError> {
        let secrets = self.tokens.source().fresh().await;
        let found = self.find_in(&secrets, team).await;
        let is_missing = match &found {
            Ok(token) => token.is_none(),
            Err(error) => error.is_token_error(),
        };
        match if is_missing { self.newer_than(&secrets).await } else { None } {
            Some(newer) => self.find_in(&newer, team).await,
            None => found,
        }
    }

    /// The token of a workspace in the last secret that has one. A token whose owner Slack does not return
    /// hides no other.
    async fn find_in(&self, secrets: &[TokenSecret], team: &TeamId) -> Result<Option<BotToken>, ApiError> {
        let mut unknown = None;
        for secret in secrets.iter().rev() {
            match secret {
                TokenSecret::PerTeam(table) => {
                    if let Some(token) = table.get(team) {
                        return Ok(Some(token.clone()));
                    }
                }
                TokenSecret::One(token) => match self.owner(token).await {
                    Ok(owner) if owner.team == *team => return Ok(Some(token.clone())),
                    Ok(_) => {}
                    Err(error) => unknown = Some(error),
                },
            }
        }
        unknown.map_or(Ok(None), Err)
    }

    async fn teams_in(&self, secrets: &[TokenSecret]) -> Result<TokenTable, ApiError> {
        let (mut tokens, mut unknown) = (TokenTable::new(), None);
        for secret in secrets {
            match secret {
                TokenSecret::PerTeam(table) => {
                    tokens.extend(table.iter().map(|(team, token)| (team.clone(), token.clone())));
                }
                TokenSecret::One(token) => match self.owner(token).await {
                    Ok(owner) => drop(tokens.insert(owner.team.clone(), token.clone())),
                    Err(error) => unknown = Some(error),
                },
            }
        }
        match unknown {
            Some(error) if tokens.is_empty() => Err(error),
            Some(_) | None => Ok(tokens),
        }
    }

    /// The workspace that owns a token. Slack is asked once.
    /// <https://docs.slack.dev/reference/methods/auth.test>
    pub(super) async fn owner<'t>(&self, token: &'t BotToken) -> Result<&'t TokenOwner, ApiError> {
        let request_owner = || async {
            let reply = self.call_with_token(None, token, Method::AuthTest, &[]).await?;
            Ok(TokenOwner { team: check::bot_identity(&reply)?.team, confirmed_at: reply.date().cloned() })
        };
        token.owner().get_or_try_init(request_owner).await
    }
}
