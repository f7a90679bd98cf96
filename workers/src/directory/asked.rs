//! Lists that a command asks Slack for, and that are not stored.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
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

#[derive(Deserialize)]
struct ListedPerson {
    id: String,
    profile: ListedProfile,
}

#[derive(Deserialize)]
struct ListedProfile {
    email: String,
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
        // An entry that cannot be read has no address.
        let people = people.members.iter().filter_map(|raw| serde_json::from_str(raw.get()).ok());
        let addressed = people.filter(|person: &ListedPerson| !person.profile.email.is_empty());
        emails.extend(addressed.map(|person| (person.id, person.profile.email)));
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
