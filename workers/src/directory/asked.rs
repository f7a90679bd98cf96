//! Lists that a command asks Slack for, and that are not stored.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use slack::ids::{ChannelId, TeamId, UserId};
use slack_api::{Method, WebApi};

use super::SyncError;
use super::daily::is_about_channel;
use super::listing::Listing;
use super::members::list_members;

/// The scope without which Slack leaves out the e-mail addresses of people.
/// <https://docs.slack.dev/reference/scopes/users.read.email>
pub const EMAIL_SCOPE: &str = "users:read.email";

#[derive(Deserialize)]
struct PeoplePage<'a> {
    #[serde(borrow)]
    members: Vec<&'a RawValue>,
}

/// Reads the e-mail addresses of a workspace's people, by their ids. Returns `None` if the token has no scope for
/// them.
///
/// # Errors
/// [`SyncError`] if Slack does not list the people.
pub async fn emails(api: &WebApi, team: &TeamId) -> Result<Option<HashMap<String, String>>, SyncError> {
    let clock = api.first_slack_time(team).await?;
    let mut listing = Listing::new(api, team, Method::UsersList, &[], clock);
    let mut emails = HashMap::new();
    while let Some(page) = listing.next().await? {
        if page.reply.scopes().is_some_and(|scopes| !scopes.contains(EMAIL_SCOPE)) {
            return Ok(None);
        }
        let people: PeoplePage<'_> = page.reply.read()?;
        // An entry that is no JSON that can be read has no address.
        let people = people.members.iter().filter_map(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        emails.extend(people.filter_map(|person| {
            let email = person["profile"]["email"].as_str().filter(|email| !email.is_empty())?;
            Some((person["id"].as_str()?.to_owned(), email.to_owned()))
        }));
    }
    Ok(Some(emails))
}

/// Reads the members of a channel. Returns `None` if Slack does not show this channel.
///
/// # Errors
/// [`SyncError`] if Slack would not list the members of another channel either.
pub async fn members(
    api: &WebApi,
    team: &TeamId,
    channel: &ChannelId,
) -> Result<Option<BTreeSet<UserId>>, SyncError> {
    let mut clock = api.first_slack_time(team).await?;
    match list_members(api, team, channel, &mut clock).await {
        Ok(members) => Ok(Some(members)),
        Err(SyncError::Api(error)) if is_about_channel(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
