//! The user groups of a workspace. <https://docs.slack.dev/reference/methods/usergroups.list>

use ports::archive::{ItemKey, Update};
use rules::user_group::UserGroupObject;
use serde::Deserialize;
use serde_json::Value;
use slack::ids::{TeamId, Ts};
use slack_api::{ApiError, ApiReply, Method};

use super::listing::call_with_retries;
use super::sync::write;
use super::{DirectorySync, SyncError, SyncReport};

/// Groups written together: with their members, some thousand rows.
const GROUPS_AT_ONCE: usize = 16;

#[derive(Deserialize)]
struct ListedUserGroups {
    usergroups: Vec<Value>,
}

impl DirectorySync {
    /// Syncs all user groups. Slack lists them all at once, and keeps disabled ones. Nothing is concluded from
    /// a group that is not listed.
    ///
    /// Not every plan of Slack has user groups: if Slack refuses the list, the rest of the sync counts.
    pub(super) async fn sync_user_groups(
        &self,
        clock: &mut Ts,
        report: &mut SyncReport,
    ) -> Result<(), SyncError> {
        let team = report.team.clone();
        let reply = match self.list_user_groups(&team).await {
            Ok(reply) => reply,
            Err(error) if error.refusal_code().is_some_and(|code| code != super::sync::MISSING_SCOPE) => {
                tracing::info!(%team, %error, "Slack lists no user groups of this workspace");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let ListedUserGroups { usergroups } = reply.read()?;
        let slack_now = reply.date().unwrap_or(clock);
        let mut groups: Vec<UserGroupObject> = Vec::with_capacity(usergroups.len());
        report.user_groups.listed = usergroups.len();
        for listed in &usergroups {
            let group =
                UserGroupObject::read(listed).and_then(|group| group.check_clock(slack_now).map(|()| group));
            match group {
                Ok(group) => groups.push(group),
                Err(malformed) => {
                    report.user_groups.skipped += 1;
                    report.first_skipped.get_or_insert(malformed);
                }
            }
        }
        let keys: Vec<ItemKey> = groups.iter().map(|group| ItemKey::user_group(&team, group.id())).collect();
        let rows = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        let changed: Vec<&UserGroupObject> = groups
            .iter()
            .zip(&rows)
            .filter(|(group, row)| group.is_changed(row.as_ref()))
            .map(|(group, _)| group)
            .collect();
        for changed in changed.chunks(GROUPS_AT_ONCE) {
            let (listings, others): (Vec<Vec<Update>>, Vec<Vec<Update>>) = changed
                .iter()
                .map(|group| {
                    let mut updates = group.updates(&team, clock);
                    let others = updates.split_off(1);
                    (updates, others)
                })
                .unzip();
            write(&*self.archive, &listings).await?;
            let written = write(&*self.archive, &others).await?;
            report.user_groups.changed += written.changed;
            report.user_groups.skipped += written.too_large;
        }
        if let Some(date) = reply.date() {
            *clock = date.clone();
        }
        Ok(())
    }

    /// Requests the list with the members of each group; without them if it is too long.
    async fn list_user_groups(&self, team: &TeamId) -> Result<ApiReply, ApiError> {
        let parameters = |include_users| [("include_disabled", "true"), ("include_users", include_users)];
        match call_with_retries(&self.api, team, Method::UsergroupsList, &parameters("true")).await {
            Err(error) if error.is_too_long() => {
                call_with_retries(&self.api, team, Method::UsergroupsList, &parameters("false")).await
            }
            listed => listed,
        }
    }
}
