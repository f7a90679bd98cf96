//! What an export for an importer asks Slack for: e-mail addresses and members. They are written into the export, and
//! nowhere else.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use reader::joined::ChannelOfTeam;
use slack::ids::TeamId;
use slack_api::WebApi;
use workers::directory::asked;

use crate::export::ExportError;

/// The lists that Slack is asked for.
pub(in crate::export) struct AskedLists {
    api: Arc<WebApi>,
    with_members: bool,
    /// By the ids of people.
    emails: HashMap<String, String>,
}

impl AskedLists {
    /// Asks for the e-mail addresses, if the export shall have them, before anything is written.
    pub(in crate::export) async fn begin(
        api: Arc<WebApi>,
        team: &TeamId,
        (with_emails, with_members): (bool, bool),
    ) -> Result<Self, ExportError> {
        if !api.has_tokens() {
            return Err(ExportError::NoToken);
        }
        let emails = match with_emails {
            true => asked::emails(&api, team).await?.ok_or(ExportError::NoEmailScope)?,
            false => HashMap::new(),
        };
        Ok(Self { api, with_members, emails })
    }

    pub(super) fn email(&self, user: &str) -> Option<&str> {
        self.emails.get(user).map(String::as_str)
    }

    /// The members of a channel; none if Slack does not show it.
    pub(super) async fn members(&self, location: &ChannelOfTeam) -> Result<BTreeSet<String>, ExportError> {
        if !self.with_members {
            return Ok(BTreeSet::new());
        }
        let members = asked::members(&self.api, &location.team, &location.channel).await?.unwrap_or_default();
        Ok(members.iter().map(ToString::to_string).collect())
    }
}
