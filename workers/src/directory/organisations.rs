//! The names of the other organisations whose people write in shared channels.
//! <https://docs.slack.dev/reference/methods/team.info>

use std::collections::HashMap;

use ports::archive::{ArchiveExt, Query, key, query_all};
use rules::organisation;
use serde_json::value::RawValue;
use slack::envelope;
use slack::ids::Ts;
use slack_api::{ApiError, Method};

use super::listing::call_with_retries;
use super::sync::MISSING_SCOPE;
use super::{DirectorySync, SyncError, SyncReport};

/// Organisations that are asked about in one sync: less than half of Slack's 50 calls a minute, which the
/// existence check shares. The others follow an hour later.
const AT_ONCE: usize = 20;

impl DirectorySync {
    /// Asks for the name of each organisation whose last answer is a week old. An organisation that Slack does
    /// not show is asked about again after a week, too.
    pub(super) async fn sync_organisations(
        &self,
        clock: &mut Ts,
        report: &SyncReport,
    ) -> Result<(), SyncError> {
        let team = &report.team;
        let rows = query_all(&*self.archive, Query::partition(key::organisations(team))).await?;
        let due = rows.iter().filter_map(|row| organisation::to_ask(row, clock)).take(AT_ONCE);
        for organisation in due.collect::<Vec<_>>() {
            let parameters = [("team", organisation.as_str())];
            let object = match call_with_retries(&self.api, team, Method::TeamInfo, &parameters).await {
                Ok(reply) => {
                    if let Some(date) = reply.date() {
                        *clock = date.clone();
                    }
                    let body: HashMap<&str, &RawValue> = reply.read()?;
                    body.get("team").and_then(|object| envelope::parse_value(object.get()).ok())
                }
                Err(ApiError::Refused { error, .. }) if error != MISSING_SCOPE => None,
                Err(error) => return Err(error.into()),
            };
            let answered = organisation::answered(team, &organisation, object.as_ref(), clock);
            self.archive.write(&answered).await?;
        }
        Ok(())
    }
}
